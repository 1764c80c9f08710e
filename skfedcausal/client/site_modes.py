"""Modes that a column of a site's record tells: inputs of its unit, an indicator for every mode but the first."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..containers.modes import mode_codes, mode_indicators, modes_in, warn_of_mode


@dataclass(frozen=True)
class SiteModes:
    """The column that tells modes, those that were in the record that the plant was learned from, and which file."""

    column: str
    labels: tuple

    @classmethod
    def learn(cls, column, values):
        """Modes of a nominal record."""
        return cls(column, modes_in(plain(values).dropna(), column))

    def codes(self, values):
        """Places of modes in a column, the number of modes for one that is not known, NaN where missing."""
        codes, unknown = mode_codes(plain(values), self.labels)
        for value in unknown:
            warn_of_mode(value, self.column, self.labels, "rows in it are taken as missing measurements", stacklevel=3)
        return codes

    def taken(self, outputs, inputs, codes):
        """Measurements and inputs with indicators beside them.

        Measurements of modes that are not known are missing. Their mode counts as the one before, or the first of all,
        as that of rows that lack one does, and of rows between two modes.
        """
        unknown = codes == len(self.labels)
        if unknown.any():
            outputs = np.array(outputs)
            outputs[unknown] = np.nan
        told = ~unknown & (codes == np.rint(codes))
        codes = pd.Series(np.where(told, codes, np.nan)).ffill().fillna(0.0).to_numpy()
        parts = [] if inputs is None else [inputs]
        joined = np.hstack([*parts, mode_indicators(codes[:, None], len(self.labels))])
        return outputs, joined if joined.shape[1] else None


def plain(values):
    """A column as numbers where all of it are, else as words."""
    values = pd.Series(values).reset_index(drop=True)
    numbers = pd.to_numeric(values, errors="coerce")
    if not (numbers.isna() & values.notna()).any():
        return numbers.astype(float)
    return values.where(values.isna(), values.astype(str).str.strip())
