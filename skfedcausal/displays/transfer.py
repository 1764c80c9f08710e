"""Poles and zeros, and singular values over frequency."""

import numpy as np

from ._style import COLOURS, line_look, pyplot


class TransferFunctionDisplay:
    """Poles and zeros of a plant beside its singular values over frequency.

    Use :meth:`from_transfer_function`; the constructor only stores.

    Parameters
    ----------
    poles, zeros : ndarray of complex of shape (n_poles,), (n_zeros,)
    frequencies : ndarray of shape (n_frequencies,)
        Radians per step.
    singular_values : ndarray of shape (n_frequencies, min(n_outputs, n_inputs))

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (2,)
    figure_ : matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.displays import TransferFunctionDisplay
    >>> from skfedcausal.transfer import TransferFunction
    >>> G = TransferFunction(np.array([[0.5]]), np.array([[1.0]]), np.array([[2.0]]), ("u",), ("y",))
    >>> float(TransferFunctionDisplay.from_transfer_function(G).singular_values[0, 0].round(2))
    4.0
    """

    def __init__(self, poles, zeros, frequencies, singular_values):
        self.poles = poles
        self.zeros = zeros
        self.frequencies = frequencies
        self.singular_values = singular_values

    @classmethod
    def from_transfer_function(cls, G, *, frequencies=None, ax=None, title=None):
        """Draw a transfer function.

        Parameters
        ----------
        G : TransferFunction
            Of ``FederatedCounterfactualEstimator.transfer_function()``.
        frequencies : array-like, default=None
            Radians per step; None for 200 of them, from a thousandth of pi to pi.
        ax : sequence of two matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        TransferFunctionDisplay
        """
        if frequencies is None:
            frequencies = np.geomspace(1e-3 * np.pi, np.pi, 200)
        frequencies = np.asarray(frequencies, dtype=float)
        display = cls(G.poles(), G.zeros(), frequencies, G.singular_values(frequencies))
        return display.plot(ax=ax, title=title)

    def plot(self, *, ax=None, title=None):
        """Draw both.

        Parameters
        ----------
        ax : sequence of two matplotlib Axes, default=None
            None makes a new figure.
        title : str, default=None

        Returns
        -------
        TransferFunctionDisplay
        """
        if ax is None:
            plt = pyplot("Drawing a transfer function")
            ax = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")[1]
        plane, gain = ax
        circle = np.exp(2j * np.pi * np.linspace(0, 1, 200))
        plane.plot(circle.real, circle.imag, color="0.6", linewidth=0.8)
        plane.plot(self.poles.real, self.poles.imag, "x", color=COLOURS[1], label="poles")
        inside = self.zeros[np.abs(self.zeros) <= 2]
        beyond = len(self.zeros) - len(inside)
        label = "zeros" + (f" ({beyond} beyond 2)" if beyond else "")
        plane.plot(inside.real, inside.imag, "o", color=COLOURS[0], fillstyle="none", label=label)
        plane.set_aspect("equal", adjustable="datalim")
        plane.set_xlabel("real part")
        plane.set_ylabel("imaginary part")
        plane.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False, fontsize="small"
        )
        for k, values in enumerate(self.singular_values.T):
            gain.loglog(self.frequencies, values, **line_look(k), linewidth=1.2)
        gain.set_xlabel("radians per step")
        gain.set_ylabel("singular values")
        gain.grid(alpha=0.3)
        if title is not None:
            plane.figure.suptitle(title)
        self.figure_, self.ax_ = plane.figure, np.array([plane, gain])
        return self
