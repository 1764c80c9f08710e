"""A site's settings: its record, its inputs as it sends them, what it may send, where it answers; see the guide."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..bases import configured
from ..client.kalman import KalmanClient
from ..client.site_record import (
    PromisingWorker,
    SiteBatches,
    SitePrivacy,
    SitePromises,
    SiteRecord,
    account_lines,
    check_account,
    check_owner,
)
from ..containers import episode_starts
from ..containers.arrays import listed, refuse_unknown
from ..federation.atomic import file_name, write_whole
from ..federation.envelope import MAX_FRAME, read_key, read_key_pair
from ..federation.gate import Gate, SitePolicy
from ..message.requests import FitRequest, VerdictReply, WatchRequest
from ..message.secure import SecureSumsRequest
from ..message.states import WIRE_DTYPES, EffectReply
from ..statespace.inputs import (
    BASES,
    WEAK,
    a_row_ahead,
    basis_columns,
    explained,
    followed_law,
    independent_columns,
    quartile_spline,
    strength,
)
from .settings import (
    DealerSettings,
    SettingsError,
    SiteSums,
    check_numbers,
    csv_bytes,
    read_section,
    read_settings_file,
    sums_head,
)

# A site's settings: which record is its own, what it may send, where it answers; see the user guide.

_BEFORE = 70  # rows before an incident that tags are judged from, and shown
SECURE_LAGS = 13  # that a server asks for unless it is told otherwise, for dry runs


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
    mode: str | None = None
    basis: str | dict = "linear"
    sampled: str | dict = "after"
    instruments: dict | None = None
    lengths: tuple | None = None
    folder: Path | None = None
    key: Path | None = None
    server_key: Path | None = None
    run: str | None = None
    one_way: bool = False
    wire_dtype: str = "float64"
    max_bytes: int | None = None
    max_frame: int = MAX_FRAME
    timeout: float | None = None
    watch: bool = False
    watched: Path | None = None
    wait: float = 0.0
    client: dict = field(default_factory=dict)
    privacy: SitePrivacy | None = None
    policy: SitePolicy = field(default_factory=SitePolicy)
    secure_sums: SiteSums | None = None

    def __post_init__(self):
        file_name(self.name)  # says what is wrong
        check_numbers(self, {"max_bytes": (1, True), "max_frame": (1, True), "timeout": (0, False), "wait": (0, True)})
        given = self.inputs or self.mode
        if self.secure_sums is not None and (self.privacy or self.one_way or self.watch or self.watched or given):
            raise SettingsError(
                "[secure_sums] goes with complete records and a way back: leave out [privacy], `one_way`, `watch`, "
                "`watched`, `inputs` and `mode`, or leave out [secure_sums]."
            )
        if self.mode is not None and (self.basis, self.sampled, self.instruments) != ("linear", "after", None):
            raise SettingsError("`mode` goes with inputs as they are: leave out `basis`, `sampled` and `instruments`.")
        if self.mode in self.inputs:
            raise SettingsError(f"`mode` and `inputs` both name {self.mode!r}; name it in one of them.")
        if self.wire_dtype not in WIRE_DTYPES:
            raise SettingsError(f"wire_dtype={self.wire_dtype!r}; choose {listed(WIRE_DTYPES)}.")

    @property
    def is_monitored(self):
        """Whether the site lets itself be monitored."""
        return self.watch or self.watched is not None

    @property
    def door(self):
        """The policy at the site's door: what its sections say together."""
        policy = self.policy.for_run(self.run)
        if self.secure_sums is not None:
            policy = replace(policy, operations=(*policy.operations, "secure_sums"))
        return policy.and_watching() if self.is_monitored else policy

    @property
    def request(self):
        """Request that a one-way site makes of itself, and that a dry run answers."""
        if self.secure_sums is not None:
            return SecureSumsRequest(SECURE_LAGS, graded=True).to_packet(1)
        sharp = not self.is_monitored and not self.inputs
        wishes = {"own_past": True, "sharp": sharp, "sketch": sharp and not self.one_way}
        return self.policy.narrowed(FitRequest(monitor=self.is_monitored, **wishes).to_packet(1, self.wire_dtype))

    def watch_request(self, number):
        """Request that a one-way site makes of itself about a batch of its monitored record."""
        return WatchRequest(number).to_packet(1, self.wire_dtype)

    def record(self):
        """The site's record with its inputs as they are sent."""
        record = SiteRecord.read(self)
        if self.basis == "linear" and self.sampled == "after" and not self.instruments:
            return record
        # of few sites

        return with_sent_inputs(record, self)

    def gate(self, name=None, *, key=None):
        """The site's gate, with its record behind it."""
        if name is not None and name != self.name:
            raise SettingsError(f"The settings are those of {self.name!r}, but this site is {name!r}.")
        record = self.record()
        self._check_policy(record.shape[0])
        columns, noise, n_sensors = record.columns, "none", 0
        if self.privacy is None:
            worker = self.worker(record, batches=self.batches(record))
            if self.secure_sums is not None:
                worker = self.secure_sums.around(worker, self.home)
            n_sensors = record.n_moving
        else:  # nothing that answers ever sees the records themselves
            check_owner(self.home, self.name)
            check_account(self.home)
            promises = SitePromises(self.privacy, self.name, self.home, record)
            noise, batches = self.privacy.in_words, self.batches(record, promises.released)
            if self.watched is not None and not self.watched.is_dir():
                batches.batch(1)  # it is charged, or refused, before anything is sent
            worker = PromisingWorker(self.worker(promises.record, promises.promise.noise, batches), promises)

        def after(packet, state):
            if packet.op == EffectReply.OP:
                self._write_answer("effect", _effect(columns, state), index=True)
            elif packet.op == VerdictReply.OP:
                self._write_answer("incidents", _incidents(state["verdict"]), index=False)
                if self.privacy is None and "tags" in state and len(state["verdict"].rows):
                    self._write_tags(list(_blamed(columns, state, worker.monitored)))

        settings: dict[str, Any] = {
            "max_bytes": self.max_bytes,
            "max_frame": self.max_frame,
            "noise": noise,
            "n_sensors": n_sensors,
        }
        if self.privacy is not None:
            settings["account"] = lambda: account_lines(self.home)[-1]
        elif self.secure_sums is not None:
            settings["account"] = sums_head(self.home)
        settings |= {"fingerprint": record.fingerprint, "policy": self.door, "after": after}
        return Gate(self.name, worker, self.home, key=key, **settings)

    def _check_policy(self, n_rows):
        """Refuse a policy that allows what this site cannot give: nobody would notice before the run."""
        missing = {"watch": self.is_monitored, "secure_sums": self.secure_sums is not None}
        if idle := [name for name, there in missing.items() if name in self.policy.operations and not there]:
            raise SettingsError(
                f"[policy] of {self.name!r} allows {listed(idle)}, for which nothing is there: name `watched` or "
                "`watch` in [site] or a section [secure_sums], or leave it out of `operations`."
            )
        if self.policy.rows is not None and self.policy.rows < n_rows:
            raise SettingsError(
                f"[policy] of {self.name!r} has rows = {self.policy.rows}, and its record has {n_rows}: no answer "
                f"could leave. Give at least rows = {n_rows}, or a shorter record."
            )

    def worker(self, record, noise=None, batches=None):
        """The unit's worker on its record, to which noise of the given variance was added."""
        try:
            client = configured(KalmanClient, self.client)
        except TypeError as error:
            raise SettingsError(f"[client]: {error}") from None
        return record.worker(self.name, client, noise=noise, monitored=batches, monitor=self.is_monitored)

    def batches(self, record, released=None):
        """Batches of the record that is to be monitored, None if there is none; `record` is the one of the fit."""
        if self.watched is None:
            return None
        return SiteBatches(self, record.columns, released, record.moving, record.modes)

    def _write_answer(self, kind, table, index):
        """Write what only the site may read, one file per answer; the name of the file."""
        folder = self.home / "answers"
        path = folder / f"{kind}{len(list(folder.glob(f'{kind}*.csv')))}.csv"
        write_whole(path, csv_bytes(table, index=index))
        return path

    def _write_tags(self, blamed):
        """Write the ranking of the site's tags for each incident, and a page with their trends."""
        from ..reports.incident import home_page  # of sites that are watched

        path = self._write_answer("tags", pd.concat([table for _, table, _ in blamed]), index=False)
        write_whole(path.with_suffix(".html"), home_page(self.name, blamed).html().encode())

    def read_key(self):
        """The key in its file, or the site's own with the public one of the server."""
        if self.key is None:
            raise SettingsError("[site] names no `key`: give the file of the key shared with the server.")
        return read_key(self.key) if self.server_key is None else read_key_pair(self.key, self.server_key)


