"""What seldom happens: plants in blocks that shift, loops of several lags, boxes, status bits, functions alone."""

from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.neural_network import MLPRegressor

from skfedcausal import (
    Baseline,
    Evidence,
    ExtendedKalmanClient,
    GradientServer,
    InputModel,
    KalmanClient,
    RandomizedResponse,
    RegressorServer,
    inspection,
)
from skfedcausal.bases import configured
from skfedcausal.client.baseline import Record as SeasonRecord
from skfedcausal.client.baseline import _rest
from skfedcausal.client.extended_kalman import LinearMap
from skfedcausal.datasets import make_granger_plant
from skfedcausal.estimators._interventions import one_lag_realisation
from skfedcausal.estimators._watching import stops
from skfedcausal.papers import TrainingMechanism
from skfedcausal.secure import SecureSumsServer
from skfedcausal.server import likelihood as server_likelihood
from skfedcausal.server import moments as server_moments
from skfedcausal.server.estimation.input_checks import _given_own_measurements
from skfedcausal.server.links import questions as link_questions
from skfedcausal.server.links.grades import Gains, _graded
from skfedcausal.server.links.resampling import _cuts
from skfedcausal.server.orders import _log_density
from skfedcausal.server.sparse import learning as sparse_learning
from skfedcausal.server.sparse import server as sparse_server
from skfedcausal.server.sparse import tables
from skfedcausal.server.validity.checks import rank_squares
from skfedcausal.server.watching.inputs import _forgotten

from ...client._reference import Unit
from ..plants import Plant, Record
from .common import (
    ABOUT,
    LEARNED,
    ask,
    ask_nothing,
    counterfactual,
    detector,
    driven,
    faulty,
    gappy,
    granger,
    lagged,
    likelihood,
    made,
    record,
    table_of,
)
from .inputs import hidden_load
from .links import messages
from .streams import updated
from .watching import LATER, NOMINAL, split

_PLANT = {"plant": LEARNED["plant"]}


# -- plants of many units --------------------------------------------------------------------------------------


_FEW = (  # from how many units or states on plants are large
    (server_likelihood, "LARGE", 4),
    (link_questions, "LARGE", 4),
    (server_moments, "_LARGE", 5),
    *((module, "ALL_PAIRS", 0) for module in (sparse_learning, tables, sparse_server, tables)),
)


def _in_blocks(rows=None):
    """A fit for which eight units are many, to the first rows."""

    def fit(estimator, record):
        given = record.rows(0, rows).given()
        with ExitStack() as patched:
            for module, name, value in _FEW:
                patched.enter_context(patch.object(module, name, value))
            estimator.fit(**given)
            getattr(estimator, "links_", None)  # which would be made of few units later

    return fit


def _many(n_samples=500, n_units=8, links=((0, 1), (1, 2), (3, 4)), **settings):
    return record(n_units, n_samples, n_sensors=3, n_states=1, links=links, **settings)


def _many_watched():
    found = _many(1000)
    found.X["unit1"][750:770] = np.nan
    return faulty(found, "unit5", 850)


def _parts(size):
    """Batches of the last rows, and how the watch stands then."""

    def asked(fitted):
        watch, last = fitted.copy(), fitted.record.rows(700).X
        told = [watch.update({name: Y[k : k + size] for name, Y in last.items()}) for k in range(0, 300, size)]
        return told, watch.alarms_

    return asked


def _shifted(found, at=250):
    """The states of two units at another level from a row on, of each from another one."""
    for name, first in (("unit1", at), ("unit2", at + 120)):
        found.X[name][first:] += 4.0 * _one_way(found.X[name])
    return found


def _one_way(Y):
    """Sizes of the sensors of a unit as its first one moves them."""
    return Y.std(axis=0) * np.sign(np.corrcoef(Y.T)[0])


# -- several lags ----------------------------------------------------------------------------------------------


