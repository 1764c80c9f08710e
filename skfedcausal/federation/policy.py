"""What a site lets whoever holds its key ask, and what could be learned by asking all of it."""

import tomllib
from collections import Counter
from dataclasses import dataclass, replace
from importlib.resources import files
from numbers import Integral
from typing import Self

from ..message.packet import Packet
from ..message.schema import KINDS
from ..message.states import MOST_SUMS, n_named
from .tuning import TUNING

ANY = "*"
_TABLES = tomllib.loads(files(__package__).joinpath("policy.toml").read_text("utf-8"))
# names that users know, and the operations of packets that they need
OPERATIONS: dict[str, tuple[str, ...]] = {name: tuple(needed) for name, needed in _TABLES["operations"].items()}
RULES: dict[str, str] = _TABLES["rules"]
_LIMITS = ("total_bytes", "rows", "states")
_TRAINING = OPERATIONS["train"] + OPERATIONS["network-plan"]
_NEW_MODELS = frozenset(("refine", "inputs", *_TRAINING)) - {"finish", "networks trained"}
_BY_THE_MODEL = frozenset(("message", "predict", "loss", "flag"))  # answers by the model as it is then
_ALL_SENSORS = frozenset(("factual",))
_DISTANCES = frozenset(("message", "flag"))
_STATES = ("z", "filtered", "augmented", "predicted", "sensors")  # series of states in answers


class ExactStatesWarning(UserWarning):
    """States of a unit are as many as its sensors that move, so that these sensors follow from them exactly.

    A fit in one process may do so; a site needs `allow_exact` in its policy.
    """


def tells_exactly(n_states, n_sensors):
    """Whether the sensors of a unit that move follow from its states exactly; what stands still tells nothing."""
    return 0 < n_sensors <= n_states


class PolicyError(RuntimeError):
    """What a site's policy does not allow; nothing was computed or sent.

    `rule` is the key of ``[policy]`` that would allow it.
    """

    def __init__(self, site, rule, op, text):
        super().__init__(f"The policy of site {site!r} refused {op!r}: {text}")
        self.rule = rule


def allowing(rule, op):
    """How a site would allow an operation that a rule of its policy refused."""
    return RULES[rule].format(op=op)


class Answered(Counter):
    """How many questions of every operation were answered in a run, and about how many rows the unit answers."""

    n_rows = n_whole = 0

    def add(self, question, answer):
        """Count a question and what was answered."""
        self[question.op] += 1
        sized = question if question.op == "rows" else answer
        if "lengths" in sized.arrays:
            self.n_rows = int(sized.arrays["lengths"].sum())
            self.n_whole = max(self.n_whole, self.n_rows)

    @property
    def has_read(self):
        """Whether the unit was asked for more than its first message."""
        return not set(self) <= {"fit", "verdict"}

    def tell_rows(self, numbers):
        """Whether so many numbers about the rows that are left say much about single ones."""
        return self.n_rows < min(TUNING.policy_least_share * self.n_whole, TUNING.policy_rows_a_number * numbers)


