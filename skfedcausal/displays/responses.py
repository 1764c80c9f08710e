"""Pictures of how a sensor follows an input: step response and Bode plot, with bands."""

import numpy as np

from ._base import COLOURS, Display


class ResponseDisplay(Display):
    """Step response, gain and phase of one sensor and one input, with bands.

    Use :meth:`from_estimator`; the constructor only stores.

    Parameters
    ----------
    step : DataFrame
        From ``step_response``.
    bode : DataFrame
        From ``frequency_response``.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (3,)
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import ResponseDisplay
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> len(ResponseDisplay.from_estimator(est, "unit0__u0", "unit1__x0").ax_)
    3
    """

    _inches = 11.0, 3.4
    _panels = 3

    def __init__(self, step, bode):
        self.step = step
        self.bode = bode

    @classmethod
    def from_estimator(cls, estimator, input, output, *, n_steps=None, confidence=0.9, ax=None, title=None):
        """Draw what a fitted estimator knows of an input and a sensor.

        Parameters
        ----------
        estimator : FederatedCounterfactualEstimator
            Fitted.
        input, output : str
            As in ``step_response``.
        n_steps : int, default=None
            Of the step response.
        confidence : float, default=0.9
            Of the bands.
        ax : sequence of three matplotlib Axes, default=None
        title : str, default=None

        Returns
        -------
        ResponseDisplay
        """
        step = estimator.step_response(input, output, n_steps=n_steps, confidence=confidence)
        bode = estimator.frequency_response(input, output, confidence=confidence)
        return cls(step, bode).plot(ax=ax, title=f"{output} after {input}" if title is None else title)

    def _draw(self, ax):
        step, gain, phase = ax
        _band(step, self.step, "step", "response")
        step.axhline(0, color="0.5", linewidth=0.8)
        step.set(xlabel="rows", ylabel="step response")
        _band(gain, self.bode, "frequency", "gain")
        gain.set(xscale="log", yscale="log", xlabel="radians per row", ylabel="gain")
        _band(phase, self.bode, "frequency", "phase", unit=np.pi / 180)
        phase.set(xscale="log", xlabel="radians per row", ylabel="phase in degrees")
        for panel in (gain, phase):
            panel.grid(alpha=0.3)


def _band(ax, table, along, name, unit=1.0):
    """A curve with its band."""
    x, low, high = (table[column] for column in (along, f"{name}_low", f"{name}_high"))
    ax.fill_between(x, low / unit, high / unit, color=COLOURS[1], alpha=0.25, linewidth=0)
    ax.plot(x, table[name] / unit, color=COLOURS[1], linewidth=1.2)
