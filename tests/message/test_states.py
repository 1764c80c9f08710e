"""Messages survive their packet form, in the precision asked for, and false ones are refused."""

from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Packet, PacketError
from skfedcausal.message.states import SmoothedReply, StateReply
from skfedcausal.statespace.observation import information

N, P, D = 40, 2, 5
UNIT_ROUNDOFF = {"float64": 0.0, "float32": 2.0**-24, "float16": 2.0**-11}
EPS = np.finfo(float).eps


def measurements(noise=1.0, missing=0.0, n_samples=N, seed=0):
    """Information series of a unit whose sensors have noise of the given variance, and all it may carry."""
    rng = np.random.default_rng(seed)
    C = rng.normal(size=(D, P))
    Y = rng.normal(size=(n_samples, P)) @ C.T + np.sqrt(noise) * rng.normal(size=(n_samples, D))
    Y[rng.random(Y.shape) < missing] = np.nan
    return information(Y, C, np.full(D, noise), with_const=True)


def state_message(lengths=(N,), **how):
    info = measurements(n_samples=sum(lengths), **how)
    return StateMessage(info.z, info.patterns, info.index, lengths)


def full_message():
    info = measurements(missing=0.1)
    return StateMessage(info.z, info.patterns, info.index, (15, N - 15), info.const, np.diag([0.9, -0.4]), np.eye(P))


def smoothed_reply(n_covariances=1):
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(n_covariances, P, P))
    return SmoothedReply(rng.normal(size=(N, P)), roots @ roots.swapaxes(1, 2))


def state_reply(predicted=True):
    rng = np.random.default_rng(0)
    return StateReply(
        rng.normal(size=(N, P)),
        np.array([[0.5, 0.1], [-0.2, 0.3]]),
        np.eye(P),
        rng.normal(size=(N, P)) if predicted else None,
    )


MESSAGES = {
    "complete": state_message(),
    "missing cells": state_message(missing=0.2),
    "one absent stretch": state_message(missing=1.0),
    "episodes": state_message(lengths=(1, 9, 30)),
    "with everything": full_message(),
    "smoothed, one covariance": smoothed_reply(),
    "smoothed, a covariance each": smoothed_reply(N),
    "reply": state_reply(),
    "reply without prediction": state_reply(predicted=False),
}


def through_bytes(message, dtype="float64"):
    packet = Packet.decode(message.to_packet(round=2, dtype=dtype).encode())
    assert (packet.op, packet.round) == (type(message).OP, 2)
    return type(message).from_packet(packet)


@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
def test_double_precision_changes_nothing(message):
    came = through_bytes(message)
    for field in fields(message):
        value, other = getattr(message, field.name), getattr(came, field.name)
        if value is None or field.name == "lengths":
            assert value == other
        elif field.name == "cross_term":
            assert (np.abs(value - other) <= half_a_step(value)).all()
        else:
            assert_array_equal(value, other)


def half_a_step(series):
    """Largest error of a cross term in a packet: half a step, and what keeps the mean."""
    return series.std(axis=0) / 4 * (1 + 4 / np.sqrt(3 * N))


def in_units(message):
    """The message in states scaled by powers of two to informations between one and four."""
    units = 2.0 ** np.floor(np.log2(np.sqrt(np.diag(message.information.mean_information))))
    return replace(message, z=message.z / units, patterns=message.patterns / np.outer(units, units))


def whitened(message):
    """``J^-1/2 z`` with J averaged over time: unit noise, the form in which series travel rounded."""
    message = in_units(message)
    values, vectors = np.linalg.eigh(message.information.mean_information)
    return message.z @ vectors / np.sqrt(values)


