"""Inputs that are set through something else: the part of them that a set point explains has no hidden cause."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import pandas as pd

from ..containers.layout import SEPARATOR, listed
from ..statespace.input_basis import WEAK, explained, explained_change, followed_law, strength


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
            u, z = series[name], series[other]
            law = laws[name] = followed_law(u, z, plant.starts)
            rows.append((name, other, *strength(u, explained(law, z, plant.starts), len(law))))
        table = pd.DataFrame(rows, columns=["input", "instrument", "share", "statistic"])
        weak = table.loc[table["statistic"] < WEAK, "input"]
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
                    found[m] = found[m].astype(float, copy=True)
                    found[m][:, k] = explained(self.laws[name], series[self.pairs[name]], plant.starts)
        return replace(plant, inputs=tuple(found))

    def followed(self, instrument, change, starts):
        """The input behind an instrument, and its change when the instrument changes (n_samples,)."""
        name = next(one for one, other in self.pairs.items() if other == instrument)
        return name, explained_change(self.laws[name], change, starts)


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
