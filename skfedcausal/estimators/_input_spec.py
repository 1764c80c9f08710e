"""From the inputs that users write down to the columns that units send: bases and timing.

An input may act on the plant through a curve: its unit sends columns f_1(u), f_2(u), ... in its place, and
every question is about u. An input that was set before the row it stands in was measured acts on that row: it
is sent a row ahead, so that the plant's next row is its own, whatever lags and whichever server that plant has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import compress
from types import MappingProxyType

import numpy as np

from ..containers.layout import SEPARATOR, listed
from ..containers.plant import row_by_row
from ..server.lagged.timing import SAMPLED
from ..statespace.input_basis import BASES, a_row_ahead, basis_columns, independent_columns, quartile_spline
from ._inputs import PlantInputs


def by_input(choice, names, what, allowed):
    """A choice for each input from one for all, or from a dict by input (or by unit) with a default."""
    if not isinstance(choice, Mapping):
        choices = [choice] * len(names)
    else:
        owners = [name.split(SEPARATOR)[0] for name in names]
        units = list(dict.fromkeys(owners))
        unknown = [key for key in choice if key not in (*names, *units)]
        if unknown:
            raise ValueError(
                f"`{what}` names {listed(unknown)}; inputs are {listed(names)}, of the units {listed(units)}."
            )
        choices = [choice.get(name, choice.get(owner, allowed[0])) for name, owner in zip(names, owners, strict=True)]
    for name, one in zip(names, choices, strict=True):
        if not (isinstance(one, str) and one in allowed) and not (what == "basis" and callable(one)):
            options = ", ".join(map(repr, allowed)) + (" or a function" if what == "basis" else "")
            raise ValueError(f"Got {what}={one!r} for input {name!r}; choose {options}.")
    return choices


def early_inputs(data, sampled):
    """Names of the inputs that were set before the row they stand in was measured."""
    names = [name for own in data.layout.inputs for name in own]
    words = by_input(sampled, names, "sampled", SAMPLED)
    return {name for name, word in zip(names, words, strict=True) if word == "before"}


def late_inputs(layout, sampled, mode, server):
    """Names of the inputs of a watched plant that were set after the row they stand in was measured."""
    from ..containers.modes import is_called
    from ..server.moments import MomentServer  # other inputs are of plants that others learn

    names = [name for own in layout.inputs for name in own if mode is None or not is_called(name, mode)]
    words = by_input(sampled, names, "sampled", ("auto", "after", "before"))
    late = frozenset(name for name, word in zip(names, words, strict=True) if word == "after")
    if late and not isinstance(server, (MomentServer, type(None))):
        raise ValueError(
            f"sampled='after' of {listed(late)} is for plants that a MomentServer learns, and server is a "
            f"{type(server).__name__}. Leave `server` or `sampled` out."
        )
    return late


@dataclass(frozen=True)
class InputMap:
    """Columns sent in place of each input, and inputs that are sent a row ahead."""

    functions: tuple  # None for an input as it is
    kept: tuple  # columns of each function that are sent
    early: np.ndarray  # (n_inputs,) of bool
    words: tuple[str, ...]

    @classmethod
    def learn(cls, data, known, basis, sampled, levels=MappingProxyType({})):
        """The map of a record; inputs of `levels` have a column for each but the first."""
        words = by_input(sampled, known.names, "sampled", SAMPLED)
        functions, kept = [], []
        choices = by_input(basis, known.names, "basis", BASES)
        inputs = zip(choices, known.names, _series(data).T, known.active, strict=True)
        for choice, name, u, moves in inputs:
            function = choice if callable(choice) else None
            if choice == "spline":
                function = quartile_spline(u)
            if name in levels:
                if isinstance(basis, Mapping) and name in basis:
                    raise ValueError(
                        f"`basis` is given for input {name!r}, which has levels ({listed(levels[name].names)}) and a "
                        "column for each of them. Leave it out there."
                    )
                function = levels[name]
            function = function if moves else None
            functions.append(function)
            kept.append([0] if function is None else independent_columns(basis_columns(function, u, name), name))
        early = np.array([word == "before" for word in words], dtype=bool)
        return cls(tuple(functions), tuple(kept), early, tuple(words))

    @classmethod
    def plain(cls, n_inputs):
        """Inputs as they are."""
        return cls((None,) * n_inputs, ([0],) * n_inputs, np.zeros(n_inputs, dtype=bool), ("auto",) * n_inputs)

    def only(self, chosen):
        """The map of some of the inputs, chosen by a mask."""
        functions, kept, words = (tuple(compress(part, chosen)) for part in (self.functions, self.kept, self.words))
        return InputMap(functions, kept, self.early[chosen], words)

    @property
    def is_linear(self):
        """Whether inputs act as they are, without a curve or levels."""
        return all(function is None for function in self.functions)

    @property
    def is_plain(self):
        """Whether units send their inputs as they are."""
        return not self.early.any() and self.is_linear

    @property
    def owners(self):
        """Position of the input behind each column that is sent."""
        return np.repeat(np.arange(len(self.kept)), [len(own) for own in self.kept])

    def known(self, inputs):
        """What is known of the columns that are sent, as of inputs."""
        at = self.owners
        names = [
            f"{name}[{function.names[1:][own[k]]}]"
            if hasattr(function, "levels")
            else name
            if len(own) == 1
            else f"{name}[{k}]"
            for name, function, own in zip(inputs.names, self.functions, self.kept, strict=True)
            for k in range(len(own))
        ]
        units = tuple(inputs.units[k] for k in at)
        of_levels = np.array([hasattr(function, "levels") for function in self.functions], dtype=bool)[at]
        low, high = np.where(of_levels, 0.0, inputs.low[at]), np.where(of_levels, 1.0, inputs.high[at])
        return PlantInputs(units, tuple(names), inputs.active[at], low, high)

    def values(self, series):
        """Columns that stand for inputs of shape (n_samples, n_inputs), in the same rows."""
        return np.hstack(
            [
                series[:, [k]] if function is None else basis_columns(function, series[:, k], k)[:, own]
                for k, (function, own) in enumerate(zip(self.functions, self.kept, strict=True))
            ]
        )

    def sent(self, data, inputs):
        """The record with inputs as they are sent; None for units that have none."""
        columns = self.in_time(self.values(_series(data)), data.starts)
        active, units = inputs.active[self.owners], np.array([inputs.units[k] for k in self.owners])
        parts = [columns[:, active & (units == name)] for name in data.names]
        return replace(data, inputs=row_by_row(part if part.shape[1] else None for part in parts))

    def in_time(self, columns, starts):
        """Columns of a record in the rows they are sent in."""
        return a_row_ahead(columns, self.early[self.owners], starts)

    def asked(self, change, *, holds):
        """A change of columns from the row before it on, so that its effect in its own row is answered.

        With `holds` the last row goes on. The last row that is answered is beyond the change.
        """
        moved = self.early[self.owners]
        last = change[-1:] if holds else np.zeros_like(change[-1:])
        whole = np.vstack([np.zeros_like(change[:1]), change, last])
        whole[:-1, moved] = whole[1:, moved]
        return whole


def _series(data):
    """All inputs side by side."""
    own = [U for U in data.inputs if U is not None]
    return np.hstack(own).astype(float) if own else np.zeros((data.n_samples, 0))