@pytest.mark.parametrize("missing", [0.0, 0.1])
@pytest.mark.parametrize("noise", [1e-200, 1e-12, 1e-3, 1.0, 1e4, 1e12, 1e200], ids="{:.0e}".format)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rounding_is_relative_to_each_whitened_value_whatever_the_noise(dtype, noise, missing):
    message = state_message(noise=noise, missing=missing)
    came = through_bytes(message, dtype)
    exact, rounded = whitened(message), whitened(replace(came, patterns=message.patterns))
    roundoff = UNIT_ROUNDOFF[dtype]
    smallest = roundoff * np.finfo(dtype).smallest_normal / 2**13  # values are scaled to at least 2**13
    condition = np.linalg.cond(in_units(message).information.mean_information)
    bound = roundoff * np.abs(exact) + (smallest + 100 * EPS * condition) * np.abs(exact).max(axis=0)
    assert (np.abs(exact - rounded) <= bound).all()
    rounding = UNIT_ROUNDOFF["float32"] if missing else EPS
    assert_allclose(came.patterns, message.patterns, rtol=2 * rounding)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_step_costs_one_number_of_the_given_precision_per_state(dtype):
    short, long = (state_message(lengths=(n,)).to_packet(dtype=dtype).nbytes for n in (1000, 3000))
    whole = 2000 * P * np.dtype(dtype).itemsize
    saved = whole - (long - short)  # a quarter of a byte or more of a longer number, see message.codes
    assert saved == 0 if dtype == "float16" else whole / 4 > saved >= 2000 * P / 4 - 100


def test_an_unseen_direction_of_the_state_stays_unseen_in_half_precision():
    rng = np.random.default_rng(0)
    C = np.column_stack([rng.normal(size=D), np.zeros(D)])
    info = information(rng.normal(size=(N, D)), C, np.ones(D))
    came = through_bytes(StateMessage(info.z, info.patterns, None, (N,)), "float16")
    assert_array_equal(came.z[:, 1], 0)
    assert_allclose(came.z[:, 0], info.z[:, 0], rtol=2 * UNIT_ROUNDOFF["float16"])


def test_a_silent_unit_has_a_message_in_half_precision():
    message = StateMessage(np.zeros((N, P)), np.zeros((1, P, P)), None, (N,))
    assert_array_equal(through_bytes(message, "float16").z, 0)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6], ids="{:.0e}".format)
@pytest.mark.parametrize(
    ("make", "name"), [(state_reply, "cross_term"), (state_reply, "predicted"), (smoothed_reply, "states")]
)
def test_replies_are_rounded_relatively_whatever_the_scale_of_the_states(make, name, scale):
    reply = make()
    reply = replace(reply, **{name: scale * getattr(reply, name)})
    came, exact = getattr(through_bytes(reply, "float16"), name), getattr(reply, name)
    relative = 2 * UNIT_ROUNDOFF["float16"] * np.abs(exact).max(axis=0)
    assert (np.abs(came - exact) <= (half_a_step(exact) if name == "cross_term" else relative)).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_a_step_of_a_cross_term_costs_four_bits_per_state(dtype):
    rng = np.random.default_rng(0)
    short, long = (
        replace(state_reply(predicted=False), cross_term=rng.normal(size=(n, P))).to_packet(dtype=dtype).nbytes
        for n in (1000, 9000)
    )
    assert long - short == pytest.approx(4 / 8 * 8000 * P, rel=0.01)  # a few numbers are beyond


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rounding_does_not_depend_on_the_units_of_each_state(dtype, missing):
    units = np.array([2.0**-40, 2.0**50])
    message = state_message(missing=missing)
    scaled = replace(message, z=message.z * units, patterns=message.patterns * np.outer(units, units))
    came, expected = through_bytes(scaled, dtype), through_bytes(message, dtype)
    assert_array_equal(came.z, expected.z * units)
    assert_array_equal(came.patterns, expected.patterns * np.outer(units, units))


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_moments_that_see_fewer_directions_than_there_are_states_are_accepted(dtype):
    message = state_message(missing=0.8)
    ranks = np.linalg.matrix_rank(message.patterns)
    assert set(ranks) == {0, 1, 2}
    came = through_bytes(message, dtype)
    assert_allclose(came.patterns, message.patterns, rtol=2 * UNIT_ROUNDOFF["float32"])


