"""Messages that declare their fields, of which their packets and the words of ledgers follow."""

import json
import reprlib
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, replace
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np

from ..statespace.matrices import (
    are_covariances,
    packed_products,
    packed_triangles,
    scaled_columns,
    state_units,
    unpacked_triangles,
    whitened_columns,
)
from .packet import Packet, PacketError, code_size, n_leading, stepped, unstepped
from .tuning import TUNING

# Kinds of fields: one rule writes a field of a message into a packet, reads it and says what comes with it.
#
# Reading checks what came and what it means, so that nobody works on something that is not what it claims to
# be. Below double precision a series travels scaled to the range of the precision, and what undoes the scaling
# travels with it: rounding costs the same whatever the units of the states.

_ROWS = ", one row per time step"
_SCALE = "undoes the scaling of a rounded series"
_NUMBERS = {"f": "real numbers", "iu": "whole numbers", "i": "whole numbers", "u": "bits"}


@dataclass(frozen=True)
class Rule:
    """Rule by which one field travels.

    ``write(message, value, dtype, into)`` puts a value into the arrays or scalars of a packet, and
    ``read(left, sizes, values)`` takes it out of those that are left.
    """

    shape: tuple[Any, ...]  # sizes, and letters of which equal ones stand for equal sizes
    purpose: str
    optional: bool
    array: str  # name in the packet, of scalars too
    of: tuple[str, ...]  # fields that it has to do with, or words that it may be
    least: float  # columns of a series, or value of a scalar
    op: str = ""
    name: str = ""
    also: tuple[str, ...] = ()  # names of the arrays beside it

    kinds: ClassVar[dict[str, type["Rule"]]] = {}  # by the names that fields are declared with
    floor: ClassVar[int] = 1  # least where a declaration does not say
    rows: ClassVar[str] = ""  # what its rows are
    beside: ClassVar[dict[str, str]] = {}  # further arrays, and what they are for

    def __init_subclass__(cls):
        cls.kinds[cls.__name__.lower()] = cls

    def write(self, message, value, dtype, into):
        into[self.array] = value


# --- arrays ------------------------------------------------------------------------------------------------


