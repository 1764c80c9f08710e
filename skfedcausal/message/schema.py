"""Messages that declare their fields, of which their packets and the words of ledgers follow."""

from dataclasses import MISSING, Field, dataclass, field, replace
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np

from .codes import code_size, n_leading
from .fields import Numbers, Rule, Scalar, Shared, Word
from .packet import Packet, PacketError

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
        How it travels, a kind of ``skfedcausal.message.fields``, and for an array the letters of its
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
