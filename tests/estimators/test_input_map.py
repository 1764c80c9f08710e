"""When inputs act and through which curve: what units send, and questions about the inputs themselves."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import (
    FederatedCounterfactualEstimator,
    GradientServer,
    InputModel,
    LikelihoodOptions,
    LikelihoodServer,
)
from skfedcausal.papers import StopRule

pytestmark = pytest.mark.medium

N = 3000
_SAID = ("The plant does not explain all", "Inputs and measurements move together")
doubtful = pytest.mark.filterwarnings(*(f"ignore:{words}:UserWarning" for words in _SAID))


def _record(seed=0, curve=lambda u: u, n_samples=N):
    """Two units of two sensors each; a's input acts on its own row, b's on the next, a drives b."""
    rng = np.random.default_rng(seed)
    u = np.column_stack([np.repeat(rng.uniform(-1, 1, n_samples // 5), 5), rng.standard_normal(n_samples)])
    h, rows = np.zeros(2), []
    for t in range(n_samples):
        late = u[t - 1, 1] if t else 0.0
        h = [[0.7, 0], [0.2, 0.6]] @ h + [curve(u[t, 0]), 0.8 * late] + 0.1 * rng.standard_normal(2)
        rows.append(np.repeat(h, 2) * [1, 0.6, 1, 0.6] + 0.1 * rng.standard_normal(4))
    columns = ["a__s0", "a__s1", "b__s0", "b__s1"]
    X = pd.DataFrame(np.array(rows), columns=columns)
    X["a__valve"], X["b__feed"] = u.T
    return X[["a__s0", "a__s1", "a__valve", "b__s0", "b__s1", "b__feed"]]


def _fit(X, **settings):
    plant = FederatedCounterfactualEstimator(input_columns=["a__valve", "b__feed"], **settings)
    return plant.fit(X)


def _truth(du, horizon):
    """Effect of a held change of a's input that acts from its own row on, in the rows after that."""
    h, rows = np.zeros(2), []
    for _ in range(horizon + 1):
        h = [[0.7, 0], [0.2, 0.6]] @ h + np.array([du, 0])
        rows.append(np.repeat(h, 2) * [1, 0.6, 1, 0.6])
    return np.array(rows[1:])


@doubtful
def test_an_input_that_acts_at_once_is_told_by_one_word():
    plant = _fit(_record(), sampled={"a__valve": "before"})
    found = plant.counterfactual("a", 0.0, 0.9, horizon=8)
    assert found.index.tolist() == list(range(1, 9))  # as for inputs that act later
    expected = _truth(0.9, 8)
    assert np.linalg.norm(found.to_numpy() - expected) < 0.05 * np.linalg.norm(expected)
    with pytest.warns(UserWarning, match=r"move together within a row: 'a on a'\. .*sampled='before'"):
        untold = _fit(_record())
    assert untold.engine_ == "responses"  # which let it act in its own row, as nothing sets it by what is measured
    found = untold.counterfactual("a", 0.0, 0.9, horizon=8)
    assert np.linalg.norm(found.to_numpy() - expected) < 0.05 * np.linalg.norm(expected)
    late = _fit(_record(), sampled="after").counterfactual("a", 0.0, 0.9, horizon=8)
    assert np.linalg.norm(late.to_numpy() - expected) > 0.1 * np.linalg.norm(expected)


@doubtful
def test_a_word_for_all_is_one_for_each():
    X = _record(n_samples=800)
    words = _fit(X, sampled={"a": "after", "b__feed": "after"}), _fit(X, sampled="after")
    np.testing.assert_array_equal(words[0].input_, words[1].input_)


def test_replays_and_counterfactuals_agree_and_start_in_the_row_of_the_change():
    X = _record()
    plant = _fit(X, sampled={"a__valve": "before"})
    recorded = X["a__valve"].to_numpy()[:120]
    series = np.where(np.arange(120) < 100, recorded, 0.0)
    table = plant.whatif(X.iloc[:120], {"a__valve": series})
    effect = table.pivot(index="time", columns="column", values="effect")[list(_columns(X))].to_numpy()
    assert not effect[:100].any()
    step = plant.counterfactual("a", recorded[100:], np.zeros(20), horizon=20).to_numpy()
    assert effect[100].any()
    np.testing.assert_allclose(effect[101:], step[:19], atol=1e-12)
    same = plant.whatif(X.iloc[:120], {"a__valve": X["a__valve"].to_numpy()[:120]})
    assert not same["effect"].any()


def _columns(X):
    return (c for c in X if "__s" in c)


@doubtful
def test_episodes_lend_each_other_no_input():
    X = _record(n_samples=1200)
    halves = _fit(X, sampled={"a": "before"}).fit(X, lengths=[600, 600])
    changed = X.copy()
    changed.loc[600, "a__valve"] += 0.1  # the first of an episode acts on a row without one before
    again = clone(halves).fit(changed, lengths=[600, 600])
    np.testing.assert_array_equal(again.transition_, halves.transition_)