def _lagged_loop():
    """A controller of the second unit reads its sensor, which the input of the first unit moves three rows later."""
    rng, n = np.random.default_rng(2), 500
    y, u = np.zeros((n, 3)), np.zeros((n, 2))
    for t in range(n):
        e = rng.standard_normal(3)
        for j, k in ((0, 1), (1, 1), (2, 1)):
            y[t, j] = 0.4 * y[t - k, j] + e[j] if t >= k else e[j]
        if t >= 3:
            y[t, 0] += 0.5 * u[t - 1, 0]
            y[t, 1] += 0.5 * u[t - 1, 1] + 0.5 * y[t - 3, 0]
            y[t, 2] += 0.5 * y[t - 2, 1]
        u[t] = [rng.standard_normal(), 0.7 * rng.standard_normal() - 0.4 * y[t, 1]]
    X = {f"unit{k}": y[:, [k]] for k in range(3)}
    return Record(X, [u[:, :1], u[:, 1:], None])


def _lagged_sensors():
    """Several sensors of each unit of several lags, with gaps, whose second one is pushed at last."""
    found, rng = lagged(1200), np.random.default_rng(3)
    X = {name: np.hstack([Y, 0.7 * Y, -0.4 * Y]) + 0.2 * rng.standard_normal((1200, 3)) for name, Y in found.X.items()}
    X["unit1"][1050:] += 2.0
    X["unit0"][1000:1010, 0] = np.nan
    X["unit2"][1015:1020] = np.nan
    return Record(X)


# -- units -----------------------------------------------------------------------------------------------------


def _sharing():
    """Two units with more memory than states, whose last sensors read the same."""
    rng, X = np.random.default_rng(0), {}
    for name in ("mill", "kiln"):
        h, rows = np.zeros(5), np.empty((450, 6))
        for t in range(450):
            h = np.array([0.9, 0.8, 0.7, 0.6, 0.5]) * h + rng.standard_normal(5)
            rows[t, :5] = h + 0.1 * rng.standard_normal(5)
        rows[:, 5] = rng.standard_normal(450)
        X[name] = rows
    X["kiln"][:, 5] = X["mill"][:, 5] + 0.05 * rng.standard_normal(450)
    return Record(X)


def _with_valves():
    """A unit two of whose sensors follow the row before of another one."""
    rng, X = np.random.default_rng(0), make_granger_plant(2, n_states=1, n_sensors=3, n_samples=700, random_state=0)[0]
    early = np.vstack([X["unit0"][:1], X["unit0"][:-1]])
    valves = early[:, :1] * [0.7, -0.4] + 0.01 * rng.standard_normal((700, 2))
    return Record({"unit0": np.hstack([X["unit0"], valves]), "unit1": X["unit1"]})


def _remainder(fitted):
    """What a unit's own past says of what its states leave, at the first unit."""
    Y = fitted.record.X["unit0"]
    model = KalmanClient().fit(Y).model
    residual = model.residual_model
    states = np.random.default_rng(0).standard_normal((len(Y), model.n_states)).round(6)
    const = np.linspace(-1.0, 1.0, len(Y))
    return {
        "const": residual.const(Y, None, (0, 300), const),
        "errors": residual.errors(Y, None, (0,)),
        "left": residual.left(Y, (0,)),
        "expected": residual.expected(states, Y, None, (0,), np.zeros_like(Y)),
        "message": replace(model, own_density=None).message(Y, (0,), const=True).const,
    }


def _heavy():
    """Units with outliers, whose tails are learned."""
    found, rng = record(n_samples=900), np.random.default_rng(8)
    for Y in found.X.values():
        Y += np.where(rng.random((900, 1)) < 0.03, 4.0, 0.0) * rng.standard_normal((900, 1)) * Y.std(axis=0)
    return found


def _with_counter():
    """A unit whose single column hardly moves from one row to the next, then jumps."""
    found, rng = record(2, 900, links=((0, 1),)), np.random.default_rng(0)
    jumps = rng.standard_normal(900) * (rng.random(900) < 0.02)
    return Record({**found.X, "counter": (np.cumsum(jumps) + 1e-3 * rng.standard_normal(900))[:, None]})


def _alone(fitted):
    return fitted.estimator.server_.alone_


def _far(found):
    """Sensors far from zero, with gaps."""
    for Y in found.X.values():
        Y += 50.0
    return gappy(found, 0.02)


class Box:
    """A filter that somebody else has written."""

    def __init__(self, model):
        A, C, Q, R = (np.asarray(model[name]) for name in "ACQR")
        self._unit = Unit(A, np.zeros((len(A), 1)), C, Q, np.diag(R) if R.ndim == 1 else R, np.zeros(len(C)))

    def filter_moments(self, Y, inputs=None):
        found = self._unit.filter(Y, inputs)
        return found.prior, found.prior_cov, found.posterior, found.posterior_cov


