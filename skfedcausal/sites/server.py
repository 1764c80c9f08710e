"""The server's settings: who takes part, what is learned, what is asked, where results go."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from .. import inspection
from ..bases import configured
from ..containers.arrays import listed
from ..estimators.counterfactual import FederatedCounterfactualEstimator
from ..estimators.detector import FederatedRCADetector
from ..estimators.granger import FederatedGrangerEstimator
from ..federation.atomic import file_name, write_whole
from ..federation.envelope import MAX_FRAME, read_key, read_key_pair
from ..federation.exchange import Communication, LostUnits
from ..federation.files import FileTransport
from ..message.states import WIRE_DTYPES
from ..papers.server.gradient import GradientServer
from ..secure.server.sums import SecureSumsServer
from ..server.likelihood import LikelihoodServer
from .settings import SettingsError, check_numbers, converted, csv_bytes, read_section, read_settings_file

ESTIMATORS = {
    "granger": FederatedGrangerEstimator,
    "counterfactual": FederatedCounterfactualEstimator,
    "root_cause": FederatedRCADetector,
}
LEARNERS = {"likelihood": LikelihoodServer, "gradient": GradientServer, "secure_sums": SecureSumsServer}


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server, see the user guide."""

    run: str
    units: tuple
    estimator: str = "granger"
    out: Path = Path("results")
    folder: Path | None = None
    keys: Path | None = None
    key: Path | None = None
    wire_dtype: str = "float64"
    timeout: float = 600.0
    max_frame: int = MAX_FRAME
    quorum: int | float | None = None
    stale: Literal["hold", "skip"] = "hold"
    one_way: bool = False
    resume: bool = True
    watch: bool = False
    wait: float = 0.0
    learner: dict = field(default_factory=dict)
    detector: dict = field(default_factory=dict)
    questions: tuple = ()

    def __post_init__(self):
        kind = self.learner.get("kind", "likelihood")
        chosen = {"estimator": self.estimator, "wire_dtype": self.wire_dtype, "[learner] kind": kind}
        known: tuple = ESTIMATORS, WIRE_DTYPES, LEARNERS
        for (name, value), choices in zip(chosen.items(), known, strict=True):
            if value not in choices:
                raise SettingsError(f"{name}={value!r}; choose {listed(choices)}.")
        for question in self.questions:
            if not {"unit", "from", "to"} <= set(question):
                raise SettingsError("a [[question]] has `unit`, `from`, `to` and maybe `horizon`.")
        if self.questions and self.estimator != "counterfactual":
            raise SettingsError("[[question]] needs estimator = 'counterfactual': what if is about inputs.")
        if self.watch and self.estimator != "root_cause":
            raise SettingsError("watch needs estimator = 'root_cause'.")
        check_numbers(self, {"timeout": (0, False), "wait": (0, True), "max_frame": (1, True)})
        _ = file_name(self.run), self.lost_units  # say what is wrong
        names = self.units
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            raise SettingsError(f"units = {list(names)!r}; give the names of the units, each once.")
        if len({name.casefold() for name in names}) < len(names):
            raise SettingsError(
                f"units = {list(names)!r} differ in case only; on some file systems that is one folder."
            )

    @property
    def lost_units(self):
        """Rule for lost units of a fit, None where every unit has to answer."""
        return None if self.quorum is None else LostUnits(self.quorum, self.timeout, self.stale)

    def new_estimator(self):
        """The estimator, not yet fitted."""
        learner = dict(self.learner)
        try:
            server = configured(LEARNERS[learner.pop("kind", "likelihood")], learner) if learner else None
            how = Communication(wire_dtype=self.wire_dtype, lost_units=self.lost_units)
            return configured(ESTIMATORS[self.estimator], {"server": server, "communication": how, **self.detector})
        except TypeError as error:
            raise SettingsError(f"[learner] or [detector]: {error}") from None

    def file_transport(self):
        """Files between this machine and the sites."""
        if self.folder is None or self.keys is None:
            raise SettingsError("[server] needs `folder` (of the exchange) and `keys` (of the sites).")
        names = self.units
        if self.learner.get("kind") == "secure_sums":
            names = (*names, self.learner.get("dealer", SecureSumsServer.dealer))
        keys = {name: self._key_of(name) for name in names}
        settings = {"one_way": self.one_way, "timeout": self.timeout, "max_frame": self.max_frame}
        journal = self.out / "journal" if self.resume else None
        return FileTransport(self.folder, names, self.run, keys, journal=journal, **settings)

    def _key_of(self, name):
        """The key shared with a site, or the server's own with the public one of the site."""
        path = self.keys / file_name(name)
        if self.key is None:
            return read_key(path.with_name(f"{path.name}.key"))
        return read_key_pair(self.key, path.with_name(f"{path.name}.pub"))

    def learn(self, transport, tell=lambda line: None):
        """Fit over a transport, ask the questions, monitor, close the run, write the results; the summary.

        When something fails the run stays open, to be resumed. `tell` is called with a line on every batch
        that was monitored.
        """
        estimator = self.new_estimator().fit_sites(transport)
        effects = [
            estimator.counterfactual(ask["unit"], ask["from"], ask["to"], horizon=ask.get("horizon", 1), of="state")
            for ask in self.questions
        ]
        incidents = self._watched(estimator, tell) if self.watch else None
        seconds = float(np.median(transport.seconds)) if transport.seconds else None
        transport.close()  # before bytes are added up
        more = {"wire_bytes_up": transport.bytes_up, "wire_bytes_down": transport.bytes_down}
        return self._write(estimator, effects, incidents, {**more, "median_round_seconds": seconds})

    def _watched(self, estimator, tell):
        """Incidents in all batches; the table on disk is brought up to date with every one."""
        path = self.results / "incidents.csv"
        for number, changed in enumerate(inspection.follow_sites(estimator, wait=self.wait), start=1):
            write_whole(path, csv_bytes(estimator.site_incidents_, index=False), shared=True)
            tell(f"{self.run}: batch {number}, {len(changed)} incidents new or revised")
        return estimator.site_incidents_

    def _write(self, estimator, effects, incidents, more):
        """Write what was learned: tables as CSV, matrices as one NPZ, a summary as JSON."""
        from ..reports import plant_page  # matplotlib is optional

        out = self.results
        out.mkdir(parents=True, exist_ok=True)
        np.savez(out / "plant.npz", **_matrices(estimator))
        for k, effect in enumerate(effects):
            write_whole(out / f"effect{k}_states.csv", csv_bytes(effect), shared=True)
        more = {**more, **_known(estimator, "thresholds", "false_alarms")}
        tables, links = {"lost_units": estimator.lost_units_}, []
        if incidents is not None:
            tables["incidents"] = incidents
            found = incidents[["start", "root", "probability"]]
            more = {**more, "incidents": found.to_dict("records")}
        if hasattr(estimator, "links_"):
            tables["links"] = shown = estimator.links_
            shown = shown[shown["verdict"] == "influence"] if "verdict" in shown else shown
            links = shown[["cause", "effect", "norm"]].to_dict("records")
            if not hasattr(estimator, "transfer_function"):  # its page asks the units, which are gone
                page = plant_page(estimator, f"Run {self.run}: which unit drives which")
                write_whole(out / "report.html", page.html().encode(), shared=True)
        for name, table in tables.items():
            write_whole(out / f"{name}.csv", csv_bytes(table, index=False), shared=True)
        sums = estimator.communication_
        summary = {
            "run": self.run,
            "estimator": self.estimator,
            "units": list(estimator.client_names_),
            "lost": sorted(set(estimator.lost_units_["unit"])),
            "links": links,
            **{name: sums[name] for name in ("bytes_up", "bytes_down", "rounds")},
            "results": str(out),
            "written": time.time(),
            **more,
        }
        write_whole(out / "summary.json", json.dumps(summary, indent=1, default=float).encode(), shared=True)
        return summary

    @property
    def results(self):
        """Folder for the results of the run."""
        return self.out / file_name(self.run)

    def to_args(self):
        """As values that JSON knows, for the job of an engine."""
        given = {name: value for name, value in vars(self).items() if value is not None}
        return {name: str(value) if isinstance(value, Path) else value for name, value in given.items()}

    @classmethod
    def from_args(cls, args):
        """Settings as :meth:`to_args` gave them."""
        return cls(**converted(cls, args))


def _matrices(estimator):
    """Matrices of the plant, of its later lags too where it has any."""
    names = ["transition", "process_cov", "input"]
    if len(estimator.lag_transitions_) > 1 or np.any(getattr(estimator, "input_at_once_", 0.0)):
        names += ["lag_transitions", "lag_inputs", "input_at_once"]
    return _known(estimator, *names)


def _known(estimator, *names):
    """Attributes of a fitted estimator by their names, those that it has."""
    return {name: getattr(estimator, f"{name}_") for name in names if hasattr(estimator, f"{name}_")}


def read_server_settings(path):
    """Settings of a server from a TOML file with a section ``[server]``."""
    everything = read_settings_file(path)
    tables = {name: everything.get(name, {}) for name in ("learner", "detector")}
    questions = everything.get("question", ())
    return read_section(everything, path, "server", ServerSettings, out="results", questions=questions, **tables)
