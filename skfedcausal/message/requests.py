"""temporary"""

import json
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple

import numpy as np

from .fields import Fields, series_arrays
from .packet import Packet


class _Plain:
    def to_packet(self, round=0, dtype="float64"):
        s = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if getattr(self, f.name) is not None
            and not (f.name in ("monitor", "flags") and not getattr(self, f.name))
        }
        return Packet(self.OP, round, {}, s | ({"dtype": dtype} if self.DTYPE else {}))

    DTYPE = True

    @classmethod
    def from_packet(cls, packet):
        s = dict(packet.scalars)
        s.pop("dtype", None)
        return cls(**s)


@dataclass(frozen=True)
class FitRequest(_Plain):
    const: bool = False
    local_model: bool = False
    monitor: bool = False
    OP: ClassVar[str] = "fit"
    OPENS = True


@dataclass(frozen=True)
class LawRequest(_Plain):
    OP: ClassVar[str] = "ask law"
    NEW_ROUND = False
    DTYPE = False


@dataclass(frozen=True)
class WatchRequest(_Plain):
    batch: int = 1
    flags: bool = False
    OP: ClassVar[str] = "watch"


@dataclass(frozen=True)
class Acknowledgement(_Plain):
    OP: ClassVar[str] = "done"
    DTYPE = False


@dataclass(frozen=True)
class NetworksTrained(_Plain):
    OP: ClassVar[str] = "networks trained"
    DTYPE = False


@dataclass(frozen=True)
class RecordRequest(_Plain):
    const: bool = False
    until: int | None = None
    local_model: bool = False
    OP: ClassVar[str] = "message"


@dataclass(frozen=True)
class PredictRequest(_Plain):
    model: str = "client"
    OP: ClassVar[str] = "predict"


@dataclass(frozen=True)
class FlagsRequest(_Plain):
    percentile: float | None = None
    OP: ClassVar[str] = "flag"
    DTYPE = False


@dataclass(frozen=True)
class AggregateRequest(_Plain):
    scale: float = 1.0
    OP: ClassVar[str] = "aggregate"
    DTYPE = False


@dataclass(frozen=True)
class Measurements:
    values: np.ndarray
    variance: np.ndarray | None = None
    columns: tuple = ()
    OP: ClassVar[str] = "measurements"

    def to_packet(self, round=0, dtype="float64"):
        a = series_arrays("values", self.values, dtype)
        if self.variance is not None:
            a["variance"] = self.variance
        return Packet(self.OP, round, a, {"columns": json.dumps(list(self.columns))})

    @classmethod
    def from_packet(cls, packet):
        f = Fields(packet, cls.OP)
        v = f.series("values")
        w = f.numbers("variance", v.shape, optional=True)
        f.check_all_read()
        return cls(v, w, tuple(json.loads(packet.scalars["columns"])))


@dataclass(frozen=True)
class LossAnswer(_Plain):
    client: float = 0.0
    server: float = 0.0
    OP: ClassVar[str] = "losses"
    DTYPE = False


@dataclass(frozen=True)
class LossRequest:
    states: np.ndarray
    OP: ClassVar[str] = "loss"

    def to_packet(self, round=0, dtype="float64"):
        return Packet(self.OP, round, series_arrays("states", self.states, dtype))

    @classmethod
    def from_packet(cls, packet):
        return cls(Fields(packet, cls.OP).series("states"))


@dataclass(frozen=True)
class NothingYet(_Plain):
    OP: ClassVar[str] = "nothing yet"
    DTYPE = False


@dataclass(frozen=True)
class FactualRequest:
    states: np.ndarray | None = None
    covariances: np.ndarray | None = None
    OP: ClassVar[str] = "factual"

    def to_packet(self, round=0, dtype="float64"):
        from ..statespace.rounding import packed_triangles

        return Packet(
            self.OP,
            round,
            {}
            if self.states is None
            else series_arrays("states", self.states, dtype) | {"packed": packed_triangles(self.covariances)},
        )

    @classmethod
    def from_packet(cls, packet):
        f = Fields(packet, cls.OP)
        s = f.series("states", optional=True)
        return cls() if s is None else cls(s, f.symmetric("packed", s.shape[1]))


class Ask(NamedTuple):
    requests: dict
    answer: type
    needed: int | None = None
