"""Scores and their covariances, row by row."""

import numpy as np
import pytest

from skfedcausal.server.joint import Scores

from ..statespace._reference import assert_within, rounding
from ._reference import coupled_record


def loop_covariance(scores, present, starts, lag):
    """Products of rows of the same episode, only where both units were seen, each series centred there."""
    T, n = scores.shape
    bounds = [*starts, T]
    total = np.zeros((n, n))
    for start, stop in zip(bounds[:-1], bounds[1:], strict=True):
        x = scores[start:stop].copy()
        seen = present[start:stop]
        for j in range(n):
            x[:, j] -= x[seen[:, j], j].mean()
        x[~seen] = 0.0
        for t in range(lag, len(x)):
            total += np.outer(x[t], x[t - lag])
    return total


def last_bits(expected):
    """What covariances of this size may lose without their last bits."""
    return 2.0**-31 * np.abs(expected).max()


def test_covariance_of_complete_scores():
    _, Y, record = coupled_record()
    s = np.hstack([np.linalg.solve(p.patterns[0], p.z.T).T for p in record.parts])
    scores = Scores(record)
    expected = loop_covariance(s, np.ones(s.shape, dtype=bool), (0, 25), 0) / len(Y)
    error = rounding(len(Y), 100) * np.abs(expected).max()
    assert_within(scores.covariance(), expected, error + last_bits(expected))
    for N, part in zip(scores.noise, record.parts, strict=True):
        expected = np.linalg.inv(part.patterns[0])
        error = rounding(len(N), np.linalg.cond(N)) * np.abs(expected).max()
        assert_within(N, expected, error + last_bits(expected))


def test_rows_that_do_not_determine_the_states_are_left_out():
    coupled, Y, _ = coupled_record()
    Y[5:9, coupled.sensors[0]] = np.nan
    Y[30, 1:3] = np.nan  # one sensor for two states
    Y[12, 0] = np.nan  # two sensors for two states
    record = coupled.record(Y, (0, 25))
    present = np.ones((len(Y), 3), dtype=bool)
    present[[5, 6, 7, 8, 30], :2] = False
    s = np.zeros((len(Y), 3))
    for t in range(len(Y)):
        J = record.matrices(slice(t, t + 1))[0]
        for own in coupled.partition.slices:
            if present[t, own].all():
                s[t, own] = np.linalg.solve(J[own, own], record.z[t, own])
    seen = present.astype(float)
    expected = loop_covariance(s, present, (0, 25), 0) / (seen.T @ seen)
    error = rounding(len(Y), 100) * np.abs(expected).max()
    assert_within(Scores(record).covariance(), expected, error + last_bits(expected))


def test_noise_of_scores_is_its_average_over_the_rows_that_have_one():
    coupled, Y, _ = coupled_record()
    Y[12, 0] = np.nan
    Y[5:9, coupled.sensors[0]] = np.nan
    noise = Scores(coupled.record(Y, (0, 25))).noise[0]
    C, R = coupled.own(0)
    full = np.linalg.inv(C.T @ np.linalg.solve(R, C))
    partial = np.linalg.inv(C[1:].T @ np.linalg.solve(R[1:, 1:], C[1:]))
    expected = (35 * full + partial) / 36
    error = rounding(2, np.linalg.cond(partial)) * np.abs(expected).max()
    assert_within(noise, expected, error + last_bits(expected))


def test_more_lags_on_demand_are_those_asked_for_at_once():
    _, _, record = coupled_record()
    gradual, at_once = Scores(record), Scores(record)
    gradual.covariance()
    gradual.moments(2)
    for name in ("early", "cross", "late"):
        first, second = (getattr(s.moments(6), name) for s in (gradual, at_once))
        assert_within(first, second, rounding(40) * np.abs(second).max())


@pytest.mark.parametrize("has_gaps", [False, True])
def test_covariances_of_units_some_at_a_time_are_blocks_of_that_of_all(has_gaps):
    coupled, Y, _ = coupled_record()
    if has_gaps:
        Y[5:9, coupled.sensors[0]] = np.nan
    record = coupled.record(Y, (0, 25))
    scores = Scores(record)
    for one, both in zip(scores.unit_covariances(1), scores.unit_covariances(), strict=True):
        np.testing.assert_allclose(one, both, rtol=0, atol=last_bits(both))