def _boxes():
    truth = make_granger_plant(2, n_samples=400, links=((0, 1),), random_state=0)[1]
    return {name: Box(model) for name, model in truth.clients().items()}


def _maps(**settings):
    """Extended filters whose maps are bent."""
    C = np.random.default_rng(0).standard_normal((4, 2))
    return {
        name: ExtendedKalmanClient(
            lambda h: 0.6 * h + 0.1 * np.sin(h), lambda h: h @ C.T, n_states=2, Q=np.eye(2), R=np.eye(4), **settings
        )
        for name in ("unit0", "unit1")
    }


def _two(n_samples=400):
    return record(2, n_samples, links=((0, 1),), n_sensors=4)


def _with_status():
    """A unit of status bits: one that is always on, and one that follows the first unit."""
    found, rng = faulty(record(n_samples=1300, seed=3, links=((0, 1),)), "unit2", 1150), np.random.default_rng(6)
    follows = (found.X["unit0"][:, 0] + rng.standard_normal(1300) > 0).astype(float)
    return Record({**found.X, "pump": np.column_stack([np.ones(1300), 5.0 * follows])})


# -- links -----------------------------------------------------------------------------------------------------


def _within_the_row():
    """One unit drives two others whose noise is the same in part."""
    rng, n = np.random.default_rng(9), 900
    h, rows = np.zeros(3), []
    A = np.array([[0.7, 0.0, 0.0], [0.4, 0.6, 0.0], [0.4, 0.0, 0.5]])
    L = np.linalg.cholesky(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.6], [0.0, 0.6, 1.0]]))
    for _ in range(n):
        h = A @ h + L @ rng.standard_normal(3)
        rows.append(np.kron(h, [1.0, 0.6]) + 0.2 * rng.standard_normal(6))
    Y = np.array(rows)
    return Record({f"unit{k}": Y[:, 2 * k : 2 * k + 2] for k in range(3)})


def _now(change):
    """Rows in which something has changed."""

    def asked(fitted):
        found = change(record(n_samples=500, seed=0))
        return inspection.changed_links(fitted.estimator, Record(found.X).settled().X)

    return asked


def _noisier(found):
    found.X["unit1"] += 3.0 * np.random.default_rng(0).standard_normal(found.X["unit1"].shape)
    return found


def _higher(found):
    return faulty(found, "unit2", 250, 2.0)


def _louder(found):
    found.X["unit0"] *= 2.0
    return found


def _later_ones(fitted):
    """The rows before at another row: links that are delayed."""
    found = record(n_samples=500, seed=0).settled().X
    found["unit0"] = np.roll(found["unit0"], 2, axis=0)
    return inspection.changed_links(fitted.estimator, found)


class _Slow:
    """A term that goes on with the rows."""

    def columns(self, record):
        return record.rows[:, None]


def _near_their_bounds():
    """Verdicts of gains that are next to what decides them, [effect, cause]."""
    zero = np.zeros((2, 2))

    def gains(direct, same_row):
        return Gains(zero + direct, zero + 1e-4, zero + 0.2, zero + 1e-4, zero + 0.02, zero + same_row, zero)

    found = [_graded(gains(0.1, 0.0), gains(x, y), 0.01, zero, zero) for x, y in ((0.09, 0.02), (0.05, 0.095))]
    return [(one.verdict, one.is_slow, one.is_shared, one.high, one.evidence) for one in found]


def _with_a_pause():
    hours = pd.date_range("2026-01-01", periods=8, freq="h")
    return hours[:5].append(hours[5:] + pd.Timedelta("1000h"))


def _of_one_unit():
    """A record of one unit with an input that is not around zero, as far as sums of it are asked for."""
    t = np.arange(60.0)
    known = SimpleNamespace(series=(2 + np.sin(t) + 0.1 * np.cos(t**2))[:, None])
    partition = SimpleNamespace(input_slices=(slice(0, 1),), n_states=1)
    part = SimpleNamespace(z=(3 + np.sin(0.7 * t))[:, None])
    return SimpleNamespace(partition=partition, standard_known=known, parts=(part,), starts=(0,))


