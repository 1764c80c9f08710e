"""The server's settings file: who takes part, what is learned, what is asked, where results go."""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..containers.layout import listed
from ..estimators.counterfactual import FederatedCounterfactualEstimator
from ..estimators.detector import FederatedRCADetector
from ..estimators.granger import FederatedGrangerEstimator
from ..federation.atomic import file_name, write_whole
from ..federation.envelope import read_key
from ..federation.files import FileTransport
from ..federation.lost import LostUnits
from ..message.states import WIRE_DTYPES
from ..server.gradient.server import GradientServer
from ..server.likelihood import LikelihoodServer
from .settings import SettingsError, read_table_of

ESTIMATORS = {
    "granger": FederatedGrangerEstimator,
    "counterfactual": FederatedCounterfactualEstimator,
    "root_cause": FederatedRCADetector,
}
LEARNERS = {"likelihood": LikelihoodServer, "gradient": GradientServer}


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server, see the user guide."""

    run: str
    units: tuple
    estimator: str = "granger"
    out: Path = Path("results")
    folder: Path | None = None
    keys: Path | None = None
    wire_dtype: str = "float64"
    timeout: float = 600.0
    quorum: int | float | None = None
    stale: str = "hold"
    one_way: bool = False
    resume: bool = True
    watch: bool = False
    wait: float = 0.0
    learner: dict = field(default_factory=dict)
    detector: dict = field(default_factory=dict)
    questions: tuple = ()

    def __post_init__(self):
        for name, choices in (("estimator", ESTIMATORS), ("wire_dtype", WIRE_DTYPES)):
            if getattr(self, name) not in choices:
                raise SettingsError(f"[server] {name}={getattr(self, name)!r}; choose {listed(choices)}.")
        if self.learner.get("kind", "likelihood") not in LEARNERS:
            raise SettingsError(f"[learner] kind={self.learner['kind']!r}; choose {listed(LEARNERS)}.")
        if self.questions and self.estimator != "counterfactual":
            raise SettingsError("[[question]] needs estimator = 'counterfactual': what if is about inputs.")
        if self.watch and self.estimator != "root_cause":
            raise SettingsError("[server] watch needs estimator = 'root_cause'.")
        if self.quorum is not None:
            LostUnits(self.quorum, self.timeout, self.stale)  # says what is wrong

    @property
    def lost_units(self):
        """What a fit does about lost units."""
        return None if self.quorum is None else LostUnits(self.quorum, self.timeout, self.stale)

    def new_estimator(self):
        """The estimator, not yet fitted."""
        learner = dict(self.learner)
        try:
            server = LEARNERS[learner.pop("kind", "likelihood")](**learner) if learner else None
            settings = {"wire_dtype": self.wire_dtype, "lost_units": self.lost_units, **self.detector}
            return ESTIMATORS[self.estimator](server=server, **settings)
        except TypeError as error:
            raise SettingsError(f"[learner] or [detector]: {error}") from None

    def file_transport(self):
        """Files between this machine and the sites."""
        if self.folder is None or self.keys is None:
            raise SettingsError("[server] needs `folder` (of the exchange) and `keys` (of the sites).")
        keys = {name: read_key(self.keys / f"{file_name(name)}.key") for name in self.units}
        journal = self.out / "journal" if self.resume else None
        return FileTransport(
            self.folder,
            self.units,
            self.run,
            keys,
            one_way=self.one_way,
            timeout=self.timeout,
            journal=journal,
        )

    def learn(self, transport, tell=lambda line: None):
        """Fit over a transport, ask the questions, watch, close the run, write the results.

        When something fails the run stays open, to be resumed.

        `tell` is called with a line on every batch that was watched.
        """
        estimator = self.new_estimator().fit_sites(transport)
        effects = {}
        for k, question in enumerate(self.questions):
            effects[f"effect{k}"] = estimator.counterfactual(
                question["unit"],
                question["from"],
                question["to"],
                horizon=question.get("horizon", 1),
                level="state",
            )
        incidents = self._watched(estimator, tell) if self.watch else None
        seconds = float(np.median(transport.seconds)) if transport.seconds else None
        transport.close()  # before bytes are added up
        more = {
            "wire_bytes_up": transport.bytes_up,
            "wire_bytes_down": transport.bytes_down,
            "median_round_seconds": seconds,
        }
        return write_results(estimator, self, effects, more, incidents)

    def _watched(self, estimator, tell):
        """Incidents in all batches; the table on disk follows them one by one."""
        path = self.results / "incidents.csv"
        self.results.mkdir(parents=True, exist_ok=True)
        for number, changed in enumerate(estimator.follow_sites(wait=self.wait), start=1):
            write_whole(path, estimator.site_incidents_.to_csv(index=False).encode())
            tell(f"{self.run}: batch {number}, {len(changed)} incidents new or revised")
        return estimator.site_incidents_

    @property
    def results(self):
        """Folder for the results of the run."""
        return self.out / file_name(self.run)

    def to_args(self):
        """As values that JSON knows, for the job of an engine."""
        plain = {name: value for name, value in vars(self).items() if value is not None}
        for name in ("out", "folder", "keys"):
            if name in plain:
                plain[name] = str(plain[name])
        return {**plain, "units": list(self.units), "questions": list(self.questions)}

    @classmethod
    def from_args(cls, args):
        """Settings as :meth:`to_args` gave them."""
        args = {**args, "units": tuple(args["units"]), "questions": tuple(args.get("questions", ()))}
        paths = {name: Path(args[name]) for name in ("out", "folder", "keys") if name in args}
        return cls(**{**args, **paths})


_KINDS = {
    "run": str,
    "units": list,
    "estimator": str,
    "out": str,
    "folder": str,
    "keys": str,
    "wire_dtype": str,
    "timeout": (int, float),
    "quorum": (int, float),
    "stale": str,
    "one_way": bool,
    "resume": bool,
    "watch": bool,
    "wait": (int, float),
}


def read_server_settings(path):
    """Settings of a server from a TOML file with a section ``[server]``."""
    table, everything = read_table_of(path, "server", _KINDS, ("run", "units"))
    folder = Path(path).resolve().parent
    values = {"out": "results", **table}
    values |= {key: folder / values[key] for key in ("out", "folder", "keys") if key in values}
    values["units"] = tuple(values["units"])
    values |= {name: everything.get(name, {}) for name in ("learner", "detector")}
    values["questions"] = tuple(everything.get("question", ()))
    for question in values["questions"]:
        if not {"unit", "from", "to"} <= set(question):
            raise SettingsError(f"{path}: a [[question]] has `unit`, `from`, `to` and maybe `horizon`.")
    return ServerSettings(**values)


def write_results(estimator, settings, effects, more, incidents=None):
    """Write what was learned: tables as CSV, matrices as one NPZ, a summary as JSON."""
    out = settings.results
    out.mkdir(parents=True, exist_ok=True)
    estimator.lost_units_.to_csv(out / "lost_units.csv", index=False)
    matrices = {"transition": estimator.transition_, "process_cov": estimator.process_cov_}
    if hasattr(estimator, "input_"):
        matrices["input"] = estimator.input_
    np.savez(out / "plant.npz", **matrices)
    for name, frame in effects.items():
        frame.to_csv(out / f"{name}_states.csv")
    if hasattr(estimator, "thresholds_"):
        more = {**more, "thresholds": estimator.thresholds_, "false_alarms": estimator.false_alarms_}
    if incidents is not None:
        incidents.to_csv(out / "incidents.csv", index=False)
        found = incidents[["start", "root", "probability"]]
        more = {**more, "incidents": found.to_dict("records")}
    links = getattr(estimator, "links_", None)
    if links is not None:
        links.to_csv(out / "links.csv", index=False)
        links = links[links["verdict"] == "influence"] if "verdict" in links else links
    summary = {
        "run": settings.run,
        "estimator": settings.estimator,
        "units": list(estimator.client_names_),
        "lost": sorted(set(estimator.lost_units_["unit"])),
        "links": [
            {"cause": row.cause, "effect": row.effect, "strength": float(row.strength)}
            for row in (() if links is None else links.itertuples())
        ],
        "bytes_up": estimator.communication_["bytes_up"],
        "bytes_down": estimator.communication_["bytes_down"],
        "rounds": estimator.communication_["rounds"],
        "results": str(out),
        "written": time.time(),
        **more,
    }
    write_whole(out / "summary.json", json.dumps(summary, indent=1, default=float).encode())
    return summary
