"""The report of whole fits: nothing is withheld from a sound plant, and what does not hold is said."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from skfedcausal import (
    Baseline,
    FederatedGrangerEstimator,
    GradientServer,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
)
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.message.requests import FitRequest
from skfedcausal.server.validity import checks, report
from skfedcausal.server.validity.report import COLOURED, COLUMNS, gated

LINK = {("unit0", "unit2")}


def plant(**settings):
    X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0, **settings)
    return X


@pytest.fixture(scope="module")
def fitted():
    return FederatedGrangerEstimator().fit(plant())


def found(estimator, verdict="influence"):
    links = estimator.links_.query("verdict == @verdict")
    return set(zip(links["cause"], links["effect"], strict=True))


def rows(*failed):
    return pd.DataFrame([(*row, 0.0, 0.0, False, "do it") for row in failed], columns=list(COLUMNS))


def test_a_sound_plant_passes_every_check(fitted):
    assert tuple(fitted.validity_.columns) == COLUMNS
    assert fitted.validity_["passed"].all()
    assert found(fitted) == LINK
    assert set(fitted.links_["because"]) == {""}


def test_the_report_outlives_pickling(fitted):
    pd.testing.assert_frame_equal(pickle.loads(pickle.dumps(fitted)).validity_, fitted.validity_)


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore::UserWarning")  # the plant that explains a season is at the border of stability
def test_a_season_withholds_verdicts_and_not_p_values():
    X = plant(n_samples=800)
    season = 2 * np.sin(2 * np.pi * np.arange(800) / 24)[:, None]
    est = FederatedGrangerEstimator().fit({name: Y + season for name, Y in X.items()})
    withheld = est.server_.likelihood_links_
    assert set(withheld["verdict"]) == {"cannot tell"}
    assert withheld["because"].str.contains("season").all()
    assert est.links_["p_adjusted"].min() < 1e-6


def test_a_link_later_than_what_is_learned_is_no_absent_one():
    rng, delay = np.random.default_rng(0), 45
    x = rng.standard_normal((3000, 3))
    for t in range(delay, len(x)):
        x[t] += 0.5 * x[t - 1] + [0.0, 0.3 * x[t - delay, 0], 0.0]
    X = {f"unit{m}": x[:, [m]] + 0.5 * rng.standard_normal((3000, 4)) for m in range(3)}
    est = FederatedGrangerEstimator(KalmanClient(n_states=1)).fit(X)
    links = est.server_.likelihood_links_.set_index(["cause", "effect"])
    assert links.loc[("unit0", "unit1"), "verdict"] == "cannot tell"
    assert "after 45 rows" in links.loc[("unit0", "unit1"), "because"]
    assert set(links["verdict"].drop(("unit0", "unit1"))) == {"no influence"}


@pytest.mark.medium
def test_records_with_gaps_and_episodes_are_checked():
    X = plant()
    X["unit1"][np.random.default_rng(0).random(X["unit1"].shape) < 0.05] = np.nan
    est = FederatedGrangerEstimator().fit(X, lengths=[900, 1100])
    assert est.validity_["passed"].all()
    assert found(est) == LINK


@pytest.mark.medium
def test_swings_of_all_units_are_remedied_by_the_sandwich():
    X = plant(n_samples=2000)
    size = np.where(np.arange(2000) // 100 % 2, 3.0, 1.0)[:, None]
    swung = {name: Y * size for name, Y in X.items()}
    est = FederatedGrangerEstimator(remedy="auto").fit(swung)
    assert 'covariance="sandwich"' in est.remedies_
    assert est.server_.covariance == "sandwich"
    assert est.remedy == "auto"
    assert est.server is None
    assert est.validity_.query("check == 'common variance'")["passed"].all()


def wandering(n_sensors=6):
    X, rng = plant(n_sensors=n_sensors), np.random.default_rng(0)
    return {
        name: Y + rng.standard_normal(Y.shape) + 0.05 * rng.standard_normal(Y.shape).cumsum(axis=0)
        for name, Y in X.items()
    }


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore")  # units that wander are nearly unstable
def test_sensors_that_wander_say_so_and_have_levels_that_move():
    X = wandering()
    est = FederatedGrangerEstimator(KalmanClient(n_states=2)).fit(X)
    told = est.validity_.query("check == 'steady sensors'")
    assert set(told["effect"]) == set(X)
    assert set(told["remedy"]) == {'levels="wander" in this unit'}
    assert told["statistic"].between(40, 200).all()
    withheld = est.server_.likelihood_links_
    assert set(withheld["verdict"]) == {"cannot tell"}
    assert withheld["because"].str.contains("sensors of unit. wander|unit. has a trend").all()  # a walk is both
    est.set_params(remedy="auto").fit(X)
    assert est.remedies_ == ('levels="wander"',)
    assert found(est) == LINK
    assert "steady sensors" not in set(est.validity_["check"])


def test_only_units_whose_sensors_wander_tell_and_only_where_they_are_asked():
    def told(Y, client=None, noise=None, **wishes):
        worker = UnitWorker("mill", Y, None, (0,), None, KalmanClient(n_states=2) if client is None else client)
        worker = replace(worker, noise=noise)
        return worker.handle(FitRequest(**wishes).to_packet(), {})[0].scalars.get("wanders")

    Y = wandering()["unit1"]
    assert 40 < told(Y, refine=True) < 200
    for other in (plant(n_sensors=6)["unit1"], wandering(2)["unit1"]):
        assert told(other, refine=True) is None
    for wishes in ({}, {"refine": True, "orders": True}):
        assert told(Y, **wishes) is None
    for client in (
        KalmanClient(n_states=2, baseline=Baseline(levels="wander")),
        KalmanClient(n_states=2, baseline=Baseline(levels=100)),
    ):
        assert told(Y, client, refine=True) is None  # what it takes off
    assert told(Y, noise=np.ones(6), refine=True) is None


def test_nothing_is_remedied_where_nothing_failed():
    est = FederatedGrangerEstimator(remedy="auto").fit(plant())
    assert est.remedies_ == ()
    assert found(est) == LINK


def test_short_records_and_other_servers_have_no_report():
    assert FederatedGrangerEstimator().fit(plant(n_samples=150)).validity_.empty
    est = FederatedGrangerEstimator(server=GradientServer(solve="stationary")).fit(plant(n_samples=300))
    with pytest.raises(AttributeError, match="LikelihoodServer"):
        _ = est.validity_


def test_verdicts_are_withheld_for_the_pairs_that_a_check_is_about(fitted):
    links = fitted.links_
    of_pair = gated(links, rows(("no later link", "unit0", "unit2")))
    assert of_pair.query("because != ''")[["cause", "effect"]].to_numpy().tolist() == [["unit0", "unit2"]]
    both = gated(links, rows(("common variance", "unit0", "unit2")))
    assert (both["because"] != "").sum() == 2
    into = gated(links, rows(("same in both halves", "unit2", "unit2")))
    assert set(into.query("because != ''")["effect"]) == {"unit2"}
    of_unit = gated(links, rows(("no trend", "unit1", "unit1")))
    assert (of_unit["because"] != "").sum() == 4
    assert gated(links, rows(("steady variance", "unit1", "unit1"))).equals(links)


def test_a_driver_has_its_own_word_unless_something_else_failed(fitted):
    driven = gated(fitted.links_, rows(("no shared driver", "unit0", "unit2")))
    assert set(driven.query("because != ''")["verdict"]) == {"shared driver"}
    doubtful = gated(fitted.links_, rows(("no shared driver", "unit0", "unit2"), ("no season", "unit2", "unit2")))
    assert "shared driver" not in set(doubtful["verdict"])


@pytest.mark.parametrize(
    "server", [LikelihoodServer(covariance="sandwich"), LikelihoodServer(options=LikelihoodOptions(fix_local=True))]
)
def test_settings_of_the_server_are_checked_as_well(server):
    est = FederatedGrangerEstimator(server=server).fit(plant())
    assert est.validity_["passed"].all()


@pytest.mark.medium
def test_units_that_hardly_report_together_have_no_report():
    X = plant()
    for unit, offset in (("unit0", 0), ("unit2", 1)):
        X[unit][offset::2] = np.nan
    assert FederatedGrangerEstimator().fit(X).validity_.empty


def pushed(radius, size, seed):
    """A slow unit acts on another one and is pushed to another level from half time on."""
    A = np.kron(np.diag([radius, 0.5]), np.eye(2))
    A[2:, :2] = 0.25
    shift = {"unit": "unit0", "size": size, "at": 2500, "until": 5000}
    X, _ = make_granger_plant(2, transition=A, n_samples=5000, random_state=seed, level_shift=[shift])
    est = FederatedGrangerEstimator().fit(X)
    return est, est.server_.likelihood_links_.set_index(["cause", "effect"])


@pytest.mark.medium
@pytest.mark.filterwarnings("ignore:Units whose states drift")
@pytest.mark.parametrize("seed", [0, 3])
def test_a_slow_unit_that_settles_elsewhere_has_no_trend(seed):
    """Its own memory explains where it goes; the plant knows of no shift of either."""
    est, links = pushed(0.99, 0.2, seed)
    assert est.server_.level_shifts_.empty
    assert links.loc[("unit0", "unit1"), "verdict"] == "influence"
    assert links.loc[("unit1", "unit0"), "verdict"] != "influence"


@pytest.mark.medium
def test_a_unit_that_is_there_twice_leaves_no_verdict_about_either():
    X = plant()
    with pytest.warns(UserWarning, match="one unit under two names|tags in common"):
        est = FederatedGrangerEstimator().fit({**X, "copy": X["unit2"].copy()})
    about = est.links_["cause"].isin(["unit2", "copy"]) | est.links_["effect"].isin(["unit2", "copy"])
    withheld = est.server_.likelihood_links_
    assert set(withheld[about]["verdict"]) == {"cannot tell"}
    assert withheld[about]["because"].str.contains("are one unit").all()
    assert set(withheld[~about]["because"]) == {""}
    assert "influence" not in set(est.links_[about]["verdict"])


def test_lags_and_noise_are_checked_of_every_unit(fitted):
    for check in ("enough lags", "noise as supposed"):
        own = fitted.validity_[fitted.validity_["check"] == check]
        assert list(own["cause"]) == list(own["effect"]) == ["unit0", "unit1", "unit2"]
    assert own["statistic"].between(0.95, 1.05).all()
    louder = {name: KalmanClient(R=np.full(8, 9.0), C=client.observation_) for name, client in fitted.clients_.items()}
    est = FederatedGrangerEstimator(louder).fit(plant())
    own = est.validity_.query("check == 'noise as supposed'")
    assert (own["statistic"] < 0.8).all()
    assert not own["passed"].any()


@pytest.mark.parametrize(("p_value", "doubted"), [(0.01, ["unit1"]), (0.5, [])])
def test_units_left_to_themselves_are_in_doubt_where_they_are_not_white(p_value, doubted, monkeypatch):
    messages = {name: KalmanClient().fit(Y).message(Y, const=True) for name, Y in plant(n_samples=500).items()}
    server = LikelihoodServer().fit(messages)
    server.alone_, record = ("unit1",), server.joint_record(messages)
    monkeypatch.setattr(checks, "portmanteau", lambda *about: np.full((3, 3), p_value))
    assert report.report(server, server._filter(record), record, server.links_).attrs[COLOURED] == doubted


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Units whose states drift")
def test_a_common_move_of_load_makes_no_links():
    """Units without links that go to another load by a ramp and back: 19 of 40 records had one before."""
    load, false = np.interp(np.arange(1500), [0, 600, 650, 900, 950, 1500], [0, 0, 30, 30, 0, 0]), 0
    for seed in range(202, 211):
        rng = np.random.default_rng(seed)
        x = np.zeros((1500, 2))
        for t in range(1, 1500):
            x[t] = 0.7 * x[t - 1] + rng.normal(size=2)
        gains = rng.uniform(0.5, 1.5, (2, 3))
        X = {f"unit{k}": x[:, [k]] * gains[k] + 0.5 * rng.normal(size=(1500, 3)) + load[:, None] for k in range(2)}
        false += bool((FederatedGrangerEstimator().fit(X).links_["verdict"] == "influence").any())
    assert false == 0