def _by_itself(_):
    """Functions that records rarely come to."""
    rng = np.random.default_rng(0)
    estimate = np.repeat([0.0, 1.0, 0.4], 3)[:, None] + 0.1 * rng.standard_normal((9, 2)).round(6)
    slow = 0.5 * np.arange(9.0)[:, None]
    return {
        "cuts": _cuts(estimate, np.tile(50.0 * np.eye(2), (9, 1, 1)), 4.0),
        "forgotten": _forgotten(np.array([0.0, 2.0, 0.0, 0.5, 0.0]), 1.0),
        "forgotten again": _forgotten(np.zeros(3), 0.7),
        "ranks": rank_squares(np.array([[1.0], [2.0], [-1.0], [0.5], [3.0]])),
        "realisation": tuple(
            one_lag_realisation(
                np.array([[[0.5, 0.1], [0.0, 0.4]], [[0.2, 0.0], [0.3, 0.0]]]),
                np.array([[[1.0], [0.0]], [[0.0], [0.5]]]),
                np.array([[0.7], [-0.2]]),
                np.array([[1.0, 2.0], [0.5, -1.0], [0.3, 0.3]]),
            )
        ),
        "shared sensors": _log_density(np.array([[1.0, 0.4], [0.4, 2.0]]), np.array([[1.1, 0.3], [0.3, 1.7]])),
        "grades": _near_their_bounds(),
        "a pause": stops(pd.DataFrame({"a": np.zeros(8)}, _with_a_pause()), pd.Timedelta("1h")),
        "a term taken off": _rest(SeasonRecord(slow + estimate, np.arange(9.0), (0,)), [_Slow()], None, "a unit"),
        "given own measurements": _given_own_measurements(
            _of_one_unit(), lambda a, b: np.cos(np.arange(a, b))[:, None], 0
        ),
        "maps": LinearMap(np.array([[0.5, 0.2], [0.0, 1.5]]), np.array([1.0, -1.0])).value(np.eye(2)),
    }


# -- time ------------------------------------------------------------------------------------------------------


def _timed(n_samples=600):
    return Record(table_of(record(2, n_samples, links=((0, 1),)), "2020-01-01", "h"))


def _seasons():
    """A unit with a season of a day, by the clock."""
    found = record(2, 600, links=((0, 1),))
    found.X["unit0"] += 2.0 * np.sin(2 * np.pi * np.arange(600)[:, None] / 24)
    return Record(table_of(found, "2020-01-01", "h"))


def _hourly(estimator, record):
    for k in range(0, 600, 200):
        estimator.partial_fit(record.rows(k, k + 200).X)


def _bent():
    """Inputs that act through a function."""
    return Record(table_of(driven(n_samples=500, through=np.tanh)))


# -- watching --------------------------------------------------------------------------------------------------


def _watched():
    return faulty(record(n_samples=1400, seed=3, links=((0, 1),)), "unit2", 1150)


def _gappy_tags(fitted):
    """Tags to blame in rows that have gaps, and how each would have gone on."""
    later = gappy(fitted.record.rows(NOMINAL), 0.1).X
    first = fitted.estimator.incidents(later).iloc[-1]
    return inspection.tags(fitted.estimator, later, first), inspection.tag_trend(fitted.estimator, later, first)


def _calmer_elsewhere(fitted):
    """Rows that begin at an operating point of its own, where the plant moves less."""
    later = {name: 0.4 * Y for name, Y in fitted.record.rows(NOMINAL).X.items()}
    for name in ("unit0", "unit1"):
        later[name] += 5.0 * _one_way(fitted.record.X[name][:NOMINAL])
    watch = fitted.copy()
    told = [watch.update({name: Y[k : k + 100] for name, Y in later.items()}) for k in range(0, 800, 100)]
    return fitted.estimator.incidents(later), told


def _long_watched():
    return faulty(record(n_samples=1800, seed=3, links=((0, 1),), n_states=4), "unit2", 1650)


def _odd_sensor(constant):
    """A sensor that never moved and then does, or one whose values are too large from a row on."""

    def found():
        made = record(n_samples=1400, seed=3, links=((0, 1),))
        if constant:
            made.X["unit2"][:, :2] = 3.0
        made.X["unit2"][1150:, 0] += 12.0
        return made

    return found


def _tags(fitted):
    """Tags to blame, and how each would have gone on."""
    later = fitted.record.rows(NOMINAL).X
    first = fitted.estimator.incidents(later).iloc[-1]
    return inspection.tags(fitted.estimator, later, first), inspection.tag_trend(fitted.estimator, later, first)


