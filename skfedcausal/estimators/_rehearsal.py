"""What a fit would send, found out without sending it."""

from sklearn.base import clone

from ..privacy import PrivacyAccountant


class RehearsedFit:
    """Fits that can be rehearsed; part of the estimators."""

    def plan(self, X, *, inputs=None, lengths=None):
        """Everything that would leave the units in `fit`, and come to them; nothing is sent or charged.

        The whole fit runs in this process, where the records are, and is thrown away; noise is, too. The same
        as ``fit(X, dry_run=True)``. Sites of their own have the command ``plan``.
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
