"""What a unit can say once it has a linear model: states, predictions, likelihoods and its message.

Filter and smoother from a start of the user's choice go through statsmodels.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array, validate_data

from ..arguments import checked, rows_of_numbers
from ..bases import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from ..containers import check_lengths, episode_starts
from ..containers.arrays import is_fine
from ..given import Lengths
from ..message.states import StateMessage
from ..parameters import Checked
from ..statespace.episodes import episodes
from ..statespace.matrices import are_covariances
from ..versioned import Versioned
from .records import as_inputs, check_inputs_fit, in_use, warn_inputs_ignored


@cache
def _parameters_of(cls):
    return cast(Any, BaseEstimator._get_param_names).__func__(cls)


def quick_names(cls):
    """Names of the parameters of a class that every unit has an object of: looked up once, not in every clone."""
    return list(_parameters_of(cls))


class CheckedRecord(NamedTuple):
    """A record that was checked, and the model that is to look at it."""

    model: Any
    Y: np.ndarray  # (n_samples, n_used), less what the unit's own model removes
    U: np.ndarray | None  # (n_samples, n_inputs)
    starts: tuple[int, ...]  # first rows of episodes
    off: np.ndarray | None  # (n_samples, n_features), what the unit's own model removes


class UnitFilter(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Versioned, Checked):
    """Methods of an estimator that has a `UnitModel` as `model`; base of :class:`~skfedcausal.UnitClient`."""

    _get_param_names = classmethod(quick_names)
    baseline_: Any = None  # of a client that takes one off
    mean_: np.ndarray
    _active: np.ndarray
    fit: Callable[..., Any]
    model: Any

    def _read(self, X, inputs, lengths):
        """The model, and a record as it looks at it."""
        model, index = self.model, getattr(X, "index", None)
        checks = {"dtype": float, "ensure_all_finite": "allow-nan"}
        if type(X) is np.ndarray and not hasattr(self, "feature_names_in_") and X.shape[1:] == (len(model.C),):
            Y = X if is_fine(X, 1, 1) else check_array(X, estimator=self, input_name="X", **checks)
        elif hasattr(self, "_model"):
            with rows_of_numbers(X):
                Y = validate_data(self, X, reset=False, **checks)
        else:
            with rows_of_numbers(X):
                Y = check_array(X, estimator=self, input_name="X", **checks)
            if Y.shape[1] != len(model.C):
                raise ValueError(
                    f"X has {Y.shape[1]} features, but {type(self).__name__} is expecting {len(model.C)} "
                    "features as input, one per row of C."
                )
        U = as_inputs(inputs, len(Y))
        check_inputs_fit(U, model.B)
        if U is not None and model.B is None:
            warn_inputs_ignored()
        starts, off = episode_starts(check_lengths(lengths, len(Y))), None
        if self.baseline_ is not None:
            off = self.baseline_.of(Y, index, starts)[0]
            Y = Y - off
        return CheckedRecord(model, in_use(self, Y), U, starts, off)

    def transform(self, X: ArrayLike, *, inputs: ArrayLike | None = None, lengths: Lengths = None) -> np.ndarray:
        """Filtered states ``E[h_t | y_1, ..., y_t]``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        H : ndarray of shape (n_samples, n_states)
        """
        return self.filter(X, inputs=inputs, lengths=lengths)

    def fit_transform(  # type: ignore[override]
        self, X: ArrayLike, y: Any = None, *, inputs: ArrayLike | None = None, lengths: Lengths = None
    ) -> np.ndarray:
        """Fit, then return the filtered states of the same record with the same inputs and episodes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        H : ndarray of shape (n_samples, n_states)
        """
        return self.fit(X, inputs=inputs, lengths=lengths).transform(X, inputs=inputs, lengths=lengths)

    def filter(self, X: ArrayLike, *, inputs: ArrayLike | None = None, lengths: Lengths = None) -> np.ndarray:
        """Filtered states; another name for :meth:`transform` that ignores ``set_output``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        H : ndarray of shape (n_samples, n_states)
        """
        read = self._read(X, inputs, lengths)
        return read.model.filter(read.Y, read.U, read.starts)

    def smooth(
        self, X: ArrayLike, *, inputs: ArrayLike | None = None, lengths: Lengths = None, return_cov: bool = False
    ) -> Any:
        """Smoothed states ``E[h_t | y_1, ..., y_T]`` by the unit's own model, of each episode alone.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Measurements, NaN where missing.
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None
        return_cov : bool, default=False
            Return the covariances of the states too.

        Returns
        -------
        H : ndarray of shape (n_samples, n_states)
        covariances : ndarray of shape (n_samples, n_states, n_states)
            Only with `return_cov`.

        Examples
        --------
        >>> import numpy as np
        >>> from skfedcausal import KalmanClient
        >>> level = KalmanClient(A=[[1.0]], C=[[1.0]], Q=[[1.0]], R=[2.0], initial="diffuse")
        >>> level.smooth(np.array([[1.0], [np.nan], [4.0]])).round(3).ravel().tolist()
        [2.0, 2.5, 3.0]
        """
        read = self._read(X, inputs, lengths)
        run = own_run(read.model, read.Y, read.model.exogenous(read.U, read.starts), read.starts, smooth=True)
        return (run.smoothed, run.covariances) if return_cov else run.smoothed

    def predict(self, X: ArrayLike, *, inputs: ArrayLike | None = None, lengths: Lengths = None) -> np.ndarray:
        """Measurements predicted one step ahead, ``mean + C E[h_t | y_1, ..., y_(t-1)]``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        Y : ndarray of shape (n_samples, n_features)
            Constant columns are predicted at their constant.
        """
        read = self._read(X, inputs, lengths)
        predicted = self.measurements(read.model.predict(read.Y, read.U, read.starts))
        return predicted if read.off is None else predicted + read.off

    def measurements(self, states: np.ndarray) -> np.ndarray:
        """Expected measurements of given states around the level; constant columns keep their constant.

        Parameters
        ----------
        states : ndarray of shape (n_samples, n_states)

        Returns
        -------
        ndarray of shape (n_samples, n_features)

        Raises
        ------
        ValueError
            If the states are no numbers, or not as many a row as the model has.
        """
        if np.shape(states)[1:] != self.model.C.shape[1:]:
            raise ValueError(f"Got `states` of shape {np.shape(states)}; give {self.model.C.shape[1]} numbers a row.")
        expected = self.model.measurements(states)
        if not hasattr(self, "_model") or self._active.all():
            return expected
        full = np.tile(self.mean_, (len(expected), 1))
        full[:, self._active] = expected
        return full

    def score_samples(self, X: ArrayLike, *, inputs: ArrayLike | None = None, lengths: Lengths = None) -> np.ndarray:
        """Log-density of each row given the past rows of its episode.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats.
        """
        read = self._read(X, inputs, lengths)
        return read.model.log_likelihood(read.Y, read.U, read.starts)

    def score(self, X: ArrayLike, y: Any = None, *, inputs: ArrayLike | None = None, lengths: Lengths = None) -> float:
        """Mean of :meth:`score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : None
            Ignored.
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None

        Returns
        -------
        float
        """
        return float(self.score_samples(X, inputs=inputs, lengths=lengths).mean())

    @checked
    def message(
        self,
        X: ArrayLike,
        *,
        inputs: ArrayLike | None = None,
        lengths: Lengths = None,
        const: bool = False,
        local_model: bool = False,
    ) -> StateMessage:
        """Sufficient statistic of the measurements for the unit's states.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        inputs : array-like of shape (n_samples, n_inputs), default=None
        lengths : sequence of int, default=None
        const : bool, default=False
            Add the term of the log-density that likelihood *values* need.
        local_model : bool, default=False
            Add the unit's own transition matrix and process covariance.

        Returns
        -------
        StateMessage
            With ``z`` of shape (n_samples, n_states), the information matrix ``J`` and the inputs.
        """
        read = self._read(X, inputs, lengths)
        model = getattr(self, "message_model", read.model)
        return model.message(read.Y, read.starts, inputs=read.U, const=const, local_model=local_model)


class OwnRun(NamedTuple):
    """States of all rows: filtered, predicted and smoothed, covariances of the last, and log-densities."""

    filtered: np.ndarray
    predicted: np.ndarray
    smoothed: np.ndarray
    covariances: np.ndarray
    log_density: np.ndarray


def own_run(model, Y, exogenous=None, starts=(0,), *, smooth=False):
    """Filter, and smoother where it is wanted, of every episode from the model's initial state.

    Measurements may be missing. A diffuse start is exact: rows that only tell where the unit starts have the
    log-density that is left in the limit of an infinite prior variance.
    """
    from statsmodels.tsa.statespace.kalman_smoother import KalmanSmoother  # slow to import, and most units need none

    n, p = len(Y), model.n_states
    filtered, predicted, smoothed = np.zeros((3, n, p))
    run = OwnRun(filtered, predicted, smoothed, np.zeros((n if smooth else 0, p, p)), np.zeros(n))
    R = np.diag(model.R) if model.R.ndim == 1 else model.R
    for start, stop in episodes(starts, n):
        rows = slice(start, stop)
        machine = KalmanSmoother(len(model.C), p, p, design=model.C, obs_cov=R, transition=model.A, state_cov=model.Q)
        machine["selection"] = np.eye(p)
        machine.bind(np.ascontiguousarray(Y[rows] - model.mean))
        if exogenous is not None:
            following = np.zeros((p, stop - start))
            following[:, :-1] = exogenous[start + 1 : stop].T
            machine["state_intercept"] = following
        _start(machine, model)
        found = machine.smooth() if smooth else machine.filter()
        run.filtered[rows] = found.filtered_state.T
        run.predicted[rows] = found.predicted_state[:, :-1].T
        run.log_density[rows] = found.llf_obs
        if smooth:
            run.smoothed[rows] = found.smoothed_state.T
            run.covariances[rows] = np.moveaxis(found.smoothed_state_cov, -1, 0)
    return run


def _start(machine, model):
    """Say where an episode starts."""
    initial, p = model.initial, model.n_states
    if initial is None:
        machine.initialize_known(np.zeros(p), model.initial_covariance())
    elif isinstance(initial, str):
        machine.initialize_diffuse()
    else:
        machine.initialize_known(*check_initial(initial, p))


def check_initial(initial, n_states):
    """Mean and covariance of the state in the first row."""
    try:
        mean, cov = (np.asarray(part, dtype=float) for part in initial)
    except (TypeError, ValueError):
        raise ValueError(
            f"initial={initial!r}; give 'stationary', 'diffuse', or a mean and a covariance of the {n_states} states."
        ) from None
    if mean.shape != (n_states,) or cov.shape != (n_states, n_states):
        raise ValueError(
            f"initial: got a mean of shape {mean.shape} and a covariance of shape {cov.shape} for {n_states} states; "
            f"give ({n_states},) and ({n_states}, {n_states})."
        )
    if not (np.isfinite(mean).all() and np.allclose(cov, cov.T) and are_covariances(cov[None])):
        raise ValueError("initial: the mean is not finite, or the covariance is none (symmetric, not negative).")
    return mean, cov
