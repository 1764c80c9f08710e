"""Settings of a watch, checked whole before the first row, and the nominal plant that they name."""

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import urlsplit
from zoneinfo import available_timezones

import pandas as pd

from ..._version import __version__
from ...client.baseline import Baseline
from ...containers.arrays import is_called
from ...containers.rows import sampling_period
from ...estimators._declared import has_words
from ...estimators.detector import FederatedRCADetector
from ...historian.forms import cells_of
from ...historian.grid import read_fixes
from ...historian.naming import unit_names
from ...historian.table import PlantTable
from ...historian.times import is_told
from ...server.watching.thresholds import steps_between_alarms
from ...sites.settings import SettingProblems, SettingsError, check_numbers, read_section, read_settings_file
from ...streams.cells import Stamps
from ...streams.sources import PORTS, SourceOptions, check_address
from .tuning import TUNING

# Settings of a watch, checked whole before the first row.

_SECRET = re.compile(r":[^\s']*@")  # what stands before a host may be a password
_LOCAL = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, kw_only=True)
class _User:
    """As whom the other side knows the watch."""

    user: str | None = None
    password_file: Path | None = None
    password_env: str = ""


@dataclass(frozen=True)
class SourceSettings(_User):
    """The section [source]: what the address does not say."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    version: int = 4
    name: str = ""
    table: str = "plant"
    order: str | None = None
    time: str = "time"
    nodes: dict = field(default_factory=dict)

    def __post_init__(self):
        _check_files(self, "ca", "certificate", "key")
        _check_texts(nodes=self.nodes.values())
        if self.version not in (4, 5):
            raise SettingProblems([("version", f"{self.version}; give 4 (MQTT 3.1.1) or 5.")])

    @property
    def tls(self):
        """Paths of certificates, those that are given."""
        paths = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
        return {name: str(path) for name, path in paths.items() if path is not None}


@dataclass(frozen=True)
class MailSettings(_User):
    """The section [mail]."""

    server: str  # "host:587"
    to: tuple
    sender: str
    tls: bool = True

    def __post_init__(self):
        _check_door(self, "server")
        _check_texts(to=self.to or [None], sender=[self.sender])

    @property
    def door(self):
        """Host and port to call."""
        return _host_and_port(self.server, 25)


@dataclass(frozen=True)
class SyslogSettings:
    """The section [syslog]: messages in the Common Event Format."""

    server: str = "127.0.0.1:514"
    tcp: bool = False

    def __post_init__(self):
        _check_door(self, "server")

    @property
    def door(self):
        """Host and port that messages go to."""
        return _host_and_port(self.server, 514)


@dataclass(frozen=True)
class TableSettings(_User):
    """The section [table]: a table of a database that incidents are added to."""

    url: str
    name: str = "incidents"


@dataclass(frozen=True)
class PublishSettings(_User):
    """The section [publish]: a topic of a broker."""

    url: str
    ca: Path | None = None

    def __post_init__(self):
        parts = _split("url", self.url)
        if parts.scheme not in ("mqtt", "mqtts") or not parts.path.strip("/") or parts.fragment or "+" in parts.path:
            raise SettingProblems([("url", "is no topic to publish to; give 'mqtt://host:port/topic'.")])
        if parts.password is not None:
            raise SettingProblems([("url", "holds a password; give it by `password_file` or `password_env`.")])
        _check_files(self, "ca")
        _check_door(self, "url")

    @property
    def door(self):
        """Host and port of the broker."""
        return _host_and_port(urlsplit(self.url).netloc.rpartition("@")[2], PORTS[urlsplit(self.url).scheme])


@dataclass(frozen=True)
class LiveSettings:
    """The section [live]: the page of a server of its own."""

    host: str = "127.0.0.1"
    port: int = 8420
    token_file: Path | None = None

    def __post_init__(self):
        check_numbers(self, {"port": (0, True)})
        if self.port > TUNING.settings_ports:
            raise SettingProblems([("port", f"{self.port}; give a number to {TUNING.settings_ports}.")])
        if self.token_file is None and self.host not in _LOCAL:
            raise SettingProblems([("host", f"{self.host!r}; access from elsewhere needs a token: give `token_file`.")])

    @property
    def token(self):
        """What others have to show; empty where only this machine may look."""
        return "" if self.token_file is None else secret_of(self, "token")


@dataclass(frozen=True)
class WatchSettings:
    """Settings of the section [watch], see the user guide."""

    nominal: Path
    source: str
    page: Path = Path("watch.html")
    state: Path = Path("watch.state")
    log: Path | None = None
    refresh: float = 5.0
    wait: float | None = None
    false_alarms: float | str = 1e-3
    inputs: tuple = ()
    mode: str | None = None
    units: tuple | str = ()
    fix: tuple | str = ()
    drop: tuple | str = ()
    tz: str | None = None
    webhook: str = ""
    until: Literal["end", "alarm"] = "end"

    def __post_init__(self):
        check_numbers(self, {"refresh": (0, False), "wait": (0, True)})
        web = _split("webhook", self.webhook)
        is_web = web.scheme in ("http", "https") and web.hostname
        is_zone = self.tz is None or self.tz in available_timezones()
        rate = self.false_alarms if isinstance(self.false_alarms, str) else "1 per day"
        lists = {key: getattr(self, key) for key in ("inputs", "units", "drop")}
        problems = [
            ("nominal", "" if self.nominal.is_file() else f"{str(self.nominal)!r}: there is no such file."),
            ("source", _problem(check_address, self.source)),
            *((key, _no_texts(names)) for key, names in lists.items() if not isinstance(names, str)),
            ("fix", _problem(read_fixes, self.fix)),
            ("false_alarms", _problem(steps_between_alarms, rate, pd.Timedelta("1s"))),
            ("until", "" if self.until in ("end", "alarm") else f"{self.until!r}; give 'end' or 'alarm'."),
            (
                "webhook",
                "" if is_web or not self.webhook else f"{self.webhook!r} is not an address; give 'http://host/path'.",
            ),
            ("tz", "" if is_zone else f"{self.tz!r} is not a time zone; give its name, such as 'Europe/Berlin'."),
        ]
        if any(text for _, text in problems):
            raise SettingProblems([(key, text) for key, text in problems if text])

    @property
    def is_named(self):
        """Whether names of columns are read as other commands read them: by a pattern, or with something put right."""
        return bool(isinstance(self.units, str) or self.fix or self.drop)


@dataclass(frozen=True)
class AllSettings:
    """The sections of a file; None for those that are not there."""

    watch: WatchSettings
    source: SourceSettings
    mail: MailSettings | None
    syslog: SyslogSettings | None
    table: TableSettings | None
    publish: PublishSettings | None
    live: LiveSettings | None

    def options(self, names, words, name):
        """What the source is told beside its address; a broker knows the watch by `name` if no other is given."""
        watch, source = self.watch, self.source
        same = {each: getattr(source, each) for each in ("user", "tls", "version", "table", "order", "time", "nodes")}
        units = () if isinstance(watch.units, str) else watch.units
        about = {"units": units, "names": names, "words": tuple(words), "wait": watch.wait, "name": source.name or name}
        return SourceOptions(**same, **about, password=secret_of(source))


_SECTIONS = {
    "mail": MailSettings,
    "syslog": SyslogSettings,
    "table": TableSettings,
    "publish": PublishSettings,
    "live": LiveSettings,
}


def read_settings(path):
    """All settings of a file; SettingsError with all that is wrong, by line and key."""
    everything, folder, wrong = read_settings_file(path), Path(path).resolve().parent, []

    def section(name, declared, **more):
        try:
            return read_section(everything, path, name, declared, **more)
        except SettingsError as error:
            wrong.append(str(error))
            return None

    unknown = sorted(everything.keys() - {"watch", "source", *_SECTIONS})
    if unknown:
        wrong.append(f"{path}: unknown sections {unknown}; known are {['watch', 'source', *_SECTIONS]}.")
    watch = section("watch", WatchSettings, page=folder / "watch.html", state=folder / "watch.state")
    source = section("source", SourceSettings) if "source" in everything else SourceSettings()
    others = {name: section(name, kind) if name in everything else None for name, kind in _SECTIONS.items()}
    for part in (*others.values(), source):
        for what in ("password", "token"):
            try:
                secret_of(part, what)
            except SettingsError as error:
                wrong.append(f"{path}: {error}")
    if watch is not None and source is not None:
        try:
            check_address(watch.source, source)
        except ValueError as error:
            wrong.append(f"{path}, [source]: {error}")
    if wrong:
        raise SettingsError(_SECRET.sub(":...@", "\n".join(wrong)))
    return AllSettings(watch, source, **others)


def secret_of(part, what="password"):
    """The secret that a section names, from a file or the environment; None where it names none."""
    path, name = getattr(part, f"{what}_file", None), getattr(part, f"{what}_env", "")
    if path is not None:
        try:
            secret = path.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:  # the latter of a path or a text that is none
            why = getattr(error, "strerror", None) or error
            raise SettingsError(f"{what}_file: {path} cannot be read ({why}).") from None
        if what == "token" and len(secret) < TUNING.settings_shortest:
            raise SettingsError(
                f"token_file: the token has {len(secret)} letters; give {TUNING.settings_shortest} at least."
            )
        return secret
    if name and name not in os.environ:
        raise SettingsError(f"{what}_env: there is no environment variable {name!r}.")
    return os.environ[name] if name else None


def _problem(check, *given):
    """What a check says of what was given; empty if nothing."""
    try:
        check(*given)
    except ValueError as error:
        return str(error)
    return ""


def _split(key, text):
    """The parts of an address; SettingProblems where they cannot be told apart."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise SettingProblems([(key, f"{text!r} is not an address ({error}).")]) from None
    return parts


