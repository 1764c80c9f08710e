"""Differential privacy of a site: what it promises, its noise, and what it says about them."""

from dataclasses import dataclass, replace

from ..federation.atomic import write_whole
from ..federation.chain import START, LedgerError, read_ledger
from ..message.packet import NOTHING
from ..message.promise import PrivacyPromise
from ..message.requests import FitRequest
from ..message.training import TrainRequest
from ..message.watching import WatchRequest
from ..privacy import GaussianMechanism, NoiseOptions, Scope, SiteAccount
from .site_record import SettingsError

_ACCOUNT, _LEDGER = "privacy/account.jsonl", "ledger.jsonl"
SUMS = "secure_sums.json"


@dataclass(frozen=True)
class SitePrivacy:
    """Section ``[privacy]`` of a site's settings."""

    mechanism: str
    epsilon: float
    delta: float
    clip_norm: float
    unit: str
    budget: float
    event_radius: float | None = None
    window: int | None = None
    relation: str = "replace"
    center: float | list = 0.0
    scale: float | list = 1.0
    sampler: str = "auto"
    period: int = 0

    def __post_init__(self):
        if self.mechanism != "gaussian":
            raise SettingsError(f"mechanism={self.mechanism!r}; 'gaussian' is what sites have.")
        self._gaussian().mu_of_release()

    def _gaussian(self, account=None):
        own = {name: getattr(self, name) for name in ("epsilon", "delta", "clip_norm", "event_radius")}
        noise = NoiseOptions(center=self.center, scale=self.scale, sampler=self.sampler)
        protects = Scope(self.unit, self.relation, self.window)
        return GaussianMechanism(**own, protects=protects, noise=noise, accountant=account)

    def charging(self, home):
        """The mechanism, which charges the account in the site's home."""
        account = SiteAccount(home / "privacy", self.budget, self.delta)
        if self.period < account.period:
            raise SettingsError(f"[privacy] period = {self.period}, but the account is at {account.period} already.")
        account.period = self.period
        account.ledger = lambda: ledger_lines(home)[-1]
        return self._gaussian(account)

    def release(self, name, record, home, noise=None):
        """The record with noise, charged once, the promise about it, and the noise.

        A worker may be given no other record. `noise`: of another release, to be used again whatever it costs.
        """
        mechanism = self.charging(home)
        account = mechanism.account
        noise = None if noise is None else {name: noise}
        release = mechanism.release({name: record.outputs}, record.lengths, noise=noise)[name]
        spent = account.spent()
        statement = mechanism.statement(spent, [name], len(record.outputs), drawn=False)
        write_whole(home / "privacy" / "statement.txt", statement.encode())
        promise = self._promise(record, release.variance, spent.mu, len(account))
        return replace(record, outputs=release.values), promise, release.noise

    def dry_run(self, name, record, home):
        """Promise and cost of a release; nothing is drawn or charged."""
        mechanism = self.charging(home)
        account = mechanism.account
        charges = mechanism.cost({name: record.outputs}, record.lengths)
        after = account.spent_with(charges, mechanism.scope)
        variance = mechanism.noise_of(name, record.outputs).variance
        return self._promise(record, variance, after.mu, len(account) + len(charges)), {
            "epsilon_spent": account.spent().epsilon,
            "epsilon_after": after.epsilon,
            "epsilon_budget": self.budget,
            "noise": self.in_words,
        }

    def _promise(self, record, variance, mu, releases):
        own = {name: getattr(self, name) for name in ("unit", "relation", "window")}
        for name in ("delta", "clip_norm", "event_radius"):
            value = getattr(self, name)
            own[name] = None if value is None else float(value)
        return PrivacyPromise(noise=variance, mu=mu, rows=len(record.outputs), releases=releases, **own)

    @property
    def in_words(self):
        """The noise, for the ledger."""
        return (
            "Gaussian on the measurements, drawn at the site before anything was computed from them; epsilon = "
            f"{self.epsilon:g} at delta = {self.delta:g} per {self._gaussian().scope}, clipped to {self.clip_norm:g}, "
            f"drawn by the sampler {self._gaussian().drawn_by!r}"
        )


def account_lines(home, account=_ACCOUNT):
    """Hashes of the lines of a site's account, the last one last."""
    return [START, *(entry["hash"] for entry in _lines(home, account))]


def ledger_lines(home):
    """The same of its ledger, those that a repair has said to be lost before the others."""
    entries = _lines(home, _LEDGER)
    lost = [head for entry in entries for head in entry.get("hashes", ())]
    return [*lost, START, *(entry["hash"] for entry in entries)]


def _lines(home, name):
    path = home / name
    return read_ledger(path) if path.exists() else []


def check_owner(home, name):
    """Refuse an account of privacy of another site: what was paid for there are other records."""
    others = sorted({entry["charge"]["client"] for entry in _lines(home, _ACCOUNT) if "charge" in entry} - {name})
    if others:
        raise LedgerError(
            f"{home / _ACCOUNT} holds charges of {', '.join(others)}, and this is the home of {name!r}: put its own "
            "account back, or give the site a home of its own."
        )


def check_account(home, account=_ACCOUNT):
    """Refuse an account that is older than what the site's ledger says of it, and a ledger older than the account."""
    heads = {entry["account"] for entry in _lines(home, _LEDGER) if "account" in entry}
    if heads - {head for name in (_ACCOUNT, SUMS) for head in account_lines(home, name)}:
        raise LedgerError(
            f"{home / account}: the ledger beside it names a line that is not there. Charges were "
            "cut off, or an older copy was put in its place; put the whole account back, for its charges count."
        )
    known = set(ledger_lines(home))
    if any(entry.get("ledger", START) not in known for entry in _lines(home, _ACCOUNT)):
        raise LedgerError(
            f"{home / _LEDGER}: the account of privacy names a line that is not there. Lines were cut off or written "
            "anew, or an older copy was put in its place; put the whole ledger back."
        )


class SitePromises:
    """The releases of a site in one run: all with the noise of the first, each charged once."""

    def __init__(self, privacy, name, home, record):
        self._privacy, self._name, self._home = privacy, name, home
        self.record, self.promise, self._noise = privacy.release(name, record, home)

    def released(self, record):
        """A further record with the noise of the first, that thresholds hold for; charged before drawn."""
        record, promise, _ = self._privacy.release(self._name, record, self._home, self._noise)
        self.promise = replace(self.promise, mu=promise.mu, releases=promise.releases)
        return record


class PromisingWorker:
    """A worker whose messages say what the site promises."""

    def __init__(self, worker, promises):
        self._worker, self._promises = worker, promises

    def handle(self, packet, state):
        """Answer one packet."""
        answer, state = self._worker.handle(packet, state)
        if packet.op in (FitRequest.OP, TrainRequest.OP, WatchRequest.OP) and answer.op != NOTHING:
            answer = self._promises.promise.put_on(answer)
        return answer, state
