"""Inputs of a plant as `fit` found them: which ones move, over what range, which cannot be told apart."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ..callers import warn
from ..containers.layout import SEPARATOR, listed, refuse_unknown
from ..statespace.episodes import episodes
from ._declared import ranges_of
from .tuning import TUNING


@dataclass(frozen=True)
class PlantInputs:
    """What is known of the inputs of a plant, columns of all units side by side."""

    units: tuple[str, ...]
    names: tuple[str, ...]
    active: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def learn(cls, data, early=()):
        """Inputs of a record without gaps; a warning names those that never move.

        The last row of an episode has no row that it acts on, for inputs that are `early` (names) the first one.
        """
        units = tuple(u for u, own in zip(data.names, data.layout.inputs, strict=True) for _ in own)
        names = tuple(name for own in data.layout.inputs for name in own)
        pieces = episodes(data.starts, data.n_samples)
        columns, low, high = ranges_of(data)
        act = [slice(1, None) if name in early else slice(None, -1) for name in names]
        pairs = zip(columns, act, strict=True)
        within = [[np.ptp(column[a:b][rows]) for a, b in pieces if b - a > 1] for column, rows in pairs]
        spread = np.array([max(moves, default=0.0) for moves in within])
        active = spread > 1e-12 * np.maximum(np.abs(low), np.abs(high))
        if not active.all():
            constant = [name for name, moves in zip(names, active, strict=True) if not moves]
            warn(
                f"Inputs {listed(constant)} never move within an episode and are left out: their effect cannot be "
                "learned from this record. Give rows in which they move (and rows after that, on which they act), or "
                "do not declare them as inputs."
            )
        return cls(units, names, active, low, high)

    def widened(self, data):
        """The same after further rows, in which an input that had never moved must not begin to."""
        _, low, high = ranges_of(data)
        low, high = np.minimum(low, self.low), np.maximum(high, self.high)
        moved = ~self.active & (high - low > 1e-12 * np.maximum(np.abs(low), np.abs(high)))
        if moved.any():
            raise ValueError(
                f"Inputs {listed(np.array(self.names, dtype=object)[moved])} move in this batch and did not in the "
                "first, after which they were left out. Start afresh with a batch in which they move."
            )
        return replace(self, low=low, high=high)

    @classmethod
    def told(cls, messages):
        """Inputs as units tell of them: without names, and without those that never move."""
        units: list[str] = []
        ranges = [np.zeros((2, 0))]
        for name, message in messages.items():
            units += [name] * message.n_inputs
            ranges.append(message.input_range)
        names = tuple(f"{u}{SEPARATOR}u{k - units.index(u)}" for k, u in enumerate(units))
        return cls(tuple(units), names, np.ones(len(units), dtype=bool), *np.hstack(ranges))

    def only(self, units):
        """The inputs of some of the units."""
        kept = np.array([unit in units for unit in self.units], dtype=bool)
        own: dict[str, Any] = {part: getattr(self, part)[kept] for part in ("active", "low", "high")}
        own |= {part: tuple(np.array(getattr(self, part), dtype=object)[kept]) for part in ("units", "names")}
        return replace(self, **own)

    def of(self, unit):
        """Positions of a unit's inputs."""
        return [k for k, owner in enumerate(self.units) if owner == unit]

    @property
    def active_names(self):
        """Flat names of the inputs that moved."""
        return tuple(name for name, moves in zip(self.names, self.active, strict=True) if moves)

    def position(self, name):
        """Position of an input by its flat name."""
        refuse_unknown([name], self.names, "Got unknown input", "known inputs are")
        return self.names.index(name)

    def expand(self, columns):
        """Columns of the inputs that moved as columns of all inputs, zero for the others."""
        full = np.zeros((len(columns), len(self.names)))
        full[:, self.active] = columns
        return full

    def check_known(self, change):
        """Refuse a change of an input that never moved in `fit`."""
        unknown = np.array(self.names, dtype=object)[~self.active & change.any(axis=0)]
        if len(unknown):
            raise ValueError(
                f"Inputs {listed(unknown)} never moved in `fit`: their effect is not known. Known are "
                f"{listed(self.active_names)}."
            )

    def warn_outside(self, values, positions):
        """Warn of values outside the range seen in `fit`."""
        for k, column in zip(positions, values.T, strict=True):
            low, high = np.nanmin(column), np.nanmax(column)
            if low < self.low[k] or high > self.high[k]:
                asked = f"{low:.4g}" if low == high else f"values from {low:.4g} to {high:.4g}"
                warn(
                    f"Input {self.names[k]!r} is asked for {asked}, but was only "
                    f"seen from {self.low[k]:.4g} to {self.high[k]:.4g}: the answer extrapolates."
                )

    def table(self, excitation):
        """Labelled table of the server's diagnostics, one row per input."""
        columns = {"unit": self.units, "input": self.names, "low": self.low, "high": self.high}
        frame = pd.DataFrame(columns | {"active": self.active})
        for column, values in excitation.items():
            frame[column] = np.nan
            frame.loc[self.active, column] = np.asarray(values)
        return frame


