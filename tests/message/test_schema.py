"""Every message is declared: frozen, written and read by its rules, and described in words."""

import re
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.message import Message, StateMessage, wire
from skfedcausal.message.packet import Packet, PacketError
from skfedcausal.message.requests import FlagMessage
from skfedcausal.message.schema import KINDS, UNKNOWN, Repeated, Scalar, described, purpose
from skfedcausal.message.training import (
    CorrectionMoments,
    GradientReply,
    LocalModel,
    PredictedStates,
    TrainingPlan,
    later_answer,
)

from ._samples import NAMES, SAMPLES
from .test_wire_format import KINDS_OF_PACKAGE

_PAGE = Path(__file__).parent.parent.parent / "docs" / "messages.rst"
KINDS_AND_IDS = {"argnames": "kind", "argvalues": sorted(KINDS_OF_PACKAGE, key=lambda kind: kind.OP)}


def same(one, other):
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other


@pytest.mark.parametrize("message", SAMPLES, ids=NAMES)
def test_double_precision_brings_back_every_field(message):
    packet = Packet.decode(message.to_packet(5).encode())
    assert (packet.op, packet.round) == (message.OP, 5)
    came = type(message).from_packet(packet)
    for field in fields(message):
        value, other = getattr(message, field.name), getattr(came, field.name)
        if field.name == "cross_term":
            assert np.abs(value - other).max() <= value.std(axis=0).max() / 4 * 1.01
        else:
            assert same(np.asarray(value) if field.name in ("rows", "roots") else value, other) or not len(value)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("message", SAMPLES, ids=NAMES)
def test_series_of_few_digits_survive_every_precision(message, dtype):
    came = type(message).from_packet(Packet.decode(message.to_packet(0, dtype).encode()))
    for field in fields(message):
        value, other = getattr(message, field.name), getattr(came, field.name)
        if field.name != "cross_term" and isinstance(value, np.ndarray):
            assert_array_equal(other, value)


@pytest.mark.parametrize(**KINDS_AND_IDS)
def test_kinds_are_frozen_and_declare_all_fields(kind):
    assert is_dataclass(kind)
    assert kind.__dataclass_params__.frozen
    assert issubclass(kind, Message)
    assert KINDS[kind.OP] is kind
    assert all("wire" in field.metadata for field in fields(kind))
    assert kind.ANSWER is None or issubclass(kind.ANSWER, Message)


def test_no_two_kinds_have_the_same_operation():
    assert len({kind.OP for kind in KINDS_OF_PACKAGE}) == len(KINDS_OF_PACKAGE)


@pytest.mark.parametrize("message", SAMPLES, ids=NAMES)
def test_everything_in_a_packet_has_a_purpose_in_words(message):
    for dtype in ("float64", "float16"):
        packet = message.to_packet(0, dtype)
        assert set(packet.arrays) | set(packet.scalars) <= set(type(message).PURPOSES)
        for name, array in packet.arrays.items():
            entry = described(packet.op, name, array)
            assert len(entry["meaning"]) > 3
            assert entry["meaning"] != UNKNOWN
            assert entry["shape"] == list(array.shape)
    assert purpose(message.OP)[0].islower()
    assert not purpose(message.OP).endswith(".")


def test_what_no_kind_declares_is_unknown():
    array = np.zeros((2, 2), dtype=np.int64)
    assert purpose("pump") == UNKNOWN
    assert described("pump", "z", array)["meaning"] == UNKNOWN
    assert described("pump", "added_noise", array)["meaning"] == UNKNOWN
    assert described("states", "raw", array)["meaning"] == UNKNOWN
    assert described("states", "lengths", array)["rounding"] == "none, whole numbers"


def test_the_noise_of_a_promise_may_ride_on_any_message():
    for op in ("states", "local-model"):
        assert described(op, "added_noise", np.ones(3))["meaning"].startswith("variance of the noise")


def test_what_scales_a_series_is_described_with_it():
    assert described("plan", "drivers_scale", np.ones(3))["meaning"] == "undoes the scaling of a rounded series"
    assert (
        described("states", "patterns_units", np.ones(3))["meaning"]
        == described("states", "unscale", np.ones(3))["meaning"]
    )


def rows_of_page():
    """Operation, type, answer and names of arrays and scalars in each row of the table of all kinds."""
    table = _PAGE.read_text(encoding="utf-8").split(".. csv-table::")[1]
    return [re.findall(r'"(.*?)"', line) for line in table.splitlines() if line.startswith('   "')]


