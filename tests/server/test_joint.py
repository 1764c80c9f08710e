"""Messages put side by side."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal.server.joint import JointRecord
from skfedcausal.statespace.observation import Information
from skfedcausal.statespace.timedomain import TimeDomainLikelihood

from ..statespace._reference import assert_within, rounding
from ._reference import coupled_record


def test_a_record_is_what_the_messages_say():
    coupled, Y, direct = coupled_record(missing=0.2)
    record = JointRecord.from_messages(coupled.messages(Y, (0, 25)))
    assert record.names == ("unit0", "unit1")
    assert record.starts == (0, 25)
    assert record.partition.sizes == (2, 1)
    assert record.n_samples == 40
    assert_array_equal(record.z, direct.z)
    assert_array_equal(record.matrices(), direct.matrices())


def test_units_are_put_into_the_order_asked_for():
    coupled, Y, _ = coupled_record()
    messages = coupled.messages(Y)
    turned = JointRecord.from_messages(messages, names=["unit1", "unit0"])
    assert turned.names == ("unit1", "unit0")
    assert_array_equal(turned.z, np.hstack([messages["unit1"].z, messages["unit0"].z]))


@pytest.mark.parametrize("names", [["unit0"], ["unit0", "unit1", "unit2"], ["unit0", "other"]], ids=str)
def test_missing_and_unknown_units_are_refused_by_name(names):
    coupled, Y, _ = coupled_record()
    with pytest.raises(ValueError, match=r"Messages came from \['unit0', 'unit1'\], expected one from each"):
        JointRecord.from_messages(coupled.messages(Y), names=names)


def test_messages_about_different_episodes_are_refused():
    coupled, Y, _ = coupled_record()
    messages = coupled.messages(Y)
    messages["unit1"] = replace(messages["unit1"], lengths=(10, 30))
    with pytest.raises(ValueError, match=r"different episodes: \{'unit0': \(40,\), 'unit1': \(10, 30\)\}"):
        JointRecord.from_messages(messages)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_matrices_are_those_of_the_sensors_present(missing):
    coupled, Y, record = coupled_record(missing)
    C, R = coupled.plant.C, np.diag(coupled.plant.R)
    for t, J in enumerate(record.matrices(slice(None))):
        seen = ~np.isnan(Y[t])
        expected = C[seen].T @ (C[seen] / R[seen, None])
        assert_within(J, expected, rounding(3) * np.abs(expected).max(initial=1))
    assert_array_equal(record.matrices(slice(3, 9)), record.matrices()[3:9])


def test_the_constant_is_summed_over_units_and_missing_if_any_unit_kept_it():
    _, _, record = coupled_record()
    assert_allclose(record.const(), record.parts[0].const + record.parts[1].const)
    one_kept = replace(record, parts=(record.parts[0], replace(record.parts[1], const=None)))
    assert one_kept.const() is None


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_other_states_change_the_likelihood_of_the_changed_plant_by_nothing(missing):
    coupled, _, record = coupled_record(missing)
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
    coupled, _, record = coupled_record()
    ((share, J),) = record.regimes()
    assert share == 1.0
    assert_within(J, coupled.plant.J, rounding(3) * np.abs(coupled.plant.J).max())


def test_an_absent_unit_makes_a_regime_of_its_own():
    coupled, Y, _ = coupled_record(starts=(0,), n_samples=400)
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


def test_varying_information_is_worth_less_than_its_mean():
    """Half the rows with information 1, half with 3: filtered variances 1 / 2 and 1 / 4 of a unit prior
    variance leave 3 / 8 on average, as a constant information of 5 / 3 would."""
    part = Information(np.zeros((4, 1)), np.array([[[1.0]], [[3.0]]]), np.array([0, 1, 0, 1]))
    record = JointRecord(("a",), (part,), (0,))
    assert record.regimes()[0][1].item() == pytest.approx(2)
    assert record.regimes([np.eye(1)])[0][1].item() == pytest.approx(5 / 3)
