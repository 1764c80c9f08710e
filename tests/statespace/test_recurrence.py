"""The blocked recurrence gives what a loop over time gives."""

import numpy as np
import pytest

from skfedcausal.statespace import kalman as recurrence
from skfedcausal.statespace.kalman import driven_recurrence

from ._reference import EPS, loop_recurrence

# one row, and one row less or more than blocks (8, 4 or 2 rows by size of F), blocks of blocks and so on
LENGTHS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 257)


def transition(rng, p, reach=0.9):
    """A matrix whose element-wise absolute values have spectral radius `reach`."""
    F = rng.normal(size=(p, p))
    return F * reach / np.abs(np.linalg.eigvals(np.abs(F))).max()


def assert_same_states(X, F, drive, x0=None):
    """Equal to the loop up to the rounding of nested inner products.

    However the products are grouped, the error is at most ``(number of roundings on a path) * eps`` times
    the same recurrence run on absolute values; a path through t steps has at most ``(p + 1) t`` of them.
    """
    expected = loop_recurrence(F, drive, x0)
    size = loop_recurrence(np.abs(F), np.abs(drive), None if x0 is None else np.abs(x0))
    error = 2 * (len(F) + 1) * len(drive) * EPS * size
    assert X.shape == expected.shape
    assert np.all(np.abs(X - expected) <= error)


@pytest.mark.parametrize("p", range(1, 41))
def test_states_equal_a_loop_over_time(p):
    rng = np.random.default_rng(p)
    F = transition(rng, p)
    for n_samples in LENGTHS:
        drive = rng.normal(size=(n_samples, p))
        assert_same_states(driven_recurrence(F, (drive, None)), F, drive)


@pytest.mark.parametrize("n_samples", [255, 256, 257, 511, 512, 513, 769, 1500])
@pytest.mark.parametrize("p", [1, 5, 8, 9, 33])
def test_chunks_hand_the_state_on(p, n_samples, monkeypatch):
    monkeypatch.setattr(recurrence, "_CACHE_BYTES", 1)  # the smallest chunk there is, 256 rows
    rng = np.random.default_rng(n_samples)
    F, drive, x0 = transition(rng, p), rng.normal(size=(n_samples, p)), rng.normal(size=p)
    assert_same_states(driven_recurrence(F, (drive, None), x0=x0), F, drive, x0)


@pytest.mark.parametrize("p", [1, 2, 8, 9])
def test_default_chunks_hand_the_state_on(p):
    n_samples = recurrence._CACHE_BYTES // (8 * p) + 3
    rng = np.random.default_rng(p)
    F, drive = transition(rng, p), rng.normal(size=(n_samples, p))
    assert_same_states(driven_recurrence(F, (drive, None)), F, drive)


@pytest.mark.parametrize("with_x0", [False, True])
@pytest.mark.parametrize("widths", [(3,), (None,), (3, 5), (None, 4), (4, None), (2, None, 6)])
def test_drives_and_start_add_up(widths, with_x0, monkeypatch):
    monkeypatch.setattr(recurrence, "_CACHE_BYTES", 1)
    rng = np.random.default_rng(0)
    p, n_samples = 4, 300
    F = transition(rng, p)
    x0 = rng.normal(size=p) if with_x0 else None
    drives, total = [], np.zeros((n_samples, p))
    for width in widths:
        Y = rng.normal(size=(n_samples, width or p))
        K = None if width is None else rng.normal(size=(p, width))
        drives.append((Y, K))
        total += Y if K is None else Y @ K.T
    assert_same_states(driven_recurrence(F, *drives, x0=x0), F, total, x0)


@pytest.mark.parametrize("p", [1, 2, 9, 33])
def test_series_together_are_those_of_each_alone(p, monkeypatch):
    monkeypatch.setattr(recurrence, "_CACHE_BYTES", 1)
    rng = np.random.default_rng(p)
    F = transition(rng, p)
    for n_samples in (*LENGTHS, 300):
        drive, K, x0 = rng.normal(size=(3, n_samples, 4)), rng.normal(size=(p, 4)), rng.normal(size=(3, p))
        together = driven_recurrence(F, (drive[:, ::-1], K), x0=x0)
        for states, rows, start in zip(together, drive, x0, strict=True):
            assert_same_states(states, F, rows[::-1] @ K.T, start)


def test_result_is_written_to_the_array_given_and_inputs_are_left_alone():
    rng = np.random.default_rng(1)
    F, Y, K = transition(rng, 3), rng.normal(size=(100, 5)), rng.normal(size=(3, 5))
    extra, x0 = rng.normal(size=(100, 3)), rng.normal(size=3)
    inputs = (F, Y, K, extra, x0)
    copies = [x.copy() for x in inputs]
    table = np.full((120, 3), np.nan)
    result = driven_recurrence(F, (extra, None), (Y, K), x0=x0, out=table[10:110])
    assert np.shares_memory(result, table)
    assert_same_states(table[10:110], F, Y @ K.T + extra, x0)
    assert np.isnan(table[:10]).all()
    assert np.isnan(table[110:]).all()
    for x, copy in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(x, copy)


def test_reversed_views_run_the_recurrence_backwards():
    rng = np.random.default_rng(2)
    F, Y, K = transition(rng, 3), rng.normal(size=(100, 5)), rng.normal(size=(3, 5))
    extra = rng.normal(size=(100, 3))
    backwards = driven_recurrence(F, (Y[::-1], K), (extra[::-1], None))
    np.testing.assert_array_equal(backwards, driven_recurrence(F, (Y[::-1].copy(), K), (extra[::-1].copy(), None)))
    # and as a recurrence on the original order: x[t] = F x[t+1] + g[t]
    x, g = backwards[::-1], Y @ K.T + extra
    scale = np.abs(F) @ np.abs(x[1:, :, None]) + np.abs(g[:-1, :, None])
    error = np.abs(x[:-1] - x[1:] @ F.T - g[:-1])
    assert np.all(error <= 2 * (3 + 1) * 100 * EPS * scale[..., 0].max())


def test_a_cumulative_sum_keeps_its_precision():
    rng = np.random.default_rng(3)
    drive = rng.normal(size=(20_000, 2))
    assert_same_states(driven_recurrence(np.eye(2), (drive, None)), np.eye(2), drive)


def test_a_growing_recurrence_keeps_its_relative_precision():
    rng = np.random.default_rng(4)
    F, drive = transition(rng, 3, reach=1.2), rng.normal(size=(300, 3))
    assert_same_states(driven_recurrence(F, (drive, None)), F, drive)


@pytest.mark.parametrize("t", [1, 8, 63, 64, 65, 300])
def test_later_drives_do_not_reach_earlier_states(t):
    rng = np.random.default_rng(5)
    F, drive = transition(rng, 3), rng.normal(size=(400, 3))
    changed = drive.copy()
    changed[t:] = rng.normal(size=(400 - t, 3))
    before, after = (driven_recurrence(F, (g, None)) for g in (drive, changed))
    np.testing.assert_array_equal(before[:t], after[:t])  # exactly: later rows enter with weight zero
    assert not np.array_equal(before[t], after[t])


def test_integer_drives_give_the_states_of_floats():
    drive = np.arange(60).reshape(20, 3)
    F = np.diag([0.5, 0.25, -0.5])
    np.testing.assert_array_equal(driven_recurrence(F, (drive, None)), driven_recurrence(F, (drive * 1.0, None)))