@dataclass(frozen=True)
class SitePolicy:
    """What a site answers to whoever holds its key; by default one fit in one round of one run.

    Attributes
    ----------
    operations : tuple of str
        What is answered besides a fit in one round: names of queries ("predict", "whatif", "test_links"), of
        training ("train", "network-plan"), of further rounds ("refine"), of any number of sensors that units share
        ("sensors"; two of them are part of every fit), of monitoring ("watch"), or of single messages. ``"*"`` answers
        everything. Messages that this library does not declare are none of the policy's business: a worker of your own
        that knows them decides.
    rounds : int or None
        Rounds of learning in one run: questions that make the unit identify, refine or train its model. None
        sets no limit, and only then does a server that goes on for as long as rounds help ask for "refine".
    runs : tuple of str
        Names of the runs that are answered. If empty the first run that the site answers is its only one;
        ``"*"`` answers every run.
    total_bytes : int or None
        Most bytes that may leave in all runs together, envelopes included.
    rows : int or None
        Most rows that one answer may be about.
    states : int or None
        Most states that an answer may have.
    allow_exact : bool
        Whether states may leave that are as many as the sensors of the unit that move: these sensors follow from them
        exactly, so by default they do not.

    See Also
    --------
    Gate : Holds a unit to it.

    Notes
    -----
    Every operation that makes the unit read its record with a model that the server had a hand in ("refine",
    training, "message" after a reply) gives the holder of the key further projections of the same rows. As
    many as there are sensors, and the record follows from them exactly; :meth:`worst_case` counts them.

    How inputs follow measurements is a regression on the raw rows: two of them about nearly the same rows tell of the
    rows between. So a fit can leave out rows ("rows") once, before any other question, and ask for the law ("ask law")
    once, about half of the record or 50 rows for each number of the law. It can name two sensors that others seem to
    read as well ("sensors"), once in a run: these leave the unit as they are. Which ones is told from the sketch of the
    first message, at most 50 sums of ten rows or more of what the states and the unit's own past leave of each sensor.
    Nobody may name sensors of a site that answers every run, or sets a limit of `states`. Name these operations in
    `operations` to lift that.

    Examples
    --------
    >>> from skfedcausal.federation import SitePolicy
    >>> SitePolicy().worst_case(n_states=2, n_sensors=8).rank
    4
    >>> SitePolicy(operations=("refine",), rounds=4).worst_case(n_states=2, n_sensors=8).exact
    True
    """

    operations: tuple = ("fit",)
    rounds: int | None = 1
    runs: tuple = ()
    total_bytes: int | None = None
    rows: int | None = None
    states: int | None = None
    allow_exact: bool = False

    def __post_init__(self):
        if not isinstance(self.allow_exact, bool):
            raise ValueError(f"allow_exact={self.allow_exact!r} of the policy; give true or false.")
        for name in ("operations", "runs"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(one, str) for one in value):
                raise ValueError(f"{name}={value!r} of the policy; give a list of names.")
            object.__setattr__(self, name, tuple(value))
        unknown = [name for name in self.operations if name not in (ANY, *OPERATIONS, *KINDS)]
        if unknown:
            raise ValueError(f"operations={unknown!r} of the policy are not known; known are {sorted(OPERATIONS)}.")
        for name in ("rounds", "total_bytes", "rows", "states"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < 1):
                raise ValueError(f"{name}={value!r} of the policy; give a number from 1.")

    @classmethod
    def unlimited(cls) -> Self:
        """Policy that allows everything: whoever asks can learn the whole record.

        Returns
        -------
        SitePolicy
        """
        return cls(operations=(ANY,), rounds=None, runs=(ANY,), allow_exact=True)

    def for_run(self, run: str | None) -> Self:
        """The policy of a site whose settings name its run.

        Parameters
        ----------
        run : str or None

        Returns
        -------
        SitePolicy
        """
        return self if run is None or self.runs else replace(self, runs=(run,))

    def and_watching(self) -> Self:
        """The policy of a site that names a record to be monitored.

        Returns
        -------
        SitePolicy
        """
        return replace(self, operations=(*self.operations, "watch"))

    @property
    def allowed(self) -> frozenset[str] | None:
        """Operations of packets that are answered, a frozenset; None where all are."""
        if ANY in self.operations:
            return None
        names = ("fit", *self.operations)
        return frozenset(op for name in names for op in (name, *OPERATIONS.get(name, ())))

    def narrowed(self, packet: Packet) -> Packet:
        """A question as the unit gets to see it: without offers of more rounds than are allowed.

        Parameters
        ----------
        packet : Packet

        Returns
        -------
        Packet
        """
        if packet.op != "fit":
            return packet
        allowed, refused = self.allowed, []
        if self.rounds is not None or (allowed is not None and "refine" not in allowed):
            refused.append("refine")
        if allowed is not None and not {"inputs", "message"} <= allowed:
            refused.append("orders")
        if not self._names_sensors:
            refused.append("sketch")
        scalars = {name: value for name, value in packet.scalars.items() if name not in refused}
        return packet if scalars == packet.scalars else replace(packet, scalars=scalars)

    def in_words(self) -> str:
        """The policy as the ledger has it.

        Returns
        -------
        str
        """
        limits = [f"{name} {getattr(self, name)}" for name in _LIMITS if getattr(self, name) is not None]
        rounds = "any number of" if self.rounds is None else self.rounds
        runs = f"runs {', '.join(self.runs)}" if self.runs else "the first run"
        exact = ["as many states as sensors"] if self.allow_exact else []
        return "; ".join([f"operations {', '.join(self.operations)}", f"{rounds} rounds", runs, *limits, *exact])

    # -- at the door -----------------------------------------------------------------------------

    def check_run(self, site: str, packet: Packet, run: str, first: str | None) -> None:
        """Refuse a question of a run that is not to be answered.

        Parameters
        ----------
        site : str
        packet : Packet
        run : str
            Of the question.
        first : str or None
            The first run that the site answered.

        Raises
        ------
        PolicyError
        """
        named = ANY in self.runs or run in self.runs
        if packet.op in KINDS and not (named or (not self.runs and first in (None, run))):
            self._refuse(site, "runs", packet.op)

    def check_question(self, site: str, packet: Packet, answered: Answered) -> None:
        """Refuse a question that is not to be answered.

        Parameters
        ----------
        site : str
        packet : Packet
        answered : Answered
            How many questions of every operation were answered in this run.

        Raises
        ------
        PolicyError
        """
        op, allowed = packet.op, self.allowed
        if op not in KINDS or (op == "effect" and packet.scalars.get("keep") is True):  # it stays at the site
            return
        if allowed is not None and op not in allowed:
            self._refuse(site, "operations", op)
        if allowed is not None and op == "fit" and packet.scalars.get("const") and "message" not in allowed:
            self._refuse(site, "operations", "message")  # constants tell how far every row is from the model
        again = {
            "rows": answered.has_read,
            "sensors": answered["sensors"] > 0 or not self._names_sensors,
            "ask law": answered["ask law"] > 0,
        }
        if not self._lifts(op) and again.get(op, False):
            self._refuse(site, "once", op)
        if self.rounds is None:
            return
        rounds = sum(number for one, number in answered.items() if _is_round(one))
        replies = answered.get(op, 0) if op in ("reply", "finish", "networks trained") else 0
        if (_is_round(op) and rounds >= self.rounds) or replies >= self.rounds:
            self._refuse(site, "rounds", op)

    def check_answer(self, site: str, question: Packet, answer: Packet, answered: Answered, n_sensors: int = 0) -> None:
        """Refuse to send an answer that is about too much, or about too few rows.

        Parameters
        ----------
        site : str
        question, answer : Packet
        answered : Answered
            What was answered before in this run.
        n_sensors : int, default=0
            Sensors of the record that move, 0 where states cannot tell them: under noise, or without a record.

        Raises
        ------
        PolicyError
        """
        arrays = answer.arrays
        rows = max((len(value) for value in arrays.values() if value.ndim), default=0)
        states = max((arrays[name].shape[1] for name in _STATES if name in arrays and arrays[name].ndim > 1), default=0)
        for rule, number in (("rows", rows), ("states", states)):
            most = getattr(self, rule)
            if most is not None and number > most:
                self._refuse(site, rule, question.op)
        if tells_exactly(states, n_sensors) and not self.allow_exact:
            self._refuse(site, "allow_exact", question.op)
        numbers = sum(array.size for array in arrays.values())
        if answer.op == "law" and not self._lifts(question.op) and answered.tell_rows(numbers):
            self._refuse(site, "once", question.op)

    def _lifts(self, op):
        """Whether the policy itself names an operation that a fit asks for once."""
        return ANY in self.operations or op in self.operations

    @property
    def _names_sensors(self):
        """Whether a server may name a few sensors: not where it could do so in any number of runs, or of few states."""
        return self._lifts("sensors") or (ANY not in self.runs and self.states is None)

    def _refuse(self, site, rule, op):
        raise PolicyError(site, rule, op, f"{allowing(rule, op)}.")

    # -- the worst case --------------------------------------------------------------------------

    def worst_case(
        self, n_states: int, n_sensors: int, *, monitored: bool = False, n_records: int = 1, n_inputs: int = 0
    ) -> "WorstCase":
        """The most that the holder of the key can learn of a row, whatever it asks and in whatever order.

        Parameters
        ----------
        n_states : int
            The most states that a message of the unit has.
        n_sensors : int
        monitored : bool, default=False
            Whether messages may also tell what the states do not show.
        n_records : int, default=1
            Forms of the record that are asked about: one more for each time that it was put right in a run.
        n_inputs : int, default=0
            Inputs of the unit, as they are sent.

        Returns
        -------
        WorstCase
        """
        ops = self.allowed
        several = ANY in self.runs or self.rounds is None
        rounds = float("inf") if several else max(len(self.runs), 1) * (self.rounds or 1)
        models = min(rounds, 2.0 if monitored else 1.0)  # the same fit twice says the same
        if ops is None or ops & _NEW_MODELS:
            models = rounds
        if ops is None or ops & _BY_THE_MODEL:
            models += rounds  # a reply changes what the unit's model makes of the record
        everything = ops is None or bool(ops & _ALL_SENSORS) or self._lifts("sensors")
        named = max(len(self.runs), 1) * n_named(n_states, n_sensors) if self._names_sensors else 0
        rank = n_sensors if everything else int(min(n_sensors, models * n_states * n_records + named))
        distances = models * n_records if monitored or ops is None or ops & _DISTANCES else 0
        laws = float("inf") if self._lifts("ask law") or ANY in self.runs else max(len(self.runs), 1)
        numbers = laws * n_inputs * (2 * n_states + n_inputs) if n_inputs else 0
        counted = None if numbers == float("inf") else int(numbers)
        exact = rank + distances >= n_sensors or counted is None
        return WorstCase(rank, n_sensors, exact, counted, MOST_SUMS if named and not exact else 0)


