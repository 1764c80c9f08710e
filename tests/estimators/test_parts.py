"""Parts that are None list and set their parameters; what is off says how to switch it on."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_html_repr

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    KalmanClient,
    LikelihoodServer,
    LinearAugmenter,
    MomentServer,
    RegressorServer,
    UnitScaler,
    stack_clients,
)
from skfedcausal.datasets import make_granger_plant

ESTIMATORS = [FederatedGrangerEstimator, FederatedCounterfactualEstimator, FederatedRCADetector]
every_estimator = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)
SETTINGS = {"client__n_states": 2, "server__alpha": 0.1, "augmenter__alpha": 1.0}


@pytest.fixture(scope="module")
def table():
    return stack_clients(make_granger_plant(2, links=[(0, 1)], n_samples=600, random_state=0)[0])


@every_estimator
def test_parts_that_are_none_list_and_take_their_parameters(estimator):
    default = estimator()
    listed = default.get_params()
    for name, value in SETTINGS.items():
        assert listed[name] != value
        changed = estimator().set_params(**{name: value})
        assert changed.get_params()[name] == value
        assert type(getattr(changed, name.partition("__")[0])) is type(default._parts()[name.partition("__")[0]])
    assert set(default.get_params(deep=False)) == {name for name in listed if "__" not in name}
    assert all(listed[name] is None for name in ("client", "server", "augmenter", "privacy"))


@every_estimator
def test_what_is_not_set_stays_as_it_was(estimator):
    assert clone(estimator()).get_params(deep=False) == estimator().get_params(deep=False)
    before = estimator().get_params()
    after = estimator().set_params(client__n_states=2).get_params()
    assert {name for name in before if before[name] is not after[name]} <= {"client", "client__n_states"} | {
        name for name in before if name.startswith("server__") and before[name] == after[name]
    }
    with pytest.raises(ValueError, match="Invalid parameter 'n_stats' for estimator KalmanClient"):
        (given := estimator()).set_params(client__n_stats=2)
    assert given.client is None


@every_estimator
def test_privacy_is_off_and_says_how_to_switch_it_on(estimator, table):
    sentence = rf"{estimator.__name__} has no `privacy` to set 'epsilon' of: .* privacy=GaussianMechanism\(...\)"
    with pytest.raises(ValueError, match=sentence):
        estimator().set_params(privacy__epsilon=1.0)
    with pytest.raises(ValueError, match=sentence):
        GridSearchCV(estimator(), {"privacy__epsilon": [1.0]}, cv=TimeSeriesSplit(2)).fit(table)
    on = estimator().set_params(privacy=GaussianMechanism(epsilon=3.0, delta=1e-6), privacy__epsilon=1.0)
    assert on.privacy.epsilon == 1.0
    with pytest.raises(ValueError, match="has no `lost_units` to set 'quorum' of"):
        estimator().set_params(lost_units__quorum=1)


def test_the_default_server_keeps_its_own_time():
    server = FederatedGrangerEstimator().set_params(server__alpha=0.1).server
    assert server.get_params() == LikelihoodServer(max_time=10.0, alpha=0.1).get_params()
    assert FederatedGrangerEstimator().get_params()["server__max_time"] == 10.0
    assert FederatedCounterfactualEstimator().get_params()["server__max_time"] == 25.0


def made(estimator):
    """One that has enough to do with the short records of folds."""
    return estimator(false_alarm_rate=0.02) if estimator is FederatedRCADetector else estimator()


@every_estimator
def test_grids_reach_the_parts_of_a_default_estimator(estimator, table):
    pipeline = make_pipeline(UnitScaler(), made(estimator))
    name = estimator.__name__.lower()
    grid = {f"{name}__{key}": [value] for key, value in SETTINGS.items()}
    found = GridSearchCV(pipeline, grid, cv=TimeSeriesSplit(2)).fit(table)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()
    assert found.best_estimator_[-1].get_params().items() >= SETTINGS.items()


@every_estimator
@pytest.mark.parametrize("server", [MomentServer(), RegressorServer()], ids=["MomentServer", "RegressorServer"])
def test_grids_over_servers_work_or_name_the_server(estimator, server, table):
    grid = GridSearchCV(made(estimator), {"server": [LikelihoodServer(), server]}, cv=TimeSeriesSplit(2))
    answers = isinstance(server, RegressorServer) and estimator is FederatedGrangerEstimator
    if estimator is FederatedRCADetector or answers:
        assert np.isfinite(grid.fit(table).cv_results_["mean_test_score"]).all()
    else:
        refused = f"(?s){estimator.__name__}.*{type(server).__name__}|{type(server).__name__}.*{estimator.__name__}"
        with pytest.warns(FitFailedWarning, match=refused), pytest.warns(UserWarning, match="non-finite"):
            assert type(grid.fit(table).best_params_["server"]) is LikelihoodServer


@every_estimator
def test_the_picture_shows_the_parts(estimator):
    with config_context(display="diagram"):
        drawn = estimator_html_repr(make_pipeline(UnitScaler(), estimator()))
        given = estimator_html_repr(estimator(KalmanClient(n_states=7), augmenter=LinearAugmenter(alpha=0.5)))
    for name, part in estimator._default_parts().items():
        assert f"{name}: {type(part).__name__}" in drawn
    assert "KalmanClient(n_states=7)" in given or "n_states" in given
