"""Noise for the sake of privacy, by a seed: on records, gradients, flags and streams, and what it costs."""

from skfedcausal import (
    Baseline,
    Evidence,
    GaussianMechanism,
    GradientServer,
    IndependentFlips,
    KalmanClient,
    RandomizedResponse,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.papers import Rates, StopRule, TrainingMechanism
from skfedcausal.privacy import Scope

from ..plants import Plant, by_threads
from .common import (
    ABOUT,
    LEARNED,
    ask,
    ask_nothing,
    counterfactual,
    detector,
    driven,
    faulty,
    granger,
    promise_of,
    record,
)
from .streams import updated
from .watching import LATER, NOMINAL, split

_HERE = {**ABOUT, "promise": promise_of}


def _gaussian(**settings):
    given = {"mu": 2.0, "delta": 1e-6, "clip_norm": 25.0, "event_radius": 3.0, "random_state": 0}
    return lambda: GaussianMechanism(**given | settings)


def _private(kind, mechanism, *args, **settings):
    """An estimator with a mechanism of its own, whose account nobody else charges."""
    return lambda: kind(*args, privacy=mechanism(), **settings)


def _trusted(**settings):
    given = {"mu": 1.0, "delta": 1e-5, "trust": "server", "gradient_clip": 0.01, "random_state": 0}
    return lambda: TrainingMechanism(**given | settings)


def _trained():
    return GradientServer(stop=StopRule(max_iter=3, tol=0), rates=Rates(eta1=1e-3, eta2=1e-3, gamma=1e-3))


def _data(seed, n_units=3, n_samples=800):
    """A record that no other plant has: an account says how often a process released the same data."""
    return lambda: record(n_units, n_samples, seed, ((0, 1),))


def _public():
    """Models that everybody knows."""
    _, truth = make_granger_plant(2, n_samples=400, links=((0, 1),), random_state=37)
    return {name: KalmanClient(baseline=Baseline(center=False), **model) for name, model in truth.clients().items()}


def _watched(seed):
    return lambda: faulty(record(n_samples=1300, seed=seed, links=((0, 1),)), "unit2", 1150)


PLANTS = [
    Plant(
        "private records",
        _private(granger, _gaussian(), KalmanClient(n_states=2)),
        _data(31),
        {
            **LEARNED,
            "predict": ask("predict"),
            "transform": ask("transform"),
            "score": ask("score"),
            "test_links": ask("test_links"),
            "forecast": ask("forecast", start=700, confidence=0.9),
        },
        _HERE,
        {"by threads": by_threads},
        fresh=True,
    ),
    Plant(
        "private windows",
        _private(granger, _gaussian(protects=Scope("window", window=10))),
        _data(32),
        LEARNED,
        _HERE,
        fresh=True,
    ),
    Plant(
        "private units",
        _private(granger, _gaussian(protects="client", epsilon=50.0, mu=None)),
        _data(33),
        LEARNED,
        _HERE,
        fresh=True,
    ),
    Plant(
        "private without a seed", _private(granger, _gaussian(random_state=None)), _data(34), LEARNED, _HERE, fresh=True
    ),
    Plant(
        "privacy that is added",
        _private(granger, _gaussian(protects=Scope("event", "zero_out"), mu=4.0)),
        _data(35),
        LEARNED,
        _HERE,
        fresh=True,
    ),
    Plant(
        "private effects",
        _private(counterfactual, _gaussian(mu=4.0), KalmanClient(n_states=2)),
        lambda: driven(seed=39),
        {**LEARNED, "counterfactual": ask_nothing("counterfactual", "unit0", 0.0, 1.0, horizon=4, return_std=True)},
        _HERE,
        fresh=True,
    ),
    Plant(
        "privacy_curve",
        _private(granger, _gaussian(mu=None, epsilon=5.0)),
        _data(38, n_samples=400),
        {"privacy_curve": ask("privacy_curve", epsilons=[2.0, 20.0], random_state=0)},
        fresh=True,
    ),
    Plant(
        "private gradients",
        _private(granger, _trusted(), server=_trained()),
        _data(36, 2, 400),
        LEARNED,
        _HERE,
        fresh=True,
    ),
    Plant(
        "privacy of the papers",
        _private(
            granger,
            lambda: TrainingMechanism(epsilon=1.0, delta=1e-5, clip_norm=25.0, protocol="paper", random_state=0),
            _public(),
            server=_trained(),
        ),
        _data(37, 2, 400),
        LEARNED,
        _HERE,
        fresh=True,
    ),
    Plant(
        "private watching",
        _private(detector, _gaussian()),
        _watched(40),
        LEARNED,
        {**_HERE, **LATER, "update": updated(50)},
        fit=split(NOMINAL),
        fresh=True,
    ),
    Plant(
        "randomised flags",
        _private(
            detector,
            lambda: RandomizedResponse(epsilon=3.0, random_state=0),
            evidence=Evidence("flags", n_steps=15),
            false_alarm_rate=0.05,
        ),
        _watched(41),
        {"plant": LEARNED["plant"]},
        {name: LATER[name] for name in ("incidents", "predict_root_cause", "predict")} | {"promise": promise_of},
        fit=split(NOMINAL),
        fresh=True,
    ),
    Plant(
        "independent flips",
        _private(
            detector,
            lambda: IndependentFlips(epsilon=6.0, random_state=0),
            evidence=Evidence("flags", n_steps=15),
            false_alarm_rate=0.05,
        ),
        _watched(42),
        {"plant": LEARNED["plant"]},
        {name: LATER[name] for name in ("incidents", "predict")},
        fit=split(NOMINAL),
        fresh=True,
    ),
    Plant(
        "private records and flags",
        lambda: detector(
            privacy=[_gaussian(mu=8.0)(), RandomizedResponse(epsilon=3.0, random_state=0)],
            evidence=Evidence("flags", n_steps=15),
            false_alarm_rate=0.05,
        ),
        _watched(43),
        {"plant": LEARNED["plant"]},
        {name: LATER[name] for name in ("incidents", "transform")},
        fit=split(NOMINAL),
        fresh=True,
    ),
]
