"""Searches are given work to spend, and end with the best plant so far and a warning."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.datasets import make_granger_plant
from skfedcausal.server.estimation import estimate, scoring
from skfedcausal.server.estimation.estimate import uncoupled_plant
from skfedcausal.server.estimation.scoring import RATE, Budget
from skfedcausal.server.estimation.standardised import StandardisedPlant, find_level_shifts
from skfedcausal.server.fitting import part_for_lags
from skfedcausal.server.joint import JointRecord


def held(n_samples=500):
    """Every row twice, as a historian writes that samples and holds: slow to filter, a prior, doubtful noise."""
    X, truth = make_granger_plant(2, links=[(0, 1)], n_samples=n_samples, n_sensors=3, n_inputs=1, random_state=0)
    twice = {name: np.repeat(Y[::2], 2, axis=0) for name, Y in X.items()}
    return twice, [np.repeat(U[::2], 2, axis=0) for U in truth.inputs]


@pytest.mark.medium
def test_a_search_for_one_lag_ends_with_a_warning_and_a_plant():
    X, inputs = held()
    server = LikelihoodServer(max_time=0.5)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = FederatedCounterfactualEstimator(server=server).fit(X, inputs=inputs)
    words = [str(one.message) for one in told if issubclass(one.category, ConvergenceWarning)]
    # two fifths of the half second, less what is done anyway
    assert any(w.startswith("The search for links was ended after 0.1") for w in words)
    assert np.isfinite(found.predict(X, inputs=inputs)).all()
    assert found.links_["p_value"].between(0, 1).all()
    assert np.abs(np.linalg.eigvals(found.transition_)).max() < 1


@pytest.mark.medium
def test_a_search_for_level_shifts_ends_with_its_share_and_a_warning():
    """Units that wander and shift ask for many fits of their own."""
    rng = np.random.default_rng(0)
    X = {f"unit{k}": np.cumsum(rng.normal(size=(1500, 4)), axis=0) for k in range(3)}

    def fitted(max_time):
        budget = Budget(max_time)
        messages = {name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()}
        plant = StandardisedPlant(JointRecord.from_messages(messages))
        plant.budget = budget
        return find_level_shifts(plant.unit_records(), 12), budget

    found, plenty = fitted(1000.0)
    taken = 1000.0 - plenty.left
    short, little = fitted(taken / 4)
    assert little.is_spent
    # a fit of a unit at most is begun when nothing is left
    assert -little.operations_left < RATE * taken / 4
    assert set(short[0]) <= set(found[0])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        FederatedGrangerEstimator(server=LikelihoodServer(max_time=taken / 2)).fit(X)
    assert any("The search for level shifts" in str(one.message) for one in told)


def test_what_is_learned_does_not_depend_on_a_budget_that_lasts():
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    plants = [FederatedGrangerEstimator(server=LikelihoodServer(max_time=t)).fit(X) for t in (25.0, 1000.0)]
    np.testing.assert_array_equal(plants[0].transition_, plants[1].transition_)


def test_time_is_left_for_what_is_done_anyway_but_a_fifth_stays():
    whole = Budget(10.0)
    part = whole.part(0.5)
    part.leave(2 * RATE)
    assert part.max_time == part.left == pytest.approx(3.0)
    assert whole.left == pytest.approx(8.0)
    whole.leave(1e3 * RATE)
    assert whole.left == pytest.approx(0.2 * 8.0)


def test_large_plants_leave_more_time_for_what_is_done_anyway():
    """A search of a hundred times the states has less of the same budget."""
    left = []
    for n_units in (2, 8):
        X, _ = make_granger_plant(n_units, n_samples=300, random_state=0)
        server = FederatedGrangerEstimator(server=LikelihoodServer(max_time=100.0)).fit(X).server_
        left.append(server.work_left)
    assert left[1] < left[0] < 100.0


def test_a_climb_without_time_asks_for_no_information_again():
    X, _ = make_granger_plant(2, links=[(0, 1)], n_samples=300, random_state=0)
    messages = {name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()}
    plant = StandardisedPlant(JointRecord.from_messages(messages))
    plant.budget = Budget(10.0)
    likelihood, point = uncoupled_plant(plant)
    start = scoring.Scoring(likelihood, plant.structure().with_masks(linked=np.ones(2, dtype=bool)), point)
    assert estimate._climbed(likelihood, start, 1e-6) is not start
    plant.budget.spend(10 * RATE)
    assert estimate._climbed(likelihood, start, 1e-6) is start


def test_a_part_takes_from_the_whole_what_it_spends_and_leaves_the_rest():
    whole = Budget(10.0)
    part = whole.part(0.4)
    part.spend(3e9)
    assert not part.is_spent
    rest = whole.part(1.0)
    assert rest.max_time == pytest.approx(8.5)
    part.spend(6e9)
    assert part.is_spent
    assert not whole.is_spent
    whole.spend(2e10)
    assert whole.is_spent
    assert whole.part(0.5).is_spent


@pytest.mark.parametrize("gaps", [False, True])
def test_work_counts_the_rows_that_are_filtered_one_by_one(gaps):
    X, _ = make_granger_plant(2, n_samples=2000, random_state=0)
    if gaps:
        X["unit0"][::7, 0] = np.nan
    record = JointRecord.from_messages({name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()})
    plant = StandardisedPlant(record)
    objective = plant.time_domain()
    objective.evaluate(*plant.uncoupled)
    a_row = 1e5 + 12 * 4**3
    assert (objective.work > 2000 * a_row) == gaps  # covariances of a complete record settle soon
    assert objective.work < 2000 * (a_row + 300 * 4 + 1)


def test_a_busy_machine_stops_nothing(monkeypatch):
    seconds = {"perf_counter": 0.0, "process_time": 0.0}
    for name in seconds:
        monkeypatch.setattr(scoring, name, lambda name=name: seconds[name])
    budget = Budget(1.0)
    seconds["perf_counter"] = 100.0  # of which others had most, or a site that was waited for
    seconds["process_time"] = 0.79
    assert not budget.part(0.5).is_spent
    seconds["process_time"] = 0.81  # the last fifth is for telling what was found
    assert budget.part(0.5).is_spent
    assert budget.stopped_by_clock


def test_a_line_is_not_searched_on_after_the_end(monkeypatch):
    """Steps that fail cost an evaluation each, of which there may be 25."""
    tried = []

    def evaluate(A, Q):
        tried.append(1)
        return scoring.Evaluation(-np.inf, A, Q)

    budget = Budget(1e-9)
    objective = SimpleNamespace(evaluate=evaluate, budget=budget, work=1e9)
    here = scoring.Point(np.zeros((1, 1)), np.eye(1), scoring.Evaluation(0.0, None, None))
    about = SimpleNamespace(unwhitened=lambda x: x, matrices=lambda x: (np.zeros((1, 1)), np.eye(1)))
    assert scoring._search_line(objective, about, here, np.zeros(1), np.ones(1), 1.0) is None
    assert len(tried) == 1


@pytest.mark.parametrize(("taken", "given"), [(0.5, 3.0), (1.0, 6.0), (24.0, 1.0)])
def test_several_lags_get_a_few_times_what_one_lag_took(taken, given):
    budget = Budget(25.0)
    budget.spend(taken * RATE)
    assert part_for_lags(budget).max_time == pytest.approx(given)


def test_nothing_is_left_for_several_lags_of_a_budget_that_is_spent():
    budget = Budget(1.0)
    budget.spend(2 * RATE)
    assert part_for_lags(budget) is budget
