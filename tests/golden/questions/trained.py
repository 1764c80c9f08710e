"""Other servers: gradient descent as in the papers, regressors of the whole plant, sums that nobody sees one by one."""

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor

from skfedcausal import ExtendedKalmanClient, GradientServer, KalmanClient, MomentServer, RegressorServer
from skfedcausal.bases import configured
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.papers import StopRule
from skfedcausal.secure import SecureSumsServer

from ..plants import Plant, Record, at_sites, by_files, by_threads
from .common import (
    ABOUT,
    LEARNED,
    ask,
    ask_nothing,
    counterfactual,
    detector,
    driven,
    faulty,
    gappy,
    granger,
    likelihood,
    made,
    record,
)
from .watching import LATER, NOMINAL, split

_TRAINED = {
    **LEARNED,
    "losses": ask("losses"),
    "predict": ask("predict"),
    "predict by the server": ask("predict", model="server"),
    "transform": ask("transform"),
}
_EFFECTS = {
    **LEARNED,
    "counterfactual": ask_nothing("counterfactual", "unit0", 0.0, 1.0, horizon=4),
    "gain_table": ask_nothing("gain_table"),
    "impact": ask("impact", do={"unit0__u0": 0.0}, window=(200, 230)),
    "whatif": ask("whatif", do={"unit0__u0": 0.0}),
    "forecast": ask("forecast", start=250),
    "predict": ask("predict"),
    "losses": ask("losses"),
}


def _few():
    return record(n_samples=300)


def _few_driven():
    return driven(n_samples=300)


def _of_gradients(name, questions=_TRAINED, data=_few, here=None, ways=None, kind=granger, **settings):
    """A plant that is trained round by round."""
    given = {"max_iter": 5, "tol": 0.0} | settings
    return Plant(
        name,
        made(kind, server=configured(GradientServer, given)),
        data,
        questions,
        {**ABOUT, **(here or {})},
        ways or {},
    )


_PROBLEMS = {"training_problems": ask("training_problems")}
_PLANT = {"plant": LEARNED["plant"], "server": LEARNED["server"]}


def _network():
    return MLPRegressor(hidden_layer_sizes=(6,), max_iter=15, random_state=0)


def _nonlinear():
    """Cycles that are pushed, after rows without a push."""
    about = {"n_samples": NOMINAL, "size": 0, "random_state": 1}
    nominal, later = (
        make_nonlinear_plant(**about).data,
        make_nonlinear_plant(n_samples=400, size=4.0, random_state=2).data,
    )
    return Record({name: np.vstack([nominal[name], later[name]]) for name in nominal})


PLANTS = [
    _of_gradients("training", here=_PROBLEMS, ways={"at sites": at_sites, "by files": by_files}),
    _of_gradients("training to its limit", solve="stationary"),
    _of_gradients("training row by row", _PLANT, lambda: record(n_samples=150), update="online", max_iter=2),
    _of_gradients("training by moments", exchange="moments", ways={"by threads": by_threads}),
    _of_gradients("training from a random start", _PLANT, start_scale=0.1, random_state=0, ridge=0.01),
    _of_gradients("training without augmentation", _PLANT, variant="no_augmentation"),
    _of_gradients("training without a server", _PLANT, variant="no_server"),
    _of_gradients("training of units first", _PLANT, variant="pretrained"),
    _of_gradients(
        "training with inputs",
        {name: question for name, question in _EFFECTS.items() if name != "plant"},
        _few_driven,
        {**_PROBLEMS, "plant": LEARNED["plant"]},  # which has ranges of inputs, that sites keep
        {"at sites": at_sites},
        counterfactual,
        xi=0.1,
    ),
    _of_gradients(
        "training by multipliers", _PLANT, _few_driven, kind=counterfactual, constraint="augmented_lagrangian", xi=0.1
    ),
    _of_gradients(
        "training by both", _PLANT, _few_driven, kind=counterfactual, constraint="hybrid", n_warm_up=2, xi=0.1
    ),
    _of_gradients(
        "training with inputs to its limit", _PLANT, _few_driven, kind=counterfactual, solve="stationary", xi=0.1
    ),
    _of_gradients(
        "training with inputs by moments", _PLANT, _few_driven, kind=counterfactual, exchange="moments", xi=0.1
    ),
    _of_gradients(
        "training with inputs row by row",
        _PLANT,
        lambda: driven(n_samples=120),
        kind=counterfactual,
        update="online",
        max_iter=2,
        xi=0.1,
    ),
    _of_gradients("training with gaps", _PLANT, lambda: gappy(_few())),
    Plant(
        "sums that are secret",
        made(granger, server=SecureSumsServer(learner=likelihood(level_shifts=None))),
        record,
        {
            **LEARNED,
            "link_intervals": ask_nothing("link_intervals"),
            "link_effects": ask_nothing("link_effects"),
            "spectrum": ask_nothing("spectrum", "unit0", "unit1", n_frequencies=8),
        },
        ABOUT,
        {"by threads": by_threads},
    ),
    Plant(
        "a regressor of the plant",
        made(detector, server=RegressorServer(Ridge(), random_state=0), random_state=0),
        lambda: faulty(record(n_samples=1300, seed=3), "unit2", 1150),
        {"plant": LEARNED["plant"]},
        LATER,
        fit=split(NOMINAL),
    ),
    Plant(
        "a network of the plant",
        made(
            detector,
            server=RegressorServer(_network(), n_epochs=3, n_steps=4),
            random_state=0,
        ),
        _nonlinear,
        {"plant": LEARNED["plant"]},
        {name: LATER[name] for name in ("transform", "attribute")},
        fit=split(NOMINAL),
    ),
    Plant(
        "networks that are trained together",
        made(
            detector,
            ExtendedKalmanClient(n_states=2, hidden=4, random_state=0),
            server=RegressorServer(_network(), labels="augmented", n_epochs=2, n_steps=4),
            random_state=0,
        ),
        _nonlinear,
        {"plant": LEARNED["plant"]},
        {name: LATER[name] for name in ("transform", "attribute")},
        fit=split(NOMINAL),
    ),
    Plant(
        "moments only",
        made(detector, server=MomentServer(n_steps=0)),
        lambda: faulty(record(n_samples=1300, seed=3), "unit2", 1150),
        LEARNED,
        {"transform": LATER["transform"]},
        fit=split(NOMINAL),
    ),
    Plant(
        "training of given models",
        lambda: granger(
            {name: KalmanClient(n_states=2) for name in ("unit0", "unit1", "unit2")},
            server=GradientServer(stop=StopRule(max_iter=4, tol=0.0)),
        ),
        _few,
        _PLANT,
    ),
]