def read_site_settings(path):
    """Settings of a site from a TOML file with a section ``[site]``, or of the dealer of secure sums."""
    everything = read_settings_file(path)
    if "dealer" in everything:
        return read_section(everything, path, "dealer", DealerSettings, home="home-dealer")
    kinds = {"privacy": SitePrivacy, "policy": SitePolicy, "secure_sums": SiteSums}
    more = {name: read_section(everything, path, name, kind) for name, kind in kinds.items() if name in everything}
    settings = read_section(everything, path, "site", SiteSettings, client=everything.get("client", {}), **more)
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


def _blamed(columns, state, batches):
    """For each incident its rows, a table of the site's own tags, the one to blame first, and trends of the first."""
    from ..client.watching import trend_of, window_of
    from ..client.worker import off_baseline  # of sites that are watched
    from ..reports.incident import trends_of

    for onset, detected, last in state["verdict"].rows.tolist():
        first, Y = batches.rows_from(max(onset - _BEFORE, 0))
        Y = off_baseline(state["client"], Y, None, (0,))[0]
        start, stop = window_of(onset - first, detected - first, last - first, len(Y))
        found = state["tags"].blame(Y, start, stop)
        order = found.order.tolist()
        own = {"tag": [columns[k] for k in order], "explained": found.explained[order]}
        table = pd.DataFrame({"onset": onset, **own, "why": [found.why[k] for k in order]})
        rows, names = pd.RangeIndex(first, first + len(Y)), list(columns)
        trends = [trend_of(state["tags"], Y, names.index(tag), start, stop, rows, tag) for tag in trends_of(table)]
        yield pd.Series({"start": onset, "detected": detected, "end": last}), table, trends


