"""`check_augmenter` passes our augmenters and regressors, and names the rule that a wrong one breaks."""

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor

from skfedcausal import Augmenter, LinearAugmenter, RegressorAugmenter
from skfedcausal.testing import check_augmenter


class Linear(Augmenter):
    """Least squares on the row before: as small as an augmenter can be."""

    def fit(self, Y, cross_term, transition=None, starts=(0,)):
        rows = np.setdiff1d(np.arange(len(Y)), starts)
        self.coef_ = np.linalg.lstsq(Y[rows - 1], cross_term[rows], rcond=None)[0]
        return self

    def predict(self, Y, starts=(0,)):
        guess = np.zeros((len(Y), self.coef_.shape[1]))
        guess[1:] = Y[:-1] @ self.coef_
        guess[list(starts)] = 0.0
        return guess


@pytest.mark.parametrize(
    "augmenter",
    [
        Linear(), LinearAugmenter(), RegressorAugmenter(), Ridge(), GradientBoostingRegressor(n_estimators=5),
        RegressorAugmenter(MLPRegressor(hidden_layer_sizes=(4,), max_iter=20), n_lags=3),
    ],
    ids=repr,
)  # fmt: skip
def test_augmenters_pass(augmenter):
    before = repr(augmenter), sorted(vars(augmenter))
    check_augmenter(augmenter)
    assert (repr(augmenter), sorted(vars(augmenter))) == before


class Flat(Linear):
    def predict(self, Y, starts=(0,)):
        return super().predict(Y, starts)[:, 0]


class OneRowLess(Linear):
    def predict(self, Y, starts=(0,)):
        return super().predict(Y, starts)[1:]


class Nan(Linear):
    def predict(self, Y, starts=(0,)):
        guess = super().predict(Y, starts)
        guess[3:4] = np.nan
        return guess


class NotZeroAtStarts(Linear):
    def predict(self, Y, starts=(0,)):
        return Y @ self.coef_ * 0 + 1.0


class Present(Linear):
    def predict(self, Y, starts=(0,)):
        guess = Y @ self.coef_
        guess[list(starts)] = 0.0
        return guess


class Standardises(Linear):
    def predict(self, Y, starts=(0,)):
        return super().predict(Y / max(Y.std(), 1e-12), starts)


class IgnoresStarts(Linear):
    def predict(self, Y, starts=(0,)):
        guess = super().predict(np.cumsum(Y, axis=0), (0,))
        guess[list(starts)] = 0.0
        return guess


class Remembers(Linear):
    def fit(self, Y, cross_term, transition=None, starts=(0,)):
        before = getattr(self, "coef_", 0.0)
        super().fit(Y, cross_term, transition, starts)
        if np.shape(before) == self.coef_.shape:
            self.coef_ = 0.5 * (self.coef_ + before)
        return self


class Random(Linear):
    def fit(self, Y, cross_term, transition=None, starts=(0,)):
        super().fit(Y, cross_term, transition, starts)
        self.coef_ = self.coef_ + 1e-3 * np.random.default_rng().standard_normal(self.coef_.shape)
        return self


class CentresInPlace(Linear):
    def fit(self, Y, cross_term, transition=None, starts=(0,)):
        Y -= Y.mean(axis=0) + 1e-3
        return super().fit(Y, cross_term, transition, starts)


class PredictsInPlace(Linear):
    def predict(self, Y, starts=(0,)):
        Y *= 2
        return super().predict(Y, starts)


class Learns(Linear):
    def predict(self, Y, starts=(0,)):
        guess = super().predict(Y, starts)
        self.coef_ = self.coef_ * 0.9
        return guess


class NoReturn(Linear):
    def fit(self, Y, cross_term, transition=None, starts=(0,)):
        super().fit(Y, cross_term, transition, starts)


class NeedsTransition(Linear):
    def fit(self, Y, cross_term, transition=None, starts=(0,)):
        np.linalg.inv(transition)
        return super().fit(Y, cross_term, transition, starts)


class Divides(Linear):
    def fit(self, Y, cross_term, transition=None, starts=(0,)):
        with np.errstate(all="ignore"):
            self.scale_ = 1 / Y.std(axis=0)
        return super().fit(Y, cross_term, transition, starts)

    def predict(self, Y, starts=(0,)):
        with np.errstate(all="ignore"):
            return super().predict(Y * self.scale_ / self.scale_, starts)


class Converting(Linear):
    def __init__(self, lags=(1,)):
        self.lags = list(lags)


class Trained(Linear):
    """Fits the object that was given."""

    def __init__(self, model=None):
        self.model = model

    def fit(self, Y, cross_term, transition=None, starts=(0,)):
        self.model.fit(Y, cross_term)
        return super().fit(Y, cross_term, transition, starts)


@pytest.mark.parametrize(
    ("augmenter", "sentence"),
    [
        (Flat(), "one finite number per row and state. .*shape"),
        (OneRowLess(), "one finite number per row and state. .*shape"),
        (Nan(), "one finite number per row and state. .*not finite"),
        (NotZeroAtStarts(), "the first row of an episode is guessed zero."),
        (Present(), "a guess rests on earlier rows.*`predict` of the rows slice"),
        (Standardises(), "a guess rests on earlier rows.*`predict` of the rows slice.0, 2,"),
        (IgnoresStarts(), "an episode starts afresh.*`predict` of the rows slice.90,"),
        (Remembers(), "a fit draws from `random_state` only and starts afresh: the"),
        (Random(), "a fit draws from `random_state` only and starts afresh: the"),
        (
            CentresInPlace(),
            "`fit` returns the augmenter and leaves its arguments.*`fit` changed an argument in",
        ),
        (PredictsInPlace(), "`predict` changes nothing.*`predict` changed an argument in"),
        (Learns(), "`predict` changes nothing"),
        (NoReturn(), "`fit` returns the augmenter and leaves its arguments.*End `fit` with `return self`."),
        (NeedsTransition(), "`transition` and `starts` may be left out. It raised"),
        (Divides(), "constant columns do no harm.*That of 3 columns, 2 states has"),
        (
            Converting(),
            "`fit` returns the augmenter and leaves its arguments.*It raised RuntimeError: Cannot",
        ),
        (Trained(Ridge()), "a fit leaves the parameters alone.*..model.. are others. Learned"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_wrong_augmenter_is_named_with_its_rule(augmenter, sentence):
    with pytest.raises(AssertionError, match=f"(?s)^{type(augmenter).__name__} breaks the rule: .*{sentence}"):
        check_augmenter(augmenter)
