"""What inputs do, and how well it is known."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from skfedcausal.message.states import StateMessage
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.watching.inputs import InputResponse, Outside
from skfedcausal.server.watching.thresholds import RATES, ewma

A = np.array([[0.7, 0.2], [0.0, 0.8]])
B = np.array([[1.0], [0.5]])
N = 1500


def moves(n_rows, rng, every=80):
    """An input that jumps now and then."""
    jumps = rng.random(n_rows) < 1 / every
    jumps[0] = True
    return rng.standard_normal(jumps.sum())[np.cumsum(jumps) - 1][:, None]


def states(u, rng, noise=1.0):
    x, out = np.linalg.solve(np.eye(2) - A, B @ u[0]), []
    for row in u:
        x = A @ x + B @ row + noise * rng.standard_normal(2)
        out.append(x)
    return np.array(out)


def messages(u, rng, **settings):
    x = states(u, rng)
    one = StateMessage(x, np.eye(2)[None], None, (len(u),), inputs=u, input_matrix=np.eye(1), **settings)
    return {"unit": one}


@pytest.mark.medium
def test_averages_of_errors_are_in_doubt_by_what_the_response_is_wrong_by():
    """What responses learned from many records are wrong by at a level varies as the doubt says."""
    rng, ratios = np.random.default_rng(0), []
    truth = np.linalg.solve(np.eye(2) - A, B[:, 0] * 1.5)
    for _ in range(150):
        record = JointRecord.from_messages(messages(moves(600, rng), rng))
        response = InputResponse.learn(record)
        found, _ = response.follow(np.full((300, 1), response.mean + 1.5), None, (None,))
        wrong = (np.eye(2) - A) @ (truth - found.response[-1])
        ratios.append(np.mean(wrong**2) / ((found.doubt[-1, 1] - 1) / 39))
    # four standard errors of a mean of 300 squares
    assert abs(np.mean(ratios) - 1) < 4 * np.sqrt(2 / 300)


@pytest.mark.medium
def test_a_response_takes_from_averages_of_its_own_record_what_it_says():
    """The squares of averaged errors of the record that it was learned from, over those of its true innovations."""
    rng, seen, said = np.random.default_rng(0), [], []
    for _ in range(100):
        u = moves(600, rng)
        record = JointRecord.from_messages(messages(u, rng))
        response = InputResponse.learn(record)
        parts = [response.follow(u, None, (None,))[0]]
        noise = record.z - np.vstack([record.z[:1], record.z[:-1]]) @ A.T - u @ B.T
        bare = record.z - parts[0].response
        found, true = (bare - bare.mean(axis=0))[1:], (noise - noise[1:].mean(axis=0))[1:]
        found -= (bare - bare.mean(axis=0))[:-1] @ A.T
        seen.append([np.mean(ewma(found, rate) ** 2) / np.mean(ewma(true, rate) ** 2) for rate in RATES[1:]])
        said.append(response.studentised(parts).kept)
    away = np.array(seen) - np.array(said)
    assert (np.mean(said, axis=0) < [0.97, 0.9]).all()
    assert (np.abs(away.mean(axis=0)) < 4 * away.std(axis=0) / np.sqrt(len(away))).all()


def test_doubt_grows_with_the_distance_and_lasts():
    rng = np.random.default_rng(1)
    response = InputResponse.learn(JointRecord.from_messages(messages(moves(N, rng), rng)))
    doubts = []
    for size in (0.0, 1.0, 2.0):
        u = np.repeat(response.mean[None] + [[size]], 300, axis=0)
        u[:100] = response.mean
        found, after = response.follow(u, None, (None,))
        assert found.doubt.shape == (300, len(RATES) - 1)
        assert_allclose(found.doubt[:100], 1.0, atol=1e-6)
        doubts.append(found.doubt[-1])
        first, state = response.follow(u[:150], None, (None,))
        rest, end = response.follow(u[150:], state, (None,))
        assert_allclose(np.vstack([first.doubt, rest.doubt]), found.doubt, rtol=1e-9)
        assert_allclose(end.regressors, after.regressors, atol=1e-12)
        # known by itself where the plant was learned anew
        assert_allclose(response.follow(u[-5:], after, (after,))[0].doubt, 1.0, atol=1e-3)
    assert (doubts[0] <= doubts[1]).all()
    assert_allclose((doubts[2] - 1) / (doubts[1] - 1), 4.0, rtol=1e-3)


def test_what_is_known_of_levels_of_inputs():
    rng = np.random.default_rng(2)
    u = np.hstack([moves(N, rng), np.zeros((N, 1))])
    one = StateMessage(states(u[:, :1], rng), np.eye(2)[None], None, (N,), inputs=u, input_matrix=np.eye(2))
    response = InputResponse.learn(JointRecord.from_messages({"unit": one}))
    far = 2 * response.reach[0] * np.ones((5, 1))
    for inputs, unknown in (
        (np.hstack([0 * far, 0 * far]), 0),
        (np.hstack([far, 0 * far]), 1),  # the response may foresee it
        (np.hstack([0 * far, far]), 2),  # nothing is known of an input that never moved
    ):
        assert (response.follow(response.mean + inputs, None, (None,))[0].unknown == unknown).all()


def test_how_far_inputs_are_beyond_their_ranges_is_forgotten_as_the_slowest_average_forgets():
    rng = np.random.default_rng(2)
    u = np.hstack([moves(N, rng), np.zeros((N, 1))])
    one = StateMessage(states(u[:, :1], rng), np.eye(2)[None], None, (N,), inputs=u, input_matrix=np.eye(2))
    response = InputResponse.learn(JointRecord.from_messages({"unit": one}))
    low, high = response.limits[:, 0]
    assert not response.follow(u, None, (None,))[0].beyond.any()
    new = np.zeros((400, 2))
    new[100:120, 0] = high + 0.25 * (high - low)
    new[110:115, 0] = low - 10 * (high - low)  # no farther than where nothing more is said
    found, _ = response.follow(new, None, (None,))
    assert_allclose(found.beyond[100:110], 0.5)
    assert_allclose(found.beyond[110:115], 1.0)
    assert_allclose(found.beyond[119:137], 0.97 ** np.arange(5, 23))
    assert not found.beyond[:100].any()
    assert not found.beyond[-100:].any()
    first, state = response.follow(new[:112], None, (None,))
    rest = [first.beyond]
    for row in new[112:]:
        part, state = response.follow(row[None], state, (None,))
        rest.append(part.beyond)
    assert_allclose(np.concatenate(rest), found.beyond, atol=1e-12)
    new[:, 1] = 1e-3  # of an input that never moved nothing is known, but where the level was learned
    found, there = response.follow(new[:50], None, (None,))
    assert_allclose(found.beyond, 1.0)
    assert not response.follow(new[:50], None, (there,))[0].beyond.any()


def test_off_subspace_numbers_are_as_usual_wherever_states_are():
    rng = np.random.default_rng(4)
    r = np.outer(rng.standard_normal(4000), [1.0, 2.0])
    distance = np.column_stack([rng.chisquare(2, 4000) * (1 + r[:, 0] ** 2)])
    outside = Outside(r, distance, (slice(0, 2),))
    new = np.outer(np.full(2000, 3.0), [1.0, 2.0])
    told = SimpleNamespace(off_subspace=rng.chisquare(2, 2000) * 10)
    came = {"unit": StateMessage(np.zeros((2000, 2)), np.eye(2)[None], None, (2000,), off_subspace=told.off_subspace)}
    found = outside.without(came, new)["unit"].off_subspace
    assert found.mean() == pytest.approx(distance.mean(), rel=0.15)
    # of states that never moved there is nothing to take off
    still = Outside(0 * r, distance, (slice(0, 2),)).without(came, new)["unit"].off_subspace
    assert_allclose(still, told.off_subspace)


def test_off_subspace_numbers_are_as_rarely_large_wherever_states_are():
    rng = np.random.default_rng(5)

    def came(r):
        noise = rng.standard_normal((len(r), 2)) + 3 * r[:, :1] * [1.0, 0.0]  # noncentral chi-square
        return (noise**2).sum(axis=1)

    r = np.repeat(rng.standard_normal(200), 40)[:, None] * [1.0, 2.0]
    outside = Outside(r, came(r)[:, None], (slice(0, 2),))
    for level in (0.0, 0.5, 1.0):
        new = np.full((40000, 1), level) * [1.0, 2.0]
        one = StateMessage(np.zeros((40000, 2)), np.eye(2)[None], None, (40000,), off_subspace=came(new))
        found = outside.without({"unit": one}, new)["unit"].off_subspace
        # of a chi-square of two, 1 % are above 4.6 times the mean; each mean is known to some 5 %
        assert (found > 4.6 * found.mean()).mean() == pytest.approx(0.01, rel=0.35)


def test_off_subspace_numbers_of_far_states_vary_as_noncentral_ones_at_least():
    """Of n degrees of freedom, with mean 1 + q: variance 2 (1 + 2 q) / n. Numbers of a few far rows may feign less."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((6000, 1)) ** 3
    numbers = np.square(rng.standard_normal((6000, 3)) + [0.3, 0.0, 0.0] * x).sum(axis=1)
    calm = np.where(np.abs(x[:, 0]) > 5, 3 * (1 + 0.03 * x[:, 0] ** 2), numbers)  # as expected to the digit
    for seen in (numbers, calm):
        variance = Outside(x, seen[:, None], (slice(0, 1),))._expected[0][2]
        assert variance[0] == pytest.approx(2 / 3, rel=0.1)
        assert variance[1] == 2 * variance[0]
