"""The units' messages put side by side: everything the server knows about the record."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from ..statespace.episodes import column_mean, episodes, remove_episode_means, side_by_side
from ..statespace.matrices import floor_eigenvalues
from ..statespace.observation import Information, patterns_of
from ..statespace.partition import Partition
from .scores import Scores

_PRESENCE_WINDOW = 11  # gaps much shorter than this act like a smaller average information
_PRESENCE_LEVEL = 0.1
_MAX_REGIMES = 8
_FORECASTS = 40  # steps of an episode in which forecasts can be compared


@dataclass(frozen=True)
class JointRecord:
    """Information series of all units over the same time steps."""

    names: tuple[str, ...]
    parts: tuple[Information, ...]
    starts: tuple[int, ...]
    inputs: tuple[np.ndarray | None, ...] = ()  # (n_samples, k_m) or None) or None
    unpredicted: tuple[np.ndarray | None, ...] = ()  # (p_m, p_m) or None) or None
    steps: tuple[int, ...] = ()

    @classmethod
    def from_messages(cls, messages, names=None):
        """Record of messages by unit name."""
        names = tuple(messages) if names is None else tuple(names)
        if set(names) != set(messages):
            raise ValueError(
                f"Messages came from {sorted(messages)}, expected one from each of {sorted(names)}."
            )
        lengths = {name: messages[name].lengths for name in names}
        if len(set(lengths.values())) != 1:
            raise ValueError(f"The units' messages cover different episodes: {lengths}.")
        starts = (0, *accumulate(lengths[names[0]][:-1]))
        inputs = tuple(messages[name].inputs for name in names)
        if all(u is None for u in inputs):
            inputs = ()
        parts = tuple(messages[name].information for name in names)
        return cls(names, parts, starts, inputs, tuple(messages[name].unpredicted for name in names))

    @cached_property
    def partition(self):
        """Division of the states and inputs into units."""
        sizes = tuple(part.z.shape[1] for part in self.parts)
        inputs = tuple(0 if u is None else u.shape[1] for u in self.inputs)
        return Partition(sizes, inputs, len(self.steps))

    @cached_property
    def u(self):
        """Inputs of the plant, shape (n_samples, n_inputs); None for a plant without inputs."""
        if not self.partition.n_inputs:
            return None
        return np.concatenate([u for u in self.inputs if u is not None], axis=1)

    @cached_property
    def input_level(self):
        """Mean of each input, shape (n_inputs,)."""
        return np.zeros(0) if self.u is None else column_mean(self.u)

    @property
    def input_scale(self):
        """Standard deviation of each input within the episodes, shape (n_inputs,)."""
        return np.ones(0) if self.u is None else self._standardised_inputs[1]

    @property
    def standard_inputs(self):
        """Inputs less their mean in each episode, of unit variance, shape (n_samples, n_inputs)."""
        return self._standardised_inputs[0]

    @cached_property
    def _standardised_inputs(self):
        return _standardised(self.u, self.starts)

    @cached_property
    def known(self):
        """Inputs and steps, shape (n_samples, n_inputs + n_steps); None for a plant without either.

        A step is one from the row before its onset on, so that it acts from the onset on.
        """
        if not self.partition.n_known:
            return None
        steps = step_series(self.steps, self.starts, self.n_samples)
        return steps if self.u is None else np.hstack([self.u, steps])

    @cached_property
    def known_level(self):
        """Mean of each input and step, shape (n_inputs + n_steps,)."""
        return np.zeros(0) if self.known is None else column_mean(self.known)

    @cached_property
    def known_scale(self):
        """Standard deviation of each input and step within the episodes, shape (n_inputs + n_steps,)."""
        return np.concatenate([self.input_scale, self._standardised_steps[1]])

    @property
    def standard_steps(self):
        """Steps less their mean in each episode, of unit variance, shape (n_samples, n_steps)."""
        return self._standardised_steps[0]

    @cached_property
    def _standardised_steps(self):
        return _standardised(step_series(self.steps, self.starts, self.n_samples), self.starts)

    def at_steps(self, steps):
        """The same record with levels shifting at other rows."""
        return self if tuple(steps) == self.steps else replace(self, steps=tuple(steps))

    def fingerprint(self):
        """A few weighted sums of the information vectors, relative to their size.

        Other records have others; rounding on the wire hardly moves them.
        """
        t = np.arange(self.n_samples, dtype=float)
        weights = np.array([np.cos(t**2), np.sin(t**2)])
        size = np.sqrt(np.einsum("ti,ti->i", self.z, self.z))
        return weights @ self.z / np.maximum(size, np.finfo(float).tiny)

    @cached_property
    def scores(self):
        """The :class:`Scores` of the record."""
        return Scores(self)

    @property
    def n_samples(self):
        """Number of time steps."""
        return len(self.parts[0].z)

    @cached_property
    def z(self):
        """Information vectors of the plant, shape (n_samples, n_states)."""
        return self.stacked()

    def stacked(self):
        """The same formed anew, for who needs it once."""
        return side_by_side([part.z for part in self.parts])

    def forget_scores(self):
        """Give back the memory of the scores, which can be computed again."""
        self.__dict__.pop("scores", None)

    @property
    def is_constant(self):
        """Whether every unit's information matrix is the same at every step."""
        return all(part.is_constant for part in self.parts)

    @cached_property
    def determined(self):
        """Per unit: whether its measurements determine all its states."""
        return tuple(part.determines_states for part in self.parts)

    def block_diagonal(self, matrices):
        """Plant matrix (or stack) with the units' matrices on its diagonal."""
        n = self.partition.n_states
        shape = np.broadcast_shapes(*(np.shape(x)[:-2] for x in matrices))
        plant = np.zeros((*shape, n, n))
        for rows, block in zip(self.partition.slices, matrices, strict=True):
            plant[..., rows, rows] = block
        return plant

    def matrices(self, rows=slice(None)):
        """Information matrices of the plant for a slice of rows, shape (n_rows, n, n)."""
        return self.block_diagonal([part.matrices(rows) for part in self.parts])

    def const(self):
        """Sum over units of the log-density terms free of the states; None if any unit kept it."""
        if any(part.const is None for part in self.parts):
            return None
        return sum(part.const for part in self.parts)

    def rescaled(self, scale):
        """The same record in states ``S_m^-1 h_m``; inputs are not touched."""
        parts = tuple(
            Information(part.z @ S, S.T @ part.patterns @ S, part.index, part.const)
            for part, S in zip(self.parts, scale, strict=True)
        )
        return replace(self, parts=parts)

    def centred(self):
        """The same record without the level of each unit's states in each episode."""
        parts = []
        for part in self.parts:
            z, index = part.z.copy(), part.pattern_of
            for start, stop in episodes(self.starts, len(z)):
                J = part.patterns[index[start:stop]]
                level = np.linalg.pinv(J.sum(axis=0), hermitian=True) @ z[start:stop].sum(axis=0)
                z[start:stop] -= J @ level
            parts.append(replace(part, z=z))
        return replace(self, parts=tuple(parts))

    @property
    def has_choice(self):
        """Whether some unit leaves open how much of its measurements is noise, and the record can tell.

        It can if it is complete and an episode is long enough for forecasts.
        """
        longest = max(np.diff([*self.starts, self.n_samples]))
        is_open = any(choice is not None for choice in self.unpredicted)
        return bool(is_open and self.is_constant and longest >= _FORECASTS)

    def with_noise_share(self, share):
        """The same record with more sensor noise in the units that leave its share open."""
        if share == 0.0 or not self.has_choice:
            return self
        parts = tuple(
            part if choice is None else _noisier(part, choice, share)
            for part, choice in zip(self.parts, self.unpredicted, strict=True)
        )
        return replace(self, parts=parts)

    def regimes(self, predicted=None):
        """Average information matrices of stretches in which the same units are present.

        What a filter gains from a measurement is concave in its information, so that a constant one worth
        the same is less than the mean: the one that leaves the average filtered covariance.
        """
        if self.is_constant:
            return [(1.0, self.block_diagonal([part.patterns[0] for part in self.parts]))]
        present = np.column_stack([_presence(part, self.n_samples) for part in self.parts])
        _, key = patterns_of(present)
        counts = np.bincount(key)
        kept = np.argsort(-counts, kind="stable")[:_MAX_REGIMES]
        total = counts[kept].sum()
        regimes = []
        for k in kept:
            rows = np.flatnonzero(key == k)
            before = [None] * len(self.parts) if predicted is None else predicted
            worth = [_worth(part, rows, P) for part, P in zip(self.parts, before, strict=True)]
            J = self.block_diagonal(worth)
            regimes.append((counts[k] / total, J))
        return regimes


