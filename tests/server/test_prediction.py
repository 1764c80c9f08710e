"""The plant's filter over messages against the dense Gaussian of all raw measurements."""

from dataclasses import replace

import numpy as np
import pytest

from skfedcausal.server.dynamics import PlantFilter, smooth_record
from skfedcausal.server.joint import JointRecord

from ..statespace._reference import (
    assert_within,
    brute_force,
    brute_force_rounding,
    generalised_least_squares,
    with_gaps,
)
from ._reference import coupled_plant

STARTS = (0, 9)
CASES = pytest.mark.parametrize("missing", [0.0, 0.3, "unit absent"], ids=str)


def example(missing, n_samples=16):
    coupled = coupled_plant(2, (2, 1), links=[(1, 0), (0, 1)], strength=0.3, radius=0.5)
    Y = coupled.simulate(n_samples, 1, STARTS)
    if missing == "unit absent":
        Y[4:12, coupled.sensors[0]] = np.nan
    elif missing:
        Y = with_gaps(Y, 2, missing, rows=[3])
    return coupled, Y, PlantFilter(coupled.plant.A, coupled.plant.Q, coupled.record(Y, STARTS))


def error_of(coupled, Y):
    return 10 * brute_force_rounding(coupled.plant, Y) * (1 + np.nanmax(np.abs(Y)))


@CASES
def test_states_are_those_given_all_raw_measurements(missing):
    coupled, Y, run = example(missing)
    expected = brute_force(coupled.plant, Y, starts=STARTS)
    assert_within(run.filtered, expected.filtered, error_of(coupled, Y))
    assert_within(run.predicted, expected.predicted, error_of(coupled, Y))


@CASES
def test_log_likelihood_is_the_density_of_all_raw_measurements(missing):
    coupled, Y, run = example(missing)
    expected = brute_force(coupled.plant, Y, starts=STARTS).log_density
    assert_within(run.log_likelihood(), expected, len(Y) * error_of(coupled, Y) * np.abs(expected).max())


def test_log_likelihood_needs_the_constants():
    coupled, _, _ = example(0.0)
    record = coupled.record(coupled.simulate(10, 1))
    parts = (record.parts[0], replace(record.parts[1], const=None))
    run = PlantFilter(coupled.plant.A, coupled.plant.Q, replace(record, parts=parts))
    with pytest.raises(ValueError, match=r"messages with their constants \(const=True\)"):
        run.log_likelihood()
    assert np.isfinite(run.filtered).all()


@CASES
def test_carried_terms_use_the_filtered_states_of_the_step_before(missing):
    _, _, run = example(missing)
    matrix = np.random.default_rng(0).normal(size=(3, 3))
    carried = run.carried(matrix)
    for t, row in enumerate(carried):
        expected = np.zeros(3) if t in STARTS else matrix @ run.filtered[t - 1]
        assert_within(row, expected, 1e-14 * (1 + np.abs(expected).max()))


@CASES
def test_predictions_do_not_depend_on_the_future(missing):
    coupled, Y, run = example(missing)
    first = PlantFilter(coupled.plant.A, coupled.plant.Q, coupled.record(Y[:12], STARTS))
    assert_within(run.filtered[:12], first.filtered, error_of(coupled, Y))
    assert_within(run.predicted[:12], first.predicted, error_of(coupled, Y))


@CASES
def test_smoothed_states_are_those_given_the_whole_record_around_each_episodes_level(missing):
    coupled, Y, _ = example(missing)
    record = coupled.record(Y, STARTS)
    states, covariances, _ = smooth_record(coupled.plant.A, coupled.plant.Q, record)
    centred = Y.copy()
    for rows in (slice(0, 9), slice(9, 16)):
        level = generalised_least_squares(coupled.plant, Y[rows])[0]
        centred[rows] -= coupled.plant.C @ level
    expected = brute_force(coupled.plant, centred, starts=STARTS)
    error = 100 * error_of(coupled, Y)
    assert_within(states, expected.smoothed, error)
    for k, own in enumerate(coupled.partition.slices):
        cov = expected.smoothed_cov[:, own, own]
        if record.parts[k].is_constant:
            cov = cov.mean(axis=0, keepdims=True)
        assert_within(covariances[k], cov, error)


def test_one_unit_is_its_own_kalman_filter():
    coupled = coupled_plant(2, (2,))
    Y = coupled.simulate(12, 1)
    run = PlantFilter(coupled.plant.A, coupled.plant.Q, coupled.record(Y))
    expected = brute_force(coupled.plant, Y)
    assert_within(run.predicted, expected.predicted, error_of(coupled, Y))


def test_units_in_another_order_give_the_same_states_in_that_order():
    coupled, Y, run = example(0.3)
    messages = coupled.messages(Y, STARTS)
    order = np.r_[2, 0:2]
    record = JointRecord.from_messages(messages, names=["unit1", "unit0"])
    A, Q = (matrix[np.ix_(order, order)] for matrix in (coupled.plant.A, coupled.plant.Q))
    turned = PlantFilter(A, Q, record)
    assert_within(turned.filtered, run.filtered[:, order], error_of(coupled, Y))
    assert_within(turned.log_likelihood(), run.log_likelihood(), len(Y) * error_of(coupled, Y) * 10)


def test_covariances_are_kept_of_as_many_rows_as_there_are():
    """States that are hardly measured take longer to settle than any record."""
    coupled = coupled_plant(2, (2, 1), links=[(1, 0)], strength=0.1, radius=0.999)
    record = coupled.record(coupled.simulate(40, 1, STARTS), STARTS)
    record = replace(record, parts=tuple(replace(part, patterns=1e-7 * part.patterns) for part in record.parts))
    run = PlantFilter(coupled.plant.A, coupled.plant.Q, record)
    assert run._schedule.n_transient == 31