@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-300, 1e300], ids="{:.0e}".format)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_replies_of_any_size_travel(dtype, scale):
    reply = replace(state_reply(), cross_term=np.full((N, P), scale), predicted=None)
    came = through_bytes(reply, dtype).cross_term
    assert_allclose(came, scale, rtol=4 * EPS, atol=2.0**-1022 / 2**13)


# --- what is refused ------------------------------------------------------------------------------


def with_cell(value, position, new):
    value = np.array(value, dtype=float)
    value[position] = new
    return value


FULL = full_message().to_packet()
HALF = full_message().to_packet(dtype="float16")
SMOOTHED = smoothed_reply(N).to_packet()
REPLY = state_reply().to_packet()
ROUNDED = state_message(missing=0.2).to_packet(dtype="float16")
EMPTY_REPLY = Packet("reply", 1, REPLY.arrays | {"cross_term_level": np.zeros(0)})
ODD_REPLY = replace(
    state_reply(predicted=False), cross_term=np.ones((3, 1)), transition=np.eye(1), process_cov=np.eye(1)
).to_packet()
HALF_REPLY = state_reply().to_packet(dtype="float16")
STATELESS = Packet("states", 1, {"z": np.zeros((N, 0)), "lengths": np.array([N])})

REFUSED = {  # what came, the array that is changed, its new value, what the error must say
    "no series": (FULL, "z", None, "lacks the array 'z'"),
    "no patterns": (FULL, "patterns", None, "lacks the array 'patterns'"),
    "no lengths": (FULL, "lengths", None, "lacks the array 'lengths'"),
    "series of one dimension": (FULL, "z", np.zeros(N), r"'z'.*shape \(40,\), expected 2 dimensions"),
    "NaN in the series": (FULL, "z", with_cell(FULL.arrays["z"], (3, 1), np.nan), "'z'.*not finite"),
    "infinity in the series": (FULL, "z", with_cell(FULL.arrays["z"], (3, 1), np.inf), "'z'.*not finite"),
    "infinity in half precision": (HALF, "z", HALF.arrays["z"] * np.float16(np.inf), "'z'.*not finite"),
    "scale of another size": (HALF, "unscale", np.eye(P + 1), r"'unscale'.*\(3, 3\), expected \(2, 2\)"),
    "empty patterns": (FULL, "patterns", np.zeros((0, 3)), "no information matrix"),
    "patterns of another size": (FULL, "patterns", np.zeros((2, 4)), "4 elements, expected 3"),
    "NaN in the patterns": (FULL, "patterns", FULL.arrays["patterns"] * np.nan, "'patterns'.*not finite"),
    "patterns without index": (FULL, "index", None, r"patterns but no array 'index'"),
    "index too short": (FULL, "index", FULL.arrays["index"][1:], r"'index'.*\(39,\), expected \(40,\)"),
    "index out of range": (FULL, "index", np.full(N, 200, "u1"), r"'index' names pattern 200 of \d+"),
    "lengths that do not add up": (FULL, "lengths", np.array([15, 24]), r"\(15, 24\).*does not cut 40 rows"),
    "an empty episode": (FULL, "lengths", np.array([0, 40]), r"\(0, 40\).*does not cut 40 rows"),
    "a negative episode": (FULL, "lengths", np.array([-2, 42]), r"\(-2, 42\).*does not cut 40 rows"),
    "no episodes": (FULL, "lengths", np.zeros(0, "i8"), r"\(\).*does not cut 40 rows"),
    "const of another size": (FULL, "const", np.zeros(N + 1), r"'const'.*\(41,\), expected \(40,\)"),
    "infinite const": (FULL, "const", np.full(N, np.inf), "'const'.*not finite"),
    "transition of another size": (FULL, "transition", np.eye(3), r"'transition'.*expected \(2, 2\)"),
    "noise of another size": (FULL, "process_cov", np.eye(3), r"'process_cov'.*expected \(2, 2\)"),
    "smoothed: no states": (SMOOTHED, "states", None, "lacks the array 'states'"),
    "smoothed: NaN": (SMOOTHED, "states", np.full((N, P), np.nan), "'states'.*not finite"),
    "smoothed: covariances missing": (SMOOTHED, "packed", np.ones((7, 3)), "7 covariances for 40 time steps"),
    "smoothed: covariances too large": (SMOOTHED, "packed", np.ones((N, 6)), "6 elements, expected 3"),
    "reply: no cross term": (REPLY, "cross_term", None, "lacks the array 'cross_term'"),
    "reply: NaN": (REPLY, "cross_term_step", np.full(P, np.nan), "'cross_term_step'.*not finite"),
    "reply: rows that are not there": (REPLY, "length", np.array([N + 8]), r"'cross_term' .*48 rows"),
    "reply: more rows than numbers": (REPLY, "length", np.array([2**62]), r"'cross_term' .*rows of 2"),
    "reply: numbers for no place": (REPLY, "cross_term_beyond", np.array([99]), "'cross_term' .*beyond"),
    "reply: no transition": (REPLY, "transition", None, "lacks the array 'transition'"),
    "reply: transition too large": (REPLY, "transition", np.eye(3), r"'transition'.*expected \(2, 3\)"),
    "reply: half a lag": (REPLY, "transition", np.ones((2, 3)), "3 columns, no blocks of 2 states"),
    "reply: no lag": (REPLY, "transition", np.ones((2, 0)), "0 columns, no blocks of 2 states"),
    "reply: prediction too short": (REPLY, "predicted", np.ones((N - 1, P)), r"'predicted'.*\(39, 2\)"),
}

