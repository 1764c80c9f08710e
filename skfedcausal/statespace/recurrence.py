"""Linear recurrences over time without a Python loop over time.

``x[t] = F x[t-1] + g[t]`` is the inner loop of every filter, smoother and simulation here. A chunk of
rows is solved by block elimination: rows are grouped in blocks, the state at the end of each block
obeys the same recurrence with ``F ** block`` (so it is solved by the same function, one level down),
and once the block ends are known every block is one product with a block-Toeplitz matrix of powers
of ``F``. All work is in matrix products; a chunk and its buffers stay in cache.
"""

from typing import NamedTuple

import numpy as np

_CHUNK_BYTES = 1 << 19  # a chunk of states and its buffer stay in the second-level cache


class _Level(NamedTuple):
    """Matrices that solve the recurrence inside blocks of one level."""

    block: int
    toeplitz: np.ndarray  # (block * p, block * p): row of inputs -> row of states
    last: np.ndarray  # (block * p, p): row of inputs -> state at the end of the block
    step: np.ndarray  # F, transposed


def _levels(F, rows):
    """Levels for up to `rows` rows and the matrix that steps from block end to block end."""
    p, levels = len(F), []
    block = 8 if p <= 8 else 4 if p <= 32 else 2
    while rows >= 2 * block:
        powers = [np.eye(p)]
        for _ in range(block - 1):
            powers.append(powers[-1] @ F)
        toeplitz = np.zeros((block * p, block * p))
        for out in range(block):
            for source in range(out + 1):
                at = slice(source * p, (source + 1) * p), slice(out * p, (out + 1) * p)
                toeplitz[at] = powers[out - source].T
        last = np.ascontiguousarray(toeplitz[:, -p:])
        levels.append(_Level(block, toeplitz, last, np.ascontiguousarray(F.T)))
        F = powers[-1] @ F
        rows //= block
    return levels, F


def _solve(g, out, levels, F_last):
    """Write the states driven by `g` (overwritten) from a zero start into `out`."""
    *batch, n_rows, p = g.shape
    if not levels:
        x = out[..., 0, :] = g[..., 0, :]
        for t in range(1, n_rows):
            x = out[..., t, :] = x @ F_last.T + g[..., t, :]
        return
    level = levels[0]
    n_blocks = n_rows // level.block
    rows = n_blocks * level.block
    if n_blocks:
        in_blocks = (*batch, n_blocks, level.block * p)
        blocks = g[..., :rows, :].reshape(in_blocks)
        if n_blocks > 1:
            ends = blocks[..., :-1, :] @ level.last
            _solve(ends, ends, levels[1:], F_last)
            blocks[..., 1:, :p] += ends @ level.step  # the state before a block acts like an input to it
        np.matmul(blocks, level.toeplitz, out=out[..., :rows, :].reshape(in_blocks))
    if rows < n_rows:
        rest = g[..., rows:, :].reshape(*batch, -1)
        if rows:
            rest[..., :p] += out[..., rows - 1, :] @ level.step
        k = rest.shape[-1]
        np.matmul(rest, level.toeplitz[:k, :k], out=out[..., rows:, :].reshape(*batch, k))


class Recurrence:
    """A recurrence whose powers of ``F`` are prepared once, for use on many records."""

    def __init__(self, F, n_rows=1 << 62):
        self._F = np.ascontiguousarray(F, dtype=float)
        self._chunk = min(n_rows, max(256, _CHUNK_BYTES // (8 * len(self._F))))
        self._levels, self._F_last = _levels(self._F, self._chunk)

    def run(self, *drives, offset=None, x0=None, out=None):
        """States of the recurrence, see :func:`driven_recurrence`."""
        *batch, n_samples, _ = drives[0][0].shape
        p = len(self._F)
        X = np.empty((*batch, n_samples, p)) if out is None else out
        if n_samples == 0:
            return X
        turned = [(Y, None if K is None else np.ascontiguousarray(K.T)) for Y, K in drives]
        buffer = np.empty((*batch, min(n_samples, self._chunk), p))
        x = x0
        for start in range(0, n_samples, self._chunk):
            stop = min(n_samples, start + self._chunk)
            g = buffer[..., : stop - start, :]
            for k, (Y, KT) in enumerate(turned):
                rows = Y[..., start:stop, :]
                if k > 0:
                    g += rows if KT is None else rows @ KT
                elif KT is None:
                    np.copyto(g, rows)
                else:
                    np.matmul(rows, KT, out=g)
            if offset is not None:
                g += offset
            if x is not None:
                g[..., 0, :] += x @ self._F.T
            _solve(g, X[..., start:stop, :], self._levels, self._F_last)
            x = X[..., stop - 1, :]
        return X


def driven_recurrence(F, *drives, offset=None, x0=None, out=None):
    """States of ``x[t] = F x[t-1] + sum_i K_i y_i[t] + offset``, shape (..., n_samples, p).

    A value that is not finite spoils the block of rows it lies in, not only the later ones. Costs one
    product ``Y K'`` per drive plus about ``2 * block * p**2`` flops per row; beyond the output, memory is a
    fixed buffer of about half a megabyte.
    """
    return Recurrence(F, drives[0][0].shape[-2]).run(*drives, offset=offset, x0=x0, out=out)
