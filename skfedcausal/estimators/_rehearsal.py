"""What a fit would send, found out without sending it."""

from sklearn.base import clone

from ..privacy import PrivacyAccountant


class RehearsedFit:
    """Fits that can be rehearsed; part of the estimators."""

    def plan(self, X, *, inputs=None, lengths=None):
        """Everything that would leave the units in `fit`, and come to them; nothing is sent or charged.

        The whole fit runs in this process, where the records are, and is thrown away; noise is, too. The same
        as ``fit(X, dry_run=True)``. Sites of their own have the command ``plan``.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs, lengths
            As in `fit`.

        Returns
        -------
        DataFrame
            One row per unit and kind of packet: ``client, direction`` ("up": it would leave the unit), ``op,
            purpose, packets, bytes, fields``. ``attrs`` holds ``bytes_up, bytes_down, raw_bytes, rounds`` and
            ``privacy``, the promise that would be made about this fit.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(2, random_state=0)
        >>> plan = FederatedGrangerEstimator().plan(X)
        >>> plan.groupby(["direction", "op"])["packets"].sum().to_dict()
        {('down', 'fit'): 2, ('down', 'reply'): 2, ('up', 'done'): 2, ('up', 'states'): 2}
        """
        self._validate_params()
        trial = _unaccounted(self).fit(X, inputs=inputs, lengths=lengths)
        plan, sums = trial.ledger_.table, trial.communication_
        plan.attrs |= {name: sums[name] for name in ("bytes_up", "bytes_down", "raw_bytes", "rounds")}
        plan.attrs["privacy"] = trial.privacy_statement_
        return plan


def _unaccounted(estimator):
    """Copy in this process whose privacy mechanisms charge accounts of their own."""
    given = estimator.privacy
    several = isinstance(given, list | tuple)
    mechanisms = [
        None if one is None else type(one)(**one.get_params(deep=False) | {"accountant": PrivacyAccountant()})
        for one in (given if several else [given])
    ]
    return clone(estimator).set_params(transport=None, privacy=mechanisms if several else mechanisms[0])
