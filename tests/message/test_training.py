"""Plans of training survive their packet form, and those that cannot be meant are refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal.federation import Packet, PacketError
from skfedcausal.message.training import TrainingPlan


def plan(**told):
    return TrainingPlan("moments", np.full(5, 0.01), **{"xi": 1, "ridge": 0.5, "n_inputs": 1} | told)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_drivers", [0, 3])
def test_a_plan_with_drivers_comes_as_it_was_sent(dtype, n_drivers):
    sent = plan(drivers=np.random.default_rng(0).normal(size=(20, n_drivers)))
    came = TrainingPlan.from_packet(Packet.decode(sent.to_packet(dtype=dtype).encode()))
    assert (came.mode, came.xi, came.ridge, came.n_inputs, came.warm_up) == ("moments", 1.0, 0.5, 1, 0)
    assert_array_equal(came.rates, sent.rates)
    tolerance = {"float64": 0.0, "float32": 2.0**-24}[dtype]
    assert_allclose(came.drivers, sent.drivers, rtol=tolerance)


@pytest.mark.parametrize(
    "told",
    [
        {"xi": "much"}, {"xi": -1.0}, {"ridge": True}, {"n_inputs": 2.7}, {"n_inputs": -3},
        {"warm_up": "long"}, {"warm_up": 3}, {"mode": "by heart"}, {"mode": 1}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_scalars_that_cannot_be_meant_are_refused(told):
    packet = plan().to_packet()
    name = "how to train" if set(told) & {"mode"} or told == {"warm_up": 3} else next(iter(told))
    with pytest.raises(PacketError, match=name):
        TrainingPlan.from_packet(Packet(packet.op, 1, packet.arrays, {**packet.scalars, **told}))


def test_scales_that_do_not_belong_to_the_drivers_are_refused():
    arrays = plan(drivers=np.zeros((4, 2))).to_packet().arrays
    for more in ({"drivers_scale": np.ones(3)}, {"drivers_scale": np.array([1.0, np.inf])}):
        packet = Packet(TrainingPlan.OP, 1, arrays | more, plan().to_packet().scalars)
        with pytest.raises(PacketError, match="drivers"):
            TrainingPlan.from_packet(packet)


def test_a_plan_weighs_and_counts_nothing_unless_it_says_so():
    bare = TrainingPlan("series", np.ones(5))
    assert (bare.xi, bare.ridge, bare.drivers, bare.n_inputs, bare.warm_up, bare.warm_rates) == (0, 0, None, 0, 0, None)
    assert TrainingPlan.from_packet(bare.to_packet()).xi == 0.0


@pytest.mark.parametrize(("warm_up", "warm_rates"), [(0, np.ones(5)), (1, None)])
def test_rounds_of_the_first_phase_and_their_step_sizes_come_together(warm_up, warm_rates):
    TrainingPlan.from_packet(plan(warm_up=1, warm_rates=np.ones(5)).to_packet())
    with pytest.raises(PacketError, match="does not say how to train"):
        TrainingPlan.from_packet(plan(warm_up=warm_up, warm_rates=warm_rates).to_packet())
