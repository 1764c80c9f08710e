"""What stands in for missing measurements varies as they would have."""

import numpy as np
import pytest

from skfedcausal.server.joint import JointRecord
from skfedcausal.server.likelihood import LikelihoodServer
from skfedcausal.server.watching.complete import complete_distance, complete_states, draw_states

from .._reference import coupled_plant

STARTS = (0, 40)
N_DRAWS = 1000


@pytest.fixture(scope="module")
def example():
    """Fitted plant and messages of a record in which sensors and, at times, a whole unit are missing."""
    coupled = coupled_plant(2, (2, 1), links=[(1, 0)], strength=0.3, radius=0.5)
    Y = coupled.simulate(60, 1, STARTS)
    Y[np.random.default_rng(0).random(Y.shape) < 0.1] = np.nan
    Y[20:30, coupled.sensors[0]] = np.nan
    messages = coupled.messages(Y, STARTS)
    plant = LikelihoodServer(sparsity=None).fit(messages)
    return plant, messages, JointRecord.from_messages(messages)


@pytest.mark.filterwarnings("ignore")
def test_draws_have_the_mean_and_covariance_of_the_states_given_the_record(example):
    """Within five standard errors."""
    plant, messages, record = example
    rng = np.random.RandomState(0)
    draws = np.stack([draw_states(plant, messages, record, rng) for _ in range(N_DRAWS)])
    expected = plant.abducted(messages)
    for name, b in zip(record.names, record.partition.slices, strict=True):
        of_unit = draws[:, :, b]
        variances = np.einsum("tii->ti", expected[name].covariances)
        error = np.abs(of_unit.mean(axis=0) - expected[name].states) / np.sqrt(variances / N_DRAWS)
        assert error.max() < 5
        assert np.abs(of_unit.var(axis=0) / variances - 1).max() < 5 * np.sqrt(2 / N_DRAWS)
        if of_unit.shape[2] == 2:
            centred = of_unit - of_unit.mean(axis=0)
            covariance = np.einsum("kti,ktj->tij", centred, centred)[:, 0, 1] / N_DRAWS
            spread = np.sqrt((variances[:, 0] * variances[:, 1]) * 2 / N_DRAWS)
            assert (np.abs(covariance - expected[name].covariances[:, 0, 1]) < 5 * spread).all()


def test_complete_rows_stay_as_measured(example):
    plant, messages, record = example
    x = complete_states(plant, messages, record, np.random.RandomState(0))
    for part, b in zip(record.parts, record.partition.slices, strict=True):
        traces = np.trace(part.patterns, axis1=1, axis2=2)
        full = part.index == traces.argmax()
        expected = np.linalg.solve(part.patterns[traces.argmax()], part.z[full].T).T
        np.testing.assert_allclose(x[full, b], expected, rtol=1e-10, atol=1e-10)


def test_numbers_of_absent_units_are_those_of_other_rows(example):
    _, _, record = example
    distance = np.arange(120.0).reshape(60, 2)
    filled = complete_distance(distance, record, np.random.RandomState(0))
    for m, part in enumerate(record.parts):
        absent = np.linalg.matrix_rank(part.patterns)[part.index] < part.z.shape[1]
        np.testing.assert_array_equal(filled[~absent, m], distance[~absent, m])
        assert set(filled[absent, m]) <= set(distance[~absent, m])
