"""A site's settings file: which record is its own, what it may send, where it answers.

See the user guide for an example. Paths are relative to the folder of the file.
"""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from ..client.kalman import KalmanClient
from ..client.worker import UnitWorker
from ..containers.layout import listed
from ..federation.atomic import file_name
from ..federation.envelope import read_key
from ..federation.gate import Gate
from ..message.requests import FitRequest, WatchRequest
from ..message.states import WIRE_DTYPES, EffectReply
from ..message.watching import VerdictReply
from .batches import SiteBatches
from .privacy import PromisingWorker, SitePrivacy, SitePromises
from .record import SettingsError, SiteRecord

__all__ = [
    "SettingsError",
    "SiteRecord",
    "SiteSettings",
    "read_site_settings",
    "read_table_of",
    "write_effect",
]


@dataclass(frozen=True)
class SiteSettings:
    """Settings of a site, see the user guide."""

    name: str
    data: Path
    home: Path
    time: str | None = None
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

    @property
    def is_monitored(self):
        """Whether the server may ask for what the unit's states do not show."""
        return self.watch or self.watched is not None

    @property
    def request(self):
        """What a one-way site asks itself, and what a rehearsal answers."""
        return FitRequest(monitor=self.is_monitored).to_packet(1, self.wire_dtype)

    def watch_request(self, number):
        """What a one-way site asks itself about a batch of its watched record."""
        return WatchRequest(number).to_packet(1, self.wire_dtype)

    def gate(self, name=None, *, key=None, **more):
        """The site's gate, with its record behind it."""
        if name is not None and name != self.name:
            raise SettingsError(f"The settings are those of {self.name!r}, but this site is {name!r}.")
        record = SiteRecord.read(self)
        columns, fingerprint, noise = record.columns, record.fingerprint, "none"
        if self.privacy is None:
            worker = self.worker(record, watched=self.batches(columns))
        else:  # nothing that answers ever sees the records themselves
            promises = SitePromises(self.privacy, self.name, self.home)
            record = promises.released(record)
            batches, noise = self.batches(columns, promises.released), promises.noise
            if batches is not None and not self.watched.is_dir():
                batches.batch(1)  # it is charged, or refused, before anything is sent
            worker = PromisingWorker(self.worker(record, promises.promise.noise, batches), promises)

        def after(packet, state):
            if packet.op == EffectReply.OP:
                write_effect(self.home / "answers", columns, state)
            elif packet.op == VerdictReply.OP:
                write_incidents(self.home / "answers", state["verdict"])

        settings = {"max_bytes": self.max_bytes, "fingerprint": fingerprint, "after": after, "noise": noise}
        return Gate(self.name, worker, self.home, key=key, **settings, **more)

    def batches(self, columns, released=None):
        """Batches of the record that is to be watched, None if there is none."""
        return None if self.watched is None else SiteBatches(self, columns, released)

    def worker(self, record, noise=None, watched=None):
        """The unit's worker on its record, to which noise of the given variance was added."""
        try:
            client = KalmanClient(**self.client)
        except TypeError as error:
            raise SettingsError(f"[client]: {error}") from None
        about = (record.outputs, record.inputs, record.starts, record.columns)
        settings = {"noise": noise, "monitored": watched, "monitor": self.is_monitored}
        return UnitWorker(self.name, *about, client, **settings)

    def read_key(self):
        """The key in its file."""
        if self.key is None:
            raise SettingsError("[site] names no `key`: give the file of the key shared with the server.")
        return read_key(self.key)


_KINDS = {
    "name": str,
    "data": str,
    "home": str,
    "time": str,
    "inputs": list,
    "lengths": list,
    "folder": str,
    "key": str,
    "run": str,
    "one_way": bool,
    "wire_dtype": str,
    "max_bytes": int,
    "timeout": (int, float),
    "watch": bool,
    "watched": str,
    "wait": (int, float),
}
_PATHS = ("data", "home", "folder", "key", "watched")


def read_table_of(path, section, kinds, needed):
    """One section of a settings file with its keys and types checked."""
    try:
        everything = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(f"There is no settings file {path}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not TOML: {error}") from None
    table = everything.get(section)
    if not isinstance(table, dict):
        raise SettingsError(f"{path} has no section [{section}].")
    unknown = sorted(set(table) - set(kinds))
    if unknown:
        raise SettingsError(
            f"{path}, [{section}]: unknown keys {listed(unknown)}; known are {listed(kinds)}."
        )
    for key, value in table.items():
        if not isinstance(value, kinds[key]) or (isinstance(value, bool) and kinds[key] is not bool):
            raise SettingsError(f"{path}, [{section}]: `{key}` is {value!r}, of the wrong kind.")
    missing = [key for key in needed if key not in table]
    if missing:
        raise SettingsError(f"{path}, [{section}]: give {listed(missing)} too.")
    return table, everything


def read_site_settings(path):
    """Settings of a site from a TOML file with a section ``[site]``."""
    table, everything = read_table_of(path, "site", _KINDS, ("name", "data"))
    folder = Path(path).resolve().parent
    values = {"home": f"home-{file_name(table['name'])}", **table, "client": everything.get("client", {})}
    if "privacy" in everything:
        values["privacy"] = SitePrivacy.read(everything["privacy"], path)
    values |= {key: folder / values[key] for key in _PATHS if key in values}
    values |= {key: tuple(values[key]) for key in ("inputs", "lengths") if key in values}
    if values.get("wire_dtype", "float64") not in WIRE_DTYPES:
        raise SettingsError(f"{path}: wire_dtype={values['wire_dtype']!r}; choose {listed(WIRE_DTYPES)}.")
    return SiteSettings(**values)


def write_effect(folder, columns, state):
    """Write what a change of inputs does to the unit's own sensors, where only the site reads it.

    One row per step ahead, one column per sensor and one, ``<sensor> (std)``, for its standard error.
    """
    effect = pd.DataFrame(state["effect"], columns=list(columns))
    for name, std in zip(columns, state["effect_std"].T, strict=True):
        effect[f"{name} (std)"] = std
    effect.index = pd.RangeIndex(1, len(effect) + 1, name="step")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"effect{len(list(folder.glob('effect*.csv')))}.csv"
    effect.to_csv(path)
    return path


def write_incidents(folder, verdict):
    """Write the incidents that a site was told of: rows of its watched record, and the root's number."""
    table = pd.DataFrame(verdict.rows, columns=["onset", "first", "last"])
    table["root"] = verdict.roots  # position among the server's units; their number where nobody can tell
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"incidents{len(list(folder.glob('incidents*.csv')))}.csv"
    table.to_csv(path, index=False)
    return path
