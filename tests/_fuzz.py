"""Calls with wrong arguments: which errors are said by the library, and which only happen to it.

``python -m tests._fuzz [seed] [calls]`` makes 1,600 calls and lists those whose error is unclear. An error is clear if
a ``raise`` of this package or of scikit-learn's validation has made it, so that it says what came and what is expected.
"""

import sys
import traceback
import warnings
from functools import lru_cache

import numpy as np
import pandas as pd

import skfedcausal
from skfedcausal import (
    Baseline,
    ClientArrays,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    KalmanClient,
    LikelihoodServer,
    LinearAugmenter,
    MomentServer,
    PlantTable,
    RandomizedResponse,
    UnitScaler,
    privacy,
    stack_clients,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.metrics import expected_calibration_error

_ROWS = 160
_SAYS = (
    "skfedcausal",
    "sklearn/utils/validation",
    "sklearn/utils/_param_validation",
    "sklearn/base",
    "sklearn/utils/_ava",
)

# -- what is wrong -----------------------------------------------------------------------------------


class Nothing:
    """An object that is of no use."""


def values(rng):
    """One thing that is no number, name or count, or one that is."""
    made = [
        lambda: None, lambda: True, lambda: 0, lambda: -1, lambda: 3, lambda: 0.5, lambda: 1.5, lambda: np.nan,
        lambda: np.inf, lambda: "", lambda: "both", lambda: b"x", list, lambda: [0.5, 0.9], lambda: (1, 2),
        dict, lambda: {"a": 1}, lambda: {1, 2}, lambda: np.array([0.5, 0.9]), lambda: np.array(0.9),
        lambda: np.float32(0.9), lambda: np.zeros((2, 2)), lambda: pd.Series([0.9]), lambda: pd.DataFrame({"a": [1.0]}),
        lambda: Nothing(), lambda: Nothing, lambda: len, lambda: 1j, lambda: np.datetime64("2026-01-01"),
        lambda: pd.Timestamp("2026-01-01"), lambda: object(), lambda: range(3), lambda: slice(3), lambda: iter([1]),
    ]  # fmt: skip
    return made[rng.integers(len(made))]()


@lru_cache
def _plant():
    return make_granger_plant(2, links=[(0, 1)], n_sensors=3, n_inputs=1, n_samples=_ROWS, random_state=0)


def record():
    """A record that is right, and its inputs."""
    X, truth = _plant()
    return {name: Y.copy() for name, Y in X.items()}, [U.copy() for U in truth.inputs]


def container(rng):
    """A container that holds no plant, or one with something wrong in it."""
    X, U = record()
    Y, table = list(X.values()), stack_clients(X)
    double = table.set_axis([*table.columns[:-1], table.columns[0]], axis=1)
    made = [
        lambda: values(rng),
        lambda: np.stack(Y),
        lambda: np.stack(Y, axis=1),
        lambda: np.array([*Y, None], dtype=object),
        lambda: list(zip(Y, U, strict=True)),
        lambda: [own[:, 0] for own in Y],
        lambda: [Y[0], Y[1][:-5]],
        lambda: [Y[0]],
        lambda: {"a": Y[0], "b": None},
        lambda: {"a": Y[0], "b": "b"},
        lambda: {1: Y[0], 2: Y[1]},
        lambda: {"a__b": Y[0]},
        lambda: double,
        lambda: double.to_numpy(dtype=object),
        lambda: table.astype(str),
        lambda: table.astype(complex),
        lambda: table.astype(object).where(table > 0, "high"),
        lambda: table.iloc[:0],
        lambda: table.iloc[:1],
        lambda: table.iloc[:, :0],
        lambda: table.iloc[:3],
        lambda: table.to_numpy()[::-1] * np.inf,
        lambda: table.iloc[:20].T,
        lambda: table.set_axis(range(6), axis=1),
        lambda: table.set_axis([*"abcde", 1], axis=1),
        lambda: table.iloc[0],
        lambda: table.set_index(pd.to_datetime(["NaT"] * _ROWS)),
        lambda: table * np.nan,
        lambda: table * 0,
        lambda: [{"a": Y[0]}, Y[1]],
        lambda: [X, {"c": Y[0]}],
        lambda: [[]],
        lambda: [Y, Y],
        lambda: ClientArrays(X)[:2],
        lambda: table.to_numpy().tolist(),
        lambda: [own.tolist() for own in Y],
        lambda: iter(Y),
        lambda: Y[0][:, :, None],
        lambda: table.rename(columns=lambda name: name.replace("__", "_")),
        lambda: table.assign(unit0__t=table.index.astype(str)),
        lambda: table.to_dict(),
        lambda: np.ma.masked_array(table, table > 0),
        lambda: table.to_records(),
        lambda: holes(rng),
    ]
    return made[rng.integers(len(made))]()


def holes(rng):
    """A record of which little is there, in single values, rows, or units."""
    X, _ = record()
    share = rng.uniform(0.4, 0.995)
    how = rng.integers(4)
    for name, Y in X.items():
        lost = rng.random((_ROWS, 1 if how == 1 else Y.shape[1])) < share
        X[name] = np.where(lost, np.nan, Y) if how != 2 or name == "unit0" else Y
        if how == 3:
            X[name][int((1 - share) * _ROWS) :] = np.nan
    return X


# -- calls -------------------------------------------------------------------------------------------


@lru_cache
def fitted(cls):
    """An estimator that knows the plant."""
    X, U = record()
    if cls is FederatedGrangerEstimator:
        return cls(KalmanClient(n_states=1)).fit(X)
    if cls is FederatedRCADetector:
        return cls(KalmanClient(n_states=1), false_alarm_rate=0.05, baseline=Baseline(levels=None)).fit(X, inputs=U)
    return cls(KalmanClient(n_states=1)).fit(X, inputs=U)


def asked(estimator, name):
    """A question to an estimator: a method, or a function of `skfedcausal.inspection`."""
    if hasattr(type(estimator), name):
        return getattr(estimator, name)
    from skfedcausal import inspection

    return lambda *given, **settings: getattr(inspection, name)(estimator, *given, **settings)


_WITH_INPUTS = (FederatedCounterfactualEstimator, FederatedRCADetector)
_RECORDS = ("predict", "score", "score_samples", "transform")


def inputs_of(rng):
    """`inputs` that are none, in everything that takes some."""
    X, _ = record()
    cls = _WITH_INPUTS[rng.integers(2)]
    wrong = values(rng) if rng.random() < 0.6 else container(rng)
    if rng.random() < 0.3:
        return lambda: cls(KalmanClient(n_states=1)).fit(X, inputs=wrong)
    names = [
        *_RECORDS,
        *(("attribute", "incidents") if cls is FederatedRCADetector else ("whatif", "forecast")),
    ]
    name = names[rng.integers(len(names))]
    more = {"whatif": ({"unit0__u0": 1.0},), "forecast": (100,)}.get(name, ())
    return lambda: asked(fitted(cls), name)(X, *more, inputs=wrong)


def accountant_of(rng):
    """Mechanisms with settings that are none, used where they were taken."""
    X, _ = record()
    cls = (GaussianMechanism, RandomizedResponse)[rng.integers(2)]
    settings = {"epsilon": 5.0} if cls is RandomizedResponse else {"epsilon": 5.0, "delta": 1e-5, "clip_norm": 20.0}
    names = ["accountant"] * 2 + sorted(cls._get_param_names())
    settings[names[rng.integers(len(names))]] = values(rng)
    if cls is GaussianMechanism:
        return lambda: FederatedGrangerEstimator(KalmanClient(n_states=1), privacy=cls(**settings)).fit(X)
    detector = {"evidence": "flags", "false_alarm_rate": 0.05, "client": KalmanClient(n_states=1)}
    return lambda: FederatedRCADetector(privacy=cls(**settings), **detector).fit(X).predict(X)


_QUESTIONS = {
    FederatedGrangerEstimator: {
        "link_intervals": ((), ("confidence", "geweke")),
        "spectrum": (("unit0", "unit1"), ("confidence", "n_frequencies", "conditional", "cause", "effect")),
        "predict": (("X",), ("model", "X", "lengths")),
        "test_links": (("X",), ("method", "lengths")),
        "changed_links": (("X",), ("alpha", "false_alarm_rate")),
        "links_over_time": (("X",), ("piece",)),
        "bootstrap_links": (("X",), ("n_resamples", "method", "block_length", "confidence")),
        "stable_links": (("X",), ("n_resamples", "threshold", "block_length")),
        "forecast": (("X", 100), ("start", "confidence", "return_std")),
        "to_networkx": ((), ("undecided",)),
        "score": (("X",), ("sample_weight", "lengths")),
        "privacy_curve": (("X", [1.0]), ("epsilons", "n_draws")),
    },
    FederatedCounterfactualEstimator: {
        "counterfactual": (("unit0", 0.0, 1.0), ("n", "u0", "u1", "horizon", "of", "return_std", "loops", "split")),
        "frequency_response": (("unit0__u0", "unit0__x0"), ("input", "output", "frequencies", "confidence")),
        "step_response": (("unit0__u0", "unit0__x0"), ("n_steps", "confidence", "input", "output")),
        "gain_table": ((), ("confidence", "times")),
        "sensitivity": (("unit0", 0.0, 1.0), ("horizon", "strength", "confidence", "n")),
        "aggregate_counterfactual": (("unit0", 1.0), ("unit", "scale")),
        "whatif": (("X", {"unit0__u0": 1.0}), ("do", "confidence", "loops", "split", "sensors", "limits")),
        "impact": (
            ("X", {"unit0__u0": 1.0}, (80, 90)),
            ("do", "window", "confidence", "margin", "question", "loops"),
        ),
        "link_intervals": ((), ("confidence",)),
    },
    FederatedRCADetector: {
        "attribute": (("X",), ("start", "end")),
        "incidents": (("X",), ("lengths",)),
        "predict_root_cause": (("X",), ("X", "lengths")),
        "score": (("X",), ("y", "sample_weight")),
    },
}


def query_of(rng):
    """Questions with an argument that is none."""
    cls = list(_QUESTIONS)[rng.choice(3, p=[0.5, 0.4, 0.1])]
    names = list(_QUESTIONS[cls])
    name = names[rng.integers(len(names))]
    given, wrong = _QUESTIONS[cls][name]
    X, U = record()
    argument, value = wrong[rng.integers(len(wrong))], values(rng)
    places = {"spectrum": ("cause", "effect"), "counterfactual": ("n", "u0", "u1"), "forecast": ("X", "start")}
    places |= {
        "frequency_response": ("input", "output"),
        "step_response": ("input", "output"),
        "sensitivity": ("n", "u0", "u1"),
    }
    places |= {"aggregate_counterfactual": ("unit", "scale"), "whatif": ("X", "do"), "impact": ("X", "do", "window")}
    places |= {"privacy_curve": ("X", "epsilons")}
    place = places.get(name, ("X",))[: len(given)]
    few = {"n_resamples": 2} if "n_resamples" in wrong else {}
    settings = dict(zip(place, given, strict=True)) | few | {argument: value}
    settings = {key: X if isinstance(one, str) and one == "X" else one for key, one in settings.items()}
    if "X" in settings and cls is not FederatedGrangerEstimator:
        settings["inputs"] = U
    before = [settings.pop(key) for key in place]
    return lambda: asked(fitted(cls), name)(*before, **settings)


def holes_of(rng):
    """Records with many holes, learned and asked about."""
    X = holes(rng)
    cls = (FederatedGrangerEstimator, FederatedRCADetector, FederatedCounterfactualEstimator)[
        rng.choice(3, p=[0.3, 0.5, 0.2])
    ]
    settings = {"false_alarm_rate": 0.05} if cls is FederatedRCADetector else {}
    inputs = None if cls is FederatedGrangerEstimator else record()[1]
    if rng.random() < 0.5:
        return lambda: cls(KalmanClient(n_states=1), **settings).fit(X, inputs=inputs)
    name = _RECORDS[rng.integers(len(_RECORDS))]
    return lambda: asked(fitted(cls), name)(X, inputs=inputs)


def container_of(rng):
    """Containers that hold no plant, scaled, stacked, learned and asked about."""
    X = container(rng)
    doors = [
        lambda: UnitScaler().fit(X), lambda: UnitScaler().fit_transform(X), lambda: stack_clients(X),
        lambda: ClientArrays(X), lambda: FederatedGrangerEstimator(KalmanClient(n_states=1)).fit(X),
        lambda: UnitScaler().fit(record()[0]).transform(X), lambda: fitted(FederatedGrangerEstimator).predict(X),
        lambda: FederatedCounterfactualEstimator(KalmanClient(n_states=1)).fit(X),
    ]  # fmt: skip
    return doors[rng.integers(len(doors))]


@lru_cache
def _parts():
    """A table, a fitted client and augmenter, and a transfer function."""
    X, _ = record()
    client = KalmanClient(n_states=1).fit(X["unit0"])
    augmenter = LinearAugmenter().fit(X["unit0"], X["unit1"][:, :1])
    return PlantTable.read(stack_clients(X)), client, augmenter, fitted(_WITH_INPUTS[0]).transfer_function()


def part_of(rng):
    """Parts, tables and the calculus of privacy, asked or set with something that is none."""
    wrong, eye = values(rng), 0.5 * np.eye(2)
    table, client, augmenter, transfer = _parts()
    servers = [{"options": wrong}, {"alpha": wrong}, {"correction": wrong}, {"knowledge": wrong}, {"n_jobs": wrong}]
    doors = [
        *(lambda name=name: getattr(client, name)(wrong) for name in ("predict", "filter", "message", "measurements")),
        lambda: augmenter.predict(wrong), lambda: LinearAugmenter(alpha=wrong).fit(eye, eye),
        lambda: LinearAugmenter().fit(eye, wrong), lambda: transfer.response(wrong), lambda: transfer.distance(wrong),
        lambda: transfer.zeros(wrong), lambda: table.with_roles(wrong), lambda: table.with_measures(wrong),
        lambda: table.with_columns(wrong), lambda: table.split(wrong), lambda: PlantTable.read(table.frame, fix=wrong),
        lambda: PlantTable.read(table.frame, units=wrong), lambda: PlantTable.read(table.frame, drop=wrong),
        lambda: privacy.epsilon_from_mu(wrong, 1e-5), lambda: privacy.epsilon_of(1.0, wrong),
        lambda: privacy.epsilon_of(1.0, 1e-5, wrong), lambda: privacy.event_sensitivity(eye, wrong),
        lambda: privacy.client_sensitivity(eye, eye, wrong), lambda: privacy.window_sensitivity(eye, eye, 2, wrong),
        lambda: expected_calibration_error([0.5], wrong), lambda: skfedcausal.load(wrong),
        lambda: skfedcausal.save(client, wrong), lambda: MomentServer(n_steps=wrong).fit({}),
        *(lambda own=own: FederatedRCADetector(server=LikelihoodServer(**own)).fit(record()[0]) for own in servers),
    ]  # fmt: skip
    return doors[rng.integers(len(doors))]


KINDS = {
    "part": part_of,
    "inputs": inputs_of,
    "accountant": accountant_of,
    "query": query_of,
    "holes": holes_of,
    "container": container_of,
}

# -- what comes of it --------------------------------------------------------------------------------


def is_clear(error):
    """Whether somebody has raised an error on purpose, who says it in words."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    raised = any((last.line or "").startswith(word) for word in ("raise", "assert_all_finite", "_assert"))
    return raised and any(place in last.filename.replace("\\", "/") for place in _SAYS) and len(str(error)) > 15


def outcome(call):
    """None of a call that succeeds, or its error."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            return error
    return None


def run(seed, n_calls):
    """Unclear errors of calls, each as (number of the call, kind, error), and how many calls did not fail."""
    unclear, fine = [], 0
    for k in range(n_calls):
        rng = np.random.default_rng([seed, k])
        kind = list(KINDS)[k % len(KINDS)]
        error = outcome(KINDS[kind](rng))
        if error is None:
            fine += 1
        elif not is_clear(error):
            unclear.append((k, kind, error))
    return unclear, fine


def main():
    seed, n_calls = [*map(int, sys.argv[1:]), *(0, 1600)[len(sys.argv) - 1 :]]
    unclear, fine = run(seed, n_calls)
    for k, kind, error in unclear:
        last = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in last if "skfedcausal" in frame.filename][-1:]
        where = f"{ours[0].filename.rpartition('skfedcausal/')[2]}:{ours[0].lineno}" if ours else ""
        print(f"{k:5d} {kind:10s} {type(error).__name__}: {str(error)[:110]!r} {where}")
    print(f"{skfedcausal.__version__}: {n_calls} calls, {fine} fine, {len(unclear)} unclear")


if __name__ == "__main__":
    main()