def test_the_page_of_messages_lists_every_kind_with_all_that_is_in_its_packets():
    written = {}
    for op, kind, answer, names in rows_of_page():
        written[op] = (
            re.findall(r"`(?:~skfedcausal\.message\.)?(\w+)`", kind + answer),
            set(re.findall(r"``(\w+)``", names)),
        )
    expected = {}
    for kind in KINDS_OF_PACKAGE:
        types = [kind, *([kind.ANSWER] if kind.ANSWER else [])]
        expected[kind.OP] = [each.__name__ for each in types], set(kind.PURPOSES)
    assert written == expected


# --- reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", SAMPLES, ids=NAMES)
def test_arrays_that_are_not_declared_are_refused(message):
    packet = message.to_packet(1)
    more = Packet(packet.op, 1, {**packet.arrays, "raw": np.ones(3)}, packet.scalars)
    with pytest.raises(PacketError, match=rf"'{packet.op}' does not carry arrays \['raw'\]"):
        type(message).from_packet(more)


@pytest.mark.parametrize("message", SAMPLES, ids=NAMES)
def test_scalars_that_are_not_declared_are_refused_where_there_are_any(message):
    packet = message.to_packet(1)
    more = Packet(packet.op, 1, packet.arrays, {**packet.scalars, "more": 1})
    if any(isinstance(field.metadata["wire"], Scalar) for field in fields(message)):
        with pytest.raises(PacketError, match=rf"'{packet.op}' has the scalars .*'more'.*expected"):
            type(message).from_packet(more)
    else:  # wishes and promises ride
        type(message).from_packet(more)


@pytest.mark.parametrize("message", SAMPLES, ids=NAMES)
def test_what_a_packet_lacks_is_refused_by_name(message):
    packet, kind = message.to_packet(1, "float16"), type(message)
    for field in fields(kind):
        rule = field.metadata["wire"]
        name = rule.array or field.name
        arrays = {key: array for key, array in packet.arrays.items() if key != name}
        scalars = {key: value for key, value in packet.scalars.items() if key != name}
        if rule.optional or isinstance(rule, Repeated):
            continue
        expected = f"expected .*'{name}'" if name in packet.scalars else f"lacks the array '{name}'"
        with pytest.raises(PacketError, match=expected):
            kind.from_packet(Packet(packet.op, 1, arrays, scalars))


def test_equal_letters_stand_for_equal_sizes():
    packet = GradientReply(np.zeros((4, 2)), np.zeros((4, 2))).to_packet()
    for shape, expected in (((4, 3), r"\(4, 2\)"), ((5, 2), r"\(4, 2\)"), ((4,), r"\(4, 2\)")):
        other = Packet(packet.op, 0, {**packet.arrays, "augmented": np.zeros(shape)})
        with pytest.raises(PacketError, match=rf"'augmented' of packet 'gradient' has shape .*expected {expected}"):
            GradientReply.from_packet(other)
    blocks = Packet("local-model", 0, {"transition": np.zeros((2, 3))})
    with pytest.raises(PacketError, match=r"'transition'.*shape \(2, 3\), expected \(2, 2\)"):
        LocalModel.from_packet(blocks)
    with pytest.raises(PacketError, match=r"shape \(2,\), expected 2 dimensions"):
        LocalModel.from_packet(Packet("local-model", 0, {"transition": np.zeros(2)}))
    full = next(m for m in SAMPLES if isinstance(m, LocalModel) and m.input_matrix is not None).to_packet()
    with pytest.raises(PacketError, match=r"'input_matrix'.*shape \(2,\), expected 2 dimensions"):
        LocalModel.from_packet(Packet("local-model", 0, {**full.arrays, "input_matrix": np.zeros(2)}))


def test_an_array_of_something_else_is_refused():
    packet = Packet("gradient", 0, {"predicted": [[1.0]]})
    with pytest.raises(PacketError, match="'predicted' of packet 'gradient' is a list, expected an array"):
        GradientReply.from_packet(packet)


def test_moments_that_are_the_same_travel_once():
    cross = np.ones((2, 3))
    moments = CorrectionMoments(cross, cross, 1.0, 1.0, 0.5, 0.1)
    assert list(moments.to_packet().arrays) == ["cross", "progress"]
    came = CorrectionMoments.from_packet(moments.to_packet())
    assert came.cross_states is came.cross
    assert "cross_states" in replace(moments, cross_states=cross.copy()).to_packet().arrays


