"""Inputs that are set through something else: the part of them that a set point explains has no hidden cause."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pandas as pd

from ..containers.layout import SEPARATOR, listed
from ..statespace.episodes import episodes

_MOST_LAGS, _ROWS_PER_LAG = 20, 20  # of an instrument that its input follows, and rows of the record for each
_WEAK = 10.0  # F statistic below which an instrument says next to nothing (Staiger and Stock, 1997)


@dataclass(frozen=True, eq=False)
class Instruments:
    """How inputs follow their instruments: by name of the input, coefficients (n_lags + 1,) and a level."""

    pairs: Mapping
    laws: Mapping
    table: pd.DataFrame  # of input, instrument, share of variance explained, F statistic

    @classmethod
    def learned(cls, plant, asked):
        """From a record, and the user's dict of inputs to instruments."""
        names = [name for own in plant.layout.inputs for name in own]
        pairs = {_resolved(name, names): _resolved(other, names) for name, other in asked.items()}
        _check_pairs(pairs)
        series, laws, rows = _by_name(plant), {}, []
        for name, other in pairs.items():
            u, lags = series[name], _lagged(series[other], plant.starts, _n_lags(plant))
            laws[name], *_ = np.linalg.lstsq(lags, u, rcond=1e-10)
            rows.append((name, other, *_strength(u, lags @ laws[name], lags.shape[1])))
        table = pd.DataFrame(rows, columns=["input", "instrument", "share", "statistic"])
        weak = table.loc[table["statistic"] < _WEAK, "input"]
        if len(weak):
            warnings.warn(
                f"The instruments of {listed(weak)} hardly move them (see `instruments_`): effects of these inputs are "
                "poorly known, and not free of a hidden cause. Give rows in which the instruments move.",
                stacklevel=4,
            )
        return cls(MappingProxyType(pairs), MappingProxyType(laws), table)

    def explained(self, plant):
        """The record with what instruments explain of their inputs in place of these."""
        series = _by_name(plant)
        found = list(plant.inputs)
        for m, own in enumerate(plant.layout.inputs):
            for k, name in enumerate(own):
                if name in self.laws:
                    law = self.laws[name]
                    lags = _lagged(series[self.pairs[name]], plant.starts, len(law) - 2)
                    found[m] = found[m].astype(float, copy=True)
                    found[m][:, k] = lags @ law
        return replace(plant, inputs=tuple(found))

    def followed(self, instrument, change, starts):
        """The input behind an instrument, and its change when the instrument changes (n_samples,)."""
        name = next(one for one, other in self.pairs.items() if other == instrument)
        law = self.laws[name]
        return name, _lagged(change, starts, len(law) - 2)[:, :-1] @ law[:-1]


def _resolved(name, names):
    """Flat name of an input given by this or, where only one unit has it, without its unit."""
    if name in names:
        return name
    same = [full for full in names if full.split(SEPARATOR, 1)[-1] == name]
    if len(same) != 1:
        raise ValueError(
            f"`instruments` names {name!r}, which is {'several inputs' if same else 'no input'}; inputs are "
            f"{listed(names)}. An instrument is declared as an input of the unit too."
        )
    return same[0]


def _check_pairs(pairs):
    for name, other in pairs.items():
        if name.split(SEPARATOR)[0] != other.split(SEPARATOR)[0]:
            raise ValueError(
                f"The instrument {other!r} of input {name!r} belongs to another unit, which would have to send it. "
                "Give the column to the unit whose input it moves."
            )
        if other in pairs or list(pairs.values()).count(other) > 1:
            raise ValueError(
                f"Input {other!r} is an instrument of one input; give each instrument once, for one input."
            )


def _by_name(plant):
    """Series of every input by its flat name."""
    parts = zip(plant.inputs, plant.layout.inputs, strict=True)
    return {name: U[:, k].astype(float) for U, own in parts if U is not None for k, name in enumerate(own)}


def _n_lags(plant):
    return int(np.clip(plant.n_samples // _ROWS_PER_LAG, 0, _MOST_LAGS))


def _lagged(z, starts, n_lags):
    """An instrument now and in the rows before, its first value before an episode, and a level, (n_samples, .)."""
    found = np.ones((len(z), n_lags + 2))
    for start, stop in episodes(starts, len(z)):
        rows = np.arange(start, stop)
        for lag in range(n_lags + 1):
            found[rows, lag] = z[np.maximum(rows - lag, start)]
    return found


def _strength(u, explained, n_coefficients):
    """Share of the variance of an input that is explained, and the F statistic of that."""
    total, rest = np.square(u - u.mean()).sum(), np.square(u - explained).sum()
    share = 1 - rest / total if total else 0.0
    freedom = max(len(u) - n_coefficients, 1)
    if rest <= 0:
        return 1.0, np.inf
    statistic = (total - rest) / max(n_coefficients - 1, 1) / (rest / freedom)
    return float(np.clip(share, 0.0, 1.0)), float(statistic)
