"""`check_mechanism` passes our mechanisms, and names the rule that a wrong one breaks."""

import numpy as np
import pytest

from skfedcausal import GaussianMechanism, PrivacyAccountant, RandomizedResponse
from skfedcausal.papers import TrainingMechanism
from skfedcausal.privacy import Bounds, Charge, NoiseOptions, Release, Scope, UnitNoise
from skfedcausal.privacy.calibration import clipped
from skfedcausal.privacy.mechanism import PrivacyMechanism
from skfedcausal.testing import check_mechanism

from ..privacy._strangers import LaplaceMechanism, RoundingMechanism

GAUSSIAN = {"delta": 1e-5, "clip_norm": 3.0}


class Plain(PrivacyMechanism):
    """Noise of a given size on rows of a given length: as small as a mechanism can be."""

    scope = Scope("event")

    def __init__(self, std=2.0, clip_norm=3.0):
        self.std, self.clip_norm = std, clip_norm

    def noise_of(self, name, Y):
        d = Y.shape[1]
        return UnitNoise(Bounds(np.zeros(d), np.ones(d), self.clip_norm, 2 * self.clip_norm), self.std)


@pytest.mark.parametrize(
    "mechanism",
    [
        Plain(), LaplaceMechanism(epsilon=2.0, clip_norm=3.0),
        RoundingMechanism(std=2.0, step=0.5, clip_norm=3.0),
        GaussianMechanism(epsilon=4.0, **GAUSSIAN), GaussianMechanism(mu=0.5, clip_norm=3.0),
        GaussianMechanism(epsilon=4.0, delta=1e-5, clip_norm={"a": 1.0, "b": 2.0}),
        GaussianMechanism(epsilon=4.0, protects=Scope("window", window=5, relation="zero_out"), **GAUSSIAN),
        GaussianMechanism(epsilon=4.0, protects="client", **GAUSSIAN),
        GaussianMechanism(
            epsilon=4.0, event_radius=0.5, noise=NoiseOptions(center=[1, 2, 3], scale=[1, 10, 0.1]), **GAUSSIAN
        ),
        GaussianMechanism(epsilon=4.0, delta=1e-5),
        TrainingMechanism(epsilon=1.0, **GAUSSIAN, protocol="paper"),
        TrainingMechanism(epsilon=1.0, delta=1e-5, trust="server", gradient_clip=1.0),
        RandomizedResponse(epsilon=1.0), RandomizedResponse(epsilon=1.0, unit="event"),
    ],
    ids=lambda m: type(m).__name__,
)  # fmt: skip
def test_mechanisms_pass(mechanism):
    before = repr(mechanism)
    check_mechanism(mechanism)
    assert repr(mechanism) == before


def test_nothing_is_charged_to_the_account_of_the_one_who_asks():
    account = PrivacyAccountant(epsilon=4.0, delta=1e-5)
    check_mechanism(GaussianMechanism(epsilon=4.0, **GAUSSIAN, accountant=account))
    assert len(account) == 0


class NoNoise(Plain):
    def draw(self, shape, std, rng):
        return np.zeros(shape)


class LessNoise(Plain):
    def draw(self, shape, std, rng):
        return 0.9 * super().draw(shape, std, rng)


class MoreNoise(Plain):
    def draw(self, shape, std, rng):
        return 1.1 * super().draw(shape, std, rng)


class Biased(Plain):
    def draw(self, shape, std, rng):
        return super().draw(shape, std, rng) + 0.3 * std


class SameForAll(Plain):
    def draw(self, shape, std, rng):
        return super().draw(shape, std, np.random.default_rng(0))


class SameForTwoUnits(Plain):
    """A stream of noise by the record alone, not by the unit."""

    def noised(self, Y, noise, rng, out=None):
        return super().noised(Y, noise, np.random.default_rng(abs(int(1e6 * np.nansum(Y)))), out)