def warn_of_inputs(server, excitation, known, words):
    """Say what was found of inputs that makes answers doubtful.

    `excitation` is the table of the inputs, `known` the :class:`PlantInputs` as users write them, and `words` says of
    each when it was set.
    """
    _warn_of_excitation(excitation)
    _warn_of_feedback(server)
    _warn_of_hidden_causes(server)
    _warn_of_timing(server, known, words)
    _warn_of_misfit(server, {unit for unit, word in zip(known.units, words, strict=True) if word == "before"})


def _warn_of_excitation(table):
    """Warn of inputs that other inputs and the states explain almost completely."""
    if "share" not in table:
        return
    hardly = table.loc[table["share"] < TUNING.inputs_hardly, "input"]
    if len(hardly):
        warn(
            f"Inputs {listed(hardly)} hardly move on their own: other inputs and the states explain all but "
            f"{TUNING.inputs_hardly:.1%} of their variance. Their effects are poorly known; look at the standard "
            "errors."
        )


def _warn_of_feedback(server):
    """Warn that inputs depend on measurements, and say what was done about it."""
    if controlled := getattr(server, "controlled_units_", ()):
        warn(
            f"Inputs of {listed(controlled)} depend on measurements (see `feedback_`). The likelihood given "
            "the inputs stays valid and standard errors of effects come from its observed curvature; choose "
            "by `loops` whether the controllers respond in counterfactuals."
        )


def _warn_of_hidden_causes(server):
    """Warn of inputs that move with measurements of other units which they cannot have caused."""
    table = getattr(server, "hidden_causes_", None)
    if table is None or not table["suspect"].any():
        return
    pairs = [f"{row.input_of} with {row.measured}" for row in table[table["suspect"]].itertuples()]
    warn(
        f"Inputs move with measurements of other units that they cannot have caused: {listed(pairs)}. A hidden cause "
        "of both looks like that, or a controller that reads the other unit. With a hidden cause the effects of these "
        "inputs are wrong by more than their bands say: ask `inspection.sensitivity` how strong it must be to void "
        "them, and give what else moves the input (its set point) in `instruments`."
    )


def _warn_of_timing(server, known, words):
    """Warn of inputs that are said to come before their row and were found to follow measurements."""
    controlled = {*getattr(server, "controlled_units_", ()), *_following_the_row_before(server, known, words)}
    inputs = zip(known.units, known.names, words, strict=True)
    early = [name for unit, name, word in inputs if word == "before" and unit in controlled]
    if early:
        warn(
            f"Inputs {listed(early)} are said to be set before their row is measured (sampled='before') and depend "
            "on measurements. That is right for a controller that reads the row before; of one that reads its own "
            "row the plant takes the answer for an effect: say sampled='after' for those."
        )


def _following_the_row_before(server, known, words):
    """Units of early inputs alone, which are sent a row ahead: beside it stand the measurements of the row before."""
    table = getattr(server, "feedback_", None)
    if table is None or "same_row_p_value" not in table:
        return set()
    late = {unit for unit, word in zip(known.units, words, strict=True) if word != "before"}
    rejected = table.loc[table["same_row_p_value"] * len(table) < TUNING.inputs_loop_level, "controlled"]
    return set(rejected) - late


def _warn_of_misfit(server, at_once=()):
    """Warn of inputs that act otherwise than the plant says, or within the row that they stand in.

    Units `at_once` are known for the latter.
    """
    table = getattr(server, "feedback_", None)
    if table is None or "misfit_p_value" not in table:
        return
    open_loop = table[~table["controlled"].isin(server.controlled_units_)]  # else new inputs are no news
    for kind, what in _MISFITS.items():
        asked = open_loop[~open_loop["controlled"].isin(at_once)] if kind == "same_row" else open_loop
        rejected = asked[asked[f"{kind}_p_value"] * len(table) < TUNING.inputs_misfit_level]
        pairs = [f"{row.controlled} on {row.measured}" for row in rejected.itertuples()]
        if pairs:
            warn(f"{what.format(listed(pairs))} See `feedback_` for the tests.")


_MISFITS = {
    "same_row": "Inputs and measurements move together within a row: {}. Either an input was set before the "
    "row was measured and acts at once, which the plant does not have (say sampled='before' for it), or it "
    "follows that measurement.",
    "misfit": "The plant does not explain all that earlier inputs have done: {}. Dead time, a higher order, "
    "an input that acts at once or a curved one look like that; effects of these inputs are doubtful beyond "
    "their standard errors.",
}
