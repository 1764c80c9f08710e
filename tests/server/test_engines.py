"""An engine of one's own: what it leaves behind is enough for every question."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from statsmodels.tsa.api import VAR

from skfedcausal import inspection

EXAMPLE = Path(__file__).parents[2] / "examples" / "plot_own_engine.py"


@pytest.fixture(scope="module")
def ran():
    return runpy.run_path(str(EXAMPLE))


def test_least_squares_of_states_is_the_autoregression_of_statsmodels(ran):
    estimator, X = ran["estimator"], ran["X"]
    states = np.hstack([estimator.clients_[name].message(Y).z for name, Y in X.items()])
    J = estimator.server_.information_
    scores = states @ np.linalg.inv(J)
    fitted = VAR(scores - scores.mean(axis=0)).fit(1, trend="n")
    np.testing.assert_allclose(estimator.server_.transition_, fitted.coefs[0], atol=1e-8)
    table = estimator.test_links(X, method="wald").set_index(["cause", "effect"])
    cause, effect = (list(range(rows.start, rows.stop)) for rows in list(estimator.server_.state_slices_.values())[:2])
    expected = fitted.test_causality(effect, cause, kind="wald").test_statistic
    found = table.loc[("unit0", "unit1"), "statistic"]
    assert abs(found / expected - 1) < 0.01  # statsmodels divides by rows less coefficients


def test_every_question_has_an_answer(ran):
    estimator, X = ran["estimator"], ran["X"]
    linked = estimator.links_.query("verdict == 'influence'")[["cause", "effect"]]
    assert set(linked.itertuples(index=False, name=None)) == {("unit0", "unit1"), ("unit2", "unit3")}
    assert len(inspection.link_intervals(estimator, geweke=True)) == 12
    spectrum = inspection.spectrum(estimator, "unit0", "unit1", confidence=0.9)
    assert (spectrum["low"] > 0).all()
    half = {name: Y[1000:] for name, Y in X.items()}
    assert not inspection.changed_links(estimator, half).query("cause != effect")["changed"].any()
    assert np.isfinite(estimator.forecast(X, 5)).all().all()
    assert np.isfinite(estimator.score(X))


def test_what_an_engine_cannot_do_is_refused_before_the_work(ran):
    estimator, X = ran["estimator"], ran["X"]
    with pytest.raises(ValueError, match=r"Got method='lr'; this engine leaves .* Ask with method='wald'"):
        estimator.test_links(X)
    gapped = {name: Y.copy() for name, Y in X.items()}
    gapped["unit0"][5, 0] = np.nan
    server = type(estimator.server_)()
    with pytest.raises(ValueError, match="and this one has gaps"):
        type(estimator)(server=server).fit(gapped)
