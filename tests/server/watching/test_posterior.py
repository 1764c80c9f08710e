"""Posterior over roots on innovations simulated under the plant that it knows."""

import numpy as np

from skfedcausal.server.watching.posterior import Nominal, RootPosterior
from skfedcausal.server.watching.root_answers import Look, shift_answers
from skfedcausal.server.watching.root_cause import NAMED_FROM_START
from skfedcausal.statespace.detection.shift import (
    InnovationModel,
    likelihood_ratios,
    step_information,
    step_scores,
)

N_UNITS, N_ROWS = 4, 120
SLICES = tuple(slice(2 * m, 2 * m + 2) for m in range(N_UNITS))


def _posterior():
    rng = np.random.default_rng(3)
    n = 2 * N_UNITS
    A = rng.standard_normal((n, n))
    model = InnovationModel(0.8 * A / np.abs(np.linalg.eigvals(A)).max(), 0.25 * np.eye(n), 4 * np.eye(n))
    dims = np.full(N_UNITS, 4.0)
    nominal = Nominal(dims, dims / 2, np.zeros((n, n)), 3000, 1.0)
    return RootPosterior(model, SLICES, np.full(N_UNITS, 1 / N_UNITS), N_ROWS, 80, nominal), model


def _windows(model, n_windows, size, rng):
    """Scaled innovations of windows with a weak fault of one unit from the first row on."""
    root = np.linalg.cholesky(model.weight)
    for _ in range(n_windows):
        unit, push, shift = rng.integers(N_UNITS), np.zeros(len(model.A)), np.zeros(len(model.A))
        direction = rng.standard_normal(2)
        push[SLICES[unit]] = size * direction / np.linalg.norm(direction)
        u = rng.standard_normal((N_ROWS, len(root))) @ root.T
        for row in u:
            shift = push + model.carry @ shift
            row += model.weight @ shift
        yield unit, u


def test_weak_faults_in_a_named_window_are_found_as_often_as_by_their_likelihood_ratio():
    posterior, model = _posterior()
    information = step_information(model.carry, model.weight, N_ROWS)[-1:]
    rng, hits = np.random.default_rng(0), []
    for unit, u in _windows(model, 700, 0.1, rng):
        outside = rng.chisquare(2, (N_ROWS, N_UNITS)) / 2
        window = u, np.zeros_like(u), outside
        found = posterior.from_shift([window], len(u), at_once=NAMED_FROM_START)[0]
        scores = step_scores(model, u)[:1]
        ratios = [likelihood_ratios(scores, information, b)[0] for b in SLICES]
        hits.append((found.probability.argmax() == unit, np.argmax(ratios) == unit))
    found, best = np.array(hits, dtype=float).T
    assert 0.4 < best.mean() < 0.7  # weak enough to go wrong
    error = (found - best).std() / np.sqrt(len(hits))
    # a tenth of the prior on other onsets would cost 0.05
    assert found.mean() > best.mean() - 0.01 - 2 * error


def test_evidence_of_an_onset_that_is_known_is_that_of_the_first_row_alone():
    posterior, model = _posterior()
    ((_, u),) = _windows(model, 1, 0.5, np.random.default_rng(1))
    outside = np.ones((N_ROWS, N_UNITS))
    window = u, np.zeros_like(u), outside
    known = posterior.from_shift([window], len(u), at_once=1.0)[0]
    first = posterior.from_shift([window], 1)[0]
    np.testing.assert_allclose(known.probability, first.probability, rtol=1e-9)
    np.testing.assert_allclose(known.evidence, first.evidence, rtol=1e-9)
    assert known.onset == first.onset == 0


def test_windows_together_are_answered_as_each_alone():
    """Whatever their lengths: rows after the end of the shorter ones say nothing."""
    posterior, model = _posterior()
    rng = np.random.default_rng(4)
    windows = []
    for (_, u), n_rows in zip(_windows(model, 4, 0.5, rng), (N_ROWS, 61, 30, 90), strict=True):
        outside = rng.chisquare(2, (n_rows, N_UNITS)) / 2
        windows.append((u[:n_rows], rng.standard_normal((n_rows, u.shape[1])), outside))
    together = posterior.from_shift(windows, 30)
    for window, found in zip(windows, together, strict=True):
        (alone,) = posterior.from_shift([window], 30)
        np.testing.assert_allclose(found.probability, alone.probability, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.evidence, alone.evidence, rtol=1e-12)
        np.testing.assert_allclose(found.sensor, alone.sensor, rtol=0, atol=1e-12)
        assert (found.onset, found.explains) == (alone.onset, alone.explains)


def test_looks_are_answered_in_their_order_however_many_onsets_they_have():
    posterior, model = _posterior()
    rng = np.random.default_rng(5)
    u = np.concatenate([u for _, u in _windows(model, 3, 0.5, rng)])
    series = u, np.zeros_like(u), rng.chisquare(2, (len(u), N_UNITS)) / 2

    def rows(begin, end):
        return [each[begin:end] for each in series]

    looks = [Look(max(d - 40, 0), d, (d + 50, d + 9)[: 1 + d % 2]) for d in range(5, 300, 9)]
    answers = shift_answers(posterior, rows, looks)
    for look, found in zip(looks, answers, strict=True):
        assert len(found) == len(look.ends)
        for end, answer in zip(look.ends, found, strict=True):
            (alone,) = posterior.from_shift([rows(look.begin, end)], look.detected - look.begin + 1)
            assert answer.start == look.begin + alone.onset
            np.testing.assert_allclose(answer.probability, alone.probability, rtol=0, atol=1e-12)
