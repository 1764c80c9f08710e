"""What a part or a transport does wrong names the unit, the part and the rule."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from skfedcausal import Communication, FederatedGrangerEstimator, LinearAugmenter
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import ClientError, InProcessTransport, PacketError
from skfedcausal.privacy import Bounds, UnitNoise

from ..testing.test_clients import Duck
from ..testing.test_mechanisms import Plain
from ..testing.test_servers import Apart


@pytest.fixture(scope="module")
def X():
    return make_granger_plant(2, n_samples=300, n_states=2, random_state=0)[0]


class NarrowFilter(Duck):
    def filter(self, X, *, lengths=None):
        return super().filter(X, lengths=lengths)[:, :1]


class NoFilter(Duck):
    def filter(self, X, *, lengths=None):
        return None


class FewSensors(Duck):
    def measurements(self, states):
        return super().measurements(states)[:, :3]


class ShortMessage(Duck):
    def message(self, X, *, lengths=None, const=False, local_model=False):
        message = super().message(X, lengths=lengths, const=const, local_model=local_model)
        return replace(message, z=message.z[1:])


@pytest.mark.parametrize(
    ("client", "sentence"),
    [
        (NarrowFilter(), r"Unit 'unit1' .*`filter` of its NarrowFilter .* \(300, 1\), expected \(300, 2\)"),
        (NoFilter(), r"Unit 'unit1' .*`filter` of its NoFilter .* \(\), expected \(300, 2\)"),
        (FewSensors(), r"Unit 'unit1' .*`measurements` of its FewSensors .* \(300, 3\), expected \(300, 8\)"),
        (ShortMessage(), r"client of unit 'unit1' .* does not cut 299 rows"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_client_is_named_with_its_unit(X, client, sentence):
    with pytest.raises(ValueError, match=sentence):
        FederatedGrangerEstimator({"unit0": Duck(), "unit1": client}).fit(X)


def test_a_prediction_of_another_length_is_refused(X):
    class Short(Duck):
        def predict(self, X, *, lengths=None):
            return super().predict(X, lengths=lengths)[1:]

    est = FederatedGrangerEstimator(Short()).fit(X)
    with pytest.raises(PacketError, match=r"Unit 'unit0' .*`predict` of its Short .* \(299, 8\)"):
        est.predict(X, model="client")


def test_an_augmenter_is_named_with_its_unit(X):
    class Narrow(LinearAugmenter):
        def predict(self, Y, starts=(0,)):
            return super().predict(Y, starts)[:, :1]

    est = FederatedGrangerEstimator(augmenter=Narrow()).fit(X)
    with pytest.raises(PacketError, match=r"Unit 'unit0' .*`predict` of its Narrow .* \(300, 1\)"):
        est.predict(X)


class Linked(Apart):
    tests_links = True


class Nothing(Linked):
    def fit(self, messages):
        return self


class LosesUnit(Linked):
    def fit(self, messages):
        super().fit(messages)
        del self.state_slices_["unit1"]
        return self


class Infinite(Linked):
    def fit(self, messages):
        super().fit(messages)
        self.transition_ = self.transition_ * np.nan
        return self


class NoReply(Apart):
    tests_links = True

    def replies(self, messages):
        return super().replies(messages) | {"unit1": None}


class NoQuestion(Apart):
    tests_links = True

    def dialogue(self, names, inputs=False):
        yield {}


@pytest.mark.parametrize(
    ("server", "sentence"),
    [
        (Nothing(), "`fit` of Nothing left no `names_`"),
        (LosesUnit(), r"`state_slices_..unit1..` of LosesUnit is None, expected slice"),
        (Infinite(), r"`transition_` of Infinite has shape .* or is not finite"),
        (NoReply(), "`dialogue` of NoReply has a NoneType for unit 'unit1'"),
        (NoQuestion(), "`dialogue` of NoQuestion asked with a dict; yield an Ask"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_server_is_named(X, server, sentence):
    with pytest.raises((AttributeError, TypeError, ValueError), match=sentence):
        FederatedGrangerEstimator(server=server).fit(X)


class FlatNoise(Plain):
    def draw(self, shape, std, rng):
        return np.zeros(3)


class NoNoise(Plain):
    def noise_of(self, name, Y):
        return None


class SmallBall(Plain):
    def noise_of(self, name, Y):
        return UnitNoise(Bounds(np.zeros(2), np.ones(2), 3.0, 6.0), 2.0)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("mechanism", "sentence"),
    [
        (FlatNoise(), r"`draw` of FlatNoise gave noise of shape \(3,\), expected \(300, 8\)"),
        (NoNoise(), "`noise_of` of NoNoise gave unit 'unit0' a NoneType"),
        (SmallBall(), r"`noise_of` of SmallBall gave unit 'unit0' .* \(2,\) .* its 8 columns"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_mechanism_is_named(X, mechanism, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        FederatedGrangerEstimator(privacy=mechanism).fit(X)


def test_a_mechanism_without_accountant_can_be_planned(X):
    mechanism = Plain(std=2.0, clip_norm=40.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = FederatedGrangerEstimator(privacy=mechanism).plan(X)
    assert len(plan)
    assert len(mechanism.account) == 0


class Listing(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        return list(super().exchange(out).values())


class Junk(InProcessTransport):
    def exchange(self, out, *, timeout=None):
        return super().exchange(out) | {"unit1": b"junk"}


def test_a_transport_is_named(X):
    with pytest.raises(ClientError, match="`exchange` of the Listing gave a list"):
        FederatedGrangerEstimator(communication=Communication(transport=Listing)).fit(X)
    with pytest.raises(ClientError, match="Client 'unit1' answered with a bytes instead of a packet"):
        FederatedGrangerEstimator(communication=Communication(transport=Junk)).fit(X)
    with pytest.raises(TypeError, match="The transport is a NoneType without `clients`"):
        FederatedGrangerEstimator(communication=Communication(transport=lambda sites: None)).fit(X)