def _host_and_port(text, usual):
    """Host and port as they are written, "host:port"; ValueError where they are none."""
    parts = urlsplit(f"//{text}")
    if not parts.hostname or parts.path:
        raise ValueError(f"{text!r} has no host.")
    return parts.hostname, parts.port or usual


def _check_door(settings, key):
    if _problem(lambda: settings.door):
        raise SettingProblems([(key, f"{getattr(settings, key)!r} has no host and port; give 'host:port'.")])


def _no_texts(given):
    """What is wrong with texts of a line each; empty if nothing."""
    wrong = [one for one in given if not (isinstance(one, str) and one.isprintable() and one.strip())]
    return f"{wrong[0]!r} is no line of text." if wrong else ""


def _check_texts(**given):
    problems = [(key, text) for key, texts in given.items() if (text := _no_texts(texts))]
    if problems:
        raise SettingProblems(problems)


def _check_files(settings, *names):
    given = ((name, getattr(settings, name)) for name in names)
    problems = [(name, f"{str(path)!r}: there is no such file.") for name, path in given if path and not path.is_file()]
    if problems:
        raise SettingProblems(problems)


# The plant of a watch: its nominal record, the detector that learned from it, and the names that a source has.


class Plant(NamedTuple):
    """What is known of a plant before its rows come."""

    nominal: pd.DataFrame
    lengths: tuple | None
    names: dict  # column of the plant by its name in the source
    words: tuple  # columns that may hold words
    said: tuple  # what was put right in the nominal record

    @property
    def period(self):
        """Time between two rows, None where they have no times."""
        return sampling_period(self.nominal.index)

    @property
    def is_zoned(self):
        """Whether its times have a zone, which is UTC."""
        return isinstance(self.nominal.index, pd.DatetimeIndex) and self.nominal.index.tz is not None

    def fitted(self, settings):
        """A detector that has learned what is nominal."""
        detector = FederatedRCADetector(
            false_alarm_rate=settings.false_alarms,
            input_columns=list(settings.inputs) or None,
            baseline=Baseline(mode=settings.mode),
        )
        return detector.fit(self.nominal, lengths=self.lengths)


