"""A unit's local stand-in for the influence of the other units.

The server tells a unit once what the other units contributed to its states, ``c[t] = sum_n A_mn
E[h_n[t-1]]``. An augmenter learns to guess it from what the unit has at home, so that the unit predicts
better when the server cannot be reached.
"""

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.linear_model import Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted

from ..statespace.episodes import episodes


def lagged_rows(Y, n_lags, starts=(0,)):
    """Rows ``[y[t-1], ..., y[t-n_lags]]``, zero before the start of an episode.

    Parameters
    ----------
    Y : ndarray of shape (n_samples, d)
    n_lags : int
    starts : sequence of int

    Returns
    -------
    Z : ndarray of shape (n_samples, n_lags * d)
    """
    n_samples, d = Y.shape
    Z = np.zeros((n_samples, n_lags * d))
    for start, stop in episodes(starts, n_samples):
        for lag in range(1, min(n_lags, stop - start - 1) + 1):
            Z[start + lag : stop, (lag - 1) * d : lag * d] = Y[start : stop - lag]
    return Z


class LinearAugmenter(RegressorMixin, BaseEstimator):
    """Linear augmentation of the client model, ``A_mm theta y[t-1] + phi``.

    With the prediction ``A_mm h_c[t-1]`` of the unit's own filter this is the augmented model ``h_a[t] =
    A_mm (h_c[t-1] + theta y[t-1]) + phi`` of [1]_ (Table 1, column 2) and [2]_.

    Parameters
    ----------
    alpha : float, default=1e-6
        Ridge penalty per time step, in units of the measurements' variance.

    Attributes
    ----------
    theta_ : ndarray of shape (n_states, n_features)
    phi_ : ndarray of shape (n_states,)
    coef_ : ndarray of shape (n_states, n_features)
        ``A_mm theta_`` as fitted; `theta_` is its least-squares solution, which differs if A_mm is singular.

    References
    ----------
    .. [1] Mohanty, Mohamed, Ramanan, Gebraeel, Federated Granger Causality Learning for Interdependent
           Clients with State Space Representation.
    .. [2] Mohamed, Mohanty, Gebraeel, Federated Causal Representation Learning in State-Space Systems for
           Decentralized Counterfactual Reasoning, equations 4 and 5.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import LinearAugmenter
    >>> Y = np.random.default_rng(0).standard_normal((500, 3))
    >>> cross_term = np.zeros((500, 1))
    >>> cross_term[1:] = 0.5 * Y[:-1, :1]
    >>> bool(np.allclose(LinearAugmenter().fit(Y, cross_term).coef_, [[0.5, 0.0, 0.0]], atol=1e-4))
    True
    """

    _parameter_constraints = {"alpha": [Interval(Real, 0, None, closed="left")]}

    def __init__(self, alpha=1e-6):
        self.alpha = alpha

    def fit(self, Y, cross_term, transition=None, starts=(0,)):
        """Regress the cross term on the previous measurements.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
            Centred measurements, complete.
        cross_term : ndarray of shape (n_samples, n_states)
            Influence of the other units at each time step.
        transition : ndarray of shape (n_states, n_states), default=None
            The unit's diagonal block A_mm; None stands for the identity.
        starts : sequence of int

        Returns
        -------
        self : LinearAugmenter
        """
        self._validate_params()
        rows = _inner_rows(len(Y), starts)
        Z, target = Y[rows - 1], cross_term[rows]
        z_mean, c_mean = Z.mean(axis=0), target.mean(axis=0)
        gram = Z.T @ Z - len(Z) * np.outer(z_mean, z_mean)
        cross = target.T @ Z - len(Z) * np.outer(c_mean, z_mean)
        scale = max(np.trace(gram) / len(gram), np.finfo(float).tiny)
        ridge = max(self.alpha, np.finfo(float).eps) * scale
        self.coef_ = np.linalg.solve(gram + ridge * np.eye(len(gram)), cross.T).T
        self.phi_ = c_mean - self.coef_ @ z_mean
        eye = np.eye(len(self.coef_))
        transition = eye if transition is None else transition
        self.theta_ = np.linalg.lstsq(transition, self.coef_, rcond=None)[0]
        self.n_features_in_ = Y.shape[1]
        return self

    def predict(self, Y, starts=(0,)):
        """Guess the cross term of each row from the measurements before it.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
            Centred measurements, complete.
        starts : sequence of int

        Returns
        -------
        cross_term : ndarray of shape (n_samples, n_states)
            Zero in the first row of an episode.
        """
        check_is_fitted(self)
        guess = np.empty((len(Y), len(self.coef_)))
        np.dot(Y[:-1], self.coef_.T, out=guess[1:])
        guess += self.phi_
        guess[list(starts)] = 0.0
        return guess


class RegressorAugmenter(RegressorMixin, BaseEstimator):
    """Augmentation of the client model by any scikit-learn regressor on lagged measurements.

    Parameters
    ----------
    estimator : regressor, default=None
        None stands for ridge regression. Regressors with one output are fitted once per state.
    n_lags : int, default=5
        Number of previous time steps the regressor sees.

    Attributes
    ----------
    estimator_ : regressor
        The fitted regressor.

    Examples
    --------
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> from skfedcausal import FederatedGrangerEstimator, RegressorAugmenter
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, _ = make_granger_plant(2, n_samples=500, random_state=0)
    >>> augmenter = RegressorAugmenter(HistGradientBoostingRegressor(max_iter=5), n_lags=2)
    >>> FederatedGrangerEstimator(augmenter=augmenter).fit(X).predict(X).shape
    (500, 16)
    """

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_lags": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, estimator=None, n_lags=5):
        self.estimator = estimator
        self.n_lags = n_lags

    def fit(self, Y, cross_term, transition=None, starts=(0,)):
        """Regress the cross term on the previous measurements; `transition` is not used.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
            Centred measurements, complete.
        cross_term : ndarray of shape (n_samples, n_states)
        transition : ndarray of shape (n_states, n_states), default=None
        starts : sequence of int

        Returns
        -------
        self : RegressorAugmenter
        """
        self._validate_params()
        estimator = Ridge() if self.estimator is None else clone(self.estimator)
        single = cross_term.shape[1] == 1
        if not single and not get_tags(estimator).target_tags.multi_output:
            estimator = MultiOutputRegressor(estimator)
        rows = _inner_rows(len(Y), starts)
        target = cross_term[rows]
        estimator.fit(lagged_rows(Y, self.n_lags, starts)[rows], target[:, 0] if single else target)
        self.estimator_ = estimator
        self.n_features_in_ = Y.shape[1]
        return self

    def predict(self, Y, starts=(0,)):
        """Guess the cross term of each row from the measurements before it.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
            Centred measurements, complete.
        starts : sequence of int

        Returns
        -------
        cross_term : ndarray of shape (n_samples, n_states)
            Zero in the first row of an episode.
        """
        check_is_fitted(self)
        guess = self.estimator_.predict(lagged_rows(Y, self.n_lags, starts)).reshape(len(Y), -1)
        guess[list(starts)] = 0.0
        return guess


def _inner_rows(n_samples, starts):
    """Rows that are not the first of an episode."""
    first = np.zeros(n_samples, dtype=bool)
    first[list(starts)] = True
    return np.flatnonzero(~first)