@pytest.mark.parametrize("name", ["input_matrix", "input_table"])
def test_a_local_model_has_the_table_of_its_inputs_with_their_matrix(name):
    model = next(m for m in SAMPLES if isinstance(m, LocalModel) and m.input_matrix is not None)
    with pytest.raises(PacketError, match="lacks one of the arrays 'input_matrix' and 'input_table'"):
        LocalModel.from_packet(replace(model, **{name: None}).to_packet())


@pytest.mark.parametrize("loss", [-1.0, "small", True, None])
def test_a_loss_that_cannot_be_meant_is_refused(loss):
    scalars = {} if loss is None else {"loss": loss}
    with pytest.raises(PacketError, match="loss"):
        PredictedStates.from_packet(Packet("predicted-states", 0, {"predicted": np.zeros((3, 2))}, scalars))


def test_a_plan_may_leave_out_what_has_a_default():
    packet = TrainingPlan("series", np.full(5, 0.1), xi=0.5).to_packet()
    scalars = {"mode": "series"}
    assert TrainingPlan.from_packet(Packet(packet.op, 0, packet.arrays, scalars)).xi == 0.0


# --- kinds of one's own ------------------------------------------------------------------------------------


@pytest.fixture
def pump():
    class Pump(Message, op="pump", answer=StateMessage, first="dtype"):
        """Speed of a pump.

        More about it.
        """

        speed: np.ndarray = wire("series T k", "speed of its shafts")
        turns: int = wire("count", "turns so far", least=3)
        names: tuple[str, ...] = wire("names k", "names of its shafts")
        level: float = wire("shared 1", "level", array="tank")
        area: float = wire("shared 1", "area", array="tank")
        kind: str = wire("word", "kind of the pump", of="radial axial", default="axial")

    yield Pump
    del KINDS["pump"]


def test_a_kind_of_ones_own_travels_as_it_declares(pump):
    with pytest.raises(KeyError, match="level"):

        class Broken(Message, op="pump", first="level"):
            """No array or scalar of that name."""

            height: float = wire("number", "height")

    message = pump(np.ones((3, 2)), 5, ("a", "b"), 0.5, 2.0, "radial")
    packet = Packet.decode(message.to_packet(1, "float16").encode())
    assert list(packet.arrays) == ["speed", "speed_scale", "tank"]
    assert list(packet.scalars) == ["dtype", "turns", "names", "kind"]
    came = pump.from_packet(packet)
    assert (came.turns, came.names, came.level, came.area, came.kind) == (5, ("a", "b"), 0.5, 2.0, "radial")
    assert purpose("pump") == "speed of a pump"
    assert pump.PURPOSES["tank"] == "level, area"
    assert pump.PURPOSES["speed"] == "speed of its shafts, one row per time step"
    assert message.answer is StateMessage
    with pytest.raises(AttributeError):
        message.turns = 6


def test_bits_of_no_row_are_no_message():
    packet = FlagMessage(np.zeros((1, 2), dtype=bool)).to_packet()
    arrays = {
        name: np.zeros(1, dtype=value.dtype) if name == "length" else value[:0] for name, value in packet.arrays.items()
    }
    with pytest.raises(PacketError, match="for 0 time steps"):
        FlagMessage.from_packet(Packet(packet.op, packet.round, arrays))


def test_which_messages_open_a_fit_and_which_count_as_rounds():
    """What is said of a plant once it is learned belongs to the round before."""
    kinds = {kind.__name__: kind for kind in KINDS_OF_PACKAGE}
    assert {name for name, kind in kinds.items() if kind.OPENS} == {"FitRequest", "SecureSumsRequest", "TrainRequest"}
    assert {name for name, kind in kinds.items() if not kind.NEW_ROUND} == {
        *("CommonRows", "LawRequest", "StateReply", "TrainingEnd"),
    }


