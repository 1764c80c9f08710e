"""Lagged products of a record that comes in batches, and of numbers in a ring for secure sums."""

import math
from copy import copy
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from .episodes import TransitionMoments, episodes, recentre_lag_sums, symmetric
from .held_out import N_LAGS
from .lagged.likelihood import WINDOW, LagSums, of_lowest, window_spectrum
from .tuning import TUNING

# Lagged products of a record that comes in batches: they add, and what is old may fade.

_MOST_ENDS = 2**24  # numbers in rows that are kept of the ends of episodes


def lag_products(series, n_lags):
    """``sum_t x[t+l] x[t]'`` for l below `n_lags`, shape (n_lags, c, c), at a price that hardly depends on it.

    Windows of rows are correlated with their own beginnings by Fourier transforms so long that nothing wraps around;
    rows behind the end are zero.
    """
    n_samples, c = series.shape
    window = max(1 << (4 * n_lags - 1).bit_length(), TUNING.lag_products_least_window)
    width = window - n_lags + 1  # early rows of a window
    n_windows = max(-(-n_samples // width), 1)
    at_once = max(TUNING.lag_products_numbers // (window * c), 1)
    padded = np.pad(series, [(0, n_windows * width + n_lags - 1 - n_samples), (0, 0)])
    windows = sliding_window_view(padded, window, axis=0)[::width]  # (n_windows, c, window)
    spectrum = np.zeros((window // 2 + 1, c, c), dtype=complex)
    for first in range(0, n_windows, at_once):
        late = windows[first : first + at_once]
        ahead, behind = np.fft.rfft(late), np.conj(np.fft.rfft(late[..., :width], window))
        spectrum += np.ascontiguousarray(ahead.transpose(2, 1, 0)) @ np.ascontiguousarray(behind.transpose(2, 0, 1))
    sums = np.fft.irfft(spectrum, window, axis=0)[:n_lags]
    sums[0] = symmetric(sums[0])
    return sums


@dataclass(frozen=True, eq=False)
class LagProducts:
    """Products of centred rows of episodes at lags 0 to ``n_lags + 1``, the rows at their ends, and what they count.

    Columns of a part that was absent are zero in an episode. Rows at the ends are multiplied by the root of the
    episode's weight, first ones behind each other, last ones up to the end, zero where an episode is shorter.
    """

    sums: np.ndarray  # (n_lags + 2, c, c)
    heads: np.ndarray  # (n_episodes, n_lags + 2, c)
    tails: np.ndarray  # (n_episodes, n_lags + 2, c)
    means: np.ndarray  # (n_episodes, c)
    lengths: np.ndarray  # (n_episodes,)
    weights: np.ndarray  # (n_episodes,)
    present: np.ndarray  # (n_episodes, c)
    spectrum: np.ndarray  # (n_cells + 1, c, c), sum over rows

    @property
    def n_lags(self):
        """Lags of transitions that there are moments for."""
        return len(self.sums) - 2

    @property
    def rows_by_episode(self):
        """Rows of each episode as they count, whole numbers of at least 1."""
        return np.maximum(np.rint(self.weights * self.lengths), 1).astype(int)

    @property
    def n_transitions(self):
        """Transitions from row to row, as they count."""
        return float(self.weights @ (self.lengths - 1))

    def mean(self):
        """Mean of every column over the rows in which it was there, shape (c,)."""
        counts = (self.weights * self.lengths)[:, None] * self.present
        return (counts * self.means).sum(axis=0) / np.maximum(counts.sum(axis=0), 1e-300)

    def balanced(self):
        """The same as if every pair of columns had been there in all rows: products over fewer count for more."""
        if self.present.all():
            return self
        counts = (self.weights * self.lengths)[:, None] * self.present
        both = counts.T @ self.present
        share = self.weights @ self.lengths / np.maximum(both, 1.0)
        return replace(self, sums=self.sums * share, spectrum=self.spectrum * share)

    def joined(self, other):
        """Products of the episodes of both."""
        parts = {
            name: np.concatenate([getattr(self, name), getattr(other, name)])
            for name in ("heads", "tails", "means", "lengths", "weights", "present")
        }
        return LagProducts(self.sums + other.sums, **parts, spectrum=self.spectrum + other.spectrum)

    def faded(self, share):
        """The same with every row counting less by a share."""
        root = np.sqrt(1 - share)
        rows = {"heads": self.heads * root, "tails": self.tails * root}
        sums = {name: getattr(self, name) * (1 - share) for name in ("sums", "spectrum", "weights")}
        return replace(self, **rows, **sums)

    def without_old_ends(self):
        """The same in bounded memory: of the oldest of very many episodes the ends are taken for inner rows."""
        most = max(_MOST_ENDS // max(self.heads[0].size, 1), 1) if len(self.heads) else 1
        n_old = len(self.heads) - most
        if n_old <= 0:
            return self
        old, kept = slice(0, n_old + 1), slice(n_old + 1, None)
        weight = self.weights[old] @ self.lengths[old]
        rows = {"heads": self.heads, "tails": self.tails}
        rows = {name: np.concatenate([np.zeros_like(part[:1]), part[kept]]) for name, part in rows.items()}
        counts = (self.weights * self.lengths)[old, None] * self.present[old]
        mean = (counts * self.means[old]).sum(axis=0) / np.maximum(counts.sum(axis=0), 1e-300)
        several = {"means": mean, "present": counts.sum(axis=0) / max(weight, 1e-300)}
        several |= {"lengths": weight, "weights": 1.0}
        several = {name: np.concatenate([[part], getattr(self, name)[kept]]) for name, part in several.items()}
        return LagProducts(self.sums, **rows, **several, spectrum=self.spectrum)

    def transformed(self, left):
        """Products of rows ``left @ x``."""
        rows = {name: getattr(self, name) @ left.T for name in ("heads", "tails", "means")}
        return replace(self, sums=left @ self.sums @ left.T, spectrum=left @ self.spectrum @ left.T, **rows)

    def moments(self, n_lags):
        """Lag covariances of the transitions, a :class:`TransitionMoments`."""
        early_rows, late_rows = self.heads[:, : n_lags + 1], self.tails[:, ::-1][:, : n_lags + 1]
        at_start = np.einsum("eli,ej->lij", early_rows, self.heads[:, 0], optimize=True)
        at_end = np.einsum("ei,elj->lij", self.tails[:, -1], late_rows, optimize=True)
        sums = self.sums[: n_lags + 2]
        late, early = sums[:-1] - at_start, sums[:-1] - at_end
        back = np.empty_like(late)
        back[0] = sums[1].T
        back[1:] = (sums[:-2] - at_start[:-1]) - at_end[:-1]
        for k in np.flatnonzero(self.lengths <= n_lags):  # whose first row with its last was taken off twice
            back[int(self.lengths[k])] += np.outer(self.tails[k, -1], self.heads[k, 0])
        n = max(self.n_transitions, 1.0)
        return TransitionMoments(late / n, sums[1:] / n, early / n, back / n, self.n_transitions)

    def lag_sums(self, n_lags, memory):
        """:class:`LagSums` for a plant of several lags with a filter of some memory, shorter where episodes are short.

        None where they are too short to tell.
        """
        memory = int(min(memory, self.lengths.min() // 2 - n_lags, len(self.sums) - 1 - n_lags))
        if memory < n_lags:
            return None
        window = n_lags + memory
        rows = self.heads[:, :window], self.tails[:, -window:], np.zeros((0, 2 * window, self.sums.shape[1]))
        n_rows = round(float(self.weights @ (self.lengths - n_lags)))
        return LagSums(self.sums[: window + 1], *rows, np.zeros(0, dtype=int), n_lags, memory, n_rows)


@dataclass(eq=False)
class OpenEpisode:
    """An episode that may go on: products of its rows less an origin, with the rows at its ends."""

    sums: np.ndarray  # (n_lags + 2, c, c)
    total: np.ndarray  # (c,)
    n_rows: int
    head: np.ndarray  # (at most n_lags + 2, c)
    tail: np.ndarray  # (at most n_lags + 2, c)
    present: np.ndarray  # (c,)
    windows: "Windows"

    @classmethod
    def begun(cls, rows, n_lags, present):
        """With its first rows."""
        kept = n_lags + 2
        sums = lag_products(rows, kept)
        ends = rows[:kept].copy(), rows[-kept:].copy()
        return cls(sums, rows.sum(axis=0), len(rows), *ends, present, Windows().followed_by(rows))

    def extend(self, rows):
        """Take the next rows."""
        kept = len(self.sums)
        added = lag_products(rows, kept)
        between = lag_products(np.concatenate([self.tail, rows[:kept]]), kept)
        for part in (self.tail, rows[:kept]):
            between -= lag_products(part, kept)
        self.sums, self.windows = self.sums + added + between, self.windows.followed_by(rows)
        self.total, self.n_rows = self.total + rows.sum(axis=0), self.n_rows + len(rows)
        self.head = np.concatenate([self.head, rows])[:kept] if len(self.head) < kept else self.head
        self.tail = np.concatenate([self.tail, rows[-kept:]])[-kept:]

    def finished(self, origin):
        """The :class:`LagProducts` of its rows less their mean."""
        kept, mean = len(self.sums), self.total / self.n_rows
        sums = self.sums.copy()
        recentre_lag_sums(sums, mean, self.total, self.n_rows, self.head, self.tail)
        sums[0] = symmetric(sums[0])
        head, tail = np.zeros((2, kept, len(mean)))
        head[: len(self.head)] = (self.head - mean) * self.present
        tail[kept - len(self.tail) :] = (self.tail - mean) * self.present
        parts = {"heads": head, "tails": tail, "means": (mean + origin) * self.present}
        parts |= {"lengths": float(self.n_rows), "weights": 1.0, "present": self.present.astype(float)}
        ends = {name: np.asarray(part)[None] for name, part in parts.items()}
        return LagProducts(sums=sums, spectrum=self.windows.spectrum(mean), **ends)


@dataclass(frozen=True, eq=False)
class Windows:
    """Spectra of the whole windows of an episode that may go on, and the rows of the one that has begun."""

    whole: np.ndarray | float = 0.0  # sum of their spectra, around an origin
    total: np.ndarray | float = 0.0  # of their rows
    n_windows: int = 0
    begun: np.ndarray | None = None

    def followed_by(self, rows):
        """With the next rows."""
        if self.begun is not None:
            rows = np.concatenate([self.begun, rows])
        stop = len(rows) // WINDOW * WINDOW
        pieces = rows[:stop].reshape(-1, WINDOW, rows.shape[1])
        whole, total = self.whole, self.total
        for piece in pieces:
            whole, total = whole + window_spectrum(piece), total + piece.sum(axis=0)
        return Windows(whole, total, self.n_windows + len(pieces), rows[stop:].copy())

    def spectrum(self, mean):
        """Averaged periodogram of all rows around their mean, times their number."""
        found = np.array(self.whole, dtype=complex)
        if self.begun is not None and len(self.begun):
            found = found + window_spectrum(self.begun - mean)
        if self.n_windows:  # a mean is of frequency zero alone
            cross = WINDOW * np.outer(self.total, mean)
            found[0] += (self.n_windows * WINDOW**2 * np.outer(mean, mean) - cross - cross.T) / of_lowest(WINDOW)
        return found


class RunningProducts:
    """Products of all batches so far.

    Parameters
    ----------
    n_lags : int
    origin : ndarray of shape (c,)
        What is taken off every row, so that large levels cost no digits.
    """

    def __init__(self, n_lags, origin):
        self.n_lags, self.origin = n_lags, origin
        self._closed: LagProducts | None = None
        self._open: OpenEpisode | None = None

    def copy(self):
        """Another one that can go on on its own."""
        other = copy(self)
        vars(other).update(_open=copy(self._open))
        return other

    def add(self, rows, starts, *, continues=False, forget=None, present=None):
        """Take a batch; `present` (c,) says which columns are there, all by default."""
        present = np.ones(rows.shape[1], dtype=bool) if present is None else present
        rows = (rows - self.origin) * present
        if forget is not None or self._open is None or not np.array_equal(present, self._open.present):
            continues = False
        if not continues:
            self._close()
        if forget is not None and self._closed is not None:
            self._closed = self._closed.faded(forget) if forget < 1 else None
        for k, (start, stop) in enumerate(episodes(starts, len(rows))):
            if k == 0 and continues and self._open is not None:
                self._open.extend(rows[start:stop])
                continue
            self._close()
            self._open = OpenEpisode.begun(rows[start:stop], self.n_lags, present)

    def _close(self):
        """End the episode that may go on."""
        if self._open is None:
            return
        found, self._open = self._open.finished(self.origin), None
        self._closed = found if self._closed is None else self._closed.joined(found).without_old_ends()

    def products(self):
        """The :class:`LagProducts` of all rows."""
        if self._open is None:
            return self._closed
        found = self._open.finished(self.origin)
        return found if self._closed is None else self._closed.joined(found)


# Fixed-point numbers in the ring of whole numbers modulo 2^64, and sums of their products over rows.
#
# A series of unit mean square over T rows, rounded to f binary places, has a sum of squares below ``T (2^f +
# 1/2)^2``, and so, by Cauchy and Schwarz, has every sum of products of two of them. Below 2^63 it is known from what
# is left of it modulo 2^64. Rounding changes each number by ``e = 2^-(f+1)`` at most, and a mean of products by
# ``2 e + e^2`` at most.

N_SEGMENTS = 14  # of sums that grades rest on: more are more equations, fewer less sure of gains
_LARGEST = 2**63  # of a number with a sign
_PIECE = 512  # rows whose products of digits are exact in double precision: 2 * 22 + 9 bits


def fraction_bits(n_rows):
    """Most binary places with which no sum of products over so many rows overflows."""
    bits = (math.isqrt((_LARGEST - 1) // n_rows) - 1).bit_length() - 1
    if bits < TUNING.ring_least_bits:
        raise ValueError(f"Secure sums over {n_rows} rows would have only {bits} binary places; give fewer rows.")
    return bits


def rounding_error(n_rows):
    """Largest difference that rounding makes to a mean of products of series of unit mean square."""
    step = 2.0 ** -(fraction_bits(n_rows) + 1)
    return 2 * step + step**2


def to_ring(series, bits):
    """Numbers with so many binary places as elements of the ring; ValueError if their sums could overflow."""
    rounded = np.rint(np.ldexp(series, bits))
    largest = np.square(rounded).sum(axis=0).max(initial=0.0)
    if not largest < _LARGEST * (1 - 1e-9):  # more than rounding in double precision
        raise ValueError("A series is too large for secure sums; give series of unit mean square.")
    return rounded.astype(np.int64).view(np.uint64)


def from_ring(elements, bits):
    """Sums of products of numbers with so many binary places each."""
    return np.ldexp(elements.view(np.int64).astype(float), -2 * bits)


def lagged_products(late, early, lags, starts=(0,)):
    """``sum_t late[t+l] early[t]'`` for l = 0..lags in the ring, never across episodes, shape (lags + 1, p, q)."""
    sums = np.zeros((lags + 1, late.shape[1], early.shape[1]), dtype=np.uint64)
    ahead, behind = _limbs(late), _limbs(early)
    for start, stop in episodes(starts, len(late)):
        for lag in range(min(lags, stop - start - 1) + 1):
            for first in range(start, stop - lag, _PIECE):
                last = min(first + _PIECE, stop - lag)
                sums[lag] += _product(ahead[:, first + lag : last + lag], behind[:, first:last])
    return sums


def _limbs(series):
    """Digits of 22 bits of ring elements as real numbers, lowest first, shape (3, n_rows, p)."""
    mask = np.uint64(2**TUNING.ring_limb - 1)
    return np.stack([((series >> np.uint64(TUNING.ring_limb * k)) & mask).astype(float) for k in range(3)])


def _product(left, right):
    """``left' right`` modulo 2^64 from the digits of few enough rows: exact products of real matrices."""
    total = np.zeros((left.shape[2], right.shape[2]), dtype=np.uint64)
    for place in range(3):
        for k in range(place + 1):
            total += (left[k].T @ right[place - k]).astype(np.uint64) << np.uint64(TUNING.ring_limb * place)
    return total


def segments(n_rows):
    """Rows of the segments of both graded series, behind those of the record."""
    edges = np.linspace(0, n_rows, N_SEGMENTS + 1).astype(int)
    pairs = list(zip(edges[:-1], edges[1:], strict=True))
    return [slice(first + behind, last + behind) for behind in (n_rows, 2 * n_rows) for first, last in pairs]


@dataclass(frozen=True)
class Sums:
    """What is summed of series in the ring: products up to `lags` rows apart, never across episodes.

    With `graded` series there are twice as many further rows, and of each segment of these the products up to
    ``N_LAGS`` rows apart.
    """

    lags: int
    lengths: tuple
    graded: bool = False

    @property
    def n_rows(self):
        """Rows of the series."""
        return sum(self.lengths) * (TUNING.ring_parts if self.graded else 1)

    @property
    def n_sums(self):
        """Matrices of sums."""
        return self.lags + 1 + (2 * N_SEGMENTS * (N_LAGS + 1) if self.graded else 0)

    def products(self, late, early):
        """The sums ``late[t+l] early[t]'``, one matrix behind the other."""
        n, starts = sum(self.lengths), (0, *accumulate(self.lengths[:-1]))
        found = [lagged_products(late[:n], early[:n], self.lags, starts)]
        if self.graded:
            found += [lagged_products(late[rows], early[rows], N_LAGS) for rows in segments(n)]
        return np.concatenate(found)

    def in_segments(self, sums):
        """Sums of the graded series by series, segment and lag."""
        return sums[self.lags + 1 :].reshape(2, N_SEGMENTS, N_LAGS + 1, *sums.shape[1:])

    def equations(self, n_states, n_others):
        """Numbers that tell of each series of a unit: linear with those of others, quadratic among its own."""
        alone = 2 * N_SEGMENTS if self.graded else 0
        linear = (2 * self.lags + 1) + alone * (2 * N_LAGS + 1)
        return linear * n_others + (self.lags + 1 + alone * (N_LAGS + 1)) * n_states
