"""Units of nothing but status bits: their values with a little noise, so that models of normal noise bear them.

A column that is constant in nominal operation, or has two values, has no noise that says how unusual a change is,
and copies of it determine each other. Dither, noise of known size that is added before a signal of few values is
processed, gives it one (Widrow & Kollar 2008, Quantization noise). A flip is then as many standard deviations as the
dither is smaller than a step.
"""

import hashlib
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri
from sklearn.base import clone

from .kalman import KalmanClient

_SHARE = 0.1  # of a step
_WATCHED = 0.5  # of the dither of the rows that are learned from: no draw is an alarm
_FEW = 2  # values that a column of a status has at most
_MOST_STATES = 4
_FEWEST = 20  # rows in which a unit of status bits was there
_LOOKED_AT = 1000  # rows that mostly show that a unit is none


def is_status(Y):
    """Whether no column of a record, (n_samples, n_columns), has more than two values."""
    for rows in (Y[:_LOOKED_AT], Y):
        if any(len(np.unique(y[~np.isnan(y)])) > _FEW for y in rows.T):
            return False
    return np.count_nonzero(~np.isnan(Y).all(axis=1)) > _FEWEST


@dataclass(frozen=True)
class Dither:
    """What is taken off the record of a unit of status bits: noise drawn from the number of the row.

    `key` seeds it, `spread` is its standard deviation by column.
    """

    key: int
    spread: np.ndarray
    known = ()  # columns that tell what is taken off

    @classmethod
    def learn(cls, name, Y):
        """Dither of a tenth of each column's step, or of its size where it never moved."""
        low, high = np.nanmin(Y, axis=0, initial=np.inf), np.nanmax(Y, axis=0, initial=-np.inf)
        size = np.where(np.isfinite(low), np.abs(low), 1.0)
        step = np.where(high > low, high - low, np.where(size > 0, size, 1.0))
        digest = hashlib.sha256(name.encode()).digest()
        return cls(int.from_bytes(digest[:16], "big"), _SHARE * step)

    def watching(self):
        """What is taken off rows that are watched: the model knows more noise than they have."""
        return replace(self, spread=_WATCHED * self.spread)

    def of(self, Y, index=None, starts=(0,), after=None):
        """What is taken off rows that follow row number `after`, and the number of the last one."""
        first, d = 0 if after is None else int(after) + 1, len(self.spread)
        source = np.random.Philox(key=self.key)
        source.advance((first * d) // 4)  # of four numbers each
        raw = source.random_raw(len(Y) * d + first * d % 4)[first * d % 4 :]
        uniform = ((raw >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
        return self.spread * ndtri(uniform).reshape(len(Y), d), first + len(Y) - 1


def dithered_client(template, about, fitted):
    """Model of a unit of status bits, by ``fitted(template, *about)``; None where the unit is none.

    `about` begins with the record and has the unit's name in the fourth place.
    """
    Y, noise = about[0], about[5]
    if not isinstance(template, KalmanClient) or noise is not None or template.C is not None or not is_status(Y):
        return None
    if any(getattr(template, option) is not None for option in ("harmonics", "trend", "mode", "levels")):
        return None
    dither = Dither.learn(about[3], Y)
    states = min(Y.shape[1], _MOST_STATES) if template.n_states == "auto" else template.n_states
    client = fitted(clone(template).set_params(n_states=states), Y - dither.of(Y)[0], *about[1:])
    client.baseline_ = dither
    return client
