"""The protocol of secure sums: what a unit, the dealer and the server compute, and of which series."""

import numpy as np

from ..statespace.episodes import episode_lengths, remove_episode_means
from ..statespace.held_out import LOCAL, N_LAGS, LaggedRows
from ..statespace.lag_products import N_SEGMENTS, segments
from ..statespace.lines import without_lines

# The protocol of secure sums with masks that are given: what a unit, the dealer and the server compute.
#
# Series lie side by side, ``slices`` say which columns are whose. A pair of masks ``(behind, ahead)`` covers what
# one unit says about one other: products of the other's later rows with its own mask, and of its own mask's later
# rows with the other's.


def masked_products(mask, others, slices, masks, products):
    """A unit's products of its mask (T, p) with the masked series of all others (T, o), a pair of masks over each."""
    behind, ahead = products(others, mask), products(mask, others)
    for rows, (over_behind, over_ahead) in zip(slices, masks, strict=True):
        behind[:, rows] += over_behind
        ahead[:, :, rows] += over_ahead
    return behind, ahead


def mask_corrections(series_masks, slices, masks, products):
    """The dealer's products of all masks (T, n), less the masks of the units' products by (unit, other), (k, n, n)."""
    corrections = products(series_masks, series_masks)
    for own in slices:
        corrections[:, own, own] = 0
    for (unit, other), (behind, ahead) in masks.items():
        corrections[:, slices[other], slices[unit]] -= behind
        corrections[:, slices[unit], slices[other]] -= ahead
    return corrections


def opened_products(masked, slices, replies, corrections, products):
    """The server's sums of products of all series, (k, n, n); `replies` are (behind, ahead) by (unit, other)."""
    total = products(masked, masked) + corrections
    for (unit, other), (behind, ahead) in replies.items():
        total[:, slices[other], slices[unit]] += behind
        total[:, slices[unit], slices[other]] += ahead
    return total


# The series whose products are summed: a unit's scores, faded in and out at the ends of episodes.
#
# Sums at neighbouring lags over a whole record differ by products of its first and last rows alone, which would tell
# these rows. A record that begins and ends with zero has none of that, and the fade (a cosine bell [1]_) also takes
# away most of the bias that such sums have for slow states.
#
# Grades (:mod:`skfedcausal.server.links.grades`) rest on products in each of some segments of the record, of series as
# recorded and of those less lines of their own for short pieces, both faded in and out in every segment.
#
# References
# ----------
# .. [1] Dahlhaus (1988), Small sample effects in time series analysis: a new asymptotic theory and a new estimate,
#        Annals of Statistics 16(2).

MOST = 0.5  # equations about its series, as a share of its rows, that a unit answers unless it says otherwise
_TINY = 1e-12  # of unit variance: what rounding leaves of nothing
_SHARE, _LEAST = 100, 8  # an episode fades over a hundredth of its rows at either end, over 8 rows at least


def fade(lengths):
    """Weights of the rows of episodes, zero in the first and last row of each, shape (n_rows,)."""
    return np.concatenate([_bell(length) for length in lengths])


def _bell(length):
    """Weights of the rows of one episode, (length,), a cosine bell at either end."""
    ramp = max(length // _SHARE, _LEAST)
    if length < 4 * ramp:
        raise ValueError(f"Secure sums need episodes of at least {4 * _LEAST} rows; one has {length}.")
    weights = np.ones(length)
    weights[:ramp] = (1 - np.cos(np.pi * np.arange(ramp) / ramp)) / 2
    weights[-ramp:] = weights[:ramp][::-1]
    return weights


def faded_scores(z, J, starts):
    """Scores ``J^-1 z`` less their mean in each episode, faded in and out, shape (n_rows, n_states)."""
    scores = remove_episode_means(z @ np.linalg.inv(J), starts, copy=False)
    return scores * fade(episode_lengths(starts, len(z)))[:, None]


def effective_rows(lengths):
    """Rows that sums of squares of faded series stand for, and rows that their scatter is that of."""
    squares = fade(lengths) ** 2
    return float(squares.sum()), float(squares.sum() ** 2 / np.square(squares).sum())


def can_be_graded(n_rows):
    """Whether a record is long enough for sums in segments."""
    return n_rows >= N_SEGMENTS * 4 * _LEAST


def are_answered(sums, sizes):
    """Whether no unit refuses sums, of units with so many states each, that says nothing of its own limit."""
    most = max(sums.equations(size, sum(sizes) - size) for size in sizes)
    return most <= MOST * sum(sums.lengths)


def _segment_weights(n_rows, starts):
    """Weights (n_rows,): faded in every segment, and nothing where a lag would reach over the start of an episode."""
    weights = fade([rows.stop - rows.start for rows in segments(n_rows)[:N_SEGMENTS]])
    for start in starts:
        weights[start : start + N_LAGS] = 0.0
    return weights


def rows_of_segments(n_rows, starts):
    """Rows that the sums of each segment stand for, shape (N_SEGMENTS,)."""
    squares = np.square(_segment_weights(n_rows, starts))
    return np.array([squares[rows.start - n_rows : rows.stop - n_rows].sum() for rows in segments(n_rows)[:N_SEGMENTS]])


def graded_series(z, J, starts):
    """A unit's scores for sums in segments, as recorded and less lines, of unit mean square, shape (2 n_rows, p)."""
    scores = remove_episode_means(z @ np.linalg.inv(J), starts, copy=False)
    own = (slice(0, scores.shape[1]),)
    recorded = without_lines(scores / scores.std(axis=0), own, starts)
    rows = LaggedRows.of(recorded, own, starts, 0)
    local = np.mean([rows.around_lines(LOCAL, first).values for first in (0, LOCAL // 2)], axis=0)
    weights = _segment_weights(len(z), starts)[:, None]
    parts = np.stack([recorded * weights, local * weights])
    scale = np.sqrt(np.square(parts).mean(axis=1, keepdims=True))
    if not (scale > _TINY).all():
        raise ValueError(
            f"A state is a line within every {LOCAL} rows, of which there are no grades; give fewer states."
        )
    return np.concatenate(parts / scale)
