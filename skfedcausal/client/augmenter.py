"""A unit's local stand-in for the influence of the other units.

The server tells a unit once what the other units contributed to its states, ``c[t] = sum_n A_mn
E[h_n[t-1]]``. An augmenter learns to guess it from what the unit itself has, so that the unit predicts
better when the server cannot be reached.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from ..arguments import as_floats, checked, rows_of_numbers
from ..bases import Checked, RegressorMixin, Versioned
from ..statespace.episodes import inner_rows, lagged_rows


class Augmenter(RegressorMixin, Versioned, Checked):
    """Base of augmenters, which predict the other units' influence from a unit's own measurements.

    A subclass has two methods. ``fit(Y, cross_term, transition=None, starts=(0,))`` learns the influence of
    the other units on every row, ``cross_term`` of shape (n_samples, n_states), from the unit's own centred
    measurements ``Y`` of the rows before it; ``transition`` is the unit's own matrix, ``starts`` are first
    rows of episodes. ``predict(Y, starts=(0,))`` guesses it, zero at these rows: a row before which the unit
    has seen nothing tells nothing.

    See Also
    --------
    LinearAugmenter : The papers' correction.
    skfedcausal.testing.check_augmenter : Whether an object can be one.

    Notes
    -----
    A regressor of scikit-learn that is given in its place is wrapped in a :class:`RegressorAugmenter`.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import Augmenter, FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> class MeanAugmenter(Augmenter):
    ...     def fit(self, Y, cross_term, transition=None, starts=(0,)):
    ...         self.level_ = np.mean(cross_term, axis=0)
    ...         return self
    ...     def predict(self, Y, starts=(0,)):
    ...         guess = np.tile(self.level_, (len(Y), 1))
    ...         guess[list(starts)] = 0.0
    ...         return guess
    >>> X, _ = make_granger_plant(2, n_samples=500, random_state=0)
    >>> FederatedGrangerEstimator(augmenter=MeanAugmenter()).fit(X).augmenters_["unit1"].level_.shape
    (2,)
    """

    _is_flat = False  # whether the cross term came without its second dimension

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # of rows that do not follow each other
        return tags


def as_augmenter(given):
    """Unfitted augmenter from what the user gave: none, an augmenter, or any regressor of scikit-learn."""
    if given is None:
        return LinearAugmenter()
    if isinstance(given, Augmenter) or "starts" in signature(given.fit).parameters:
        return clone(given)
    return RegressorAugmenter(given)


@dataclass(repr=False, eq=False)
class LinearAugmenter(Augmenter):
    """Linear augmentation of a unit's model, ``A_mm theta y[t-1] + phi``.

    With the prediction ``A_mm h_c[t-1]`` of the unit's own filter this is the augmented model ``h_a[t] =
    A_mm (h_c[t-1] + theta y[t-1]) + phi`` of [1]_ (Table 1, column 2) and [2]_.

    Parameters
    ----------
    alpha : float, default=1e-6
        Ridge penalty per time step, in units of the measurements' variance;
        :class:`~skfedcausal.papers.GradientServer` has its own.
    features : transformer, default=None
        What theta is multiplied with in place of the centred measurements: polynomials, splines or random
        features of them, another ``f_ML`` in the sense of Appendix A.2 of [1]_. Cloned and fitted at every
        unit.

    Attributes
    ----------
    theta_ : ndarray of shape (n_states, n_columns)
        One column per measurement, or per feature.
    phi_ : ndarray of shape (n_states,)
    coef_ : ndarray of shape (n_states, n_columns)
        ``A_mm theta_`` as fitted; `theta_` is its least-squares solution, which differs if A_mm is singular.
    features_ : transformer or None
    theta_stderr_, phi_stderr_ : ndarray of shape (n_states, n_columns) and (n_states,), or None
        Standard errors of both, where a :class:`~skfedcausal.papers.GradientServer` with moments trained them.

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

    alpha: float = 1e-6
    features: Any = None

    _parameter_constraints = {
        "alpha": [Interval(Real, 0, None, closed="left")],
        "features": [HasMethods(["fit", "transform"]), None],
    }

    features_ = theta_stderr_ = phi_stderr_ = None

    def fit(self, X, y, transition: np.ndarray | None = None, starts: Sequence[int] = (0,)) -> Self:
        """Regress the cross term on the previous measurements.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Centred measurements, complete.
        y : ndarray of shape (n_samples, n_states) or (n_samples,)
            Cross term: influence of the other units at each time step.
        transition : ndarray of shape (n_states, n_states), default=None
            The unit's diagonal block A_mm; None stands for the identity.
        starts : sequence of int

        Returns
        -------
        self : LinearAugmenter

        Raises
        ------
        ValueError
            If the series have missing values, do not fit together or hold no transition.
        """
        self._validate_params()
        Y, cross_term, rows = _read_training(self, X, y, starts)
        self._is_flat = np.asarray(y).ndim == 1
        if self.features is not None:
            Y = self.learn_features(Y)
        before, after = Y[rows - 1], cross_term[rows]
        mean, cross_mean = before.mean(axis=0), after.mean(axis=0)
        gram = before.T @ before - len(rows) * np.outer(mean, mean)
        cross = after.T @ before - len(rows) * np.outer(cross_mean, mean)
        scale = max(np.trace(gram) / len(gram), np.finfo(float).tiny)
        ridge = max(self.alpha, np.finfo(float).eps) * scale
        self.coef_ = np.linalg.solve(gram + ridge * np.eye(len(gram)), cross.T).T
        self.phi_ = cross_mean - self.coef_ @ mean
        p = len(self.coef_)
        A = np.eye(p) if transition is None else np.asarray(transition, dtype=float)
        if A.shape != (p, p):
            raise ValueError(f"`transition` has shape {A.shape}, expected ({p}, {p}): `cross_term` has {p} columns.")
        self.theta_ = np.linalg.lstsq(A, self.coef_, rcond=None)[0]
        return self

    @checked
    def predict(self, X, starts: Sequence[int] = (0,)) -> np.ndarray:
        """Predict the cross term of each row from the measurements before it.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Centred measurements, complete.
        starts : sequence of int

        Returns
        -------
        cross_term : ndarray of shape (n_samples, n_states)
            Zero in the first row of an episode. Without its second dimension where `fit` was given one column so.
        """
        check_is_fitted(self)
        with rows_of_numbers(X):
            Y = self.seen(validate_data(self, X, dtype=float, reset=False))
        guess = np.empty((len(Y), len(self.coef_)))
        np.dot(Y[:-1], self.coef_.T, out=guess[1:])
        guess += self.phi_
        guess[list(starts)] = 0.0
        return guess[:, 0] if self._is_flat else guess

    def learn_features(self, Y: np.ndarray) -> np.ndarray:
        """Fit the features to centred measurements.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_columns)

        Raises
        ------
        ValueError
            If the transformer gives anything but one finite row per time step.
        """
        self.features_, self.n_features_in_ = clone(self.features).fit(Y), Y.shape[1]
        return self.seen(Y)

    def seen(self, Y: np.ndarray) -> np.ndarray:
        """What theta is multiplied with.

        Parameters
        ----------
        Y : ndarray of shape (n_samples, n_features)
            Centred measurements.

        Returns
        -------
        ndarray of shape (n_samples, n_columns)

        Raises
        ------
        ValueError
            If the transformer gives anything but one finite row per time step.
        """
        if self.features_ is None:
            return Y
        columns = self.features_.transform(Y)
        columns = np.asarray(columns.toarray() if hasattr(columns, "toarray") else columns, dtype=float)
        if columns.ndim != 2 or len(columns) != len(Y) or not np.isfinite(columns).all():
            raise ValueError(
                f"features={self.features!r} gave shape {columns.shape} or values that are not finite for {len(Y)} "
                "rows; give a transformer with one finite row per time step."
            )
        return columns