def _few_flags():
    """Randomised flags of many rows, few of which say anything."""
    return detector(
        privacy=RandomizedResponse(epsilon=1.3, random_state=0),
        evidence=Evidence("flags", percentile=80.0, n_steps=30),
        false_alarm_rate=0.05,
    )


def _of_the_papers(seed, **settings):
    """Training whose messages have the noise of the papers, of units with inputs."""
    truth = make_granger_plant(2, n_samples=2, links=((0, 1),), n_inputs=1, input_links=(), random_state=seed)[1]
    return counterfactual(
        {name: KalmanClient(baseline=Baseline(center=False), **model) for name, model in truth.clients().items()},
        server=configured(GradientServer, {"max_iter": 3, "tol": 0.0} | settings),
        privacy=TrainingMechanism(epsilon=1.0, delta=1e-5, clip_norm=25.0, protocol="paper", random_state=0),
    )


def _glitch():
    """One row of a sensor that is wrong, between nominal ones."""
    found = record(n_samples=1300, seed=3, links=((0, 1),))
    found.X["unit1"][1150, 0] += 30.0 * found.X["unit1"][:, 0].std()
    return found


def _lagged_before():
    """Inputs that act on two units of several lags in the row that they stand in."""
    found, rng = lagged(360), np.random.default_rng(1)
    inputs = [rng.standard_normal((360, 1)) for _ in found.X]
    found.X["unit0"] += 0.8 * inputs[0]
    found.X["unit1"][3:] += 0.5 * inputs[0][:-3]
    return Record(found.X, inputs)


def _modes_for_long():
    """A column says which recipe runs, whose levels drift apart slowly."""
    found, rows = record(n_samples=2200, seed=3, links=((0, 1),), n_states=4), np.arange(2200)
    mode = rows // 200 % 2
    for Y in found.X.values():
        Y += (3.0 + 0.5 * (rows > NOMINAL))[:, None] * mode[:, None]
    return Record(table_of(found).assign(unit0__recipe=np.where(mode, "winter", "summer")))


def _paused_within(fitted):
    """A batch within which there are no rows for long."""
    watch, later = fitted.copy(), fitted.record.rows(NOMINAL).X
    return watch.update(pd.concat([later.iloc[:60], later.iloc[100:190]])), watch.update(later.iloc[190:])


def _attributed_early(fitted):
    """Whom to blame for rows in which nothing happens."""
    return fitted.estimator.attribute(fitted.record.rows(NOMINAL).X, start=20, end=60)


def _trained_together():
    return detector(
        ExtendedKalmanClient(n_states=2, hidden=4, random_state=0),
        server=RegressorServer(
            MLPRegressor(hidden_layer_sizes=(6,), max_iter=15, random_state=0),
            labels="augmented",
            n_epochs=2,
            n_steps=4,
        ),
        random_state=0,
    )


