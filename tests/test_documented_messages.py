"""The errors and warnings that the guide quotes are the ones users get."""

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodOptions, LikelihoodServer
from skfedcausal.federation import ExactStatesWarning

_GUIDE = Path(__file__).parent.parent / "docs" / "errors.rst"


def _words(text):
    return re.sub(r"\s+", " ", text)


@pytest.fixture(scope="module")
def guide():
    return _words(_GUIDE.read_text(encoding="utf-8"))


def _mill_and_kiln(n_samples=600):
    rng = np.random.default_rng(0)
    names = [f"{unit}__{sensor}" for unit in ("mill", "kiln") for sensor in "abc"]
    return pd.DataFrame(rng.standard_normal((n_samples, 6)), columns=names)


def _with(frame, column, row, value):
    changed = frame.astype(object) if isinstance(value, str) else frame.copy()
    changed.loc[row, column] = value
    return changed


FRAME = _mill_and_kiln()
MILL, KILN = FRAME.to_numpy()[:, :3], FRAME.to_numpy()[:, 3:]
TIMES = pd.date_range("2026-01-01", periods=600, freq="10s")
CLOCKS = {
    "mill": pd.DataFrame(MILL, index=TIMES, columns=list("abc")),
    "kiln": pd.DataFrame(KILN, index=TIMES + pd.Timedelta("3s"), columns=list("abc")),
}

# (keywords of the estimator, X, keywords of fit)
ERRORS = {
    "length": ({}, {"mill": MILL, "kiln": KILN[:500]}, {}),
    "clocks": ({}, CLOCKS, {}),
    "time column": ({}, FRAME.rename(columns={"kiln__c": "time"}), {}),
    "text": ({}, _with(FRAME, "mill__b", 3, "Bad"), {}),
    "infinity": ({}, _with(FRAME, "mill__b", 3, np.inf), {}),
    "labels": ({"client_labels": ["a", "a", "b"]}, FRAME.to_numpy(), {}),
    "lengths": ({}, FRAME, {"lengths": [100, 200]}),
    "clients": ({"client": [KalmanClient()]}, FRAME, {}),
    "constant units": ({}, FRAME * 0 + 1, {}),
    "three rows": ({}, FRAME[:3], {}),
    "sparse": ({}, csr_matrix(MILL), {}),
}


@pytest.mark.parametrize("case", ERRORS)
def test_quoted_error_is_raised(case, guide):
    settings, X, keywords = ERRORS[case]
    with pytest.raises((TypeError, ValueError)) as caught:
        FederatedGrangerEstimator(**settings).fit(X, **keywords)
    assert _words(f"{type(caught.value).__name__}: {caught.value}") in guide


WARNINGS = {
    "constant column": FRAME.assign(mill__b=1.0),
    "no unit": FRAME.rename(columns=lambda name: name.replace("__", ".")),
}


@pytest.mark.parametrize("case", WARNINGS)
def test_quoted_warning_is_given(case, guide):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        FederatedGrangerEstimator().fit(WARNINGS[case])
    assert any(_words(f"UserWarning: {warning.message}") in guide for warning in caught)


@pytest.mark.medium
def test_quoted_convergence_warning(guide):
    """Numbers differ from record to record."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ExactStatesWarning)
        estimator = FederatedGrangerEstimator(
            server=LikelihoodServer(options=LikelihoodOptions(max_iter=1, sparsity=None))
        )
        estimator.fit(FRAME.rolling(3, min_periods=1).mean())

    def without_numbers(text):
        return re.sub(r"\d+(\.\d+)?(e-\d+)?", "#", _words(text))

    assert caught
    assert all(without_numbers(str(warning.message)) in without_numbers(guide) for warning in caught)
