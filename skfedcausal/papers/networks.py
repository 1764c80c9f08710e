"""Regressors trained with torch (extra ``torch``): the networks of the third paper.

Torch computes gradients while they are fitted and nothing else: weights are numpy arrays, so a fitted
regressor predicts, differentiates, is pickled and read back where torch is not installed.
"""

from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from ..arguments import warn
from ..bases import AT_LEAST_ONE, FROM_ZERO, POSITIVE, Checked, RegressorMixin, Versioned
from ..optional import import_optional
from ..statespace.networks import FeedForward
from .numerics.lstm import LSTM, uniform_lstm

_DECAY = (0.9, 0.999)  # of Adam's two averages
_TINY = 1e-8
_RAISE = "Raise max_iter, or set tol=0 for a fixed number of epochs."
_CONSTRAINTS = {
    **{key: [AT_LEAST_ONE] for key in ("hidden", "batch_size", "max_iter", "n_iter_no_change")},
    "learning_rate_init": [POSITIVE],
    "tol": [FROM_ZERO],
    "random_state": ["random_state"],
}


@dataclass(repr=False, eq=False)
class _TorchRegressor(RegressorMixin, Versioned, Checked):
    """Base of the regressors: Adam on mini-batches of half the squared error."""

    _parameter_constraints = _CONSTRAINTS

    hidden: Any = 32
    _: KW_ONLY
    learning_rate_init: Any = 1e-3
    batch_size: Any = 64
    max_iter: Any = 200
    tol: Any = 1e-4
    n_iter_no_change: Any = 10
    random_state: Any = None

    if TYPE_CHECKING:  # of a subclass

        def _network(self, *args: Any) -> Any: ...
        def _draw(self, *args: Any) -> Any: ...
        def _forward(self, *args: Any) -> Any: ...

    def fit(self, X: Any, y: Any) -> Self:
        """Train from new weights, over all rows in every epoch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        self : object

        Raises
        ------
        ImportError
            If torch is not installed.
        """
        rng = check_random_state(self.random_state)
        X, y = self._read(X, y, rng)
        self.loss_curve_ = []
        best, waited = np.inf, 0
        with _one_thread():
            for _ in range(self.max_iter):
                order, total = rng.permutation(len(X)), 0.0
                for rows in gen_batches(len(X), min(self.batch_size, len(X))):
                    total += self._descend(X[order[rows]], y[order[rows]]) * len(order[rows])
                self.loss_curve_.append(total / len(X))
                waited = 0 if self.loss_curve_[-1] < best - self.tol else waited + 1
                best = min(best, self.loss_curve_[-1])
                if self.tol > 0 and waited >= self.n_iter_no_change:
                    break
            else:
                if self.tol > 0:
                    message = f"The loss still fell after {self.max_iter} epochs. {_RAISE}"
                    warn(message, ConvergenceWarning)
        self.n_iter_ = len(self.loss_curve_)
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """One Adam step on the mean over the given rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)

        Returns
        -------
        self : object
        """
        X, y = self._read(X, y, None if hasattr(self, "weights_") else check_random_state(self.random_state))
        with _one_thread():
            self._descend(X, y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predicted outputs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            As the `y` that was fitted.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False)
        out = self.network_.value(X)
        return out[:, 0] if self._is_single else out

    @property
    def network_(self) -> Any:
        """The fitted map with ``value`` and ``jacobian``, a map of arrays."""
        check_is_fitted(self, "weights_")
        return self._network()

    # -- training ----------------------------------------------------------------------------------------

    def _read(self, X, y, rng):
        """Checked rows, `y` of shape (n_samples, n_outputs); a new start, weights from `rng`, if given."""
        _torch()
        first = rng is not None
        if first:
            self._validate_params()
        X, y = validate_data(self, X, y, dtype=float, multi_output=True, y_numeric=True, reset=first)
        if first:
            self._is_single, self._n_steps_taken = y.ndim == 1, 0
            self.weights_ = self._draw(rng, X.shape[1], 1 if self._is_single else y.shape[1])
            self._averages = [(np.zeros_like(w), np.zeros_like(w)) for w in self.weights_]
            self._parts: list = []
        return X, y.reshape(len(X), -1)

    def _descend(self, X, target):
        """One step of Kingma & Ba's Adam on the weights, in place; the loss before it."""
        torch = _torch()
        if not self._parts:  # tensors on the memory of the weights
            self._parts = [torch.from_numpy(w).requires_grad_() for w in self.weights_]
        out = self._forward(torch, torch.from_numpy(np.ascontiguousarray(X)))
        loss = 0.5 * ((out - torch.from_numpy(np.ascontiguousarray(target))) ** 2).sum() / len(X)
        slopes = torch.autograd.grad(loss, self._parts)
        self._n_steps_taken += 1
        shrink = [1 - decay**self._n_steps_taken for decay in _DECAY]
        for w, part, (mean, square) in zip(self.weights_, slopes, self._averages, strict=True):
            slope = part.numpy()
            mean += (1 - _DECAY[0]) * (slope - mean)
            square += (1 - _DECAY[1]) * (slope**2 - square)
            w -= self.learning_rate_init * (mean / shrink[0]) / (np.sqrt(square / shrink[1]) + _TINY)
        return float(loss.detach())

    def __getstate__(self):
        """Weights and averages; tensors on their memory are made anew."""
        state = dict(super().__getstate__())
        return state | {"_parts": []} if "_parts" in state else state

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.regressor_tags.poor_score = True  # of few epochs on raw units
        return tags


