"""What is known of a plant before any record: pairs of units that cannot act on each other, that do, and when."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
import pandas as pd

from ..statespace.episodes import episode_lengths
from .tuning import TUNING

_LONGEST = 120  # rows of a delay: what is known of longer ones is averaged away with the periodogram
_FORMS = "words such as 'unit0 -> unit1', pairs (cause, effect), a table with columns cause and effect, or a DiGraph"


@dataclass(frozen=True, eq=False)
class LinkKnowledge:
    """Knowledge of the links between states, by (effect, cause)."""

    forbidden: np.ndarray  # (n_units, n_units)
    required: np.ndarray  # (n_units, n_units)
    delays: dict  # (effect, cause): the lags it may act at, increasing

    @property
    def at_one_lag(self):
        """Pairs that may act after one row."""
        allowed = ~self.forbidden
        for pair, lags in self.delays.items():
            allowed[pair] &= 1 in lags
        return allowed

    @property
    def needs_lags(self):
        """Whether some link cannot act after one row."""
        return any(1 not in lags for lags in self.delays.values())

    @property
    def requires_lags(self):
        """Whether some link that is required cannot act after one row."""
        return any(1 not in lags and self.required[pair] for pair, lags in self.delays.items())

    @property
    def longest(self):
        """The largest lag that is spoken of."""
        return max((lags[-1] for lags in self.delays.values()), default=1)

    def check_length(self, record):
        """Refuse delays that no episode of a joint record is long enough to show, or that no plant of lags has."""
        names, longest = record.names, max(episode_lengths(record.starts, record.n_samples))
        for (effect, cause), lags in self.delays.items():
            told = f"`delays` of {names[cause]} -> {names[effect]} are up to {lags[-1]} rows"
            if lags[-1] > longest // 2:
                raise ValueError(
                    f"{told}, and the longest episode has {longest}: half of it at most. Give longer episodes or "
                    "shorter delays, or say that the link is `forbidden`."
                )
            if lags[-1] > _LONGEST:
                raise ValueError(
                    f"{told}, and a plant of several lags has {_LONGEST} at most. Give shorter delays, or a record of "
                    "every k-th row."
                )

    def lags(self, effect, cause, lags):
        """Those of some lags that a link may act at."""
        known = self.delays.get((effect, cause))
        return lags if known is None else np.intersect1d(lags, known)

    def masks(self, partition):
        """Masks over the pairs of a plant of one lag: those that there may be, those that there are."""
        at = tuple(partition.pairs.T)
        return {"allowed": self.at_one_lag[at], "required": (self.required & self.at_one_lag)[at]}

    def without_forbidden(self, blocks, partition):
        """Estimates of blocks, surely zero where a link cannot act after one row."""
        out = ~self.masks(partition)["allowed"]
        covariance = np.where(out[:, None, None], TUNING.knowledge_nothing, 1.0) * blocks.covariance
        return replace(blocks, estimate=np.where(out[:, None], 0.0, blocks.estimate), covariance=covariance)

    def told(self, links, names):
        """The table of links with verdicts that the knowledge gives, nothing left of a forbidden one."""
        number = {name: k for k, name in enumerate(names)}
        pairs = links["effect"].map(number).to_numpy(), links["cause"].map(number).to_numpy()
        between = (links["kind"] == "state").to_numpy()
        out, kept = between & self.forbidden[pairs], between & self.required[pairs]
        links = links.copy()
        if "basis" in links:
            links.loc[out | kept, "basis"] = "given"
        links.loc[kept, ["verdict", "because"]] = "influence", ""
        links.loc[out, ["verdict", "because"]] = "no influence", ""
        links.loc[out, ["p_value", "p_adjusted"]] = 1.0
        links.loc[out, ["norm", "stderr", "statistic", "geweke"]] = 0.0
        links.loc[out, ["delay", "delay_low", "delay_high"]] = np.nan
        return links


def read_knowledge(names, forbidden=None, required=None, delays=None):
    """The :class:`LinkKnowledge` of a plant of these units in any of its forms.

    Parameters
    ----------
    names : sequence of str
    forbidden, required : str, list of str or of (cause, effect), DataFrame or networkx.DiGraph
    delays : mapping of "cause -> effect" or (cause, effect) to a lag or lags, DataFrame or networkx.DiGraph
        Tables and edges have the lag as ``delay``; a pair may come several times.
    """
    out, kept = (
        _mask(names, _pairs(given, what), what) for given, what in ((forbidden, "forbidden"), (required, "required"))
    )
    lags = _lags(names, delays)
    for clash, words in (
        (np.argwhere(out & kept), "required and forbidden"),
        ([pair for pair in lags if out[pair]], "forbidden, and given delays"),
    ):
        if len(clash):
            told = ", ".join(f"{names[cause]} -> {names[effect]}" for effect, cause in clash)
            raise ValueError(f"{told}: {words} at once. Take the pair out of one of them.")
    return LinkKnowledge(out, kept, lags)


def _pairs(given, what):
    """Pairs (cause, effect), or triples with a delay where edges have one."""
    if given is None:
        return []
    if isinstance(given, str):
        return [_pair(given, what)]
    if isinstance(given, pd.DataFrame):
        missing = [column for column in ("cause", "effect") if column not in given]
        if missing:
            raise ValueError(f"The table `{what}` has no column {', '.join(map(repr, missing))}; give {_FORMS}.")
        return [(str(row["cause"]), str(row["effect"])) for row in given.to_dict("records")]
    if hasattr(given, "edges") and hasattr(given, "is_directed"):
        if not given.is_directed():
            raise ValueError(f"The graph `{what}` has no directions; give a networkx.DiGraph from cause to effect.")
        return [(str(cause), str(effect)) for cause, effect in given.edges()]
    if isinstance(given, Iterable) and getattr(given, "shape", None) != ():
        return [_pair(each, what) for each in given]
    raise ValueError(f"Got {what}={given!r}; give {_FORMS}.")


def _pair(given, what):
    """One pair, from words or a tuple."""
    parts = [part.strip() for part in given.split("->")] if isinstance(given, str) else given
    if not isinstance(parts, (list, tuple)) or len(parts) != 2 or not all(isinstance(p, str) and p for p in parts):
        raise ValueError(f"Got {given!r} in `{what}`; give {_FORMS}.")
    return tuple(parts)


def _place(names, pair, what):
    """Position (effect, cause) of a pair."""
    unknown = [name for name in pair if name not in names]
    if unknown:
        raise ValueError(
            f"`{what}` speaks of {', '.join(map(repr, unknown))}; units are {', '.join(map(repr, names))}."
        )
    if pair[0] == pair[1]:
        raise ValueError(f"`{what}` has {pair[0]} -> {pair[1]}; what a unit does to itself is always part of a plant.")
    return names.index(pair[1]), names.index(pair[0])


def _mask(names, pairs, what):
    mask = np.zeros((len(names), len(names)), dtype=bool)
    for pair in pairs:
        mask[_place(list(names), pair, what)] = True
    return mask


def _lags(names, delays):
    """Lags of pairs (effect, cause), increasing."""
    found: dict[tuple, set] = {}
    for pair, given in _pairs_with_lags(delays):
        lags = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
        if not lags or not all(map(_is_lag, lags)):
            raise ValueError(
                f"`delays` of {pair[0]} -> {pair[1]} are {given!r}; give whole numbers of rows from one on."
            )
        found.setdefault(_place(list(names), pair, "delays"), set()).update(int(lag) for lag in lags)
    return {pair: tuple(sorted(lags)) for pair, lags in found.items()}


def _is_lag(lag):
    """Whether a number of rows may be a lag; columns of tables with gaps hold 3.0 for 3."""
    return isinstance(lag, Real) and not isinstance(lag, bool) and float(lag) >= 1 and float(lag).is_integer()


def _pairs_with_lags(delays):
    if delays is None:
        return []
    if isinstance(delays, Mapping):
        return [(_pair(pair, "delays"), lags) for pair, lags in delays.items()]
    if isinstance(delays, pd.DataFrame) and "delay" in delays:
        return list(zip(_pairs(delays, "delays"), delays["delay"].tolist(), strict=True))
    if hasattr(delays, "edges") and all("delay" in data for *_, data in delays.edges(data=True)):
        return list(zip(_pairs(delays, "delays"), [x["delay"] for *_, x in delays.edges(data=True)], strict=True))
    raise ValueError(
        "`delays` has no delays; give {'unit0 -> unit1': 3}, a table with columns cause, effect and delay, or a "
        "DiGraph whose edges have a delay."
    )
