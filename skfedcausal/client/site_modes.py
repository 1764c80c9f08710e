"""Modes that a column of a site's record tells: inputs of its unit, an indicator for every mode but the first."""

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..containers.modes import mode_codes, mode_indicators, modes_in, warn_of_mode
from ..statespace.episodes import episodes


@dataclass(frozen=True)
class SiteModes:
    """The column that tells modes, those that were in the record that the plant was learned from, and which file."""

    column: str
    labels: tuple

    @classmethod
    def learn(cls, column, values):
        """Modes of a nominal record."""
        return cls(column, modes_in(values, column))

    def codes(self, values):
        """Places of modes in a column, the number of modes for one that is not known, NaN where missing."""
        codes, unknown = mode_codes(values, self.labels)
        for value in unknown:
            warn_of_mode(value, self.column, self.labels, "rows in it are taken as missing measurements", stacklevel=3)
        return codes

    def taken(self, outputs, inputs, codes, starts=(0,), before=None):
        """Measurements, inputs with indicators beside them, and the last row's code, None where it is not known.

        `starts` are first rows of episodes, and `before` gives the code before the first row of all, None if there is
        none. Measurements of modes that are not known are missing. Their mode counts as the one before, or the first of
        all at the start of an episode. A mode that is missing is the one before; where an episode begins with such
        rows, nothing tells their mode, and they are missing measurements too.
        """
        unknown = codes == len(self.labels)
        told = np.where(~unknown & (codes == np.rint(codes)), codes, np.nan)
        if before is not None and np.isnan(told[0]) and (last := before()) is not None:
            told[0] = last
        begins = np.array(starts)
        told[begins[np.isnan(told[begins]) & ~np.isnan(codes[begins])]] = 0.0
        held = np.concatenate([pd.Series(told[i:j]).ffill().to_numpy() for i, j in episodes(starts, len(told))])
        untold = np.isnan(held)
        if untold.any():
            warnings.warn(
                f"{int(untold.sum())} rows at the start of an episode lack {self.column!r}, and no row before tells "
                "their mode: they are taken as missing measurements. The watch goes on.",
                UserWarning,
                stacklevel=2,
            )
        if (unknown | untold).any():
            outputs = np.array(outputs)
            outputs[unknown | untold] = np.nan
        parts = [] if inputs is None else [inputs]
        joined = np.hstack([*parts, mode_indicators(np.where(untold, 0.0, held)[:, None], len(self.labels))])
        return outputs, joined if joined.shape[1] else None, None if untold[-1] else float(held[-1])
