"""What large plants do row by row, or only where it can matter, against all of it at once."""

import numpy as np
import pytest

from skfedcausal import LikelihoodServer
from skfedcausal.client.kalman import KalmanClient
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation import scoring as scoring_module
from skfedcausal.server.estimation.evidence import benjamini_hochberg, correlation_estimates, link_estimates
from skfedcausal.server.estimation.scoring import Point, Scoring
from skfedcausal.statespace import whittle

from ._reference import coupled_plant, endless, structure_of

ROUNDING = 1e-10  # of a few hundred sums of numbers of order one, times the condition of the information
SIZES = pytest.mark.parametrize("sizes", [(2, 2, 2), (1, 3, 2)], ids=str)


def scored(sizes):
    """Scoring of a plant with links and correlated noise, at gradients of another place."""
    coupled = coupled_plant(5, sizes, links=[(1, 0), (2, 1)])
    structure = structure_of(coupled.partition, linked=[(1, 0)], correlated=[(0, 2)])
    objective, point = endless(coupled, 700)
    rng = np.random.default_rng(0)
    noise = [0.03 * rng.normal(size=point.A.shape) for _ in range(2)]
    evaluation = type(point.evaluation)(point.evaluation.value, noise[0], noise[1] + noise[1].T)
    return Scoring(objective, structure, Point(point.A, point.Q, evaluation))


@pytest.fixture
def large(monkeypatch):
    """Nothing is small enough to be kept."""
    monkeypatch.setattr(whittle, "_KEPT", 1)
    monkeypatch.setattr(whittle, "_PIECE", 1)


@SIZES
@pytest.mark.parametrize("estimates", [link_estimates, correlation_estimates])
def test_rows_give_what_all_columns_give(sizes, estimates, request):
    whole = scored(sizes)
    expected = estimates(whole)
    request.getfixturevalue("large")
    by_rows = scored(sizes)
    columns = by_rows.form()
    assert columns.is_large
    assert columns.rows_at_once == 1
    np.testing.assert_allclose(columns.square(), whole.form().square(), rtol=ROUNDING, atol=ROUNDING)
    actual = estimates(by_rows)
    np.testing.assert_allclose(actual.estimate, expected.estimate, rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(actual.covariance, expected.covariance, rtol=ROUNDING, atol=ROUNDING)


@SIZES
@pytest.mark.parametrize("alpha", [1e-6, 0.05, 0.5])
@pytest.mark.parametrize("of", ["links", "correlations"])
def test_screened_pairs_are_those_that_cannot_be_rejected(sizes, of, alpha, large):
    """p-values are exact or too small, and false discovery control rejects the same pairs."""
    scoring = scored(sizes)
    estimates = link_estimates if of == "links" else correlation_estimates
    exact, screened = estimates(scoring).p_value, estimates(scoring, screen=alpha).p_value
    assert (screened <= exact + ROUNDING).all()
    chosen = np.ones(len(exact), dtype=bool)
    if of == "correlations":
        chosen = np.greater(*scoring.structure.partition.pairs.T)
    rejected = benjamini_hochberg(exact[chosen], alpha)
    assert (benjamini_hochberg(screened[chosen], alpha) == rejected).all()
    np.testing.assert_allclose(screened[chosen][rejected], exact[chosen][rejected], rtol=1e-7)


def test_a_fit_is_the_same_in_parts(request):
    X, _ = make_granger_plant(5, links=[("unit0", "unit2"), ("unit3", "unit1")], random_state=0)
    messages = {name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()}
    whole = LikelihoodServer().fit(messages)
    request.getfixturevalue("large")
    parts = LikelihoodServer().fit(messages)
    np.testing.assert_allclose(parts.transition_, whole.transition_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(parts.process_cov_, whole.process_cov_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(parts.links_["p_value"], whole.links_["p_value"], rtol=0, atol=1e-7)
    assert parts.links_["verdict"].tolist() == whole.links_["verdict"].tolist()


def test_a_plant_too_large_for_the_machine_is_refused_with_the_memory_it_needs(monkeypatch):
    monkeypatch.setattr(scoring_module, "_SMALL", 0)
    monkeypatch.setattr(scoring_module, "of_machine", lambda: 1024.0)
    with pytest.raises(MemoryError, match=r"information matrix needs .* GiB .* this machine has"):
        scored((2, 2, 2))


def test_a_plant_may_take_all_of_the_memory(monkeypatch):
    """Its information matrix, the factor, the inverse and a copy, of 8 bytes an element."""
    n_elements = scored((2, 2, 2)).structure.free.n_elements
    needed = 4 * 8 * n_elements**2
    monkeypatch.setattr(scoring_module, "_SMALL", 0)
    monkeypatch.setattr(scoring_module, "of_machine", lambda: needed)
    scored((2, 2, 2))
    monkeypatch.setattr(scoring_module, "of_machine", lambda: needed - 1)
    with pytest.raises(MemoryError):
        scored((2, 2, 2))
    monkeypatch.setattr(scoring_module, "_SMALL", needed)  # so little is not asked for
    scored((2, 2, 2))


def test_estimates_are_kept_unless_pairs_of_a_large_plant_are_screened(request):
    small = scored((2, 2, 2))
    link_estimates(small, screen=0.05)
    assert list(small.estimates) == ["state"]
    request.getfixturevalue("large")
    large = scored((2, 2, 2))
    link_estimates(large, screen=0.05)
    assert not large.estimates
    assert link_estimates(large) is large.estimates["state"]
