"""Under a mechanism what an estimator writes or draws follows from the noised copy, given the record or not."""

import inspect
import io
import re
import warnings
from html import unescape
from itertools import count

import numpy as np
import pandas as pd
import pytest

from skfedcausal import (
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    PrivacyAccountant,
    check_plant,
)
from skfedcausal.datasets import make_granger_plant

pytest.importorskip("matplotlib").use("Agg")
pytestmark = pytest.mark.medium

T, NOMINAL, SECRET = 900, 600, -17.25
KINDS = [FederatedGrangerEstimator, FederatedCounterfactualEstimator, FederatedRCADetector]
OTHERS = count(1)  # fits of this process: accounts of the same rows would tell of each other
NOT_ASKED = re.compile(r"fit|set_|get_|privacy$|account|report|lead|transport")  # and what is no text of the fit


def record(seed=0):
    """A plant of two units with a fault near its end; other seeds keep who is linked and little else."""
    X, _ = make_granger_plant(2, n_samples=T, link_strength=0.4, random_state=seed)
    frame = pd.concat({name: pd.DataFrame(Y) for name, Y in X.items()}, axis=1)
    frame.columns = [f"{unit}__x{k}" for unit, k in frame.columns]
    frame.iloc[NOMINAL + 150 :, :4] += 12
    return frame.set_index(pd.date_range("2026-01-01", periods=T, freq="min", tz="UTC"))


def exchanged():
    """The same record with other values in some rows, a sensor that stands still among them."""
    other = record()
    other.iloc[100:160, 1] = SECRET
    other.iloc[300:330] = record(seed=1).iloc[300:330]
    other.iloc[NOMINAL + 20 : NOMINAL + 80, 2] = SECRET
    return other


class Fitted:
    """A fitted estimator, its page, and an incident where it finds some."""

    def __init__(self, kind, X):
        account = PrivacyAccountant(epsilon=60, delta=1e-6)
        noise = {"epsilon": 8, "delta": 1e-6, "clip_norm": 25, "event_radius": 3}
        watches = {"false_alarm_rate": 1e-2} if kind is FederatedRCADetector else {}
        self.X, self.incident = X + 1e-3 * next(OTHERS), None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.estimator = kind(privacy=GaussianMechanism(**noise, accountant=account), **watches).fit(
                self.X[:NOMINAL]
            )
            if watches:
                account.new_period()
                self.incident = self.estimator.incidents(self.X[NOMINAL:]).iloc[0]

    def page(self, path, **record):
        about = () if self.incident is None else (self.incident,)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.estimator.report(*about, path, **record).read_text()

    @property
    def shown(self):
        """The record that pages are about."""
        return self.X if self.incident is None else self.X[NOMINAL:]

    def told(self, path):
        """All that the estimator says, writes or draws, on pages with the record too, by name."""
        public = {name: told_by(self.estimator, name) for name in dir(self.estimator) if is_asked(name)}
        incident = "" if self.incident is None else self.incident.to_string()
        given = {"report": {}, "report with X": {"X": self.shown}, "with check": {"check": check_plant(self.shown)}}
        pages = {name: without_time(self.page(path, **record)) for name, record in given.items()}
        return public | pages | {"incident": incident}


def is_asked(name):
    return not name.startswith("_") and NOT_ASKED.search(name) is None


def told_by(estimator, name):
    """An attribute, or the answer of a method that needs nothing, as text; the pixels of what can be drawn."""
    try:
        value = getattr(estimator, name)
        if callable(value) and not inspect.isclass(value):
            needed = [p for p in inspect.signature(value).parameters.values() if p.default is p.empty and p.kind < 2]
            value = "needs a record" if needed else value()
    except (ValueError, AttributeError, TypeError) as error:
        return str(error)
    return drawn(value) if hasattr(value, "figure_") or hasattr(value, "plot") else as_text(value)


def drawn(display):
    if isinstance(display, pd.DataFrame | pd.Series):
        return display.drop(columns="time", errors="ignore").to_string()  # of a charge
    figure = display.plot().figure_
    stream = io.BytesIO()
    figure.savefig(stream, format="png", metadata={"Software": None})
    return stream.getvalue()


def as_text(value):
    with np.printoptions(threshold=100_000, precision=17):
        return re.sub(r"0x[0-9a-f]+|[0-9.]+ ?s\b", "", str(value))


def without_time(page):
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d [A-Z]+", "", page)


@pytest.fixture
def frozen(monkeypatch):
    """The noised copies of the first record of every size are those of all later ones."""
    kept, noised = {}, GaussianMechanism.noised
    calls = []

    def same(self, Y, noise, rng, out=None):
        values = noised(self, Y, noise, rng, out)
        calls.append(Y.shape)
        key = (Y.shape, calls.count(Y.shape) % 2)
        return kept.setdefault(key, values)

    monkeypatch.setattr(GaussianMechanism, "noised", same)


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_is_told_follows_from_the_noised_copy(kind, frozen, tmp_path):
    one, other = Fitted(kind, record()), Fitted(kind, exchanged())
    assert one.estimator.privacy_statement_ == other.estimator.privacy_statement_
    told = one.told(tmp_path / "a.html")
    assert len(told) > 25
    assert {name for name, words in other.told(tmp_path / "a.html").items() if words != told[name]} == set()


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_that_is_given_the_record_promises_the_same_and_says_what_it_leaves_out(kind, tmp_path):
    fitted = Fitted(kind, exchanged())
    account = fitted.estimator.privacy.account
    n_charges = len(account)
    given, alone = fitted.page(tmp_path / "given.html", X=fitted.shown), fitted.page(tmp_path / "alone.html")
    for page in (given, alone):
        assert fitted.estimator.privacy_statement_ in unescape(page)
        assert str(SECRET) not in page
        assert "measured</figcaption>" not in page
    assert "neither a check of the measurements nor their trends" in given
    assert "The record was given" not in alone
    assert len(account) == n_charges


def test_a_page_without_a_mechanism_is_as_it_was(tmp_path):
    X = record()
    estimator = FederatedGrangerEstimator().fit(X[:NOMINAL])
    page = estimator.report(tmp_path / "plant.html", X=X[:NOMINAL]).read_text()
    assert "The record was given" not in page
    assert "As measured, one tag of each unit" in page
    assert estimator.privacy_statement_ in unescape(page)
