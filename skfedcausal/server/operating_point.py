"""The levels that a fitted plant moves around: of its inputs, and of its units before and after shifts."""

from dataclasses import dataclass

import numpy as np

from .prediction import InputDrive

_SAME_RECORD = 0.01  # difference of weighted sums of two records below which they are the same


@dataclass(frozen=True)
class OperatingPoint:
    """What a plant remembers of the record it was fitted to, so that it can run over this and others."""

    known_level: np.ndarray  # (n_inputs + n_steps,)
    steps: tuple[int, ...]
    new_levels: np.ndarray  # (n, n_steps)
    spread: np.ndarray  # (n, n)
    starts: tuple[int, ...]
    n_samples: int
    sums: np.ndarray | None  # (2, n) or None

    @classmethod
    def of(cls, record, estimate):
        """Of a plant fitted to a record."""
        shifts, S, n = estimate.shifts, estimate.coefficients.state_scale, record.partition.n_states
        return cls(
            record.at_steps(shifts.steps).known_level,
            shifts.steps,
            np.linalg.solve(np.eye(n) - estimate.A, shifts.levels),
            # driven states of unknown past: the variance of the record
            S @ S.T if record.partition.n_inputs else np.zeros((n, n)),
            record.starts,
            record.n_samples,
            record.fingerprint() if shifts.steps else None,
        )

    @classmethod
    def without_shifts(cls, record):
        """Of a plant in which no level shifts are looked for."""
        n = record.partition.n_states
        levels, spread = np.zeros((n, 0)), np.zeros((n, n))
        return cls(record.input_level, (), levels, spread, record.starts, record.n_samples, None)

    def drive(self, A, B):
        """How inputs and shifts act on a plant ``[A | B]``; None for a plant without either.

        Levels are where the fit has them, whichever way the coefficients were shrunk.
        """
        if not (B.shape[1] or self.steps):
            return None
        steps = self.new_levels - A @ self.new_levels
        held = np.hstack([np.zeros_like(B), self.new_levels])
        return InputDrive(np.hstack([B, steps]), self.known_level, self.spread, held)

    def placed(self, record):
        """The record with the shifts where they were found, if it is the one of the fit.

        Any other is taken to have the level that the units had in the end.
        """
        if not self.steps:
            return record
        return record.at_steps(self.steps if self._is_fitted(record) else (0,) * len(self.steps))

    def _is_fitted(self, record):
        """Whether a record is the one of the fit: the sums of different ones differ by about one."""
        if record.starts != self.starts or record.n_samples != self.n_samples:
            return False
        return np.abs(record.fingerprint() - self.sums).max() < _SAME_RECORD