@dataclass(repr=False, eq=False)
class LSTMRegressor(_TorchRegressor):
    """Long short-term memory with a linear layer, trained with torch.

    Serves wherever a scikit-learn regressor does: ``f`` of :class:`~skfedcausal.ExtendedKalmanClient`, estimator of
    :class:`~skfedcausal.papers.RegressorServer` or :class:`~skfedcausal.RegressorAugmenter`. Inputs should be
    standardised; those parts do so.

    Parameters
    ----------
    hidden : int, default=16
        Hidden units of every layer.
    n_layers : int, default=1
    n_steps : int, default=1
        Time steps in a row, the newest first: ``n_features = n_steps * n_inputs``. With one step and no state
        carried over the network is a map, as an extended Kalman filter needs it.
    learning_rate_init : float, default=1e-3
    batch_size : int, default=64
    max_iter : int, default=200
        Epochs.
    tol, n_iter_no_change : float, int, default=1e-4, 10
        Stop when the loss has not fallen by `tol` for so many epochs; 0 runs all epochs.
    zero_output : bool, default=False
        Start the linear layer at zero, so that the network adds nothing before it is trained.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    weights_ : list of ndarray
    loss_curve_ : list of float
        Half the mean squared error in every epoch.
    n_iter_ : int

    References
    ----------
    .. [1] Hochreiter, Schmidhuber (1997), Long short-term memory, Neural Computation 9(8).

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> import numpy as np
    >>> from skfedcausal import LSTMRegressor
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> model = LSTMRegressor(hidden=8, max_iter=20, tol=0, random_state=0).fit(X, np.tanh(X))
    >>> model.predict(X).shape, model.network_.jacobian(X).shape
    ((200, 2), (200, 2, 2))
    """

    _parameter_constraints = {
        **_CONSTRAINTS,
        **{key: [AT_LEAST_ONE] for key in ("n_layers", "n_steps")},
        "zero_output": ["boolean"],
    }

    hidden: Any = 16
    _: KW_ONLY
    n_layers: Any = 1
    n_steps: Any = 1
    zero_output: Any = False

    def _draw(self, rng, n_features, n_outputs):
        if n_features % self.n_steps:
            what = f"Got {n_features} features for n_steps={self.n_steps}"
            raise ValueError(f"{what}; a row must hold the same number of features for every step.")
        layers = uniform_lstm(rng, n_features // self.n_steps, self.hidden, self.n_layers)
        bound = 0.0 if self.zero_output else self.hidden**-0.5
        out = _uniform(rng, bound, (n_outputs, self.hidden), n_outputs)
        return [w for layer in layers for w in layer] + out

    def _network(self):
        *inner, weight, bias = self.weights_
        layers = tuple(tuple(inner[k : k + 3]) for k in range(0, len(inner), 3))
        return LSTM(layers, weight, bias, self.n_steps)

    def _flat(self, torch):
        """Tensors of the weights in torch's order: it adds a second bias, kept at zero."""
        *inner, _, _ = self._parts
        layers = zip(inner[0::3], inner[1::3], inner[2::3], strict=True)
        return [w for W, R, b in layers for w in (W, R, b, torch.zeros_like(b))]

    def _forward(self, torch, X):
        """Outputs (n_rows, n_outputs) of rows, as a tensor."""
        sequence = X.reshape(len(X), self.n_steps, -1).flip(1)
        zero = torch.zeros((self.n_layers, len(X), self.hidden), dtype=X.dtype)
        how = (True, self.n_layers, 0.0, False, False, True)  # biases; no dropout, one direction, rows first
        states, *_ = torch.lstm(sequence, (zero, zero), self._flat(torch), *how)
        return states[:, -1] @ self._parts[-2].T + self._parts[-1]


class SELURegressor(_TorchRegressor):
    """One hidden layer of scaled exponential linear units, trained with torch: the paper's measurement map.

    Parameters
    ----------
    hidden : int, default=32
    learning_rate_init, batch_size, max_iter, tol, n_iter_no_change, random_state
        See :class:`~skfedcausal.papers.LSTMRegressor`.

    Attributes
    ----------
    weights_ : list of ndarray
    loss_curve_ : list of float
    n_iter_ : int

    Examples
    --------
    >>> from skfedcausal import SELURegressor
    >>> SELURegressor(hidden=8).get_params()["hidden"]
    8
    """

    def _draw(self, rng, n_features, n_outputs):
        first = _uniform(rng, n_features**-0.5, (n_features, self.hidden), self.hidden)
        return first + _uniform(rng, self.hidden**-0.5, (self.hidden, n_outputs), n_outputs)

    def _network(self):
        W1, b1, W2, b2 = self.weights_
        return FeedForward((W1, W2), (b1, b2), "selu")

    def _forward(self, torch, X):
        """Outputs (n_rows, n_outputs) of rows, as a tensor."""
        W1, b1, W2, b2 = self._parts
        return torch.nn.functional.selu(X @ W1 + b1) @ W2 + b2


@dataclass(frozen=True, eq=False)
class Attention:
    """Outputs that weigh what inputs say by the softmax of scores of these inputs, and lines of all beside it.

    Input j says ``e_j = tanh(v_j x_j + c_j)``; output o is ``sum_j a_oj w_o' e_j + L_o x + b_o`` where ``a_o`` is the
    softmax over the inputs of ``q_o' e_j + s_oj``.
    """

    speak: tuple  # v and c, (n_inputs, hidden)
    query: np.ndarray  # q, (n_outputs, hidden)
    prior: np.ndarray  # s, (n_outputs, n_inputs)
    read: np.ndarray  # w, (n_outputs, hidden)
    lines: tuple  # L' (n_inputs, n_outputs) and b (n_outputs,)

    def value(self, X):
        """Outputs of every row."""
        share, said, _ = self._heard(X)
        return (share * said).sum(axis=2) + X @ self.lines[0] + self.lines[1]

    def jacobian(self, X):
        """Derivatives of the outputs in the inputs of every row."""
        share, said, e = self._heard(X)
        turned = (1 - e**2) * self.speak[0]
        aside = said - (share * said).sum(axis=2, keepdims=True)
        return share * (turned @ self.read.T + (turned @ self.query.T) * np.swapaxes(aside, 1, 2)).swapaxes(1, 2) + (
            self.lines[0].T
        )

    def weights(self, X):
        """How much each output attends to each input, (n_rows, n_outputs, n_inputs)."""
        return self._heard(X)[0]

    def _heard(self, X):
        e = np.tanh(X[:, :, None] * self.speak[0] + self.speak[1])
        return softmax((e @ self.query.T).swapaxes(1, 2) + self.prior, axis=2), (e @ self.read.T).swapaxes(1, 2), e


class AttentionRegressor(_TorchRegressor):
    """Attention over the inputs beside lines, trained with torch: the transition of a server that weighs its units.

    For :class:`~skfedcausal.papers.RegressorServer`: each next state attends to the states of all units, and who drives
    whom is read from the Jacobian, as in [1]_; weights of attention alone say where it looks, not what it does.

    Parameters
    ----------
    hidden : int, default=32
        Length of what an input says.
    learning_rate_init, batch_size, max_iter, tol, n_iter_no_change, random_state
        See :class:`~skfedcausal.papers.LSTMRegressor`.

    Attributes
    ----------
    weights_ : list of ndarray
    loss_curve_ : list of float
    n_iter_ : int

    References
    ----------
    .. [1] Federated Learning of Nonlinear Temporal Dynamics with Graph Attention-based Cross-Client Interpretability,
           arXiv 2602.13485. There units attend to each other; here each state attends to each.
    .. [2] Velickovic et al. (2018), Graph attention networks, ICLR.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> import numpy as np
    >>> from skfedcausal.papers import AttentionRegressor
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> model = AttentionRegressor(8, max_iter=5, tol=0, random_state=0).fit(X, np.tanh(X[:, :2]))
    >>> model.network_.weights(X).sum(axis=2).round(6).min()
    np.float64(1.0)
    """

    def _draw(self, rng, n_features, n_outputs):
        says, reads, line = (n_features, self.hidden), (n_outputs, self.hidden), (n_features, n_outputs)
        speak, told = _uniform(rng, 1.0, says, says), _uniform(rng, self.hidden**-0.5, reads, line[::-1], reads)
        return [*speak, *told, *_uniform(rng, n_features**-0.5, line, n_outputs)]

    def _network(self):
        v, c, query, prior, read, *lines = self.weights_
        return Attention((v, c), query, prior, read, tuple(lines))

    def _forward(self, torch, X):
        """Outputs (n_rows, n_outputs) of rows, as a tensor."""
        v, c, query, prior, read, L, b = self._parts
        e = torch.tanh(X[:, :, None] * v + c)
        share = torch.softmax((e @ query.T).transpose(1, 2) + prior, dim=2)
        return (share * (e @ read.T).transpose(1, 2)).sum(dim=2) + X @ L + b


def _uniform(rng, bound, *shapes):
    """Weights of a layer, uniform within the bound, in the given shapes."""
    return [rng.uniform(-bound, bound, shape) for shape in shapes]


def _torch():
    return import_optional("torch", "torch", "Training a network")


@contextmanager
def _one_thread():
    """Run torch on one thread: faster for small products, and reproducible."""
    torch = _torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
