"""What sites say about the privacy of their records, as the attributes of an estimator."""

from dataclasses import replace

import pandas as pd

from ..message.packet import Failure, Packet, PacketError
from ..message.promise import PrivacyPromise
from ..privacy import Charge, GaussianMechanism, PrivacyAccountant, PrivacySpent, Scope
from ..privacy.promise import NOT_PRIVATE


class HeardPromises:
    """A transport that takes the promises of sites off their packets and keeps them.

    Parameters
    ----------
    transport : Transport

    Attributes
    ----------
    promises : dict of str to PrivacyPromise
        Of the sites that told one.
    """

    def __init__(self, transport):
        self._transport = transport
        self.promises = {}
        self.one_way, self.ledger = transport.one_way, transport.ledger
        self.clients, self.close = transport.clients, transport.close

    def exchange(self, out, *, timeout=None):
        """One packet to each named unit, and the answers without promises on them."""
        answers = dict(self._transport.exchange(out, timeout=timeout))
        for name, answer in answers.items():
            if isinstance(answer, Packet):
                answers[name] = self._heard(name, answer)
        return answers

    def _heard(self, name, packet):
        try:
            packet, promise = PrivacyPromise.taken_off(packet)
        except PacketError as error:
            return Failure("refused", str(error))
        if promise is not None:
            self.promises[name] = promise
        return packet


def told_promise(promises, names):
    """What the sites say has been spent, and what they promise.

    Parameters
    ----------
    promises : dict of str to PrivacyPromise
    names : sequence of str
        All units.

    Returns
    -------
    dict of str to object
        The estimators' attributes ``privacy_spent_, privacy_ledger_, privacy_statement_``.
    """
    known = {name: _account(name, promises[name]) for name in names if name in promises}
    spent = {name: account.spent(promises[name].delta) for name, account in known.items()}
    nothing = PrivacySpent(float("inf"), 0.0, float("inf"), "none")
    every = {name: spent.get(name, nothing) for name in names}
    worst = max(every.values(), key=lambda one: (one.epsilon, one.mu))
    units = {one.unit for one in every.values()}
    per_client = {name: {"epsilon": one.epsilon, "mu": one.mu} for name, one in every.items()}
    worst = replace(worst, unit=units.pop() if len(units) == 1 else "mixed", per_client=per_client)
    tables = [account.table for account in known.values()]
    table = pd.concat(tables, ignore_index=True) if tables else PrivacyAccountant().table
    statements = {}
    for name in names:
        words = NOT_PRIVATE
        if name in known:
            words = _mechanism(promises[name], known[name]).statement(
                spent[name], [name], promises[name].rows
            )
        statements.setdefault(words, []).append(name)
    words = " ".join(f"{', '.join(units)}: {text}" for text, units in statements.items())
    if known:
        words = f"According to the accounts of the sites. {words}"
    else:
        words = NOT_PRIVATE
    return {"privacy_spent_": worst, "privacy_ledger_": table, "privacy_statement_": words}


def _account(name, promise):
    """An account with the releases that a site says it made."""
    account = PrivacyAccountant()
    mu = promise.mu / promise.releases**0.5  # as if all had been alike: their sum is what was told
    account.charge(
        [Charge(name, "measurement", mu=mu, count=promise.releases)],
        Scope(promise.unit, promise.relation, promise.window),
    )
    return account


def _mechanism(promise, account):
    """The mechanism that a site says it has, for its statement."""
    return GaussianMechanism(
        mu=promise.mu,
        delta=promise.delta,
        clip_norm=promise.clip_norm,
        event_radius=promise.event_radius,
        unit=promise.unit,
        relation=promise.relation,
        window=promise.window,
        accountant=account,
    )
