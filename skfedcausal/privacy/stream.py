"""Noise on a record that comes piece by piece and has no end."""

from .gaussian import Plan
from .sampling import generator
from .warn import warn_release


class NoisedStream:
    """One release of a record whose rows come in batches, all with the noise of an earlier release.

    Batches hold different time steps. An event or a window is in the stream once, however many batches there
    are: the first batch of every period of the account pays for all of them. A client is in every batch,
    and every batch pays for its rows. Nothing is remembered: rows that come again in another stream are
    noised and paid for again.

    Parameters
    ----------
    mechanism : GaussianMechanism
    noise : dict of str to UnitNoise
        Of each unit. Windows that reach over the border of two batches are covered by it, too.
    """

    def __init__(self, mechanism, noise):
        self._mechanism, self._noise = mechanism, noise
        self._generators = self._period = None

    def release(self, records):
        """The next rows of every unit with noise, charged before it is drawn.

        Parameters
        ----------
        records : dict of str to ndarray of shape (n_samples, n_features_m)

        Returns
        -------
        records : dict of str to ndarray
        charged : bool
            Whether this batch cost something.

        Raises
        ------
        PrivacyBudgetError
            If the accountant does not allow it. Nothing is released, and the stream stands where it stood.
        """
        mechanism = self._mechanism
        account, first = mechanism.account, self._generators is None
        charged = mechanism.unit == "client" or account.period != self._period
        if charged:
            plans = {name: self._plan(name, len(Y)) for name, Y in records.items()}
            if first:
                warn_release(mechanism, {name: (Y, plans[name]) for name, Y in records.items()}, False)
            charges = [plan.charge(name, "stream") for name, plan in plans.items()]
            account.charge(charges, mechanism.scope, repeated=not first)
            self._period = account.period
        if first:
            serial = len(account)
            self._generators = {
                name: generator(mechanism.random_state, name, "stream", serial) for name in records
            }
        drawn = {
            name: self._noise[name].drawn(Y, self._generators[name], mechanism.sampler)
            for name, Y in records.items()
        }
        return drawn, charged

    def _plan(self, name, n_rows):
        mechanism, noise = self._mechanism, self._noise[name]
        # a window may go on in the next batch
        rows = mechanism.window if mechanism.unit == "window" else n_rows
        sensitivity = mechanism.sensitivity(noise, rows)
        return Plan(noise, sensitivity, sensitivity / noise.std)