class Numbers(Rule):
    """Finite real numbers in double precision; base of the other kinds of arrays."""

    multiply: ClassVar[Callable] = np.multiply  # with what undoes a scaling
    stored: ClassVar[Any] = None  # dtype in packets, None for that of the numbers
    kinds_read: ClassVar[str] = "f"  # of dtypes

    def write(self, message, value, dtype, into):
        into[self.array] = value if self.stored is None else np.asarray(value, dtype=self.stored)

    def read(self, left, sizes, values):
        values[self.name] = self.checked(self.taken(left, sizes, kinds=self.kinds_read))

    def checked(self, value):
        """The value of a field, from its array."""
        return value

    def taken(self, left, sizes, name=None, shape=None, kinds="f"):
        """One array that is left, of the expected kind and of a shape that fits the sizes known so far."""
        name, shape = name or self.array, shape or self.shape
        if name not in left:
            raise PacketError(f"Packet {self.op!r} lacks the array {name!r}.")
        value = left.pop(name)
        if not isinstance(value, np.ndarray):
            raise self.error(f"is a {type(value).__name__}, expected an array", name)
        fits = value.ndim == len(shape)
        if fits:
            for letter, size in zip(shape, value.shape, strict=True):
                fits &= size == (letter if letter.__class__ is int else sizes.setdefault(letter, size))
        if not fits:
            known = tuple(sizes.get(letter, letter) for letter in shape)
            expected = known if all(isinstance(k, int) for k in known) else f"{len(shape)} dimensions"
            raise self.error(f"has shape {value.shape}, expected {expected}", name)
        if value.dtype.kind not in kinds:
            raise self.error(f"has dtype {value.dtype}, expected {_NUMBERS[kinds]}", name)
        return self.finite(np.ascontiguousarray(value, dtype=float), name) if kinds == "f" else value

    def unscaled(self, value, scale):
        """Numbers with their scaling undone."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.finite(self.multiply(value, scale))

    def finite(self, value, name=None):
        """Numbers, all of which must be finite."""
        if not np.isfinite(value).all():
            raise self.error("has values that are not finite", name)
        return value

    def error(self, problem, name=None):
        """Error about an array."""
        return PacketError(f"Array {name or self.array!r} of packet {self.op!r} {problem}.")


class Shared(Numbers):
    """One number of each of several fields in one array."""

    def joined(self, other):
        """The rule of one more field."""
        purpose = f"{self.purpose}, {other.purpose}"
        return replace(self, shape=(self.shape[0] + 1,), purpose=purpose, of=(*self.of, other.name))

    def write(self, message, value, dtype, into):
        into[self.array] = np.array([value, *(getattr(message, name) for name in self.of)])

    def read(self, left, sizes, values):
        values.update(zip((self.name, *self.of), self.taken(left, sizes).tolist(), strict=True))


class Halves(Numbers):
    """Numbers in half precision, whatever the others travel in."""

    stored = "float16"


class Repeated(Numbers):
    """Numbers that are left out where they are those of another field."""

    def write(self, message, value, dtype, into):
        if value is not getattr(message, self.of[0]):
            into[self.array] = value

    def read(self, left, sizes, values):
        values[self.name] = self.taken(left, sizes) if self.array in left else values[self.of[0]]


class Series(Numbers):
    """One row per time step, below double precision with the scale of each column."""

    rows = _ROWS
    beside: ClassVar = {"{}_scale": _SCALE}
    axes: ClassVar[int] = 1  # of the scale

    def write(self, message, value, dtype, into):
        if dtype == "float64" or value.shape[1] == 0:
            into[self.array] = value
        else:
            into[self.array], into[self.also[0]] = self.scaled(message, value, dtype)

    def scaled(self, message, value, dtype):
        """Rounded numbers, and what undoes their scaling."""
        return scaled_columns(value, dtype)

    def read(self, left, sizes, values):
        value = self.taken(left, sizes)
        if value.shape[1] < self.least:
            raise self.error("has no states")
        if self.also[0] in left:
            value = self.unscaled(value, self.taken(left, sizes, self.also[0], self.shape[1:] * self.axes))
        values[self.name] = value


class Inputs(Series):
    """Series in single precision at least: half precision would round the position of a valve."""

    def write(self, message, value, dtype, into):
        super().write(message, value, "float32" if dtype == "float16" else dtype, into)


class Whitened(Series):
    """Information vectors, below double precision as ``J^-1/2 z`` (unit noise, J averaged over time)."""

    beside: ClassVar = {"unscale": _SCALE}
    multiply: ClassVar[Callable] = staticmethod(np.matmul)
    axes = 2

    def scaled(self, message, value, dtype):
        return whitened_columns(value, message.information.mean_information, dtype)


class Stepped(Numbers):
    """Series in 4 bits a number, see :mod:`skfedcausal.message.packet`."""

    rows = _ROWS
    beside: ClassVar = {
        "{}_beyond": "numbers of this series that 4 bits do not hold",
        "{}_level": "mean of each column of this series",
        "{}_step": "size of one step of each column of this series",
        "length": "number of its rows",
    }

    def write(self, message, value, dtype, into):
        arrays = (*stepped(value), np.array([len(value)]))
        into.update(zip((self.array, *self.also), arrays, strict=True))

    def read(self, left, sizes, values):
        beyond, level, step, length = self.also
        n_rows = int(self.taken(left, sizes, length, (1,), "iu")[0])
        level, step = (self.taken(left, sizes, name, self.shape[1:]) for name in (level, step))
        codes = self.taken(left, sizes, shape=("codes",), kinds="u").astype(np.uint8)
        beyond = self.taken(left, sizes, beyond, ("beyond",), "i")
        if n_rows < 1 or len(level) == 0:
            raise self.error(f"has {n_rows} rows of {len(level)} states")
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                series = unstepped(codes, beyond, level, step, n_rows)
        except ValueError as error:
            raise self.error(str(error)) from None
        sizes[self.shape[0]], values[self.name] = n_rows, self.finite(series)


class Covariance(Numbers):
    """One positive semidefinite matrix, whole."""

    def checked(self, value):
        return self.semidefinite(value[None])[0]

    def semidefinite(self, matrices):
        """Matrices, all of which must be covariances."""
        if not are_covariances(matrices):
            raise self.error("has a matrix that is not symmetric and positive semidefinite")
        return matrices


class Covariances(Covariance):
    """Positive semidefinite matrices as packed triangles."""

    @staticmethod
    def multiply(packed, units):
        return packed * packed_products(units)

    def write(self, message, value, dtype, into):
        into[self.array] = packed_triangles(value)

    def read(self, left, sizes, values):
        k, p, _ = self.shape
        packed, size = self.taken(left, sizes, shape=(k, "elements")), sizes[p] * (sizes[p] + 1) // 2
        if packed.shape[1] != size:
            raise self.error(f"has matrices of {packed.shape[1]} elements, expected {size}")
        if self.also and self.also[0] in left:
            packed = self.unscaled(packed, self.taken(left, sizes, self.also[0], (p,)))
        values[self.name] = self.semidefinite(unpacked_triangles(packed, sizes[p]))


class Informations(Covariances):
    """Information matrices; several of them travel in single precision where series are rounded."""

    beside: ClassVar = {"{}_units": _SCALE}

    @staticmethod
    def multiply(packed, units):
        with np.errstate(all="ignore"):  # what is not finite is refused
            if not np.isfinite(packed).all():
                return packed * packed_products(units)
            matrices = _without_rounding(unpacked_triangles(packed, len(units)))
            return packed_triangles(matrices) * packed_products(units)

    def write(self, message, value, dtype, into):
        packed = packed_triangles(value)
        if dtype != "float64" and len(packed) > 1:
            into[self.also[0]] = units = state_units(value)
            packed = (packed / packed_products(units)).astype(np.float32)
        into[self.array] = packed


def _without_rounding(matrices):
    """Matrices that came in single precision; what that took or added where they are singular is zero again."""
    values, vectors = np.linalg.eigh(matrices)
    rounded = np.abs(values) < TUNING.fields_single * values[:, -1:]
    singular = rounded.any(axis=1)
    if singular.any():
        kept = np.where(rounded, 0.0, values)[singular, None, :]
        matrices = matrices.astype(float)
        matrices[singular] = (vectors[singular] * kept) @ np.swapaxes(vectors[singular], 1, 2)
    return matrices


class Whole(Numbers):
    """Whole numbers."""

    kinds_read = "iu"

    def write(self, message, value, dtype, into):
        into[self.array] = np.asarray(value, dtype=np.int64).reshape(-1, *self.shape[1:])

    def checked(self, value):
        return value.astype(np.intp)


class Lengths(Whole):
    """Whole numbers as a tuple."""

    def checked(self, value):
        return tuple(value.tolist())


class Positions(Whole):
    """Positions in another field, in as few bytes as hold them."""

    def write(self, message, value, dtype, into):
        last = len(getattr(message, self.of[0])) - 1
        into[self.array] = value.astype(np.min_scalar_type(last).newbyteorder("<"))


class Bits(Numbers):
    """Truth values, eight to a byte."""

    beside: ClassVar = {"length": "number of time steps"}

    def write(self, message, value, dtype, into):
        into[self.array], into["length"] = np.packbits(value), np.array([len(value)])

    def read(self, left, sizes, values):
        n, each = int(self.taken(left, sizes, "length", (1,), "iu")[0]), self.shape[1]
        bits = self.taken(left, sizes, shape=("bytes",), kinds="iu").astype(np.uint8)
        if n < 1 or len(bits) != -(-each * n // 8):
            raise PacketError(f"Packet {self.op!r} has {len(bits)} bytes of bits for {n} time steps.")
        values[self.name] = np.unpackbits(bits, count=each * n).astype(bool).reshape(n, each)


# --- of secure sums ----------------------------------------------------------------------------------------


class Ring(Numbers):
    """Whole numbers modulo 2^64."""

    kinds_read = "i"

    def write(self, message, value, dtype, into):
        into[self.array] = np.ascontiguousarray(value).view(np.int64)

    def checked(self, value):
        if value.dtype != np.int64:
            raise self.error(f"has dtype {value.dtype}, expected int64")
        return np.ascontiguousarray(value).view(np.uint64)


class Octets(Numbers):
    """Bytes, as many in each row."""

    stored, kinds_read = "uint8", "u"

    def checked(self, value):
        if value.dtype != np.uint8:
            raise self.error(f"has dtype {value.dtype}, expected uint8")
        return value


class Counts(Whole):
    """Whole numbers, each at least one."""

    def checked(self, value):
        if not (value >= 1).all():
            raise self.error("has numbers below one")
        return value.astype(np.int64)


class Scalar(Rule):
    """One scalar in the header of a packet; base of the kinds of scalars."""

    types: ClassVar[tuple[type, ...]] = ()
    expected: ClassVar[str] = ""

    def read(self, left, sizes, values):
        value = values[self.name] = left[self.array]
        is_type = isinstance(value, self.types) and (bool in self.types or not isinstance(value, bool))
        if not (is_type and value >= self.least):
            raise self.error(value)

    def error(self, value):
        """Error about a scalar."""
        expected = self.expected.format(self.least, ", ".join(self.of), self.purpose)
        shown = reprlib.repr(value)
        return PacketError(f"Scalar {self.array!r} of packet {self.op!r} is {shown}, expected {expected}.")


class Count(Scalar):
    """A whole number."""

    types, expected = (int,), "a whole number, at least {0}"


class Number(Scalar):
    """A real number."""

    types, expected, floor = (int, float), "a number, not below {0}", 0

    def read(self, left, sizes, values):
        super().read(left, sizes, values)
        values[self.name] = float(values[self.name])


class Flag(Scalar):
    """True or false."""

    types, expected, floor = (bool,), "true or false", 0


class Word(Scalar):
    """One of a few words, or any text."""

    expected = "{2}: {1}"

    def read(self, left, sizes, values):
        value = values[self.name] = left[self.array]
        if not isinstance(value, str) or (self.of and value not in self.of):
            raise self.error(value)


class Names(Scalar):
    """Names of all columns, no two the same, as a JSON list."""

    expected = "a JSON list with a name of its own for every column"

    def write(self, message, value, dtype, into):
        into[self.array] = json.dumps(value)

    def read(self, left, sizes, values):
        try:
            names = json.loads(left[self.array])
        except (TypeError, ValueError, RecursionError):
            names = None
        texts = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        if not len(set(texts)) == len(names or ()) == sizes[self.shape[0]]:
            raise self.error(left[self.array])
        values[self.name] = tuple(texts)


# Messages that declare their fields, of which their packets and the words of ledgers follow.

ArrayOrNone = np.ndarray | None
WIRE_DTYPES = ("float64", "float32", "float16")
UNKNOWN = "unknown to this version of the library"
KINDS: dict[str, type["Message"]] = {}  # of messages, by their operations
RIDERS: dict[str, str] = {}  # arrays that may ride on any message, and what they are for

_ROUNDING = {"float16": "11 significant bits", "float32": "24 significant bits", "float64": "none"}


def wire(
    kind: str, purpose: str, *, default: Any = MISSING, array: str = "", of: str = "", least: float | None = None
) -> Any:
    """Declare a field of a message.

    Parameters
    ----------
    kind : str
        How it travels, a kind of ``skfedcausal.message.schema``, and for an array the letters of its
        shape, equal letters for equal sizes: "series T p", "numbers 2 p", "flag".
    purpose : str
        What it is for, in words that a security officer can read.
    default : object, default=MISSING
        Of the field. An array may be left out of a packet where this is None, a scalar where there is any.
    array : str, default=""
        Name in the packet, if not that of the field. Fields of the kind "shared" have it in common.
    of : str, default=""
        Field that positions are of or that is repeated, or the words that are allowed: "client augmented".
    least : float, default=None
        Least number of columns of a series, or least value of a scalar.

    Returns
    -------
    dataclasses.Field

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message import Message, wire
    >>> class Valve(Message, op="valve"):
    ...     '''Position of a valve.'''
    ...
    ...     position: np.ndarray = wire("series T k", "position, one row per time step")
    ...     stuck: bool = wire("flag", "whether it does not move", default=False)
    >>> packet = Valve(np.ones((3, 1)), stuck=True).to_packet(dtype="float32")
    >>> list(packet.arrays), packet.scalars
    (['position', 'position_scale'], {'stuck': True})
    >>> Valve.from_packet(packet).position.shape
    (3, 1)
    """
    name, *letters = kind.split()
    rule = Rule.kinds[name]
    shape = tuple(int(letter) if letter.isdigit() else letter for letter in letters)
    optional = default is None or (issubclass(rule, Scalar) and default is not MISSING)
    declared = rule(shape, purpose, optional, array, tuple(of.split()), rule.floor if least is None else least)
    return field(default=default, metadata={"wire": declared})


@dataclass_transform(frozen_default=True, field_specifiers=(wire,))
class Message:
    """Base of the types that cross the border between a unit and the server: frozen, every field declared.

    A subclass names its operation, ``class Valve(Message, op="valve")``. It may name the kind of message
    that answers it (`answer`), and arrays and scalars that come before the others in its packets (`first`;
    "dtype" there is the precision that the answer is to have). The first line of its docstring says in
    ledgers what it is for.

    Examples
    --------
    >>> from skfedcausal.message import Message
    >>> from skfedcausal.message.requests import FitRequest
    >>> issubclass(FitRequest, Message), FitRequest.OP, FitRequest.ANSWER.OP
    (True, 'fit', 'states')
    >>> FitRequest.from_packet(FitRequest(const=True).to_packet()).const
    True
    """

    OP: ClassVar[str]
    ANSWER: ClassVar[type["Message"] | None]
    OPENS: ClassVar[bool] = False  # whether it begins a fit
    NEW_ROUND: ClassVar[bool] = True  # whether it belongs to a round of its own
    LEARNED: ClassVar[bool] = False  # whether a plant is learned from the answer
    OF_RECORD: ClassVar[bool] = False  # whether it says of a record what a plant is learned from
    NEW_STATES: ClassVar[bool] = False  # whether the unit may answer about more states than before
    PURPOSE: ClassVar[str]
    PURPOSES: ClassVar[dict[str, str]]  # of every array and scalar in a packet
    _ARRAYS: ClassVar[list[Numbers]]
    _SCALARS: ClassVar[list[Scalar]]

    def __init_subclass__(cls, *, op: str, answer: type["Message"] | None = None, first: str = ""):
        rules: dict[str, Rule] = {}
        for name, each in vars(cls).items():
            if isinstance(each, Field):
                rule = each.metadata["wire"]
                array = rule.array or name
                also = tuple(other.format(array) for other in rule.beside)
                rule, same = replace(rule, op=op, name=name, array=array, also=also), rules.get(array)
                rules[array] = same.joined(rule) if isinstance(same, Shared) else rule
        if "dtype" in first.split():
            rules["dtype"] = Word((), "precision of the answer", True, "dtype", WIRE_DTYPES, 0, op, "dtype")
        ordered = [rules.pop(name) for name in first.split()] + list(rules.values())
        cls._ARRAYS = [rule for rule in ordered if isinstance(rule, Numbers)]
        cls._SCALARS = [rule for rule in ordered if isinstance(rule, Scalar)]
        cls.PURPOSES = {rule.array: rule.purpose + rule.rows for rule in ordered}
        for rule in ordered:
            cls.PURPOSES |= zip(rule.also, rule.beside.values(), strict=True)
        words = (cls.__doc__ or UNKNOWN).partition("\n")[0].rstrip(".")
        cls.PURPOSE = words[0].lower() + words[1:]
        cls.OP, cls.ANSWER = op, answer
        KINDS[op] = dataclass(frozen=True)(cls)

    @property
    def answer(self) -> type["Message"] | None:
        """Kind of message that answers this one."""
        return self.ANSWER

    def to_packet(self, round: int = 0, dtype: str = "float64") -> Packet:
        """Packet form, with series in the given precision.

        Parameters
        ----------
        round : int, default=0
        dtype : {"float64", "float32", "float16"}, default="float64"
            Precision of the series; of those in the answer, too, where the message says so.

        Returns
        -------
        Packet
        """
        arrays: dict[str, np.ndarray] = {}
        scalars: dict[str, int | float | str | bool] = {}
        own = vars(self)
        for rule in self._ARRAYS:
            if (value := own[rule.name]) is not None:
                rule.write(self, value, dtype, arrays)
        for scalar in self._SCALARS:
            if (value := own.get(scalar.name, dtype)) is not None:  # "dtype" is no field
                scalar.write(self, value, dtype, scalars)
        return Packet(self.OP, round, arrays, scalars)

    @classmethod
    def from_packet(cls, packet: Packet) -> Self:
        """Message in a packet.

        Parameters
        ----------
        packet : Packet

        Returns
        -------
        Message

        Raises
        ------
        PacketError
            If it is of another kind, or its arrays and scalars do not fit together, are not finite or cannot
            be meant.
        """
        known = vars(packet).get("_read")
        if type(known) is cls:
            return known
        if packet.op != cls.OP:
            raise PacketError(f"Packet {packet.op!r} came in place of {cls.OP!r}.")
        left, scalars = dict(packet.arrays), packet.scalars
        sizes: dict[str, int] = {}
        values: dict[str, Any] = {}
        for rule in cls._ARRAYS:
            if rule.array in left or not rule.optional:
                rule.read(left, sizes, values)
        if left:
            raise PacketError(f"Packet {cls.OP!r} does not carry arrays {sorted(left)}.")
        if cls._SCALARS:  # where there are none, others may ride on the packet
            needed = {rule.array for rule in cls._SCALARS if not rule.optional}
            known = {rule.array for rule in cls._SCALARS}
            if not needed <= scalars.keys() <= known:
                raise PacketError(f"Packet {cls.OP!r} has the scalars {sorted(scalars)}, expected {sorted(known)}.")
            for scalar in cls._SCALARS:
                if scalar.array in scalars:
                    scalar.read(scalars, sizes, values)
            values.pop("dtype", None)
        message = cls(**values)
        cls._check(message, packet)
        if not packet.arrays:  # a question: all units in this process read the same packet
            vars(packet)["_read"] = message
        return message

    def _check(self, packet):
        """Refuse what fits together and still cannot be meant."""


def purpose(op):
    """Purpose of a kind of packet."""
    return KINDS[op].PURPOSE if op in KINDS else UNKNOWN


def described(op, name, array):
    """Meaning, dtype, shape, bytes and rounding of one array of a packet, for ledgers."""
    purposes = KINDS[op].PURPOSES | RIDERS if op in KINDS else {}
    dtype = array.dtype.name
    return {
        "meaning": purposes.get(name, UNKNOWN),
        "dtype": dtype,
        "shape": list(array.shape),
        "bytes": code_size(array.size, array.dtype.itemsize, n_leading(array)),  # without its line in the header
        "rounding": _ROUNDING.get(dtype, "none, whole numbers"),
    }