def test_forecasts_use_the_input_of_the_row():
    X = _record()
    plant = _fit(X, sampled={"a__valve": "before"}).set_output(transform="pandas")
    later = X.iloc[:60].reset_index(drop=True)
    moved = later.copy()
    moved.loc[40, "a__valve"] += 1.0
    change = (plant.forecast(moved, 30) - plant.forecast(later, 30)).to_numpy()
    assert not change[:10].any()
    assert change[10, 0] == pytest.approx(1.0, rel=0.1)


@doubtful
def test_a_server_that_knows_of_timing_is_told():
    class Told(LikelihoodServer):
        def __init__(self, sampled="auto"):
            super().__init__()
            self.sampled = sampled

    X = _record(n_samples=600)
    plant = _fit(X, server=Told(), sampled={"a__valve": "before", "b": "after"})
    assert plant.server_.sampled == {"a": ["after"], "b": ["after"]}  # the valve comes a row ahead
    assert _fit(X, server=Told()).server_.sampled == "auto"


_ONE_LAG = {
    "sandwich": LikelihoodServer(covariance="sandwich"),
    "hac": LikelihoodServer(covariance="hac"),
    "time domain": LikelihoodServer(likelihood="time-domain"),
    "short": None,
    "gaps": None,
    "fix_local": LikelihoodServer(options=LikelihoodOptions(fix_local=True)),
}


@doubtful
@pytest.mark.parametrize("case", _ONE_LAG)
def test_an_input_that_acts_at_once_does_so_in_plants_of_one_lag(case):
    X = _record(n_samples=240 if case == "short" else 800)
    if case == "gaps":  # b is seen in half of the rows: too few to tell lags apart
        X.loc[1::2, ["b__s0", "b__s1"]] = np.nan
    plant = _fit(X, sampled={"a__valve": "before"}, server=_ONE_LAG[case])
    assert len(plant.server_.lag_transitions_) == 1
    found, expected = plant.counterfactual("a", 0.0, 0.9, horizon=3).to_numpy(), _truth(0.9, 3)
    # of unit a, whose model is right: its loadings are uncertain by .1 / .6 / sqrt(n_samples), its gain by less
    assert np.linalg.norm((found - expected)[:, :2]) < 0.1 * np.linalg.norm(expected[:, :2])


def test_it_works_for_trained_plants():
    with pytest.warns(ConvergenceWarning):
        plant = _fit(_record(n_samples=600), server=GradientServer(stop=StopRule(max_iter=20)), sampled="before")
    assert plant.counterfactual("a", 0, 0.5).shape == (1, 4)


# --- bases -----------------------------------------------------------------------------------------------


def saturated(u):
    return np.clip(u, -0.4, 0.4)


@doubtful
@pytest.mark.parametrize("basis", ["spline", saturated])
def test_a_saturating_input_has_one_name_and_the_right_effect(basis):
    X = _record(curve=saturated)
    settings = {"sampled": {"a__valve": "before"}}
    plant = _fit(X, input_model=InputModel(basis={"a__valve": basis}), **settings)
    expected = _truth(saturated(0.9) - saturated(0.5), 6)
    found = plant.counterfactual("a", 0.5, 0.9, horizon=6).to_numpy()
    assert not expected.any()  # both are beyond the limit
    assert np.abs(found).max() < 0.1 * np.abs(_truth(0.9 - 0.5, 6)).max()  # a tenth of what a valve without one does
    across = plant.counterfactual("a", -0.3, 0.3, horizon=6).to_numpy()
    expected = _truth(0.6, 6)
    assert np.linalg.norm(across - expected) < 0.1 * np.linalg.norm(expected)
    n_columns = len(plant.input_names_)
    assert plant.input_.shape == (2, n_columns)
    assert plant.input_slices_["b"] == slice(n_columns - 1, n_columns)


@doubtful
def test_a_spline_of_a_switch_is_the_switch():
    X = _record(n_samples=1500)
    X["a__valve"] = (X["a__valve"] > 0).astype(float)
    settings = {"sampled": {"a__valve": "before"}}
    switch, plain = _fit(X, input_model=InputModel(basis={"a": "spline"}), **settings), _fit(X, **settings)
    assert switch.input_names_ == plain.input_names_ == ("a__valve", "b__feed")
    np.testing.assert_array_equal(switch.input_, plain.input_)


@doubtful
def test_whatif_with_a_basis_replaces_the_input_itself():
    X, effects = _record(curve=saturated), {}
    for basis in ("linear", "spline"):
        plant = _fit(X, sampled={"a__valve": "before"}, input_model=InputModel(basis={"a__valve": basis}))
        table = plant.whatif(X.iloc[:200], {"a__valve": lambda u: u.clip(-0.4, 0.4)})
        effects[basis] = np.abs(table["effect"]).max()  # of what the valve cannot do: none
    assert effects["spline"] < 0.5 * effects["linear"]


