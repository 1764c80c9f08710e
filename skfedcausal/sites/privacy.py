"""Differential privacy of a site: its settings, its noise, and what it says about them."""

from dataclasses import dataclass, field, replace

from ..containers.layout import listed
from ..federation.atomic import write_whole
from ..message.packet import NOTHING
from ..message.promise import PrivacyPromise
from ..message.states import REQUEST
from ..message.training import REQUEST as TRAIN
from ..message.watching import WATCH
from ..privacy import GaussianMechanism, SiteAccount, UnitNoise
from .record import SettingsError, SiteRecord

_NUMBER = (int, float)
_COLUMNS = (int, float, list)
_KINDS = {
    "mechanism": str,
    "epsilon": _NUMBER,
    "delta": _NUMBER,
    "clip_norm": _NUMBER,
    "event_radius": _NUMBER,
    "unit": str,
    "window": int,
    "relation": str,
    "center": _COLUMNS,
    "scale": _COLUMNS,
    "sampler": str,
    "budget": _NUMBER,
    "period": int,
}
_NEEDED = ("mechanism", "epsilon", "delta", "clip_norm", "unit", "budget")


@dataclass(frozen=True)
class SitePrivacy:
    """Section ``[privacy]`` of a site's settings."""

    budget: float
    parameters: dict = field(default_factory=dict)
    period: int = 0

    @classmethod
    def read(cls, table, path):
        """Settings in a table of the file `path`."""
        problems = [key for key in table if key not in _KINDS]
        if problems:
            raise SettingsError(
                f"{path}, [privacy]: unknown keys {listed(problems)}; known are {listed(_KINDS)}."
            )
        missing = [key for key in _NEEDED if key not in table]
        if missing:
            raise SettingsError(f"{path}, [privacy]: give {listed(missing)} too; there are no defaults.")
        for key, value in table.items():
            if not isinstance(value, _KINDS[key]) or isinstance(value, bool):
                raise SettingsError(f"{path}, [privacy]: `{key}` is {value!r}, of the wrong kind.")
        if table["mechanism"] != "gaussian":
            raise SettingsError(
                f"{path}, [privacy]: mechanism={table['mechanism']!r}; 'gaussian' is what sites have."
            )
        own = ("mechanism", "budget", "period")
        parameters = {key: value for key, value in table.items() if key not in own}
        settings = cls(table["budget"], parameters, table.get("period", 0))
        try:
            GaussianMechanism(**parameters).mu_of_release()
        except ValueError as error:
            raise SettingsError(f"{path}, [privacy]: {error}") from None
        return settings

    def mechanism(self, home):
        """The mechanism with the account in the site's home."""
        account = SiteAccount(home / "privacy", self.budget, self.parameters["delta"])
        if self.period < account.period:
            raise SettingsError(
                f"[privacy] period = {self.period}, but the account is in period {account.period} already."
            )
        account.period = self.period
        return GaussianMechanism(**self.parameters, accountant=account)

    def release(self, name, record, home, noise=None):
        """The record with noise, charged once; nothing but this may be given to a worker.

        `noise` is that of another release, to be used again whatever it costs.
        """
        mechanism = self.mechanism(home)
        account = mechanism.account
        noise = None if noise is None else {name: noise}
        release = mechanism.release({name: record.outputs}, record.lengths, noise=noise)[name]
        spent = account.spent()
        promise = self._promise(mechanism, record, release.variance, spent.mu, len(account))
        statement = mechanism.statement(spent, [name], len(record.outputs))
        noised = replace(record, outputs=release.values)
        return SiteRelease(noised, promise, statement, self.in_words(mechanism), release.noise)

    def rehearsal(self, name, record, home):
        """What a release would say and cost; nothing is drawn or charged."""
        mechanism = self.mechanism(home)
        account = mechanism.account
        charges = mechanism.cost({name: record.outputs}, record.lengths)
        after = account.spent_with(charges, mechanism.scope)
        variance = mechanism.noise_of(name, record.outputs).variance
        promise = self._promise(mechanism, record, variance, after.mu, len(account) + len(charges))
        return promise, {
            "epsilon_spent": account.spent().epsilon,
            "epsilon_after": after.epsilon,
            "epsilon_budget": self.budget,
            "noise": self.in_words(mechanism),
        }

    @staticmethod
    def _promise(mechanism, record, variance, mu, releases):
        return PrivacyPromise(
            noise=variance,
            mu=mu,
            delta=float(mechanism.delta),
            clip_norm=float(mechanism.clip_norm),
            rows=len(record.outputs),
            releases=releases,
            unit=mechanism.unit,
            relation=mechanism.relation,
            window=mechanism.window,
            event_radius=None if mechanism.event_radius is None else float(mechanism.event_radius),
        )

    @staticmethod
    def in_words(mechanism):
        """The noise, for the ledger."""
        return (
            f"Gaussian on the measurements, drawn at the site before anything was computed from them; "
            f"epsilon = {mechanism.epsilon:g} at delta = {mechanism.delta:g} per {mechanism.scope}, clipped "
            f"to {mechanism.clip_norm:g}"
        )


@dataclass(frozen=True)
class SiteRelease:
    """What a site's worker gets in place of the record."""

    record: SiteRecord
    promise: PrivacyPromise
    statement: str
    noise: str
    unit_noise: UnitNoise


class SitePromises:
    """The releases of a site in one run: all with the noise of the first, each charged once."""

    def __init__(self, privacy, name, home):
        self._privacy, self._name, self._home = privacy, name, home
        self._first = self.promise = self.noise = None

    def released(self, record):
        """The record with noise, charged before it is drawn."""
        kept = None if self._first is None else self._first.unit_noise  # thresholds hold for this noise
        release = self._privacy.release(self._name, record, self._home, kept)
        self._first = release if self._first is None else self._first
        spent = {"mu": release.promise.mu, "releases": release.promise.releases}
        self.promise, self.noise = replace(self._first.promise, **spent), self._first.noise
        write_whole(self._home / "privacy" / "statement.txt", release.statement.encode())
        return release.record


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
