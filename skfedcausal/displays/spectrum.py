"""Geweke's measure over frequency."""

from ._style import keep_axes, new_axes


class SpectrumDisplay:
    """Influence of one unit on another over frequency.

    Use :meth:`from_estimator`; the constructor only stores.

    Parameters
    ----------
    spectrum : DataFrame
        As an estimator's ``spectrum(cause, effect)`` gives it.
    cause, effect : str

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.displays import SpectrumDisplay
    >>> X, _ = make_granger_plant(2, links=[("unit0", "unit1")], random_state=0)
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> SpectrumDisplay.from_estimator(est, "unit0", "unit1").ax_.get_title()
    'unit0 → unit1'
    """

    def __init__(self, spectrum, cause, effect):
        self.spectrum = spectrum
        self.cause = cause
        self.effect = effect

    @classmethod
    def from_estimator(cls, estimator, cause, effect, *, conditional=True, intervals=None, ax=None):
        """Draw the spectrum of a fitted estimator's link.

        Parameters
        ----------
        estimator : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        cause, effect : str
        conditional : bool, default=True
            Given the measurements of all other units.
        intervals : float, default=None
            Coverage of the intervals to shade. None shades none.
        ax : matplotlib Axes, default=None

        Returns
        -------
        SpectrumDisplay
        """
        spectrum = estimator.spectrum(cause, effect, conditional=conditional, level=intervals)
        return cls(spectrum, cause, effect).plot(ax=ax)

    def plot(self, *, ax=None):
        """Draw the spectrum with the measure of the time domain as a line.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            None makes a new figure.

        Returns
        -------
        SpectrumDisplay
        """
        ax = new_axes(ax, "Drawing a spectrum", (5.5, 3.2))
        ax.plot(self.spectrum["frequency"], self.spectrum["measure"], label="over frequency")
        if "low" in self.spectrum:
            ax.fill_between(*(self.spectrum[name] for name in ("frequency", "low", "high")), alpha=0.25)
        total = self.spectrum.attrs["total"]
        note = "" if self.spectrum.attrs["averages_to_total"] else " (not its average)"
        ax.axhline(total, color="0.5", linestyle="--", label=f"time domain {total:.3g}{note}")
        ax.set(xlabel="frequency (radians per time step)", ylabel="Geweke's measure (nats)", xlim=(0, None))
        ax.set_ylim(bottom=0)
        ax.legend()
        return keep_axes(self, ax, f"{self.cause} → {self.effect}")