def read_plant(settings):
    """The nominal record of a watch, on the clock of its stream."""
    if settings.is_named:
        return _as_other_commands(settings)
    nominal = pd.read_csv(settings.nominal, index_col=0, parse_dates=True)
    if not all("__" in str(name) or name in (settings.mode, *settings.inputs) for name in nominal):
        return _as_other_commands(settings)
    words = () if settings.mode is None else tuple(name for name in nominal if is_called(name, settings.mode))
    words += tuple(name for name in settings.inputs if name not in words and has_words(nominal[[name]]))
    return Plant(_on_one_clock(nominal, settings.tz), None, {}, words, ())


def _as_other_commands(settings):
    units = settings.units if isinstance(settings.units, str) else "prefix"
    drop = [settings.drop] if isinstance(settings.drop, str) else list(settings.drop)
    table = PlantTable.read(settings.nominal, units=units, tz=settings.tz, fix=settings.fix, drop=drop)
    if table.fix_first:
        raise SettingsError("\n".join(["The nominal record has to be fixed first (fix = 'all'):", *table.fix_first]))
    columns = [str(name) for name in cells_of(settings.nominal)]
    found, _ = unit_names([name for name in columns if not is_told(name)], units)
    names = {name: flat for name, flat in found.items() if flat in table.frame}
    lengths = None if len(table.lengths) == 1 else table.lengths
    return Plant(_on_one_clock(table.frame, settings.tz), lengths, names, (), table.said)


def _on_one_clock(nominal, tz):
    index = nominal.index
    if not isinstance(index, pd.DatetimeIndex) or (index.tz is None and tz is None):
        return nominal
    if index.tz is None:
        return nominal.set_axis(Stamps(tz).read(index.to_pydatetime()), axis=0)
    return nominal.tz_convert("UTC")


def fingerprint(settings):
    """What a state belongs to: the nominal record, what was asked for, and the version that learned from it."""
    asked = [settings.false_alarms, settings.inputs, settings.mode, settings.units, settings.fix, settings.drop]
    text = repr([*asked, settings.tz, settings.source, __version__]).encode()
    return hashlib.sha256(settings.nominal.read_bytes() + text).hexdigest()
