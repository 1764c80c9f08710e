"""Plants on which denominators vanish: every answer is finite or NaN, or refused in words, and NumPy warns of nothing.

Each is asked as it is, and with the last bits of some cells moved, as another processor moves those of sums.
"""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import LinAlgWarning

from skfedcausal import FederatedCounterfactualEstimator, FederatedGrangerEstimator, FederatedRCADetector, inspection
from skfedcausal.datasets import make_granger_plant

pytestmark = pytest.mark.medium

N = 250
ROWS = np.arange(N)[:, None]
WAVE = 2 * np.pi * ROWS / 20


def draws(*shape):
    return np.random.default_rng(1).standard_normal(shape)


def with_rows(Y, rows, values):
    Y = Y.copy()
    Y[rows] = values
    return Y


def between(X, start, stop):
    return {name: Y[start:stop] for name, Y in X.items()}


UNITS = {name: Y[:, :4] for name, Y in make_granger_plant(
    3, n_samples=N, links=[("unit0", "unit1")], random_state=0)[0].items()}  # fmt: skip
FIRST, SECOND, _ = UNITS.values()
PLANTS = {
    "a copy": UNITS | {"copy": FIRST.copy()},
    "a copy of another sign, scale and level": UNITS | {"copy": 3.0 - 5.0 * FIRST},
    "a copy but for the last bit": UNITS | {"copy": np.nextafter(FIRST, np.inf)},
    "a copy but for 1e-9": UNITS | {"copy": FIRST * (1 + 1e-9 * draws(N, 4))},
    "a copy one row later": UNITS | {"copy": np.vstack([FIRST[:1], FIRST[:-1]])},
    "a constant sensor": UNITS | {"unit1": np.hstack([SECOND, np.full((N, 1), 7.3)])},
    "sensors that are multiples": UNITS | {"unit1": SECOND[:, :1] * np.arange(1, 5.0)},
    "a sensor that is a sum": UNITS | {"unit1": np.column_stack([SECOND, SECOND[:, 0] + SECOND[:, 1]])},
    "a tank whose level hardly moves": UNITS | {"tank": 1e3 + 1e-12 * draws(N, 1).cumsum(axis=0)},
    "a tank at its stop": UNITS | {"tank": np.hstack([np.where(abs(ROWS - 150) < 5, 5.7, 5.8), draws(N, 1)])},
    "few levels": UNITS | {"unit1": np.sign(SECOND), "unit2": np.round(FIRST[::-1] / FIRST.std(axis=0))},
    "white noise": UNITS | {"unit1": draws(N, 4)},
    "a random walk": UNITS | {"walk": draws(N, 1).cumsum(axis=0)},
    "a ramp": UNITS | {"ramp": ROWS.astype(float)},
    "waves alone": {f"unit{k}": np.hstack([np.sin(WAVE / k), np.cos(WAVE / k)]) for k in (1, 2, 3)},
    "a spike": UNITS | {"unit1": with_rows(SECOND, 150, 1e12)},
    "zeros from a row on": UNITS | {"unit1": with_rows(SECOND, slice(N // 2, None), 0.0)},
    "30 rows": between(UNITS, 0, 30),
    "fewer rows than sensors": dict(zip("ab", draws(2, 12, 20), strict=True)),
    "hardly a cell": UNITS | {"unit1": np.where(draws(N, 4) < 1.5, np.nan, SECOND)},
    "tiny and huge": UNITS | {"unit0": 1e-150 * FIRST, "unit1": 1e150 * SECOND},
}


def with_other_last_bits(X):
    """The record with about every fiftieth cell moved by one last bit."""
    rng = np.random.default_rng(2)
    return {
        name: np.where(rng.random(Y.shape) < 0.02, np.nextafter(Y, rng.choice([-np.inf, np.inf], Y.shape)), Y)
        for name, Y in X.items()
    }


def questions_of_links(X, n):
    estimator = FederatedGrangerEstimator()
    yield "fit", lambda: estimator.fit(X).links_
    yield "validity_", lambda: estimator.validity_[["statistic", "p_value"]]
    yield "link_intervals", lambda: inspection.link_intervals(estimator)
    yield "link_effects", lambda: inspection.link_effects(estimator)
    yield "forecast", lambda: estimator.forecast(X, n - 10, confidence=0.9)
    yield "changed_links", lambda: inspection.changed_links(estimator, between(X, n // 2, n))
    yield "score_samples", lambda: estimator.score_samples(X)


def questions_of_inputs(X, n):
    estimator, first = FederatedCounterfactualEstimator(), next(iter(X))
    moved, inputs = f"{first}__u0", {first: np.random.default_rng(3).standard_normal((n, 1))}
    yield "fit", lambda: estimator.fit(X, inputs=inputs).links_
    yield "counterfactual", lambda: estimator.counterfactual(first, 0.0, 1.0, horizon=5, return_std=True)
    yield "whatif", lambda: estimator.whatif(X, {moved: 0.0}, inputs=inputs)
    if "copy" in X:
        yield "whatif by force", lambda: estimator.whatif(X, {f"{first}__x0": 0.0}, inputs=inputs, sensors="force")
    yield "impact", lambda: estimator.impact(X, {moved: 0.0}, (n // 2, n // 2 + 5), inputs=inputs).total
    yield "forecast", lambda: estimator.forecast(X, n - 10, inputs=inputs, confidence=0.9)


def questions_of_faults(X, n):
    detector, later = FederatedRCADetector(false_alarm_rate=0.05), between(X, n - n // 4, n)
    faulty = {name: with_rows(Y, slice(20, None), 3.0 * Y[20:]) if name == min(X) else Y for name, Y in later.items()}
    yield "fit", lambda: detector.fit(between(X, 0, n - n // 4)).n_features_in_
    yield "predict_root_cause", lambda: detector.predict_root_cause(faulty)
    yield "incidents", lambda: detector.incidents(faulty)
    yield "decision_function", lambda: detector.decision_function(faulty)
    yield "update", lambda: detector.update(between(faulty, 0, 30))


def numbers_of(answer):
    """Arrays of the numbers of an answer."""
    if isinstance(answer, tuple):
        return [numbers for part in answer for numbers in numbers_of(part)]
    if isinstance(answer, pd.DataFrame):
        answer = answer.select_dtypes("number")
    answer = np.asarray(answer)
    return [answer] if np.issubdtype(answer.dtype, np.number) else []


def answered(X, questions):
    """Ask everything; what was refused, and in which words."""
    refused = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for question, ask in questions(X, len(next(iter(X.values())))):
            caught.clear()
            try:
                answer = ask()
            except np.linalg.LinAlgError:
                raise
            except ValueError as error:
                refused[question] = str(error)
                if question == "fit":
                    break
                continue
            told = [str(each.message) for each in caught if issubclass(each.category, (RuntimeWarning, LinAlgWarning))]
            assert not told, question
            assert not any(np.isinf(numbers).any() for numbers in numbers_of(answer)), question
    return refused


ASKED = {"links": questions_of_links, "inputs": questions_of_inputs, "faults": questions_of_faults}
_COPIES = {"fit": "send the same states, so that no fault could be told to be in one of them. Leave one out."}
REFUSED = {
    ("a copy", "faults"): _COPIES,
    ("a copy of another sign, scale and level", "faults"): _COPIES,
    ("a copy but for the last bit", "faults"): _COPIES,
    ("a copy but for 1e-9", "faults"): _COPIES,
    ("hardly a cell", "faults"): {"fit": "'unit1' is absent in 98 % of the nominal rows, too many"},
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, id=f"{name}, {kind}", marks=pytest.mark.slow if kind == "inputs" else ())
        for name in PLANTS
        for kind in ASKED
    ],
)
def test_answers_are_finite_or_refused_in_words_and_numpy_warns_of_nothing(name, kind):
    refused, expected = answered(PLANTS[name], ASKED[kind]), REFUSED.get((name, kind), {})
    assert refused.keys() == expected.keys(), refused
    for question, words in expected.items():
        assert words in refused[question]


@pytest.mark.parametrize("name", PLANTS)
def test_nor_with_other_last_bits(name):
    X, estimator = with_other_last_bits(PLANTS[name]), FederatedGrangerEstimator()
    assert not answered(X, lambda X, n: [("fit", lambda: estimator.fit(X).links_)])
