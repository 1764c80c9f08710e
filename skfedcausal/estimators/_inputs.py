"""Inputs of a plant as `fit` found them: which ones move, over what range, which cannot be told apart."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ..containers.layout import SEPARATOR, listed
from ..message.training import LocalModel
from ..statespace.episodes import episodes


@dataclass(frozen=True)
class PlantInputs:
    """What is known of the inputs of a plant, columns of all units side by side."""

    units: tuple[str, ...]
    names: tuple[str, ...]
    active: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def learn(cls, data):
        """Inputs of a record without gaps; a warning names those that never move."""
        units = tuple(u for u, own in zip(data.names, data.layout.inputs, strict=True) for _ in own)
        names = tuple(name for own in data.layout.inputs for name in own)
        pieces = episodes(data.starts, data.n_samples)
        ends = [
            [(column[start:stop].min(), column[start:stop].max()) for start, stop in pieces]
            for U in data.inputs
            if U is not None
            for column in U.T
        ]
        lows, highs = np.moveaxis(np.reshape(ends, (len(names), len(pieces), 2)), -1, 0)
        low, high, spread = lows.min(axis=1), highs.max(axis=1), (highs - lows).max(axis=1)
        active = spread > 1e-12 * np.maximum(np.abs(low), np.abs(high))
        if not active.all():
            constant = [name for name, moves in zip(names, active, strict=True) if not moves]
            warnings.warn(
                f"Inputs {listed(constant)} never move within an episode and are left out: their effect cannot be "
                "learned from this record.",
                stacklevel=4,
            )
        return cls(units, names, active, low, high)

    @classmethod
    def told(cls, messages):
        """Inputs as units tell of them: without names, and without those that never move."""
        units: list[str] = []
        ranges = [np.zeros((2, 0))]
        for name, message in messages.items():
            if isinstance(message, LocalModel):
                own = np.array([[-np.inf], [np.inf]]).repeat(message.n_inputs, axis=1)
            elif message.inputs is None:
                continue
            else:
                own = np.array([message.inputs.min(axis=0), message.inputs.max(axis=0)])
            units += [name] * own.shape[1]
            ranges.append(own)
        names = tuple(f"{u}{SEPARATOR}u{k - units.index(u)}" for k, u in enumerate(units))
        return cls(tuple(units), names, np.ones(len(units), dtype=bool), *np.hstack(ranges))

    def of(self, unit):
        """Positions of a unit's inputs."""
        return [k for k, owner in enumerate(self.units) if owner == unit]

    @property
    def active_names(self):
        """Flat names of the inputs that moved."""
        return tuple(name for name, moves in zip(self.names, self.active, strict=True) if moves)

    def position(self, name):
        """Position of an input by its flat name."""
        if name not in self.names:
            raise ValueError(f"Got unknown input {name!r}; known inputs are {listed(self.names)}.")
        return self.names.index(name)

    def restrict(self, data):
        """The record with the inputs that moved in `fit` only, None for units that have none left."""
        if self.active.all():
            return data
        inputs = tuple(
            None if U is None or not self.active[own].any() else U[:, self.active[own]]
            for U, own in zip(data.inputs, map(self.of, data.names), strict=True)
        )
        return replace(data, inputs=inputs)

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
                warnings.warn(
                    f"Input {self.names[k]!r} is asked for values from {low:.4g} to {high:.4g}, but was only "
                    f"seen from {self.low[k]:.4g} to {self.high[k]:.4g}: the answer extrapolates.",
                    stacklevel=4,
                )

    def table(self, excitation):
        """Labelled table of the server's diagnostics, one row per input."""
        columns = {"unit": self.units, "input": self.names, "low": self.low, "high": self.high}
        frame = pd.DataFrame(columns | {"active": self.active})
        for column, values in excitation.items():
            frame[column] = np.nan
            frame.loc[self.active, column] = np.asarray(values)
        return frame


def filled_inputs(data, missing):
    """The record with gaps in its inputs filled, or refused."""
    filled = list(data.inputs)
    for m, (U, names) in enumerate(zip(data.inputs, data.layout.inputs, strict=True)):
        if U is None or np.isfinite(U).all():
            continue
        if missing == "hold":
            parts = [pd.DataFrame(U[a:b]).ffill().to_numpy() for a, b in episodes(data.starts, len(U))]
            filled[m] = U = np.concatenate(parts)
        gaps = [name for name, column in zip(names, U.T, strict=True) if np.isnan(column).any()]
        if gaps:
            where = " at the start of an episode, where there is no value to hold" if missing == "hold" else ""
            raise ValueError(
                f"Inputs {listed(gaps)} have missing values{where}: an input has to be known at every time step. Fill "
                "them in, or let the last value hold with missing_inputs='hold'."
            )
    return replace(data, inputs=tuple(filled))


def warn_of_excitation(table, share=1e-3):
    """Warn of inputs that other inputs and the states explain almost completely."""
    if "share" not in table:
        return
    hardly = table.loc[table["share"] < share, "input"]
    if len(hardly):
        warnings.warn(
            f"Inputs {listed(hardly)} hardly move on their own: other inputs and the states explain all but "
            f"{share:.1%} of their variance. Their effects are poorly known; look at the standard errors.",
            stacklevel=3,
        )


def warn_of_feedback(server):
    """Warn that inputs depend on measurements, and say what was done about it."""
    if controlled := getattr(server, "controlled_units_", ()):
        warnings.warn(
            f"Inputs of {listed(controlled)} depend on measurements (see `feedback_`). The likelihood given "
            "the inputs stays valid and standard errors of effects come from its observed curvature; choose "
            "by `loops` whether the controllers respond in counterfactuals.",
            stacklevel=3,
        )
