"""Long short-term memory on plain arrays, whoever trained its weights."""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit


@dataclass(frozen=True)
class LSTM:
    """Long short-term memory that starts from zero state, and a linear layer on its last hidden state.

    With ``n_steps=1`` it is a map of its input alone; its memory then never acts, its gates do.
    """

    layers: tuple
    weight: np.ndarray  # (n_outputs, h), (n_outputs,)
    bias: np.ndarray  # (n_outputs, h), (n_outputs,)
    n_steps: int = 1

    def value(self, X):
        """Outputs of every row, (n_samples, n_outputs)."""
        sequence = list(np.split(X, self.n_steps, axis=1))[::-1]
        for W, R, b in self.layers:
            sequence = _memory(sequence, W, R, b)
        return sequence[-1] @ self.weight.T + self.bias

    def jacobian(self, X):
        """Derivatives of the outputs in the inputs of every row, (n_samples, n_outputs, n_inputs), of one step only."""
        if self.n_steps != 1:
            raise ValueError(f"The Jacobian of an LSTM over {self.n_steps} steps is not that of a map.")
        J = np.broadcast_to(np.eye(X.shape[1]), (len(X), X.shape[1], X.shape[1]))
        for W, _, b in self.layers:
            i, _, g, o = np.split(X @ W.T + b, 4, axis=1)
            Wi, _, Wg, Wo = np.split(W, 4)
            si, so, tg = expit(i), expit(o), np.tanh(g)
            tc = np.tanh(si * tg)
            carried = so * (1 - tc**2)
            layer = (
                (carried * tg * si * (1 - si))[:, :, None] * Wi
                + (carried * si * (1 - tg**2))[:, :, None] * Wg
                + (tc * so * (1 - so))[:, :, None] * Wo
            )
            J, X = layer @ J, so * tc
        return self.weight @ J


def _memory(sequence, W, R, b):
    """Hidden states (n_rows, n_hidden) of one layer after each step of a sequence of rows (n_rows, n_inputs)."""
    h = c = np.zeros((len(sequence[0]), R.shape[1]))
    out = []
    for x in sequence:
        i, f, g, o = np.split(x @ W.T + b + h @ R.T, 4, axis=1)
        c = expit(f) * c + expit(i) * np.tanh(g)
        h = expit(o) * np.tanh(c)
        out.append(h)
    return out


def uniform_lstm(rng, n_inputs, n_hidden, n_layers=1):
    """Layers ``(W, R, b)`` of shapes (4 h, n_inputs), (4 h, h), (4 h,), uniform within ``h ** -1/2`` as usual."""
    bound = n_hidden**-0.5
    sizes = [n_inputs, *[n_hidden] * (n_layers - 1)]
    shapes = [((4 * n_hidden, k), (4 * n_hidden, n_hidden), (4 * n_hidden,)) for k in sizes]
    return tuple(tuple(rng.uniform(-bound, bound, shape) for shape in layer) for layer in shapes)
