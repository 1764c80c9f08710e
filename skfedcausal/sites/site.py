"""A site's settings: which record is its own, what it may send, where it answers; see the user guide."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from ..client.kalman import KalmanClient
from ..client.site_privacy import PromisingWorker, SitePrivacy, SitePromises
from ..client.site_record import SiteBatches, SiteRecord
from ..containers.layout import listed
from ..federation.atomic import file_name
from ..federation.envelope import read_key
from ..federation.gate import Gate
from ..message.requests import FitRequest, WatchRequest
from ..message.states import WIRE_DTYPES, EffectReply
from ..message.watching import VerdictReply
from .settings import SettingsError, read_section, read_settings_file


@dataclass(frozen=True)
class SiteSettings:
    """Section ``[site]`` of a settings file, and those beside it."""

    name: str
    data: Path
    home: Path = Path("home")
    time: str | None = None
    tz: str | None = None
    every: str | None = None
    dayfirst: bool | None = None
    fix: tuple = ()
    drop: tuple = ()
    bad: tuple = ()
    anyway: bool = False
    inputs: tuple = ()
    lengths: tuple | None = None
    folder: Path | None = None
    key: Path | None = None
    run: str | None = None
    one_way: bool = False
    wire_dtype: str = "float64"
    max_bytes: int | None = None
    timeout: float | None = None
    watch: bool = False
    watched: Path | None = None
    wait: float = 0.0
    client: dict = field(default_factory=dict)
    privacy: SitePrivacy | None = None

    def __post_init__(self):
        if self.wire_dtype not in WIRE_DTYPES:
            raise SettingsError(f"wire_dtype={self.wire_dtype!r}; choose {listed(WIRE_DTYPES)}.")

    @property
    def request(self):
        """Request that a one-way site makes of itself, and that a dry run answers."""
        monitor = self.watch or self.watched is not None
        return FitRequest(monitor=monitor).to_packet(1, self.wire_dtype)

    def watch_request(self, number):
        """Request that a one-way site makes of itself about a batch of its monitored record."""
        return WatchRequest(number).to_packet(1, self.wire_dtype)

    def gate(self, name=None, *, key=None):
        """The site's gate, with its record behind it."""
        if name is not None and name != self.name:
            raise SettingsError(f"The settings are those of {self.name!r}, but this site is {name!r}.")
        record = SiteRecord.read(self)
        columns, fingerprint, noise = record.columns, record.fingerprint, "none"
        if self.privacy is None:
            worker = self.worker(record, batches=self.batches(columns))
        else:  # nothing that answers ever sees the records themselves
            promises = SitePromises(self.privacy, self.name, self.home, record)
            noise, batches = self.privacy.in_words, self.batches(columns, promises.released)
            if self.watched is not None and not self.watched.is_dir():
                batches.batch(1)  # it is charged, or refused, before anything is sent
            worker = PromisingWorker(self.worker(promises.record, promises.promise.noise, batches), promises)

        def after(packet, state):
            if packet.op == EffectReply.OP:
                self._write_answer("effect", _effect(columns, state), index=True)
            elif packet.op == VerdictReply.OP:
                self._write_answer("incidents", _incidents(state["verdict"]), index=False)

        settings = {"max_bytes": self.max_bytes, "fingerprint": fingerprint, "after": after, "noise": noise}
        return Gate(self.name, worker, self.home, key=key, **settings)

    def worker(self, record, noise=None, batches=None):
        """The unit's worker on its record, to which noise of the given variance was added."""
        try:
            client = KalmanClient(**self.client)
        except TypeError as error:
            raise SettingsError(f"[client]: {error}") from None
        monitor = self.watch or self.watched is not None
        return record.worker(self.name, client, noise=noise, monitored=batches, monitor=monitor)

    def batches(self, columns, released=None):
        """Batches of the record that is to be monitored, None if there is none."""
        return None if self.watched is None else SiteBatches(self, columns, released)

    def _write_answer(self, kind, table, index):
        """Write what only the site may read, one file per answer."""
        folder = self.home / "answers"
        folder.mkdir(parents=True, exist_ok=True)
        table.to_csv(folder / f"{kind}{len(list(folder.glob(f'{kind}*.csv')))}.csv", index=index)

    def read_key(self):
        """The key in its file."""
        if self.key is None:
            raise SettingsError("[site] names no `key`: give the file of the key shared with the server.")
        return read_key(self.key)


def read_site_settings(path):
    """Settings of a site from a TOML file with a section ``[site]``."""
    everything = read_settings_file(path)
    privacy = read_section(everything, path, "privacy", SitePrivacy) if "privacy" in everything else None
    more = {"client": everything.get("client", {}), "privacy": privacy}
    settings = read_section(everything, path, "site", SiteSettings, **more)
    if "home" in everything["site"]:
        return settings
    return replace(settings, home=Path(path).resolve().parent / f"home-{file_name(settings.name)}")


def _effect(columns, state):
    """Effect of a change of inputs on the unit's own sensors, one row per step ahead, and standard errors."""
    effect = pd.DataFrame(state["effect"], columns=list(columns))
    for name, std in zip(columns, state["effect_std"].T, strict=True):
        effect[f"{name} (std)"] = std
    effect.index = pd.RangeIndex(1, len(effect) + 1, name="step")
    return effect


def _incidents(verdict):
    """Incidents that the server reported to the site: rows of its monitored record, and the root's number."""
    table = pd.DataFrame(verdict.rows, columns=["onset", "first", "last"])
    table["root"] = verdict.roots  # position among the server's units; their number where nobody can tell
    return table