def _incidents(verdict):
    """Incidents that the server reported to the site: rows of its monitored record, and the root's number."""
    table = pd.DataFrame(verdict.rows, columns=["onset", "first", "last"])
    table["root"] = verdict.roots  # position among the server's units; their number where nobody can tell
    return table


# Inputs of a site as it sends them: through a basis or an instrument, a row ahead where they were set before it.
#
# The server is told columns and knows nothing of what they were made of: its questions are about these columns.

WORDS = ("after", "before")
_logger = logging.getLogger(__name__)


def by_column(choice, columns, what, allowed):
    """A choice for each input column from one for all, or from a table by column; SettingsError if unknown."""
    table = choice if isinstance(choice, Mapping) else dict.fromkeys(columns, choice)
    refuse_unknown(table, columns, f"`{what}` names", "the `inputs` are", SettingsError)
    refuse_unknown(table.values(), allowed, f"`{what}` is", "choose", SettingsError)
    return {name: table.get(name, allowed[0]) for name in columns}


def with_sent_inputs(record, settings):
    """The record of a site with its inputs as they are sent."""
    bases = by_column(settings.basis, settings.inputs, "basis", BASES)
    words = by_column(settings.sampled, settings.inputs, "sampled", WORDS)
    if settings.instruments:
        _check_instruments(settings, bases, record.moving)
        record = _with_explained(record, settings.instruments)
    plain = all(bases[name] == "linear" and words[name] == "after" for name in record.moving)
    if record.inputs is None or plain:
        return record
    columns, owners = [], []
    for name, u in zip(record.moving, np.array(record.inputs).T, strict=True):
        columns.append(_spline(u, name) if bases[name] == "spline" else u[:, None])
        owners += [name] * columns[-1].shape[1]
    early = [words[name] == "before" for name in owners]
    sent = a_row_ahead(np.hstack(columns), early, episode_starts(record.lengths))
    made = f"{sorted(bases.items())} {sorted(words.items())}"
    return replace(record, inputs=sent, fingerprint=f"{record.fingerprint} {made}")


def _check_instruments(settings, bases, moving):
    pairs, declared = settings.instruments, settings.inputs
    unknown = [name for pair in pairs.items() for name in pair if name not in declared]
    if unknown:
        raise SettingsError(
            f"`instruments` names {listed(unknown)}; the `inputs` are {listed(declared)}. An instrument is declared as "
            "an input too."
        )
    if len({*pairs, *pairs.values()}) < 2 * len(pairs):
        raise SettingsError("`instruments` names an input twice; give each instrument once, for one input.")
    if set(bases.values()) != {"linear"}:
        raise SettingsError("`instruments` explain inputs that act as they are: leave out `basis`.")
    still = [name for pair in pairs.items() for name in pair if name not in moving]
    if still:
        raise SettingsError(f"`instruments` names {listed(still)}, which never move in this record: leave them out.")


def _with_explained(record, pairs):
    """The record with what instruments explain of their inputs in place of these, and without the instruments."""
    columns, starts = np.array(record.inputs, dtype=float), episode_starts(record.lengths)
    at = {name: k for k, name in enumerate(record.moving)}
    for name, other in pairs.items():
        u, z = columns[:, at[name]].copy(), columns[:, at[other]]
        law = followed_law(u, z, starts)
        columns[:, at[name]] = explained(law, z, starts)
        share, statistic = strength(u, columns[:, at[name]], len(law))
        say = _logger.warning if statistic < WEAK else _logger.info
        words = "%r explains %.3g of the variance of %r, F statistic %.3g (%g at least)"
        say(words, other, share, name, statistic, WEAK)
    kept = [name for name in record.moving if name not in pairs.values()]
    made = f"{record.fingerprint} {sorted(pairs.items())}"
    return replace(record, inputs=columns[:, [at[name] for name in kept]], moving=tuple(kept), fingerprint=made)


def _spline(u, name):
    """Columns of a spline that determine each other not."""
    columns = basis_columns(quartile_spline(u), u, name)
    return columns[:, independent_columns(columns, name)]
