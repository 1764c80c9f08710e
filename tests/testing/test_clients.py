"""`check_client` passes our clients, and names the rule that a wrong one breaks."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from skfedcausal import Baseline, ExtendedKalmanClient, KalmanClient, UnitClient
from skfedcausal.testing import check_client

C = np.random.default_rng(0).standard_normal((5, 2))
GIVEN = {"A": 0.8 * np.eye(2), "C": C, "Q": np.eye(2), "R": np.ones(5)}


class Mean(UnitClient):
    """One state, the mean of the columns: as small as a client can be."""

    def fit(self, X, y=None, *, inputs=None, lengths=None):
        h = X.mean(axis=1) - X.mean()
        a = (h[1:] @ h[:-1]) / (h @ h)
        C = ((X - X.mean(axis=0)).T @ h / (h @ h))[:, None]
        rest = X - X.mean(axis=0) - h[:, None] @ C.T
        return self.learned([[a]], C, [[h.var() * (1 - a**2)]], rest.var(axis=0), mean=X.mean(axis=0))


class Duck(BaseEstimator):
    """No UnitClient, but with its methods."""

    def fit(self, X, y=None, *, inputs=None, lengths=None):
        self.inner_ = KalmanClient(n_states=2).fit(X, lengths=lengths)
        return self

    def message(self, X, *, lengths=None, const=False, local_model=False):
        return self.inner_.message(X, lengths=lengths, const=const, local_model=local_model)

    def filter(self, X, *, lengths=None):
        return self.inner_.filter(X, lengths=lengths)

    def predict(self, X, *, lengths=None):
        return self.inner_.predict(X, lengths=lengths)

    def measurements(self, states):
        return self.inner_.measurements(states)


class Box:
    """A proprietary filter of given matrices, seen from outside only."""

    def __init__(self):
        self.model = KalmanClient(baseline=Baseline(center=False), **GIVEN)
        self.n_features_in_ = 5

    def filter_moments(self, Y):
        P, R = np.eye(2) / 0.36, np.eye(5)
        h, prior, posterior, covs = np.zeros(2), [], [], ([], [])
        for t, y in enumerate(Y):
            if t:
                h, P = 0.8 * h, 0.64 * P + np.eye(2)
            prior.append(h)
            covs[0].append(P)
            seen = ~np.isnan(y)
            K = P @ C[seen].T @ np.linalg.inv(C[seen] @ P @ C[seen].T + R[np.ix_(seen, seen)])
            h, P = h + K @ (y[seen] - C[seen] @ h), P - K @ C[seen] @ P
            P = (P + P.T) / 2
            posterior.append(h)
            covs[1].append(P)
        return np.array(prior), np.array(covs[0]), np.array(posterior), np.array(covs[1])


@pytest.mark.medium
@pytest.mark.parametrize(
    "client",
    [
        KalmanClient(), KalmanClient(**GIVEN), KalmanClient(C=C), KalmanClient(identify="subspace"),
        KalmanClient(n_states=4), ExtendedKalmanClient(hidden=4), Mean(), Duck(), Box(),
        ExtendedKalmanClient(f=lambda h: 0.8 * h, h=lambda h: h @ C.T, Q=np.eye(2), R=np.eye(5)),
    ],
    ids=lambda client: type(client).__name__,
)  # fmt: skip
def test_clients_pass(client):
    before = repr(client) if hasattr(client, "get_params") else sorted(vars(client))
    check_client(client)
    assert (repr(client) if hasattr(client, "get_params") else sorted(vars(client))) == before


class Prophet(Duck):
    def filter(self, X, *, lengths=None):
        states = super().filter(X, lengths=lengths)
        return np.vstack([states[1:], states[-1:]])


class Present(Duck):
    def predict(self, X, *, lengths=None):
        return self.measurements(self.filter(X, lengths=lengths))


class Standardised(Mean):
    def message(self, X, *, inputs=None, lengths=None, const=False, local_model=False):
        return super().message(X - X.mean(axis=0) + self.mean_, lengths=lengths, const=const, local_model=local_model)

    def message_about(self, Y, starts, *, inputs=None, const=False, local_model=False):
        return super().message_about(
            Y - np.nanmean(Y, axis=0) + self.mean_, starts, const=const, local_model=local_model
        )


class OneRowLess(Duck):
    def filter(self, X, *, lengths=None):
        return super().filter(X, lengths=lengths)[1:]


class Flat(Duck):
    def measurements(self, states):
        return super().measurements(states)[:, 0]


class Nan(Duck):
    def predict(self, X, *, lengths=None):
        predicted = super().predict(X, lengths=lengths)
        predicted[0] = np.nan
        return predicted


class Indefinite(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        message = super().message(X, lengths=lengths, const=const, local_model=local_model)
        return message if message.process_cov is None else replace(message, process_cov=-message.process_cov)


class IndefiniteInformation(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        message = super().message(X, lengths=lengths, const=const, local_model=local_model)
        return replace(message, patterns=message.patterns - 1e4 * np.eye(2))


class LeaksRows(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        message = super().message(X, lengths=lengths, const=const, local_model=local_model)
        return replace(message, z=np.column_stack([message.z[:, 0], X[:, 0]]))


class LeaksConst(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        message = super().message(X, lengths=lengths, const=const, local_model=local_model)
        return replace(message, const=X[:, 2].copy()) if const else message


class LeaksInputs(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        message = super().message(X, lengths=lengths, const=const, local_model=local_model)
        return replace(message, inputs=X[:, :1].copy())


class InPlace(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        X -= 1.0
        return super().message(X, lengths=lengths, const=const, local_model=local_model)


class FitsInPlace(Mean):
    def fit(self, X, y=None, *, inputs=None, lengths=None):
        X *= 2.0
        return super().fit(X)


class Keeps(Mean):
    def fit(self, X, y=None, *, inputs=None, lengths=None):
        self.X_ = X
        return super().fit(X)


class Learns(Duck):
    def predict(self, X, *, lengths=None):
        self.calls_ = getattr(self, "calls_", 0) + 1
        return super().predict(X, lengths=lengths) + self.calls_


class Random(Mean):
    def fit(self, X, y=None, *, inputs=None, lengths=None):
        super().fit(X)
        model = self.model
        return self.learned(
            model.A * np.random.default_rng().uniform(0.9, 1), model.C, model.Q, model.R, mean=model.mean
        )


class Remembers(Mean):
    def fit(self, X, y=None, *, inputs=None, lengths=None):
        before = self.mean_ if hasattr(self, "mean_") else None
        super().fit(X)
        if before is not None:
            model = self.model
            self.learned(model.A, model.C, model.Q, model.R, mean=0.5 * (before + model.mean))
        return self


class Sign(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        message = super().message(X, lengths=lengths, const=const, local_model=local_model)
        return replace(message, z=-message.z)


class HalfModel(Mean):
    def message_about(self, Y, starts, *, inputs=None, const=False, local_model=False):
        message = super().message_about(Y, starts, const=const, local_model=local_model)
        return replace(message, z=0.5 * message.z)


class OneEpisode(Duck):
    def filter(self, X, *, lengths=None):
        return super().filter(X)


class NoLengths(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        return super().message(X, const=const, local_model=local_model)


class NoModel(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        return super().message(X, lengths=lengths, const=const)


class Arrays(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        return np.zeros((len(X), 2))


class FillsGaps(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
        return super().message(filled, lengths=lengths, const=const, local_model=local_model)


class Silent(Duck):
    predict = property()


class NoReturn(Mean):
    def fit(self, X, y=None, *, inputs=None, lengths=None):
        super().fit(X)


class BoxTuple(Box):
    def filter_moments(self, Y):
        return super().filter_moments(Y)[:2]


class BoxIndefinite(Box):
    def filter_moments(self, Y):
        prior, prior_cov, posterior, posterior_cov = super().filter_moments(Y)
        return prior, prior_cov, posterior, -posterior_cov


class BoxUncertain(Box):
    def filter_moments(self, Y):
        prior, prior_cov, posterior, _ = super().filter_moments(Y)
        return prior, prior_cov, posterior, 2 * prior_cov


class BoxSmoother(Box):
    def filter_moments(self, Y):
        prior, prior_cov, posterior, posterior_cov = super().filter_moments(Y)
        return prior, prior_cov, copy(posterior) + posterior[-1], posterior_cov


@pytest.mark.parametrize(
    ("client", "sentence"),
    [
        (
            Prophet(),
            "nothing rests on later rows, and a prediction on earlier.*`filter` of the rows slice.0, 1,",
        ),
        (
            Present(),
            "nothing rests on later rows, and a prediction on earlier.*`predict` of the rows slice.0, 2,",
        ),
        (
            Standardised(),
            "nothing rests on later rows, and a prediction on earlier.*`message` of the rows slice.0, 1,",
        ),
        (
            OneRowLess(),
            "`filter`, `predict` and `measurements` give finite numbers.*`filter.X.` has shape .199, 2.,",
        ),
        (Flat(), "finite numbers for every row. `measurements.states.` has shape"),
        (Nan(), "finite numbers for every row. `predict.X.` has values that are not finite"),
        (Indefinite(), "whole and usable `StateMessage`. `process_cov` is not positive semidefinite"),
        (
            IndefiniteInformation(),
            "`message.X.` is a whole and usable `StateMessage`.*`patterns` is not positive",
        ),
        (LeaksRows(), "a message holds no raw measurements.*Array `z` holds a column of the"),
        (LeaksConst(), "a message holds no raw measurements.*Array `const` holds a column of"),
        (LeaksInputs(), "no raw measurements. .*`inputs`"),
        (InPlace(), "questions change neither the record nor the client.*`message_of` changed an argument"),
        (FitsInPlace(), "leaves the record. `fit` changed the record"),
        (Keeps(), "what was fitted can be pickled and keeps no rows.*Its pickle holds the numbers"),
        (Learns(), "questions change neither the record nor the client.*`predict` gave something else the"),
        (Random(), "a fit draws from `random_state` only and starts afresh: the"),
        (Remembers(), "a fit draws from `random_state` only and starts afresh: the"),
        (Sign(), "message and filter are about the same states"),
        (HalfModel(), "message and filter are about the same states|sufficient statistic of the fitted"),
        (OneEpisode(), "an episode knows nothing of the one before. `filter`"),
        (NoLengths(), "whole and usable `StateMessage`. `lengths`"),
        (NoModel(), "`message.X.` is a whole and usable `StateMessage`.*`transition` of the message with"),
        (Arrays(), "whole and usable `StateMessage`. It is a ndarray"),
        (FillsGaps(), "rows without measurements tell nothing."),
        (Silent(), "it has the methods of a unit.s model."),
        (
            NoReturn(),
            "`fit.X, lengths=....` returns the client and leaves the.*End `fit` with `return self`.",
        ),
        (object(), "it has the methods of a unit.s model."),
        (BoxTuple(), "`filter_moments` gives covariances, larger ones before than.*It raised ValueError:"),
        (
            BoxIndefinite(),
            "`filter_moments` gives covariances, larger ones before than.*A filtered covariance is not",
        ),
        (
            BoxUncertain(),
            "`filter_moments` gives covariances, larger ones before than.*The filtered covariance is larger",
        ),
        (BoxSmoother(), "nothing rests on later rows"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_wrong_client_is_named_with_its_rule(client, sentence):
    with pytest.raises(AssertionError, match=f"(?s)^{type(client).__name__} breaks the rule: .*(?:{sentence})"):
        check_client(client)


SPOILT = {
    "none": lambda given, X: None,
    "a list": lambda given, X: given.tolist() if hasattr(given, "tolist") else [given],
    "complex": lambda given, X: given + 0j if hasattr(given, "dtype") else replace(given, z=given.z + 0j),
    "half": lambda given, X: given[::2] if hasattr(given, "dtype") else replace(given, z=given.z[::2]),
    "drawn": lambda given, X: given if given is None else _drawn(given),
    "in place": lambda given, X: X.__setitem__(0, 0.0) or given,
}


def _drawn(given):
    noise = np.random.default_rng().standard_normal()
    return given + noise if hasattr(given, "dtype") else replace(given, z=given.z + noise)


@pytest.mark.medium
@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("method", ["message", "filter", "predict", "measurements", "transform", "score_samples"])
@pytest.mark.parametrize("base", [Duck, Mean], ids=lambda base: base.__name__)
def test_what_a_method_gives_is_looked_at_whoever_calls_it(base, method, how):
    if not hasattr(base, method):
        pytest.skip("the client has no such method, and needs none")

    def spoilt(self, X, **settings):
        return SPOILT[how](getattr(base, method)(self, X, **settings), X)

    with pytest.raises(AssertionError, match="breaks the rule"):
        check_client(type("Spoilt", (base,), {method: spoilt})())