# --- boundaries --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 9])
def test_flags_take_two_bits_a_row(n):
    pairs = np.random.default_rng(n).random((n, 2)) < 0.5
    packet = FlagMessage(pairs).to_packet()
    assert packet.arrays["bits"].nbytes == int(np.ceil(2 * n / 8))
    assert_array_equal(FlagMessage.from_packet(Packet.decode(packet.encode())).pairs, pairs)
    for size in (-1, 1):
        bits = np.zeros(packet.arrays["bits"].size + size, dtype=np.uint8)
        with pytest.raises(PacketError, match=rf"has {len(bits)} bytes of bits for {n} time steps"):
            FlagMessage.from_packet(Packet("flags", 0, {**packet.arrays, "bits": bits}))


def test_a_message_belongs_to_round_0_and_has_double_precision_unless_it_is_said():
    packet = GradientReply(np.full((3, 2), 0.1)).to_packet()
    assert packet.round == 0
    assert list(packet.arrays) == ["predicted"]
    assert packet.arrays["predicted"].dtype == float


def test_a_message_has_no_answer_and_declares_what_its_kind_says_of_least_values(pump):
    class Tank(Message, op="tank"):
        """Level of a tank."""

        levels: np.ndarray = wire("series T k", "levels")
        depth: float = wire("number", "depth")
        valves: int = wire("count", "number of valves")
        least: int = wire("count", "number of leaks", least=0)
        note: str = wire("word", "a note", default="")

    try:
        assert Tank.ANSWER is None
        assert (Tank.OPENS, Tank.NEW_ROUND) == (False, True)
        assert Tank.PURPOSE == "level of a tank"
        packet = Tank(np.zeros((2, 1)), 0.0, 1, 0).to_packet()
        assert Tank.from_packet(packet).note == ""
        assert isinstance(
            Tank.from_packet(Packet("tank", 0, packet.arrays, {**packet.scalars, "depth": 0})).depth, float
        )
        for name, value in (("depth", -1e-9), ("valves", 0), ("least", -1), ("note", 1)):
            with pytest.raises(PacketError, match=f"'{name}' of packet 'tank' is"):
                Tank.from_packet(Packet("tank", 0, packet.arrays, {**packet.scalars, name: value}))
        with pytest.raises(PacketError, match=r"'levels' of packet 'tank' has no states"):
            Tank.from_packet(Packet("tank", 0, {"levels": np.zeros((2, 0))}, packet.scalars))
        with pytest.raises(PacketError, match=r"'tank' has the scalars .*, expected"):
            Tank.from_packet(Packet("tank", 0, packet.arrays, {"depth": 1.0, "valves": 1}))  # no leaks
    finally:
        del KINDS["tank"]
    with pytest.raises(PacketError, match=r"'turns' of packet 'pump' is 2, expected a whole number, at least 3"):
        pump.from_packet(replace_scalar(pump(np.ones((3, 1)), 3, ("a",), 0.5, 2.0).to_packet(), turns=2))
    assert pump.from_packet(pump(np.ones((3, 1)), 3, ("a",), 0.5, 2.0).to_packet()).turns == 3


def replace_scalar(packet, **scalars):
    return Packet(packet.op, packet.round, packet.arrays, {**packet.scalars, **scalars})


def test_a_local_model_knows_its_sizes():
    bare, full = (m for m in SAMPLES if isinstance(m, LocalModel))
    assert (bare.n_states, bare.n_inputs) == (2, 0)
    assert (full.n_states, full.n_inputs) == (2, 3)


@pytest.mark.parametrize(
    ("mode", "constant", "kind"),
    [
        ("series", True, "predicted"), ("series", False, "augmented"), ("steps", True, "augmented"),
        ("steps", False, "augmented"), ("moments", True, "correction"), ("stationary", True, "blocks"),
    ],
)  # fmt: skip
def test_units_with_a_constant_send_predictions_alone_from_the_second_round_on(mode, constant, kind):
    assert later_answer(mode, constant) is KINDS[kind]


def test_words_for_every_precision_of_an_array_and_its_bytes():
    for kind, words in (("f8", "none"), ("f4", "24 significant bits"), ("f2", "11 significant bits")):
        entry = described("states", "z", np.full((16, 2), 0.1, kind))
        assert (entry["rounding"], entry["shape"], entry["dtype"]) == (words, [16, 2], np.dtype(kind).name)
    # one value of the leading byte: a table of it, and the other seven bytes of each of the 32 numbers
    assert described("states", "z", np.full((16, 2), 0.1))["bytes"] == 1 + 32 * 7
    assert described("states", "index", np.zeros(5, "u1"))["rounding"] == "none, whole numbers"