NOT_MEANT = {
    "negative index": (FULL, "index", with_cell(FULL.arrays["index"], 3, -1).astype("i8"), "index"),
    "fractional index": (FULL, "index", np.asarray(FULL.arrays["index"], dtype=float) * 0.5, "index"),
    "fractional lengths": (FULL, "lengths", np.array([15.4, 25.4]), "lengths"),
    "indefinite information": (FULL, "patterns", -FULL.arrays["patterns"], "patterns"),
    "indefinite process noise": (FULL, "process_cov", -np.eye(P), "process_cov"),
    "asymmetric process noise": (FULL, "process_cov", np.array([[1.0, 0.5], [0.0, 1.0]]), "process_cov"),
    "no states": (STATELESS, "patterns", np.zeros((1, 0)), "states"),
    "smoothed: indefinite covariance": (SMOOTHED, "packed", -SMOOTHED.arrays["packed"], "packed"),
    "smoothed: no states": (SMOOTHED, "states", np.zeros((N, 0)), "states"),
    "smoothed: one indefinite covariance": (
        SMOOTHED,
        "packed",
        with_cell(SMOOTHED.arrays["packed"], (17, 0), -1.0),
        "'packed'.*positive semidefinite",
    ),
    "reply: no states": (EMPTY_REPLY, "cross_term_step", np.zeros(0), "40 rows of 0 states"),
    "reply: less than no rows": (REPLY, "length", np.array([-8]), "-8 rows of 2 states"),
    "reply: a series as it is": (REPLY, "cross_term", np.zeros(N * P // 2), "float64, expected bits"),
    "reply: bits behind the end": (ODD_REPLY, "cross_term", ODD_REPLY.arrays["cross_term"] | 16, "its end"),
    "reply: indefinite noise": (REPLY, "process_cov", np.diag([1.0, -1e-3]), "'process_cov'.*semidefinite"),
    "reply: asymmetric noise": (REPLY, "process_cov", np.eye(P) + np.eye(P, k=1), "'process_cov'.*symmetric"),
    "series of whole numbers": (FULL, "z", np.ones((N, P), "i8"), "'z'.*dtype int64, expected real numbers"),
    "patterns of whole numbers": (
        FULL,
        "patterns",
        FULL.arrays["patterns"].astype("i8"),
        "'patterns'.*int64",
    ),
    "real episode lengths": (FULL, "lengths", np.array([15.0, 25.0]), "'lengths'.*whole numbers"),
    "an array that is not asked for": (FULL, "raw", np.ones((N, D)), r"does not carry.*'raw'"),
    "reply: an array too much": (REPLY, "z", np.ones((N, P)), r"does not carry.*'z'"),
    "units that overflow": (ROUNDED, "patterns_units", np.full(P, 1e200), "'patterns'.*not finite"),
    "units of another size": (ROUNDED, "patterns_units", np.ones(P + 1), r"'patterns_units'.*\(3,\)"),
    "step that overflows": (REPLY, "cross_term_step", np.full(P, 1.7e308), "'cross_term'.*not finite"),
    "scale that overflows": (HALF_REPLY, "predicted_scale", np.full(P, 1e307), "'predicted'.*not finite"),
    "scale of another size": (HALF_REPLY, "predicted_scale", np.ones(1), r"'predicted_scale'.*\(1,\)"),
    "scale of nothing": (HALF_REPLY, "predicted", None, r"does not carry.*'predicted_scale'"),
    "unscale that overflows": (HALF, "unscale", np.full((P, P), 1e307), "'z'.*not finite"),
}


def changed_packet(packet, name, value):
    arrays = {key: array for key, array in packet.arrays.items() if key != name}
    return Packet(packet.op, packet.round, arrays if value is None else arrays | {name: value})


KINDS = {kind.OP: kind for kind in (StateMessage, SmoothedReply, StateReply)}


@pytest.mark.parametrize(
    ("packet", "name", "value", "message"),
    [*REFUSED.values(), *NOT_MEANT.values()],
    ids=[*REFUSED, *(f"{why} (not meant)" for why in NOT_MEANT)],
)
def test_a_packet_whose_content_does_not_fit_or_cannot_be_meant_is_refused_by_name(packet, name, value, message):
    with pytest.raises(PacketError, match=message):
        KINDS[packet.op].from_packet(changed_packet(packet, name, value))


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
def test_mutated_packets_are_refused_or_hold_a_message(message, dtype):
    rng = np.random.default_rng(0)
    data = message.to_packet(round=2, dtype=dtype).encode()
    came = 0
    for _ in range(500):
        mutated = bytearray(data)
        for position in rng.integers(0, len(data), rng.integers(1, 4)):
            mutated[position] = rng.integers(0, 256)
        try:
            type(message).from_packet(Packet.decode(bytes(mutated)))
        except PacketError:
            continue
        came += 1
    assert came > 10  # some changes are numbers that can be meant


EXTREMES = [0.0, 5e-324, 1e-308, 1e-160, -1e-160, 1.0, -1.0, 1e160, -1e160, 1e308, -1e308]


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("message", MESSAGES.values(), ids=MESSAGES.keys())
def test_extreme_numbers_are_refused_or_hold_a_message(message, dtype):
    rng = np.random.default_rng(0)
    packet = message.to_packet(round=2, dtype=dtype)
    names = [name for name, value in packet.arrays.items() if value.dtype == float]
    for _ in range(200):
        arrays = {name: np.array(value) for name, value in packet.arrays.items()}
        for name in rng.choice(names, 2):
            value = arrays[name].reshape(-1)
            where = rng.integers(0, value.size, rng.integers(1, 3))
            value[where] = rng.choice(EXTREMES, len(where))
        try:
            came = type(message).from_packet(Packet.decode(Packet(packet.op, 2, arrays).encode()))
        except PacketError:
            continue
        assert all(np.isfinite(value).all() for value in vars(came).values() if value is not None)


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_layout_in_memory_does_not_reach_the_reader(dtype):
    message = full_message()
    turned = replace(
        message,
        z=np.asfortranarray(message.z),
        transition=message.transition.T.copy().T,
        const=message.const[::1],
    )
    came = StateMessage.from_packet(turned.to_packet(dtype=dtype))
    assert all(value.flags.c_contiguous for value in (came.z, came.patterns, came.transition, came.const))
    assert_array_equal(came.z, through_bytes(turned, dtype).z)


OTHERS = [
    (kind, packet)
    for kind in KINDS.values()
    for packet in (FULL, SMOOTHED, REPLY, Packet("done", 1))
    if packet.op != kind.OP
]


@pytest.mark.parametrize(("kind", "packet"), OTHERS, ids=lambda x: getattr(x, "op", None))
def test_a_packet_of_another_kind_is_refused(kind, packet):
    with pytest.raises(PacketError, match=f"Packet '{packet.op}' came in place of '{kind.OP}'"):
        kind.from_packet(packet)


@pytest.mark.parametrize("kind", KINDS.values())
def test_messages_are_frozen(kind):
    message = next(m for m in MESSAGES.values() if isinstance(m, kind))
    with pytest.raises(AttributeError):
        setattr(message, fields(message)[0].name, None)


# --- boundaries -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_units_of_one_state_and_replies_of_one_row_travel(dtype):
    one = StateMessage(np.ones((3, 1)), np.ones((1, 1, 1)), None, (1, 2))
    assert_allclose(through_bytes(one, dtype).z, one.z)
    reply = StateReply(np.array([[1.0, 2.0]]), np.eye(P), np.eye(P), np.array([[3.0, 4.0]]))
    came = through_bytes(reply, dtype)
    assert_array_equal(came.cross_term, reply.cross_term)
    assert_array_equal(came.predicted, reply.predicted)


def test_a_reply_of_no_row_is_no_message():
    arrays = {"length": np.array([0]), "cross_term": np.zeros(0, "u1"), "cross_term_beyond": np.zeros(0, "i8")}
    with pytest.raises(PacketError, match="has 0 rows of 2 states"):
        StateReply.from_packet(Packet("reply", 1, {**state_reply(predicted=False).to_packet().arrays, **arrays}))


@pytest.mark.parametrize(("n_patterns", "dtype"), [(1, "u1"), (2, "u1"), (256, "u1"), (257, "u2"), (65537, "u4")])
def test_positions_take_as_few_bytes_as_hold_the_last_of_them(n_patterns, dtype):
    index = np.array([0, n_patterns // 2, n_patterns - 1])
    message = StateMessage(np.ones((3, 1)), np.ones((n_patterns, 1, 1)), index, (3,))
    assert message.to_packet().arrays["index"].dtype == np.dtype(dtype)
    came = through_bytes(message)
    assert_array_equal(came.index, index)
    assert came.J.shape == (3, 1, 1)


@pytest.mark.parametrize("k", [-1, 2])
def test_an_index_names_patterns_that_are_there(k):
    arrays = {"z": np.ones((3, 1)), "patterns": np.ones((2, 1)), "index": np.array([0, k, 1]), "lengths": np.array([3])}
    with pytest.raises(PacketError, match=f"'index' names pattern {k} of 2"):
        StateMessage.from_packet(Packet("states", 1, arrays))


def test_a_message_about_no_row_is_refused():
    empty = StateMessage(np.zeros((0, 1)), np.ones((1, 1, 1)), None, ())
    with pytest.raises(PacketError, match=r"'lengths' is \(\), which does not cut 0 rows"):
        StateMessage.from_packet(empty.to_packet())
    indexed = replace(empty, index=np.zeros(0, int))
    with pytest.raises(PacketError, match="does not cut 0 rows"):
        StateMessage.from_packet(indexed.to_packet())


@pytest.mark.parametrize("share", [np.nextafter(-1.0, 0.0), -0.9999, 0.0, 0.5, 1.0])
def test_a_share_of_noise_is_between_none_of_the_own_and_all(share):
    reply = replace(state_reply(), noise_share=np.array([share]))
    assert_array_equal(through_bytes(reply).noise_share, [share])


@pytest.mark.parametrize("share", [-1.0, -1.5, np.nextafter(1.0, 2.0), 1.5, 2.0])
def test_none_of_the_own_and_more_than_all_is_no_share(share):
    reply = replace(state_reply(), noise_share=np.array([share]))
    with pytest.raises(PacketError, match=r"'noise_share' is .*, which is no share"):
        through_bytes(reply)


@pytest.mark.parametrize(("n_covariances", "fits"), [(0, False), (1, True), (2, False), (N - 1, False), (N, True)])
def test_smoothed_states_have_one_covariance_or_one_each(n_covariances, fits):
    reply = SmoothedReply(np.ones((N, P)), np.tile(np.eye(P), (n_covariances, 1, 1)))
    if fits:
        assert len(through_bytes(reply).covariances) == n_covariances
    else:
        with pytest.raises(PacketError, match=f"'packed' has {n_covariances} covariances for {N} time steps"):
            through_bytes(reply)


def test_rows_of_a_message_are_an_episode_with_all_that_belongs_to_them():
    message = replace(full_message(), inputs=np.arange(2.0 * N).reshape(N, 2), off_subspace=np.arange(1.0 * N))
    part = message.rows(5, 12)
    assert part.lengths == (7,)
    for name in ("z", "index", "const", "inputs", "off_subspace"):
        assert_array_equal(getattr(part, name), getattr(message, name)[5:12])
    for name in ("patterns", "transition", "process_cov", "input_matrix", "unpredicted"):
        assert getattr(part, name) is getattr(message, name)
    picked = message.at(np.array([9, 2, 3]), (1, 2))
    assert picked.lengths == (1, 2)
    assert_array_equal(picked.inputs, message.inputs[[9, 2, 3]])
    assert state_message().rows(0, 3).index is None


def test_how_inputs_act_is_told_with_the_rest_of_the_model_only():
    inputs, matrix = np.ones((N, 1)), np.ones((P, 1))
    with_model, without = full_message(), state_message()
    assert with_model.with_inputs(inputs, matrix).input_matrix is matrix
    told = without.with_inputs(inputs, matrix)
    assert told.inputs is inputs
    assert told.input_matrix is None
    assert without.with_inputs(None, matrix) is without


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_sensor_alone_sees_one_direction_after_rounding_too(dtype):
    """Half a bit in a thousand of information would be infinitely precise numbers of what nobody has seen."""
    c = np.random.default_rng(0).standard_normal((40, 1, 3))
    patterns = 1e3 * np.swapaxes(c, 1, 2) @ c
    message = StateMessage(np.ones((40, 3)), patterns, np.arange(40), (40,))
    came = StateMessage.from_packet(message.to_packet(dtype=dtype)).patterns
    values = np.linalg.eigvalsh(came)
    assert np.all(np.abs(values[:, :2]) < 1e-12 * values[:, 2:])
    assert_allclose(came, patterns, rtol=0, atol=2**-19 * np.abs(patterns).max())


def test_rows_that_follow_each_other_are_packets_of_their_own():
    rng = np.random.default_rng(0)
    first = StateMessage(rng.standard_normal((1, 3)), np.eye(3)[None], None, (1,), off_subspace=np.ones(1))
    for scale in (1e-300, 1e-3, 1.0, 1e5, 1e200):
        z, distance = rng.standard_normal((1, 3)) * [1.0, scale, 1.0], rng.random(1)
        row = first.next_row(z, distance)
        packet = row.to_packet(3)
        whole = replace(first, z=z, off_subspace=distance).to_packet(3)
        assert packet.encode() == whole.encode()
        assert packet.nbytes == len(packet.encode())
        for came in (StateMessage.from_packet(packet), StateMessage.from_packet(Packet.decode(packet.encode()))):
            assert_array_equal(came.z, z)
            assert_array_equal(came.patterns, np.eye(3)[None])
            assert came.lengths == (1,)
        assert row.to_packet(3, "float32").arrays["z"].dtype == np.float32
        assert "events" in replace(row, events=np.ones((1, 3), dtype=bool)).to_packet().arrays


@pytest.mark.parametrize(
    "wrong",
    [{"z": np.array([[np.nan, 1.0]])}, {"off_subspace": np.array([np.inf])}, {"patterns": -np.ones((1, 3))}],
)
def test_a_row_that_cannot_be_meant_is_refused_like_any_other(wrong):
    row = StateMessage(np.ones((1, 2)), np.eye(2)[None], None, (1,), off_subspace=np.ones(1)).to_packet()
    for _ in range(2):
        with pytest.raises(PacketError, match=r"finite|symmetric"):
            StateMessage.from_packet(Packet(row.op, row.round, row.arrays | wrong))