def _is_round(op):
    """Whether answering makes the unit learn once more."""
    return op == "fit" or (op in _NEW_MODELS and KINDS[op].NEW_ROUND)


@dataclass(frozen=True)
class WorstCase:
    """What could be learned of a record by asking all that a policy allows.

    Attributes
    ----------
    rank : int
        Independent projections of every row.
    n_sensors : int
    exact : bool
        Whether the rows follow from what is known.
    numbers : int or None, default=0
        What tells how inputs follow measurements, each about most rows: of single rows at most as many values follow
        from them. None where there is no limit.
    sums : int, default=0
        Sums of ten rows or more, of each sensor, of what the projections and the unit's own past leave.

    Examples
    --------
    >>> from skfedcausal.federation import SitePolicy
    >>> SitePolicy().worst_case(2, 8).in_words().partition(".")[0]
    '4 of 8 projections of every row and, of each sensor, 50 sums of ten rows or more of what they leave'
    """

    rank: int
    n_sensors: int
    exact: bool
    numbers: int | None = 0
    sums: int = 0

    def in_words(self) -> str:
        """The worst case in words.

        Returns
        -------
        str
        """
        known = f"{self.rank} of {self.n_sensors} projections of every row"
        if self.numbers != 0:
            known += _TABLES["known"]["numbers"].format("any number of" if self.numbers is None else self.numbers)
        if self.sums:
            known += _TABLES["known"]["sums"].format(self.sums)
        return known + _TABLES["known"]["exact" if self.exact else "guessed"].format(self.n_sensors + 1)