PLANTS = [
    Plant(
        "units watched in blocks",
        detector,
        _many_watched,
        {**_PLANT, **{name: ask(name) for name in ("incidents", "transform", "score_samples", "predict_root_cause")}},
        {
            "attribute": ask("attribute", start=850),
            "update by 50 rows": _parts(50),
            "update by single rows": _parts(1),
        },
        fit=_in_blocks(700),
    ),
    Plant(
        "shifts in blocks",
        granger,
        lambda: _shifted(_many()),
        {**LEARNED, **{name: ask(name) for name in ("predict", "transform", "score_samples")}},
        fit=_in_blocks(),
    ),
    Plant(
        "shifts in blocks with gaps",
        granger,
        lambda: gappy(_shifted(_many()), 0.03),
        {**LEARNED, **{name: ask(name) for name in ("predict", "transform", "score_samples", "benefit")}},
        {"smoothed": lambda fitted: fitted.estimator.server_.smoothed(messages(fitted))},
        fit=_in_blocks(),
    ),
    Plant(
        "shifts in blocks with inputs",
        counterfactual,
        lambda: _shifted(_many(n_inputs=1, input_links=((0, 1),))),
        {**LEARNED, "whatif": ask("whatif", do={"unit0__u0": 0.0}), "predict": ask("predict")},
        fit=_in_blocks(),
    ),
    Plant(
        "several lags in a closed loop",
        counterfactual,
        _lagged_loop,
        {
            **_PLANT,
            "counterfactual, loops react": ask_nothing(
                "counterfactual", "unit0", 0.0, 1.0, horizon=8, loops="react", return_std=True
            ),
            "whatif, loops react": ask("whatif", do={"unit0__u0": 0.0}, loops="react"),
            "gain_table": ask_nothing("gain_table"),
            "predict": ask("predict"),
        },
    ),
    Plant(
        "watching sensors of several lags",
        made(detector, KalmanClient(n_states=1), server=likelihood(), baseline=Baseline(levels=None)),
        _lagged_sensors,
        {
            **_PLANT,
            "incidents": ask("incidents"),
            "attribute": ask("attribute", start=1040),
            "transform": ask("transform"),
            "score_samples": ask("score_samples"),
        },
        fit=lambda estimator, record: estimator.fit(record.rows(0, 900).X),
    ),
    Plant("a sensor of two units", granger, _sharing, {**_PLANT, "predict": ask("predict"), "score": ask("score")}),
    Plant(
        "sensors that follow others",
        granger,
        _with_valves,
        {**LEARNED, "predict": ask("predict"), "score_samples": ask("score_samples"), "remainder": _remainder},
    ),
    Plant(
        "units with outliers",
        granger,
        _heavy,
        {**_PLANT, "score_samples": ask("score_samples"), "predict": ask("predict")},
    ),
    Plant(
        "boxes",
        lambda: granger(_boxes()),
        lambda: record(2, 400, links=((0, 1),)),
        {**_PLANT, "predict": ask("predict"), "score": ask("score"), "transform": ask("transform")},
    ),
    Plant(
        "extended filters with bends",
        lambda: granger(_maps()),
        _two,
        {**_PLANT, "predict": ask("predict"), "score": ask("score"), "forecast": ask("forecast", start=300)},
    ),
    Plant(
        "status bits",
        detector,
        _with_status,
        _PLANT,
        {name: LATER[name] for name in ("incidents", "attribute", "transform")} | {"update": updated(40)},
        fit=split(NOMINAL),
    ),
    Plant("noise within the row", granger, _within_the_row, {**_PLANT, "test_links": ask("test_links")}, ABOUT),
    Plant(
        "what has changed since",
        granger,
        record,
        {
            "changed_links, noise": _now(_noisier),
            "changed_links, level": _now(_higher),
            "changed_links, louder": _now(_louder),
            "changed_links, delays": _later_ones,
            "stable_links, expected": lambda fitted: (
                inspection.stable_links(fitted.estimator, **fitted.given, n_resamples=2, random_state=0).attrs
            ),
        },
    ),
    Plant(
        "a hidden cause of an input",
        made(counterfactual, input_columns=["a__valve", "b__valve"]),
        lambda: Record(hidden_load(1200).X.drop(columns="a__setpoint")),
        {"hidden_causes_": lambda fitted: fitted.estimator.hidden_causes_, **_PLANT},
    ),
    Plant("tags with gaps", detector, _watched, {"tags": _gappy_tags}, fit=split(NOMINAL)),
    Plant("calmer elsewhere", detector, _long_watched, {"record and stream": _calmer_elsewhere}, fit=split(NOMINAL)),
    Plant("a tag that never moved", detector, _odd_sensor(True), {"tags": _tags}, fit=split(NOMINAL)),
    Plant("a tag that is wrong", detector, _odd_sensor(False), {"tags": _tags}, fit=split(NOMINAL)),
    Plant("batches by the hour", granger, _timed, {**_PLANT, "test_links": ask("test_links")}, fit=_hourly),
    Plant(
        "seasons by the clock",
        made(granger, KalmanClient(baseline=Baseline(harmonics={24: 2}))),
        _seasons,
        {**_PLANT, "predict": ask("predict"), "transform": ask("transform")},
    ),
    Plant(
        "reach through a function",
        made(
            counterfactual,
            input_columns=[f"unit{k}__u0" for k in range(3)],
            input_model=InputModel(basis={"unit0__u0": np.tanh}),
        ),
        _bent,
        {
            **_PLANT,
            "reach": lambda fitted: inspection.reach(
                fitted.estimator,
                {"unit1__x0": 0.8},
                inputs=["unit0__u0"],
                bounds={"unit0__u0": (-4.0, 4.0)},
                by=8,
                **fitted.given,
            ),
        },
    ),
    *(
        Plant(
            f"identification with inputs, {how}",
            made(counterfactual, KalmanClient(identify=how, n_states=2)),
            lambda: driven(2, 400, links=((0, 1),)),
            _PLANT,
            ABOUT,
        )
        for how in ("subspace", "lag-var", "pca-var")
    ),
    *(
        Plant(
            f"training that stops, {how}",
            made(counterfactual, server=configured(GradientServer, {"xi": 0.1, "max_iter": 8} | settings)),
            lambda: driven(2, 250, links=((0, 1),)),
            LEARNED,
        )
        for how, settings in {"flat": {"tol": 0.02}, "small": {"tol": 0.0, "loss_tol": 10.0}}.items()
    ),
    Plant("functions by themselves", made(granger), record, {"answers": _by_itself}, fit=lambda *_: None),
    Plant(
        "a counter",
        granger,
        _with_counter,
        {**_PLANT, "score_samples": ask("score_samples"), "score": ask("score"), "alone_": _alone},
    ),
    Plant("a search that ends early", made(granger, server=likelihood(max_iter=1)), _two, _PLANT),
    Plant(
        "few randomised flags",
        _few_flags,
        lambda: faulty(record(n_samples=1300, seed=47, links=((0, 1),)), "unit2", 1150),
        _PLANT,
        {name: LATER[name] for name in ("incidents", "predict")},
        fit=split(NOMINAL),
        fresh=True,
    ),
    Plant(
        "privacy of the papers with inputs",
        lambda: _of_the_papers(46),
        lambda: driven(2, 400, seed=46, links=((0, 1),), input_links=()),
        LEARNED,
        fresh=True,
    ),
    Plant(
        "levels that move far",
        made(granger, KalmanClient(baseline=Baseline(levels=80.0))),
        lambda: _far(record(2, 500, links=((0, 1),))),
        {**_PLANT, "transform": ask("transform"), "predict": ask("predict")},
    ),
    Plant(
        "secret sums of two records",
        made(granger, server=SecureSumsServer(learner=likelihood(level_shifts=None))),
        lambda: Record(record(2, 500, links=((0, 1),)).X, None, (300, 200)),
        _PLANT,
    ),
    Plant(
        "a glitch",
        detector,
        _glitch,
        {"incidents": LATER["incidents"], "update": updated(60)},
        fit=split(NOMINAL),
    ),
    Plant(
        "several lags, inputs set before",
        made(counterfactual, sampled="before"),
        _lagged_before,
        {
            **_PLANT,
            "counterfactual": ask_nothing("counterfactual", "unit0", 0.0, 1.0, horizon=6),
            "frequency_response": ask_nothing("frequency_response", "unit0__u0", "unit1__x0"),
            "step_response": ask_nothing("step_response", "unit0__u0", "unit1__x0"),
        },
    ),
    Plant(
        "networks of two units",
        _trained_together,
        lambda: _two(300),
        {**LEARNED, "transform": ask("transform"), "predict": ask("predict")},
        {"corrections": lambda fitted: [vars(each) for each in fitted.estimator.augmenters_.values()]},
    ),
    Plant(
        "modes for long",
        made(detector, baseline=Baseline(mode="unit0__recipe")),
        _modes_for_long,
        {"update": updated(60), "transform": LATER["transform"]},
        fit=split(NOMINAL),
    ),
    Plant(
        "a pause within a batch",
        detector,
        lambda: Record(table_of(faulty(record(n_samples=1300, seed=3, links=((0, 1),)), at=1140), "2020-01-01")),
        {"update": _paused_within},
        fit=split(NOMINAL),
    ),
    Plant(
        "watching with a prior",
        made(detector, evidence=Evidence(prior={"unit0": 3.0, "unit1": 1.0, "unit2": 2.0})),
        _watched,
        {"attribute": LATER["attribute"], "attribute of nominal rows": _attributed_early},
        fit=split(NOMINAL),
    ),
    Plant(
        "privacy of the papers row by row",
        lambda: _of_the_papers(48, update="online", max_iter=1),
        lambda: driven(2, 80, seed=48, links=((0, 1),), input_links=()),
        LEARNED,
        fresh=True,
    ),
]