def step_series(onsets, starts, n_samples):
    """One from the row before each onset to the end of its episode, zero elsewhere."""
    series = np.zeros((n_samples, len(onsets)))
    for k, onset in enumerate(onsets):
        stop = min((start for start in starts if start > onset), default=n_samples)
        series[max(onset - 1, 0) : stop, k] = 1.0
    return series


def _standardised(series, starts):
    """Series less its mean in each episode and of unit variance, with its standard deviations."""
    centred = remove_episode_means(series, starts)
    scale = np.sqrt(np.einsum("ti,ti->i", centred, centred) / len(centred))
    centred /= scale
    return centred, scale


def _noisier(part, unpredicted, share):
    N = np.linalg.inv(part.patterns[0])
    J = np.linalg.inv((1 - share) * N + share * unpredicted)
    J = (J + J.T) / 2
    return Information(part.z @ (N @ J), J[None])


def _worth(part, rows, P):
    """The constant information that leaves the same filtered covariance of states with covariance P.

    The mean information if P is None.
    """
    if part.is_constant:
        return part.patterns[0]
    counts = np.bincount(part.index[rows], minlength=len(part.patterns))
    if P is None:
        return np.tensordot(counts / len(rows), part.patterns, 1)
    seen = np.flatnonzero(counts)
    before = np.linalg.inv(P)
    left = np.tensordot(counts[seen] / len(rows), np.linalg.inv(before + part.patterns[seen]), 1)
    J = np.linalg.inv(left) - before
    return floor_eigenvalues((J + J.T) / 2, 0.0)


def _presence(part, n_samples):
    """Whether a unit is there, judged over a short window."""
    if part.is_constant:
        return np.ones(n_samples, dtype=bool)
    trace = np.trace(part.patterns, axis1=1, axis2=2)
    level = (trace / max(trace.max(), 1e-300))[part.index]
    window = min(_PRESENCE_WINDOW, n_samples)
    sums = np.convolve(level, np.ones(window), mode="same")
    return sums / np.convolve(np.ones(n_samples), np.ones(window), mode="same") > _PRESENCE_LEVEL