class Repeats(Plain):
    def draw(self, shape, std, rng):
        return np.repeat(super().draw((-(-shape[0] // 2), shape[1]), std, rng), 2, axis=0)[: shape[0]]


class OneColumn(Plain):
    def draw(self, shape, std, rng):
        return np.tile(super().draw((shape[0], 1), std, rng), (1, shape[1]))


class Unclipped(Plain):
    def noised(self, Y, noise, rng, out=None):
        return Y + self.draw(Y.shape, noise.std, rng)


class FillsGaps(Plain):
    def noised(self, Y, noise, rng, out=None):
        return super().noised(np.nan_to_num(Y), noise, rng, out)


class SpreadsGaps(Plain):
    def noised(self, Y, noise, rng, out=None):
        return super().noised(np.where(np.isnan(Y).any(axis=1)[:, None], np.nan, Y), noise, rng, out)


class InPlace(Plain):
    def noised(self, Y, noise, rng, out=None):
        Y += super().noised(Y, noise, rng, out) - Y
        return Y


class Short(Plain):
    def noised(self, Y, noise, rng, out=None):
        return super().noised(Y, noise, rng, out)[1:]


class Free(Plain):
    def charge_of(self, name, noise, n_samples):
        return Charge(name, self.channel, self.law)


class Cheap(Plain):
    def charge_of(self, name, noise, n_samples):
        charge = super().charge_of(name, noise, n_samples)
        return Charge(name, self.channel, self.law, mu=charge.mu / 2)


class CheapLaplace(LaplaceMechanism):
    def charge_of(self, name, noise, n_samples):
        charge = super().charge_of(name, noise, n_samples)
        return Charge(name, self.channel, self.law, epsilon=charge.epsilon / 10)


class Twice(Plain):
    def release(self, records, /, lengths, *, noise=None):
        plans = [self._plan(name, Y, lengths) for name, Y in records.items()]
        self.account.charge([plan.paid for plan in plans], self.scope)
        return super().release(records, lengths, noise=noise)


class Forgetful(Plain):
    """Draws anew whenever the same record is asked for."""

    def release(self, records, /, lengths, *, noise=None):
        self.account.forget()
        return super().release(records, lengths, noise=noise)


class Uncharged(Plain):
    def release(self, records, /, lengths, *, noise=None):
        rng = np.random.default_rng()
        return {
            name: Release(self.noised(Y, self.noise_of(name, Y), rng), self.noise_of(name, Y))
            for name, Y in records.items()
        }


class ChargedAfterwards(Plain):
    def release(self, records, /, lengths, *, noise=None):
        plans = {name: self._plan(name, Y, lengths) for name, Y in records.items()}
        known = {name: self.account.recall(plan.key) for name, plan in plans.items()}
        if all(one is not None for one in known.values()):
            return known
        rng = np.random.default_rng()
        drawn = {
            name: Release(self.noised(Y, plans[name].noise, rng), plans[name].noise) for name, Y in records.items()
        }
        self.account.charge([plan.paid for plan in plans.values()], self.scope)
        for name, plan in plans.items():
            self.account.remember(plan.key, drawn[name])
        return drawn


class OwnAccounts(Plain):
    def __sklearn_clone__(self):
        return type(self)(self.std, self.clip_norm)


class Picklable(Plain):
    def __reduce__(self):
        return type(self), (self.std, self.clip_norm)


class OneUnit(Plain):
    def release(self, records, /, lengths, *, noise=None):
        return dict(list(super().release(records, lengths, noise=noise).items())[:1])


class NoScope(Plain):
    scope = "event"


class WrongNoise(Plain):
    def noise_of(self, name, Y):
        return self.std


class WideBall(Plain):
    """Says that rows are clipped, and clips them ten times further out."""

    def noised(self, Y, noise, rng, out=None):
        far = Bounds(noise.bounds.center, noise.bounds.scale, 10 * noise.bounds.clip, noise.bounds.radius)
        return clipped(Y, far) + self.draw(Y.shape, noise.std, rng)


class SilentCost(Plain):
    def cost(self, records, lengths):
        return []


class Overpriced(LaplaceMechanism):
    def charge_of(self, name, noise, n_samples):
        charge = super().charge_of(name, noise, n_samples)
        return Charge(name, self.channel, self.law, epsilon=3 * charge.epsilon)


class Liar(RandomizedResponse):
    def noised(self, flags, noise, rng, out=None):
        return flags.copy()


@pytest.mark.parametrize(
    ("mechanism", "sentence"),
    [
        (NoNoise(), "noise has the size that is declared in `noise_of`.*Declared is 2, it has .0.0, 0.0.."),
        (LessNoise(), "noise has the size that is declared in `noise_of`.*Declared is 2, it has .1.7824,"),
        (MoreNoise(), "noise has the size that is declared in `noise_of`.*Declared is 2, it has .2.1888,"),
        (Biased(), "noise has the size that is declared in `noise_of`.*Its mean is 23.1 standard errors"),
        (SameForAll(), "every row, column, record and unit has noise of its own.*Two records of a unit: 1."),
        (SameForTwoUnits(), "every row, column, record and unit has noise of its own.*Two units: 1."),
        (Repeats(), "every row, column, record and unit has noise of its own.*Rows 1 apart: 0.501."),
        (OneColumn(), "every row, column, record and unit has noise of its own.*Columns 0 and 1: 1."),
        (Unclipped(), "rows are clipped to the ball before the noise.*Rows came out 3000 from the"),
        (WideBall(), "rows are clipped to the ball before the noise.*Rows came out 29.99 from the"),
        (FillsGaps(), "every unit.s record comes back in its shape, missing where"),
        (SpreadsGaps(), "every unit.s record comes back in its shape, missing where"),
        (
            InPlace(),
            "every unit.s record comes back in its shape, missing where.*It changed a record in place.",
        ),
        (Short(), "every unit's record comes back in its shape"),
        (OneUnit(), "every unit.s record comes back in its shape, missing where.*Of ..boiler., .mill.. came"),
        (Free(), "a release is charged once, in full, and costs no more than.*Of mu was charged 0 only."),
        (Cheap(), "a release is charged once, in full, and costs no more than.*Of mu was charged 1.5 only."),
        (
            CheapLaplace(epsilon=4.0, clip_norm=3.0),
            "a release is charged once, in full, and costs no more than.*An epsilon of 0.4 needs more",
        ),
        (
            Twice(),
            "the same record again is the same release, costs nothing,.*`cost` is not what was charged",
        ),
        (Forgetful(), "the same record again is the same release"),
        (
            Uncharged(),
            "the same record again is the same release, costs nothing,.*`cost` is not what was charged",
        ),
        (ChargedAfterwards(), "charged before anything is drawn"),
        (OwnAccounts(), "copies share one account"),
        (Picklable(), "it refuses to be pickled."),
        (NoScope(), "what is protected is a `Scope`."),
        (WrongNoise(), "`noise_of` gives a `UnitNoise`.*It raised AttributeError: .float."),
        (
            SilentCost(),
            "the same record again is the same release, costs nothing,.*`cost` is not what was charged",
        ),
        (
            Overpriced(epsilon=1.0, clip_norm=3.0),
            "a release is charged once, in full, and costs no more than.*More than promised was charged:",
        ),
        (Liar(epsilon=1.0), "answers are booleans and as frequent as declared.*Those of .boiler. are 39.4"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_a_wrong_mechanism_is_named_with_its_rule(mechanism, sentence):
    with pytest.raises(AssertionError, match=f"(?s)^{type(mechanism).__name__} breaks the rule: .*{sentence}"):
        check_mechanism(mechanism)


def test_what_is_no_mechanism_is_said_so():
    with pytest.raises(AssertionError, match=r"a mechanism is a `PrivacyMechanism`"):
        check_mechanism(object())
