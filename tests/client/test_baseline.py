"""Seasons, trends, modes and levels of episodes that a unit takes off its record at home."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from skfedcausal import (
    Baseline,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    KalmanClient,
)
from skfedcausal.client.baseline import LearnedBaseline, wander_period
from skfedcausal.client.records import UnitRows
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation.exchange import InProcessTransport
from skfedcausal.statespace.lines import found_periods

PERIOD = 24


def _season(n, phase=0.0):
    return np.sin(2 * np.pi * np.arange(n) / PERIOD + phase)


@pytest.fixture(scope="module")
def plain():
    return make_granger_plant(3, n_samples=1200, n_links=1, link_strength=0.4, random_state=1)[0]


@pytest.fixture(scope="module")
def seasonal(plain):
    return {name: Y + 3 * _season(len(Y), k)[:, None] for k, (name, Y) in enumerate(plain.items())}


def _flat(X):
    return np.hstack(list(X.values()))


def _share(predicted, Y):
    return 1 - ((Y - predicted) ** 2).sum() / ((Y - Y.mean(axis=0)) ** 2).sum()


def test_the_model_is_that_of_the_residuals_of_one_regression(seasonal):
    Y = seasonal["unit0"]
    angles = 2 * np.pi * np.arange(len(Y))[:, None] * np.arange(1, 13) / PERIOD
    design = np.hstack([np.ones((len(Y), 1)), np.cos(angles), np.sin(angles)])
    fitted = design @ np.linalg.lstsq(design, Y, rcond=None)[0]
    own = KalmanClient(baseline=Baseline(harmonics=PERIOD)).fit(Y)
    bare = KalmanClient().fit(Y - fitted)
    np.testing.assert_allclose(own.transition_, bare.transition_, atol=1e-9)
    np.testing.assert_allclose(own.measurement_cov_, bare.measurement_cov_, rtol=1e-9)
    np.testing.assert_allclose(own.predict(Y), bare.predict(Y - fitted) + fitted, atol=1e-9)
    np.testing.assert_allclose(own.score_samples(Y), bare.score_samples(Y - fitted), atol=1e-9)


def test_a_season_of_any_size_gives_the_same_links(plain, seasonal):
    without = FederatedGrangerEstimator(KalmanClient(baseline=Baseline(harmonics=PERIOD))).fit(plain).links_
    with_one = FederatedGrangerEstimator(KalmanClient(baseline=Baseline(harmonics=PERIOD))).fit(seasonal).links_
    np.testing.assert_allclose(with_one["p_value"], without["p_value"], atol=1e-6)


def test_rows_go_on_after_the_record_and_the_record_itself_is_known_again(seasonal):
    first, later = ({name: Y[rows] for name, Y in seasonal.items()} for rows in (slice(0, 1000), slice(1000, None)))
    est = FederatedGrangerEstimator(KalmanClient(baseline=Baseline(harmonics=PERIOD))).fit(first)
    late = {name: Y[PERIOD // 2 :] for name, Y in later.items()}  # out of phase by half a period
    assert _share(est.predict(later), _flat(later)) > 0.5
    assert _share(est.predict(late), _flat(late)) < 0
    start = {name: Y[:300] for name, Y in first.items()}
    np.testing.assert_allclose(est.predict(start), est.predict(first)[:300], atol=1e-9)
    again = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(again.predict(later), est.predict(later))


@pytest.mark.parametrize("index", [pd.RangeIndex(1200), pd.date_range("2026-01-01", periods=1200, freq="1h")])
def test_an_index_tells_the_phase_of_any_rows(seasonal, index):
    columns = [f"{name}__s{k}" for name, Y in seasonal.items() for k in range(Y.shape[1])]
    frame = pd.DataFrame(_flat(seasonal), columns=columns, index=index)
    est = FederatedGrangerEstimator(KalmanClient(baseline=Baseline(harmonics=PERIOD))).fit(frame[:1000])
    late = frame[1007:]
    assert _share(est.predict(late), late.to_numpy()) > 0.5
    own = KalmanClient(baseline=Baseline(harmonics=PERIOD)).fit(frame[:1000].filter(like="unit0"))
    part = late.filter(like="unit0")
    assert _share(own.predict(part), part.to_numpy()) > 0.5


def test_periods_are_found(seasonal, plain):
    found = KalmanClient(baseline=Baseline(harmonics="auto")).fit(seasonal["unit0"])
    assert [season.period for season in found.baseline_.terms] == [PERIOD]
    none = KalmanClient(baseline=Baseline(harmonics="auto")).fit(plain["unit0"])
    assert none.baseline_.terms == ()
    np.testing.assert_allclose(none.transition_, KalmanClient().fit(plain["unit0"]).transition_)


@pytest.mark.slow
def test_a_period_is_found_in_one_of_many_records_without_one():
    # level 1e-3 per unit, so that 3 of 200 has a chance below 2e-4
    found = 0
    for seed in range(50):
        X, _ = make_granger_plant(4, n_samples=800, random_state=seed)
        found += sum(bool(KalmanClient(baseline=Baseline(harmonics="auto")).fit(Y).baseline_.terms) for Y in X.values())
    assert found < 3


def test_trends_are_taken_off_and_go_on_as_lines(plain):
    Y = plain["unit0"]
    line = np.linspace(0, 30, 1200)[:, None]
    for trend in ("linear", "smooth", 3):
        own = KalmanClient(baseline=Baseline(trend=trend)).fit((Y + line)[:1000])
        assert _share(own.predict((Y + line)[1000:]), (Y + line)[1000:]) > -0.5
    np.testing.assert_allclose(
        KalmanClient(baseline=Baseline(trend="linear")).fit(Y + line).transition_,
        KalmanClient(baseline=Baseline(trend="linear")).fit(Y).transition_,
        atol=1e-8,
    )


def test_a_smooth_trend_spends_its_degrees_of_freedom():
    Y = np.random.default_rng(0).standard_normal((400, 2)).cumsum(axis=0) * 0.1
    Y += np.random.default_rng(1).standard_normal(Y.shape)
    for freedom in (1, 4, 9):
        own = KalmanClient(baseline=Baseline(trend=freedom)).fit(Y)
        assert np.linalg.matrix_rank(own.baseline_.terms[0].columns(_rows(400))) == freedom


def _rows(n):
    return type("Record", (), {"rows": np.arange(n, dtype=float)})


def test_natural_splines_are_those_of_patsy():
    patsy = pytest.importorskip("patsy")
    own = KalmanClient(baseline=Baseline(trend=5)).fit(np.random.default_rng(0).standard_normal((200, 1)))
    x, ours = np.arange(200.0), own.baseline_.terms[0].columns(_rows(200))
    theirs = patsy.dmatrix("cr(x, df=6) - 1", {"x": x})
    both = np.column_stack([np.ones(200), ours])
    assert own.baseline_.terms[0].knots == tuple(np.linspace(0, 199, 6))
    rest = theirs - both @ np.linalg.lstsq(both, theirs, rcond=None)[0]
    assert np.abs(rest).max() < 1e-8


def _modal(plain):
    mode = (np.arange(1200) // 70) % 3
    return {name: Y + np.array([0.0, 5.0, -3.0])[mode][:, None] for name, Y in plain.items()}, mode


def test_modes_by_a_column_and_by_an_array_are_the_same(plain):
    X, mode = _modal(plain)
    told = {name: np.column_stack([Y, mode]) for name, Y in X.items()}
    column = FederatedGrangerEstimator(KalmanClient(baseline=Baseline(mode=8))).fit(told)
    array = FederatedGrangerEstimator(
        KalmanClient(baseline=Baseline(mode=np.array(["off", "half", "full"])[mode]))
    ).fit(X)
    np.testing.assert_allclose(column.links_["p_value"], array.links_["p_value"], rtol=1e-6)
    predicted = column.predict(told)
    np.testing.assert_array_equal(predicted[:, 8], mode)  # what is no measurement is what it is
    assert _share(predicted[:, :8], X["unit0"]) > 0.5
    frame = pd.DataFrame(told["unit0"], columns=[*"abcdefgh", "mode"])
    named = KalmanClient(baseline=Baseline(mode="mode")).fit(frame)
    np.testing.assert_allclose(named.transition_, column.clients_["unit0"].transition_)


def test_levels_of_episodes(plain):
    levels = np.repeat([0.0, 20.0, -10.0], 400)[:, None]
    X = {name: Y + levels for name, Y in plain.items()}
    est = FederatedGrangerEstimator(KalmanClient(baseline=Baseline(levels="episode"))).fit(X, lengths=[400] * 3)
    bare = FederatedGrangerEstimator(KalmanClient(baseline=Baseline(levels="episode"))).fit(plain, lengths=[400] * 3)
    np.testing.assert_allclose(est.transition_, bare.transition_, atol=1e-7)
    np.testing.assert_allclose(
        est.predict(X, lengths=[400] * 3) - levels, bare.predict(plain, lengths=[400] * 3), atol=1e-6
    )


@pytest.fixture(scope="module")
def wandering(plain):
    rng = np.random.default_rng(0)
    sizes = {name: 0.05 * np.sqrt(KalmanClient().fit(Y).measurement_cov_) for name, Y in plain.items()}
    return {name: Y + sizes[name] * rng.standard_normal(Y.shape).cumsum(axis=0) for name, Y in plain.items()}


def test_sensors_that_wander_have_the_states_of_those_that_stay(plain, wandering):
    for name, Y in wandering.items():
        own, bare = KalmanClient(baseline=Baseline(levels="wander")).fit(Y), KalmanClient().fit(plain[name])
        assert KalmanClient().fit(Y).n_states_ > bare.n_states_
        assert own.n_states_ == bare.n_states_
        assert 50 < own.baseline_.levels.period < 150  # about 2 pi / (1.5 * 0.05)
        assert own.baseline_.moves
        np.testing.assert_allclose(own.measurement_cov_, bare.measurement_cov_, rtol=0.2)
        assert _share(own.predict(Y), Y) > _share(bare.predict(plain[name]), plain[name]) - 0.1


def test_levels_stay_where_sensors_do(plain):
    for Y in plain.values():
        own = KalmanClient(baseline=Baseline(levels="wander")).fit(Y)
        assert own.baseline_.levels.period == np.inf
        assert not own.baseline_.moves
        np.testing.assert_allclose(own.transition_, KalmanClient().fit(Y).transition_, atol=1e-9)


@pytest.mark.parametrize("stretches", [[100, 300, 500, 700, 900], [400]])
def test_sensors_with_long_gaps_do_not_wander_for_that(plain, stretches):
    for Y in plain.values():
        Y = Y.copy()
        for start in stretches:
            Y[start : start + 300 // len(stretches)] = np.nan
        assert wander_period(Y, (0,)) == np.inf


def test_sensors_with_gaps_wander_as_before(wandering):
    rng = np.random.default_rng(2)
    for Y in wandering.values():
        holes = np.where(rng.random(Y.shape) < 0.05, np.nan, Y)
        holes[500:560] = np.nan
        assert 50 < wander_period(holes, (0,)) < 150


def test_seasons_and_modes_that_are_given_do_not_wander(plain):
    rng = np.random.default_rng(0)
    for Y in plain.values():
        phases = rng.uniform(0, 2 * np.pi, Y.shape[1])
        season = 2 * np.sin(2 * np.pi * np.arange(1200)[:, None] / 240 + phases)
        assert not KalmanClient(baseline=Baseline(levels="wander", harmonics=240)).fit(Y + season).baseline_.moves
        modes = (np.arange(1200) // 150 % 2)[:, None]
        assert (
            not KalmanClient(baseline=Baseline(levels="wander", mode=0))
            .fit(np.hstack([modes, Y + modes]))
            .baseline_.moves
        )


def test_a_baseline_of_the_first_version_keeps_the_levels_of_its_episodes(plain):
    Y = plain["unit0"] + np.repeat([0.0, 20.0], 600)[:, None]
    baseline = KalmanClient(baseline=Baseline(levels="episode")).fit(Y, lengths=[600, 600]).baseline_
    old, state = object.__new__(LearnedBaseline), dict(vars(baseline))
    del state["levels"]
    old.__setstate__({**state, "by_episode": True})
    np.testing.assert_array_equal(old.of(Y, starts=(0, 600))[0], baseline.of(Y, starts=(0, 600))[0])


def test_levels_move_in_every_episode_and_where_cells_are_missing(wandering):
    Y, rng = wandering["unit0"], np.random.default_rng(1)
    off = KalmanClient(baseline=Baseline(levels=100)).fit(Y, lengths=[500, 700]).baseline_.of(Y, starts=(0, 500))[0]
    for rows in (slice(0, 500), slice(500, 1200)):
        alone = KalmanClient(baseline=Baseline(levels=100)).fit(Y[rows]).baseline_.of(Y[rows])[0]
        np.testing.assert_allclose(np.ptp(off[rows] - alone, axis=0), 0, atol=1e-9)  # but for their means
    holes = np.where(rng.random(Y.shape) < 0.1, np.nan, Y)
    whole, own = (KalmanClient(baseline=Baseline(levels=100)).fit(record) for record in (Y, holes))
    assert _share(own.baseline_.of(holes)[0], whole.baseline_.of(Y)[0]) > 0.9
    Y = np.where(np.arange(1200)[:, None] < 1100, Y, np.nan)  # as high behind the last rows as a few of these
    off = own.baseline_.of(Y)[0]
    scatter = (Y - off)[:1100].reshape(55, 20, -1).mean(axis=1).std(axis=0)
    assert (np.abs(off[1150:] - off[1080:1100].mean(axis=0)) < 4 * scatter).all()


def test_a_stream_goes_on_at_the_last_level(wandering):
    Y = wandering["unit0"]
    baseline = KalmanClient(baseline=Baseline(levels=100)).fit(Y).baseline_
    off, last = baseline.of(Y[-5:], after=1199)
    assert last == 1204
    np.testing.assert_allclose(off, np.tile(baseline.of(Y)[0][-1], (5, 1)), atol=1e-9)


def test_a_season_is_found_beside_levels_that_move(wandering):
    Y = wandering["unit0"] + 3 * _season(1200)[:, None]
    own = KalmanClient(baseline=Baseline(levels="wander", harmonics="auto")).fit(Y)
    assert own.baseline_.moves
    assert [season.period for season in own.baseline_.terms] == [PERIOD]


@pytest.mark.parametrize("levels", [5, 19.9, 1201])
def test_levels_that_move_as_fast_as_states_or_not_at_all_are_refused(plain, levels):
    with pytest.raises(ValueError, match=f"levels={levels}.*from 20 to the 1200 of the longest episode"):
        KalmanClient(baseline=Baseline(levels=levels)).fit(plain["unit0"])


@pytest.mark.medium
def test_gaps_episodes_forecasts_and_streams(seasonal):
    rng = np.random.default_rng(0)
    holes = {name: np.where(rng.random(Y.shape) < 0.1, np.nan, Y) for name, Y in seasonal.items()}
    est = FederatedGrangerEstimator(KalmanClient(baseline=Baseline(harmonics=PERIOD))).fit(holes, lengths=[600, 600])
    assert _share(est.predict(holes, lengths=[600, 600]), _flat(seasonal)) > 0.5
    est.fit({name: Y[:1000] for name, Y in seasonal.items()})
    assert _share(est.forecast(seasonal, 1000), _flat(seasonal)[1000:]) > 0.3
    detector = FederatedRCADetector(KalmanClient(baseline=Baseline(harmonics=PERIOD)), false_alarm_rate=1 / 300)
    detector.fit({name: Y[:900] for name, Y in seasonal.items()})
    later = {name: Y[900:].copy() for name, Y in seasonal.items()}
    assert np.mean(detector.predict(later) == -1) < 0.1
    later["unit1"][150:] += 12.0
    whole, told = detector.incidents(later), set()
    for first in range(0, 300, 50):
        told |= set(detector.update({name: Y[first : first + 50] for name, Y in later.items()})["detected"])
    assert told == set(whole["detected"])
    assert any(150 <= row < 155 for row in told)


@pytest.mark.medium
def test_effects_of_inputs_have_no_season_in_them():
    X, truth = make_granger_plant(2, n_samples=800, n_inputs=1, random_state=0)
    waves = {name: Y + 2 * _season(800)[:, None] for name, Y in X.items()}
    client = KalmanClient(baseline=Baseline(harmonics={PERIOD: 1}))
    with_one = FederatedCounterfactualEstimator(client).fit(waves, inputs=truth.inputs)
    without = FederatedCounterfactualEstimator(client).fit(X, inputs=truth.inputs)
    np.testing.assert_allclose(with_one.input_, without.input_, atol=1e-4)


def test_sites_take_seasons_off_at_home(seasonal):
    est = FederatedGrangerEstimator(KalmanClient(baseline=Baseline(harmonics=PERIOD))).fit(seasonal)
    workers = {
        name: UnitWorker(name, Y, None, (0,), None, KalmanClient(baseline=Baseline(harmonics=PERIOD)))
        for name, Y in seasonal.items()
    }
    far = FederatedGrangerEstimator().fit_sites(InProcessTransport(workers))
    np.testing.assert_array_equal(far.links_["p_value"], est.links_["p_value"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"harmonics": 3000}, "period of 3000 rows is longer than the record of the unit, 1200 rows"),
        ({"harmonics": {24: 13}}, "got 13 harmonics for the period of 24 rows"),
        ({"harmonics": ["day"]}, "a period is a number of rows"),
        ({"trend": 400}, "spends 400 degrees of freedom"),
        ({"mode": "load"}, "no column of the unit"),
        ({"mode": 12}, "has columns 0 to 7"),
        ({"mode": 0}, "1200 labels in 1200 rows"),
        ({"mode": np.zeros(7)}, "one label for each of the 1200 rows"),
        ({"mode": np.where(np.arange(1200) == 5, "start", "run")}, "Mode.s. 'start' of the unit"),
        ({"mode": np.where(np.arange(1200) < 5, None, "run")}, "5 rows of the unit have no mode"),
    ],
)
def test_what_cannot_be_meant_is_refused(plain, settings, words):
    with pytest.raises(ValueError, match=words):
        KalmanClient(baseline=Baseline(**settings)).fit(plain["unit0"])


def test_modes_of_new_rows_must_be_known(plain):
    X, mode = _modal(plain)
    told = np.column_stack([X["unit0"], mode])
    own = KalmanClient(baseline=Baseline(mode=8)).fit(told)
    told[-1, 8] = 7
    with pytest.raises(ValueError, match=r"is in mode.s. 7\.0, which did not occur"):
        own.predict(told)
    own = KalmanClient(baseline=Baseline(mode=mode[:1000])).fit(X["unit0"][:1000])
    with pytest.raises(ValueError, match="labels of rows 0 to 999, and rows 1000 to 1199"):
        own.predict(X["unit0"][1000:])
    longer = KalmanClient(baseline=Baseline(mode=mode)).fit(X["unit0"][:1000])
    assert _share(longer.predict(X["unit0"][1000:]), X["unit0"][1000:]) > 0.5


def test_under_privacy_rows_need_an_index(seasonal):
    client = KalmanClient(baseline=Baseline(harmonics=PERIOD))
    noise = np.full(8, 0.1)
    with pytest.raises(ValueError, match="index of times or whole numbers"):
        clone(client).fit(UnitRows(seasonal["unit0"], noise=noise))
    clone(client).fit(UnitRows(seasonal["unit0"], noise=noise, row_index=pd.RangeIndex(1200)))
    with pytest.raises(ValueError, match="noise for privacy is added"):
        KalmanClient(baseline=Baseline(mode=0)).fit(
            UnitRows(seasonal["unit0"], noise=noise, row_index=pd.RangeIndex(1200))
        )


def test_what_an_autoregression_says_exactly_has_no_line_beside_it():
    t = np.arange(600.0)
    for wave in (np.cos(2 * np.pi * t / 24), t, np.where(t < 300, 0.0, 1e-3), 0.9**t):
        assert found_periods(wave[:, None], t) == []


@pytest.mark.parametrize("level", [0.0, 1e3, 1e9])
@pytest.mark.parametrize(
    ("option", "column"),
    [
        ({"trend": True}, lambda t: 0.3 * t),
        ({"trend": "smooth"}, lambda t: -2.0 * t),
        ({"harmonics": {24: 1}}, lambda t: 5 * np.cos(2 * np.pi * t / 24 + 1)),
    ],
    ids=["a line", "a falling line", "a season"],
)
def test_columns_that_are_their_baseline_alone_are_ignored_or_refused(option, column, level):
    t, noise = np.arange(800.0), np.random.default_rng(0).standard_normal((800, 2))
    alone = column(t)[:, None] + level
    with pytest.raises(ValueError, match="Nothing is left in any column of the unit"):
        KalmanClient(baseline=Baseline(**option)).fit(alone)
    with pytest.warns(UserWarning, match="Columns 1 of the unit are fully explained by their seasons, trend"):
        client = KalmanClient(baseline=Baseline(**option)).fit(np.hstack([noise[:, :1], alone, noise[:, 1:]]))
    assert client.transform(np.hstack([noise[:, :1], alone, noise[:, 1:]])).shape[1] <= 2
    faint = 1e-5 if level else 1e-7  # which is more than rounding
    KalmanClient(baseline=Baseline(**option)).fit(alone + faint * noise)


def test_a_level_that_moves_between_episodes_alone_leaves_nothing():
    Y = np.repeat([[1.0], [2.0]], 400, axis=0)
    with pytest.raises(ValueError, match="Nothing is left in any column"):
        KalmanClient(baseline=Baseline(levels="episode")).fit(Y, lengths=[400, 400])