@doubtful
@pytest.mark.filterwarnings("ignore:Inputs of 'a' depend on measurements:UserWarning")
def test_timing_that_a_loop_contradicts_is_named():
    rng, n = np.random.default_rng(4), 1500
    h, u, rows = 0.0, 0.0, []
    for _ in range(n):  # the valve of a row answers its level
        h = 0.8 * h + u + 0.3 * rng.standard_normal()
        u = -0.4 * h + 0.1 * rng.standard_normal()
        rows.append([h + 0.1 * rng.standard_normal(), h + 0.1 * rng.standard_normal(), u])
    X = pd.DataFrame(rows, columns=["a__s0", "a__s1", "a__valve"])
    with pytest.warns(UserWarning, match=r"Inputs 'a__valve' are said to be set before .* say sampled='after'"):
        FederatedCounterfactualEstimator(input_columns=["a__valve"], sampled="before").fit(X)


@doubtful
def test_a_loop_within_a_row_contradicts_timing_too():
    rng = np.random.default_rng(1)
    h, rows, goals = 0.0, [], 3 * np.repeat(rng.standard_normal(300), 10)
    for goal in goals:  # the valve answers the level of its own row, from which the next one hardly follows
        level = h + 0.1 * rng.standard_normal()
        valve = 0.8 * (goal - level)
        rows.append([level, 0.6 * h + 0.1 * rng.standard_normal(), -0.8 * h + 0.1 * rng.standard_normal(), valve])
        h = 0.3 * h + 0.5 * valve + 0.3 * rng.standard_normal()
    X = pd.DataFrame(rows, columns=["a__s0", "a__s1", "a__s2", "a__valve"])
    with pytest.warns(UserWarning, match=r"Inputs 'a__valve' are said to be set before .* say sampled='after'"):
        plant = FederatedCounterfactualEstimator(input_columns=["a__valve"], sampled="before").fit(X)
    assert not plant.server_.controlled_units_


def test_sites_are_timed_by_unit():
    plant = FederatedCounterfactualEstimator(sampled={"a__valve": "before"})
    with pytest.raises(ValueError, match="names inputs 'a__valve', which sites do not tell"):
        plant.fit_sites(None)
    with pytest.raises(ValueError, match="`basis` is about values of inputs"):
        FederatedCounterfactualEstimator(input_model=InputModel(basis="spline")).fit_sites(None)
    trained = FederatedCounterfactualEstimator(server=GradientServer(), sampled="before")
    with pytest.raises(ValueError, match="GradientServer knows of no inputs that act at once"):
        trained.fit_sites(None)


def test_what_cannot_be_meant_is_refused():
    X = _record(n_samples=300)
    with pytest.raises(
        ValueError, match=r"`sampled` names 'c__x'; inputs and their units are 'a__valve', 'b__feed', 'a', 'b'"
    ):
        _fit(X, sampled={"c__x": "before"})
    with pytest.raises(ValueError, match=r"sampled='soon' for input 'a__valve'; choose 'auto'"):
        _fit(X, sampled={"a__valve": "soon"})
    with pytest.raises(ValueError, match=r"basis='cubic' for input 'b__feed'; choose 'linear', 'spline' or a"):
        _fit(X, input_model=InputModel(basis={"b__feed": "cubic"}))
    with pytest.raises(ValueError, match="for 300 values"):
        _fit(X, input_model=InputModel(basis=lambda u: u[:-1]))
    with pytest.raises(ValueError, match="never move"):
        _fit(X, input_model=InputModel(basis=np.zeros_like))
    with pytest.raises(ValueError, match="The 'sampled' parameter"):
        _fit(X, sampled="later")


@doubtful
@pytest.mark.parametrize(("sampled", "row"), [("after", -1), ("before", 0)])
def test_an_input_that_moves_in_a_row_without_effect_is_left_out_by_name(sampled, row):
    """The last row's input acts on no row; the first row's, where it is its own, on one that starts the record."""
    X = _record(n_samples=400)
    X["a__valve"] = 0.0
    X.loc[X.index[row], "a__valve"] = 1.0
    with pytest.warns(UserWarning, match="'a__valve' never move .* Give rows in which they move"):
        plant = _fit(X, sampled={"a__valve": sampled})
    assert not plant.input_[:, 0].any()


def test_an_error_of_a_basis_names_the_input():
    with pytest.raises(ZeroDivisionError) as caught:
        _fit(_record(n_samples=200), input_model=InputModel(basis={"a__valve": lambda u: 1 / 0}))
    assert "'a__valve'" in caught.value.__notes__[0]


@doubtful
def test_controllers_cannot_follow_the_row_that_their_input_acts_on():
    plant = _fit(_record(), server=LikelihoodServer(sampled={"a": "before"}))
    with pytest.raises(ValueError, match=r"'a__valve'.* act in the row .*sampled='after'"):
        plant.counterfactual("a", 0.0, 0.5, loops="react")
    assert plant.counterfactual("a", 0.0, 0.5).shape == (1, 4)
