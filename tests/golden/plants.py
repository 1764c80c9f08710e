"""A fit whose questions share it, and the ways to come to the same fit, which promise the same bits."""

import copy
import pickle
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from skfedcausal import KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.federation import FileLoopback, InProcessTransport

from .leaves import leaves
from .seeds import seed

_DIGITS = 6  # of measurements


class Record(NamedTuple):
    """Measurements of the units, their inputs, and the rows of each episode."""

    X: Any
    inputs: Any = None
    lengths: Any = None

    def given(self):
        """Arguments of a method that takes the record."""
        return {name: value for name, value in self._asdict().items() if name == "X" or value is not None}

    def settled(self):
        """Rounded numbers, which are the same whatever products of matrices a processor makes of a simulation."""
        return Record(_rounded(self.X), _rounded(self.inputs), self.lengths)

    def rows(self, first, stop=None):
        """Some rows of it, as one episode."""
        part = slice(first, stop)
        X = self.X.iloc[part] if hasattr(self.X, "iloc") else {name: Y[part].copy() for name, Y in self.X.items()}
        inputs = None if self.inputs is None else [None if U is None else U[part] for U in self.inputs]
        return Record(X, inputs)


def _rounded(numbers):
    if numbers is None:
        return None
    if isinstance(numbers, dict):
        return {name: _rounded(part) for name, part in numbers.items()}
    if isinstance(numbers, list):
        return [_rounded(part) for part in numbers]
    return numbers.round(_DIGITS)


@dataclass
class Fitted:
    """What a question is asked of: a fitted estimator, and how its record is given to a method."""

    estimator: Any
    given: dict
    record: Record
    warned: list = field(default_factory=list)

    def __post_init__(self):
        self._first = None
        if self.given.get("X") is not None:
            with suppress(TypeError):  # of an estimator with instruments there is no copy, and nobody asks for one
                self._first = copy.deepcopy(self.estimator)

    def copy(self):
        """The estimator as it was before any question, for those that change it or tell of those before."""
        return copy.deepcopy(self._first)


def sites_of(record, clients=None):
    """Workers as sites have them: each with its own record, and the client of its settings."""
    names = list(record.X)
    inputs = dict(zip(names, record.inputs, strict=True)) if record.inputs is not None else dict.fromkeys(names)
    starts = (0,) if record.lengths is None else tuple(sum(record.lengths[:k]) for k in range(len(record.lengths)))
    found = {}
    for name, Y in record.X.items():
        client = KalmanClient() if clients is None else copy.deepcopy(clients[name])
        columns = tuple(f"{name}__x{k}" for k in range(Y.shape[1]))
        found[name] = UnitWorker(name, Y, inputs[name], starts, columns, client)
    return found


def at_sites(plant, record):
    """Over a transport to workers that hold the record; every question is asked without it."""
    estimator = plant.make().set_params(client=None)
    estimator.fit_sites(InProcessTransport(sites_of(record, plant.clients)))
    return Fitted(estimator, {"X": None}, record)


def by_threads(plant, record):
    """With two units at a time."""
    return plant.fitted_here(plant.make().set_params(n_jobs=2), record)


def by_files(plant, record):
    """With files between the server and the units."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        transport = FileLoopback(folder)
        found = plant.fitted_here(plant.make().set_params(communication__transport=transport), record)
        return Fitted(found.estimator.set_params(communication__transport=None), found.given, record)


def by_pickle(plant, record):
    """Read back from its pickle."""
    found = plant.fitted_here(plant.make(), record)
    return Fitted(pickle.loads(pickle.dumps(found.estimator)), found.given, record)


@dataclass
class Plant:
    """An estimator, its record, and what it is asked; `ways` are other ways to come to the same fit.

    The answers of a fit are compared with the stored ones. The answers by another way are compared with those of the
    fit, of which they promise every bit; questions in `here` are asked of the fit only, since what they are about
    is nowhere else. With `fresh` each question has a copy of the fit, since questions spend something.
    """

    name: str
    make: Callable
    record: Callable
    questions: Mapping[str, Callable]
    here: Mapping[str, Callable] = field(default_factory=dict)
    ways: Mapping[str, Callable] = field(default_factory=dict)
    clients: Mapping | None = None
    fit: Callable | None = None
    fresh: bool = False

    def answers(self):
        """Names of all its answers, in the order in which they are asked."""
        names = [f"{self.name}: {question}" for question in (*self.questions, *self.here)]
        return names + [f"{self.name}: {question} {way}" for way in self.ways for question in self.questions]

    def fitted_here(self, estimator, record):
        """The estimator fitted to the record in this process."""
        if self.fit is None:
            estimator.fit(**record.given())
        else:
            self.fit(estimator, record)
        return Fitted(estimator, record.given(), record)

    def fitted(self, way=None):
        """A fit by one way, with the same draws whichever it is, and what it warned of."""
        seed(self.name)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            record = self.record().settled()
            found = self.fitted_here(self.make(), record) if way is None else self.ways[way](self, record)
        found.warned = caught
        return found

    def ask(self, question, fitted):
        """(leaves of an answer, warnings on the way to it)."""
        seed(f"{self.name}: {question}")
        if self.fresh:
            fitted = replace(fitted, estimator=fitted.copy())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = leaves({**self.questions, **self.here}[question](fitted))
        return found, caught
