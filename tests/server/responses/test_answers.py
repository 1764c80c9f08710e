"""Effects of a plant whose truth is known: errors, bands, timing, gaps and events."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import signal

from skfedcausal.server.responses import Record, learned_responses
from skfedcausal.server.responses.answers import _shrunk

N = 3000
A = np.array([[0.8, 0.1, 0.0], [0.0, 0.7, 0.1], [0.0, 0.0, 0.9]])
B = np.array([[0.5, 0.0], [0.0, 0.0], [0.0, 0.3]])  # the first input reaches the first state alone
SLICES = {"a": slice(0, 2), "b": slice(2, 3)}
BOTH = np.ones(2, dtype=bool)


def simulated(u, noise, at_once=False):
    h, states = np.zeros(3), np.zeros((len(u), 3))
    for t in range(len(u)):
        h = A @ h + B @ (u[t] if at_once else u[t - 1] if t else 0 * u[0]) + noise[t]
        states[t] = h
    return states


def record(states, u, starts=(0,)):
    return Record(states, u, starts, SLICES)


@pytest.fixture(scope="module")
def known():
    rng = np.random.default_rng(0)
    u = np.repeat(rng.standard_normal((N // 20, 2)), 20, axis=0)
    return u, 0.2 * rng.standard_normal((N, 3)), rng


@pytest.fixture(scope="module")
def learned(known):
    u, noise, _ = known
    return learned_responses(record(simulated(u, noise), u), BOTH)


def asked(learned, change, **settings):
    replies = learned.effects(change, **settings)
    effect = np.hstack([replies[name].states for name in SLICES])
    variance = np.hstack([np.diagonal(replies[name].covariances, axis1=1, axis2=2) for name in SLICES])
    return effect, np.sqrt(variance)


def truth(change, at_once=False):
    """Effect one row after each row of a change whose last row stays."""
    change = np.vstack([change, change[-1:]])
    return simulated(change, np.zeros((len(change), 3)), at_once)[1:]


@pytest.mark.parametrize("moved", [0, 1])
def test_effects_are_near_the_truth_and_within_bands(learned, moved):
    change = np.zeros((120, 2))
    change[5:, moved] = 1.0
    effect, std = asked(learned, change)
    expected = truth(change)
    assert np.linalg.norm(effect - expected) < 0.1 * np.linalg.norm(expected)
    assert (np.abs(effect - expected) <= 1.645 * std + 1e-12).mean() > 0.9
    assert not effect[:4].any()
    assert not std[:4].any()


def test_what_an_input_does_not_reach_has_no_effect(learned):
    effect, std = asked(learned, np.tile([1.0, 0.0], (100, 1)))
    assert np.abs(effect[:, 1:]).max() < 0.02 * np.abs(effect[:, 0]).max()
    assert (np.abs(effect[:, 1:]) < 1.645 * std[:, 1:]).all()
    assert learned.trust[0, 0] > 0.9


def test_effects_of_inputs_add_up_and_no_move_does_nothing(learned):
    one, other = np.tile([1.0, 0.0], (50, 1)), np.tile([0.0, -0.5], (50, 1))
    assert_allclose(asked(learned, one)[0] + asked(learned, other)[0], asked(learned, one + other)[0], atol=1e-12)
    assert not any(part.any() for part in asked(learned, 0 * one))


def test_bands_are_wider_beyond_what_was_seen(learned):
    change = np.tile([1.0, 0.0], (50, 1))
    inside, outside = (asked(learned, change, inputs=change * k)[1] for k in (0.1, 10.0))
    assert (outside[:, 0] > 2 * inside[:, 0]).all()


def test_inputs_act_in_their_own_row_where_they_may(known):
    u, noise, _ = known
    states = simulated(u, noise, at_once=True)
    change = np.tile([1.0, 0.0], (40, 1))
    change[:3] = 0.0
    right, late = (learned_responses(record(states, u), now) for now in (BOTH, ~BOTH))
    expected = truth(change, at_once=True)
    assert np.linalg.norm(asked(right, change)[0] - expected) < 0.1 * np.linalg.norm(expected)
    assert right.acts_at_once
    assert not late.acts_at_once
    assert right.losses.mean() < late.losses.mean()


def test_gaps_and_episodes_are_no_rows_in_a_row(known):
    u, noise, rng = known
    states = np.vstack([simulated(u[:1500], noise[:1500]), simulated(u[1500:], noise[1500:]) + 0.0])
    states[rng.integers(0, N, 8)] = np.nan
    found = learned_responses(record(states, u, (0, 1500)), BOTH)
    change = np.tile([1.0, 0.0], (60, 1))
    expected = truth(change)
    assert np.linalg.norm(asked(found, change)[0] - expected) < 0.1 * np.linalg.norm(expected)


def test_errors_of_slow_states_are_those_of_inputs_that_do_nothing():
    rng = np.random.default_rng(8)
    u = np.repeat(rng.standard_normal((N // 50, 2)), 50, axis=0)
    noise = 0.3 * rng.standard_normal((N, 3))
    states = simulated(u, noise)
    slow = signal.lfilter([1], [1, -0.997], rng.standard_normal(N))  # that nothing reaches
    found = learned_responses(record(np.column_stack([states[:, :2], slow]), u), BOTH)
    assert found.wider.min() >= 1
    assert found.wider[:, 2].mean() > 1.1 * found.wider[:, :2].mean()


def test_inputs_that_repeat_themselves_lose_no_effects():
    rng = np.random.default_rng(9)
    u = np.tile(np.repeat(rng.standard_normal((3, 2)), 50, axis=0), (N // 150, 1))  # shifts are by this period, too
    found = learned_responses(record(simulated(u, 0.3 * rng.standard_normal((N, 3))), u), BOTH)
    effect, std = asked(found, np.tile([1.0, 0.0], (60, 1)))
    assert (effect[20:, 0] > 3 * std[20:, 0]).all()


@pytest.mark.parametrize("n_samples", [0, 20, 60])
def test_records_that_tell_too_little_have_no_responses(known, n_samples):
    u, noise, _ = known
    states = np.full((N, 3), np.nan)
    states[:n_samples] = simulated(u, noise)[:n_samples]
    assert learned_responses(record(states, u), BOTH) is None


def test_jumps_of_the_news_make_bands_wider(known):
    u, noise, _ = known
    rng = np.random.default_rng(1)
    jumps = noise + 2.0 * (rng.uniform(size=(N, 3)) < 0.02) * rng.choice([-1.0, 1.0], (N, 3))
    calm, jumpy = (learned_responses(record(simulated(u, e), u), BOTH) for e in (noise, jumps))
    assert (jumpy.jumps > 0.3).all()
    assert (calm.jumps < 0.15).all()


def test_impulses_are_effects_of_single_rows(learned):
    loadings = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    found = learned.impulses(loadings, 30, np.zeros(2, dtype=bool))
    ahead = learned.impulses(loadings, 30, BOTH)
    for j in range(2):
        u = np.zeros((30, 2))
        u[0, j] = 1.0
        expected = simulated(u, np.zeros((30, 3))) @ loadings.T
        assert_allclose(found.mean[:, :, j].T, expected, atol=0.05)
    assert_allclose(ahead.mean[:, :-1], found.mean[:, 1:])
    assert found.draws.shape == (10, 2, 30, 2)


def test_matrices_give_the_same_effects_but_for_what_is_shrunk(learned):
    lagged, acting = learned.matrices()
    change = np.tile([1.0, 0.0], (30, 1))
    h = [np.zeros(3)] * len(lagged)
    u = [np.zeros(2)] * len(lagged) + [*change, change[-1]]
    for t in range(len(lagged), len(u)):
        h.append(sum(M @ h[-k] for k, M in enumerate(lagged, 1)) + sum(M @ u[t - k] for k, M in enumerate(acting)))
    assert_allclose(np.array(h[len(lagged) + 1 :])[:, 0], asked(learned, change)[0][:, 0], rtol=0.05)


def test_the_band_of_a_mean_follows_errors_through_the_rows(learned, known):
    change, over = np.zeros((60, 2)), slice(10, 50)
    change[5:, 0] = 1.0
    rows, std = asked(learned, change)
    with_mean, errors = asked(learned, change, over=over)
    assert_allclose(with_mean[:-1], rows)
    assert_allclose(errors[:-1], std)
    assert_allclose(with_mean[-1], rows[over].mean(axis=0))
    assert (errors[-1] < 0.95 * std[over].mean(axis=0))[1:].all()  # of states that are not moved
    true = truth(change)[over].mean(axis=0)
    assert (np.abs(with_mean[-1] - true) <= 2.58 * errors[-1] + 1e-12).all()  # 99 % of each


def test_nothing_has_a_mean_of_nothing(learned):
    effect, std = asked(learned, np.zeros((8, 2)), over=slice(2, 5))
    assert effect.shape == (9, 3)
    assert not effect.any()
    assert not std.any()


def test_shrinking_does_not_depend_on_which_states_a_unit_chose():
    rng = np.random.default_rng(0)
    effect, parts = rng.standard_normal((50, 4)), 0.3 * rng.standard_normal((10, 50, 4))
    other = rng.standard_normal((4, 4))
    found = _shrunk(effect, parts)
    assert np.linalg.norm(found) < np.linalg.norm(effect)
    # both sides solve with matrices of condition below 1e3
    assert_allclose(_shrunk(effect @ other, parts @ other), found @ other, atol=1e-6)
    assert not _shrunk(effect, 10 * parts).any()
    assert_allclose(_shrunk(effect, 0 * parts), effect, rtol=1e-6)


def test_timings_that_are_alike_leave_no_doubt(known):
    u, noise, _ = known
    kept = record(simulated(u, noise), u)
    later, at_once = (learned_responses(kept, now, looped=True) for now in (~BOTH, BOTH))
    both = replace(later, other=at_once)
    assert both.in_doubt.tolist() == [True, True]
    change = np.zeros((20, 2))
    change[3:, 0] = 1.0
    apart = np.hstack([reply.states for reply in both.between_timings(change).values()])
    doubt = np.hstack([later.effects(change)[k].states - at_once.effects(change)[k].states for k in SLICES])
    assert_allclose(apart, doubt)
    wide, narrow = asked(both, change)[1], asked(later, change)[1]
    assert_allclose(wide**2, narrow**2 + apart**2)
