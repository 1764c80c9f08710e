"""Differential privacy of a site: what it promises, its noise, and what it says about them."""

from dataclasses import dataclass, replace

from ..federation.atomic import write_whole
from ..message.packet import NOTHING
from ..message.promise import PrivacyPromise
from ..message.states import REQUEST
from ..message.training import REQUEST as TRAIN
from ..message.watching import WATCH
from ..privacy import GaussianMechanism, SiteAccount, UnitNoise
from .site_record import SettingsError, SiteRecord


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
    sampler: str = "float-grid"
    period: int = 0

    def __post_init__(self):
        if self.mechanism != "gaussian":
            raise SettingsError(f"mechanism={self.mechanism!r}; 'gaussian' is what sites have.")
        self._gaussian().mu_of_release()

    def _gaussian(self, account=None):
        own = {k: v for k, v in vars(self).items() if k not in ("mechanism", "budget", "period")}
        return GaussianMechanism(**own, accountant=account)

    def charging(self, home):
        """The mechanism, which charges the account in the site's home."""
        account = SiteAccount(home / "privacy", self.budget, self.delta)
        if self.period < account.period:
            raise SettingsError(
                f"[privacy] period = {self.period}, but the account is in period {account.period} already."
            )
        account.period = self.period
        return self._gaussian(account)

    def release(self, name, record, home, noise=None):
        """The record with noise, charged once; a worker may be given nothing but this.

        `noise` is that of another release, to be used again whatever it costs.
        """
        mechanism = self.charging(home)
        account = mechanism.account
        noise = None if noise is None else {name: noise}
        release = mechanism.release({name: record.outputs}, record.lengths, noise=noise)[name]
        spent = account.spent()
        promise = self._promise(record, release.variance, spent.mu, len(account))
        statement = mechanism.statement(spent, [name], len(record.outputs))
        return SiteRelease(replace(record, outputs=release.values), promise, statement, release.noise)

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
        radius = self.event_radius
        return PrivacyPromise(
            noise=variance,
            mu=mu,
            delta=float(self.delta),
            clip_norm=float(self.clip_norm),
            rows=len(record.outputs),
            releases=releases,
            unit=self.unit,
            relation=self.relation,
            window=self.window,
            event_radius=None if radius is None else float(radius),
        )

    @property
    def in_words(self):
        """The noise, for the ledger."""
        return (
            "Gaussian on the measurements, drawn at the site before anything was computed from them; epsilon = "
            f"{self.epsilon:g} at delta = {self.delta:g} per {self._gaussian().scope}, clipped to {self.clip_norm:g}"
        )


@dataclass(frozen=True)
class SiteRelease:
    """Noised record for the site's worker, and the promise about it."""

    record: SiteRecord
    promise: PrivacyPromise
    statement: str
    noise: UnitNoise


class SitePromises:
    """The releases of a site in one run: all with the noise of the first, each charged once."""

    def __init__(self, privacy, name, home, record):
        self._privacy, self._name, self._home = privacy, name, home
        first = self._release(record)
        self.record, self.promise, self._noise = first.record, first.promise, first.noise

    def released(self, record):
        """A further record with the noise of the first, that thresholds hold for; charged before drawn."""
        release = self._release(record, self._noise)
        mu, releases = release.promise.mu, release.promise.releases
        self.promise = replace(self.promise, mu=mu, releases=releases)
        return release.record

    def _release(self, record, noise=None):
        release = self._privacy.release(self._name, record, self._home, noise)
        write_whole(self._home / "privacy" / "statement.txt", release.statement.encode())
        return release


class PromisingWorker:
    """A worker whose messages say what the site promises."""

    def __init__(self, worker, promises):
        self._worker, self._promises = worker, promises

    def handle(self, packet, state):
        """Answer one packet."""
        answer, state = self._worker.handle(packet, state)
        if packet.op in (REQUEST, TRAIN, WATCH) and answer.op != NOTHING:
            answer = self._promises.promise.put_on(answer)
        return answer, state
