"""Messages put side by side, and the scores' lag covariances, row by row."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal.server.joint import JointRecord, Scores
from skfedcausal.statespace.observation import Information
from skfedcausal.statespace.timedomain import TimeDomainLikelihood

from ..statespace._reference import assert_within, rounding, with_gaps
from ._reference import coupled_plant


def example(missing=0.0, starts=(0, 25), sizes=(2, 1), n_samples=40):
    coupled = coupled_plant(0, sizes, links=[(1, 0)])
    Y = coupled.simulate(n_samples, 1, starts)
    if missing:
        Y = with_gaps(Y, 2, missing)
    return coupled, Y, coupled.record(Y, starts)


def test_a_record_is_what_the_messages_say():
    coupled, Y, direct = example(missing=0.2)
    record = JointRecord.from_messages(coupled.messages(Y, (0, 25)))
    assert record.names == ("unit0", "unit1")
    assert record.starts == (0, 25)
    assert record.partition.sizes == (2, 1)
    assert record.n_samples == 40
    assert_array_equal(record.z, direct.z)
    assert_array_equal(record.matrices(), direct.matrices())


def test_units_are_put_into_the_order_asked_for():
    coupled, Y, _ = example()
    messages = coupled.messages(Y)
    turned = JointRecord.from_messages(messages, names=["unit1", "unit0"])
    assert turned.names == ("unit1", "unit0")
    assert_array_equal(turned.z, np.hstack([messages["unit1"].z, messages["unit0"].z]))


@pytest.mark.parametrize("names", [["unit0"], ["unit0", "unit1", "unit2"], ["unit0", "other"]], ids=str)
def test_missing_and_unknown_units_are_refused_by_name(names):
    coupled, Y, _ = example()
    with pytest.raises(ValueError, match=r"Messages came from \['unit0', 'unit1'\], expected one from each"):
        JointRecord.from_messages(coupled.messages(Y), names=names)


def test_messages_about_different_episodes_are_refused():
    coupled, Y, _ = example()
    messages = coupled.messages(Y)
    messages["unit1"] = replace(messages["unit1"], lengths=(10, 30))
    with pytest.raises(ValueError, match=r"different episodes: \{'unit0': \(40,\), 'unit1': \(10, 30\)\}"):
        JointRecord.from_messages(messages)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_matrices_are_those_of_the_sensors_present(missing):
    coupled, Y, record = example(missing)
    C, R = coupled.plant.C, np.diag(coupled.plant.R)
    for t, J in enumerate(record.matrices(slice(None))):
        seen = ~np.isnan(Y[t])
        expected = C[seen].T @ (C[seen] / R[seen, None])
        assert_within(J, expected, rounding(3) * np.abs(expected).max(initial=1))
    assert_array_equal(record.matrices(slice(3, 9)), record.matrices()[3:9])


def test_the_constant_is_summed_over_units_and_missing_if_any_unit_kept_it():
    _, _, record = example()
    assert_allclose(record.const(), record.parts[0].const + record.parts[1].const)
    one_kept = replace(record, parts=(record.parts[0], replace(record.parts[1], const=None)))
    assert one_kept.const() is None


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_other_states_change_the_likelihood_of_the_changed_plant_by_nothing(missing):
    coupled, _, record = example(missing)
    rng = np.random.default_rng(3)
    scale = [rng.normal(size=(p, p)) + 2 * np.eye(p) for p in (2, 1)]
    S = record.block_diagonal(scale)
    inverse = np.linalg.inv(S)
    A, Q = coupled.plant.A, coupled.plant.Q

    def value(record, A, Q):
        settings = record.regimes(), record.starts, 12
        return TimeDomainLikelihood(record.z, record.matrices, *settings).evaluate(A, Q).value

    changed = value(record.rescaled(scale), inverse @ A @ S, inverse @ Q @ inverse.T)
    # the level and the states are solved for in other units: conditioning of S twice
    error = rounding(record.z.size, np.linalg.cond(S) ** 2)
    assert changed == pytest.approx(value(record, A, Q), rel=error, abs=error)


def test_a_complete_record_has_one_regime():
    coupled, _, record = example()
    ((share, J),) = record.regimes()
    assert share == 1.0
    assert_within(J, coupled.plant.J, rounding(3) * np.abs(coupled.plant.J).max())


def test_an_absent_unit_makes_a_regime_of_its_own():
    coupled, Y, _ = example(starts=(0,), n_samples=400)
    Y[100:200, coupled.sensors[1]] = np.nan
    regimes = coupled.record(Y).regimes()
    assert len(regimes) == 2
    shares = [share for share, _ in regimes]
    assert sum(shares) == pytest.approx(1.0)
    # the edges of the gap may count as either, five rows (half a window) on each side
    assert abs(shares[1] - 0.25) <= 10 / 400
    own = coupled.partition.slices[1]
    assert np.abs(regimes[1][1][own, own]).max() <= 10 / 90 * np.abs(coupled.plant.J[own, own]).max()
    assert np.abs(regimes[1][1][:2, :2]).max() > 0


# --- scores -----------------------------------------------------------------------------------------


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
    _, Y, record = example()
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
    coupled, Y, _ = example()
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
    coupled, Y, _ = example()
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
    _, _, record = example()
    gradual, at_once = Scores(record), Scores(record)
    gradual.covariance()
    gradual.moments(2)
    for name in ("early", "cross", "late"):
        first, second = (getattr(s.moments(6), name) for s in (gradual, at_once))
        assert_within(first, second, rounding(40) * np.abs(second).max())


def test_varying_information_is_worth_less_than_its_mean():
    """Half the rows with information 1, half with 3: filtered variances 1 / 2 and 1 / 4 of a unit prior
    variance leave 3 / 8 on average, as a constant information of 5 / 3 would."""
    part = Information(np.zeros((4, 1)), np.array([[[1.0]], [[3.0]]]), np.array([0, 1, 0, 1]))
    record = JointRecord(("a",), (part,), (0,))
    assert record.regimes()[0][1].item() == pytest.approx(2)
    assert record.regimes([np.eye(1)])[0][1].item() == pytest.approx(5 / 3)