@dataclass(repr=False, eq=False)
class RegressorAugmenter(Augmenter):
    """Augmentation of a unit's model by any scikit-learn regressor on lagged measurements.

    Parameters
    ----------
    estimator : regressor, default=None
        None stands for ridge regression. Regressors with one output are fitted once per state.
        ``RegressorServer(labels="augmented")`` trains it by gradients instead, which takes one with
        ``partial_fit``; None then stands for a small MLPRegressor.
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

    estimator: Any = None
    n_lags: int = 5

    _parameter_constraints = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_lags": [Interval(Integral, 1, None, closed="left")],
    }

    def fit(self, X, y, transition: np.ndarray | None = None, starts: Sequence[int] = (0,)) -> Self:
        """Regress the cross term on the previous measurements; `transition` is not used.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Centred measurements, complete.
        y : ndarray of shape (n_samples, n_states) or (n_samples,)
            Cross term: influence of the other units at each time step.
        transition : ndarray of shape (n_states, n_states), default=None
        starts : sequence of int

        Returns
        -------
        self : RegressorAugmenter

        Raises
        ------
        ValueError
            If the series have missing values, do not fit together or hold no transition.
        """
        self._validate_params()
        estimator = Ridge() if self.estimator is None else clone(self.estimator)
        Y, cross_term, rows = _read_training(self, X, y, starts)
        self._is_flat = np.asarray(y).ndim == 1
        target = cross_term[rows]
        single = target.shape[1] == 1
        if not single and not get_tags(estimator).target_tags.multi_output:
            estimator = MultiOutputRegressor(estimator)
        estimator.fit(lagged_rows(Y, self.n_lags, starts)[rows], target[:, 0] if single else target)
        self.estimator_ = estimator
        return self

    @checked
    def predict(self, X, starts: Sequence[int] = (0,)) -> np.ndarray:
        """Predict the cross term of each row from the measurements before it.

        Parameters
        ----------
        X : ndarray of shape (n_samples, n_features)
            Centred measurements, complete.
        starts : sequence of int

        Returns
        -------
        cross_term : ndarray of shape (n_samples, n_states)
            Zero in the first row of an episode. Without its second dimension where `fit` was given one column so.
        """
        check_is_fitted(self)
        with rows_of_numbers(X):
            Y = validate_data(self, X, dtype=float, reset=False)
        guess = self.estimator_.predict(lagged_rows(Y, self.n_lags, starts)).reshape(len(Y), -1)
        guess[list(starts)] = 0.0
        return guess[:, 0] if self._is_flat else guess


def _read_training(augmenter, Y, cross_term, starts):
    """Checked measurements and cross terms, and the rows that have one before them."""
    is_checked = get_config()["assume_finite"] and type(Y) is type(cross_term) is np.ndarray  # as a worker has done
    if is_checked:
        augmenter.n_features_in_ = Y.shape[1]
    else:
        with rows_of_numbers(Y):
            Y = validate_data(augmenter, Y, dtype=float)
    if cross_term is None:
        raise ValueError(
            f"{type(augmenter).__name__} requires y to be passed, but the target y is None: give the cross term, the "
            "influence of the other units on each row."
        )
    cross_term = cross_term if is_checked else as_floats(cross_term, "y")
    cross_term = cross_term[:, None] if cross_term.ndim == 1 else cross_term
    if cross_term.ndim != 2 or len(cross_term) != len(Y):
        raise ValueError(
            f"`cross_term` has shape {cross_term.shape}, expected {len(Y)} rows, as Y has, and a column per state."
        )
    if not np.isfinite(cross_term).all():
        raise ValueError("`cross_term` has missing or infinite values; give the server's reply as it came.")
    rows = inner_rows(len(Y), starts)
    if len(rows) == 0:
        raise ValueError(
            f"Got rows (n_samples = {len(Y)}) that are all the first of an episode: without a transition from one row "
            "to the next nothing can be learned. Give longer episodes."
        )
    return Y, cross_term, rows
