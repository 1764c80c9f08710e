"""Messages of plants with inputs survive their way and refuse what does not fit."""

import numpy as np
import pytest

from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Packet, PacketError
from skfedcausal.message.states import EffectReply, FeedbackLaw, StateReply

RNG = np.random.default_rng(0)
Z, U = RNG.standard_normal((20, 2)), 1e3 * RNG.standard_normal((20, 3))


def message(**fields):
    return StateMessage(Z, np.eye(2)[None], None, (20,), **fields)


def sent(value, dtype="float64"):
    return type(value).from_packet(Packet.decode(value.to_packet(dtype=dtype).encode()))


@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 0), ("float32", 1e-6), ("float16", 1e-6)])
def test_inputs_travel_in_single_precision_at_least(dtype, rtol):
    came = sent(message(inputs=U), dtype)
    np.testing.assert_allclose(came.inputs, U, rtol=rtol, atol=rtol * np.abs(U).max())


def test_the_input_matrix_travels_with_the_model_only():
    assert message().with_inputs(U, np.ones((2, 3))).input_matrix is None
    own = message(transition=np.eye(2) / 2, process_cov=np.eye(2)).with_inputs(U, np.ones((2, 3)))
    np.testing.assert_array_equal(sent(own).input_matrix, np.ones((2, 3)))


@pytest.mark.parametrize(
    "fields",
    [
        {"inputs": U[:7]},
        {"inputs": np.where(U > 0, np.nan, U)},
        {"inputs": U[:, :0]},
        {"inputs": U, "input_matrix": np.ones((2, 2))},
        {"inputs": U, "input_matrix": np.ones((3, 3))},
    ],
)
def test_inputs_that_do_not_fit_are_refused(fields):
    with pytest.raises(PacketError):
        sent(message(**fields))


def test_replies_with_inputs():
    reply = StateReply(Z, np.eye(2), np.eye(2), input_matrix=np.ones((2, 3)), input_level=np.ones(2))
    came = sent(reply)
    np.testing.assert_array_equal(came.input_matrix, reply.input_matrix)
    np.testing.assert_array_equal(came.input_level, reply.input_level)


def test_replies_of_several_lags():
    reply = StateReply(Z, np.ones((2, 6)), np.eye(2), input_matrix=np.ones((2, 12)))
    came = sent(reply)
    np.testing.assert_array_equal(came.transition, reply.transition)
    np.testing.assert_array_equal(came.input_matrix, reply.input_matrix)


def test_effects_and_laws():
    effect = EffectReply(Z[:4], np.tile(np.diag([1.0, 2.0]), (4, 1, 1)))
    came = sent(effect)
    np.testing.assert_array_equal(came.states, effect.states)
    np.testing.assert_array_equal(came.covariances, effect.covariances)
    with pytest.raises(PacketError, match=r"packet .effect. has shape .*, expected \(4, 3\)"):
        sent(EffectReply(Z[:4], effect.covariances[:3]))
    law = FeedbackLaw(np.ones((3, 2)), np.zeros((3, 2)), np.eye(3))
    np.testing.assert_array_equal(sent(law).persistence, np.eye(3))
    with pytest.raises(PacketError):
        sent(FeedbackLaw(np.ones((3, 2)), np.zeros((3, 2)), np.eye(2)))
