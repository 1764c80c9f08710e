"""The paper's two-client task and the models that are compared on it."""

from importlib.util import find_spec

import numpy as np
from sklearn.neural_network import MLPRegressor

from skfedcausal import (
    ExtendedKalmanClient,
    FederatedRCADetector,
    LSTMRegressor,
    RegressorAugmenter,
    RegressorServer,
    SELURegressor,
)
from skfedcausal.client.answers import local_prediction
from skfedcausal.client.monitor import ResidualFlag
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.server.watching.flags import roots_of_flags

N_TRAIN, N_NOMINAL, N_TEST = 6000, 10_000, 10_000
WINDOW = 20
SETTING = (
    "Two clients of two states and four sensors, C1 drives C2 (dependency strength 0.5 unless said), "
    f"ten-step faults about every 110 steps at a client drawn anew. {N_TRAIN} nominal steps to learn from, "
    f"{N_NOMINAL} others of which one half sets the thresholds and the other gives ARL0, {N_TEST} with "
    "faults. Choices where the paper leaves them open are in the docstring of `make_nonlinear_plant`."
)


def records(seed=0, *, size=2.0, n_train=N_TRAIN, **settings):
    """Nominal records to learn and to set thresholds on, and one with faults, of one plant."""
    settings = {"process_noise": 0.1, "plant_state": seed} | settings
    train = make_nonlinear_plant(n_samples=n_train, size=0, random_state=1, **settings)
    nominal = make_nonlinear_plant(n_samples=N_NOMINAL, size=0, random_state=2, **settings)
    test = make_nonlinear_plant(n_samples=N_TEST, size=size, random_state=3, **settings)
    return train.data, nominal.data, test


def lstm_is_there():
    """Whether the paper's own networks can be trained here."""
    return find_spec("torch") is not None


def parts(network, epochs=15, seed=0):
    """Clients, correction and server of one kind of network.

    The paper's: f_m an LSTM of width 16, h_m a SELU layer of width 32, phi_m an LSTM of width 16 over 20
    steps, f_s an LSTM of width 64. The same sizes with tanh layers for scikit-learn.
    """
    if network == "lstm":
        client = ExtendedKalmanClient(
            LSTMRegressor(16, max_iter=30, tol=0), SELURegressor(32, max_iter=30, tol=0), random_state=seed
        )
        phi = LSTMRegressor(16, n_steps=WINDOW, zero_output=True, random_state=seed)
        f_s = LSTMRegressor(64, random_state=seed)
    else:
        client = ExtendedKalmanClient(random_state=seed)
        phi, f_s = perceptron(16, seed), perceptron(64, seed)
    server = RegressorServer(f_s, labels="augmented", n_epochs=epochs)
    return {"client": client, "augmenter": RegressorAugmenter(phi, n_lags=WINDOW), "server": server}


def perceptron(width, seed):
    """One layer of tanh units."""
    return MLPRegressor(hidden_layer_sizes=(width,), activation="tanh", random_state=seed)


def trained(train, network="mlp", *, epochs=15, feedback=True, seed=0, **settings):
    """Detector trained by Algorithm 1."""
    chosen = parts(network, epochs, seed)
    chosen["server"].set_params(feedback=feedback)
    settings = {"false_alarm_rate": 1e-3, "evidence": "flags"} | settings
    return FederatedRCADetector(**chosen, **settings).fit(train)


def residuals(detector, data):
    """Residuals (own model, augmented model) of every unit in a record, by name."""
    return {
        name: tuple(Y - local_prediction(detector._units[name], Y, None, (0,), augmented=a) for a in (False, True))
        for name, Y in data.items()
    }


def flags_of(nominal, test, percentile):
    """Flags (n_samples, n_units, n_models) of test residuals at a percentile of the nominal ones."""
    columns = [
        [ResidualFlag.learn(n, percentile).raised(t) for n, t in zip(nominal[name], test[name], strict=True)]
        for name in test
    ]
    return np.array(columns).transpose(2, 0, 1)


def halves(nominal):
    """Nominal residuals to set thresholds on, and others to count false alarms on."""
    half = len(next(iter(nominal.values()))[0]) // 2
    return [
        {name: tuple(r[rows] for r in pair) for name, pair in nominal.items()}
        for rows in (slice(half), slice(half, None))
    ]


def both_flags(nominal, test, percentile):
    """Flags of held-out nominal residuals and of test residuals."""
    known, quiet = halves(nominal)
    return flags_of(known, quiet, percentile), flags_of(known, test, percentile)


def per_step(roots, target, names):
    """Precision, recall and F1 of roots named at every step; -1 stands for none, -2 for undecided."""
    named = np.where(roots >= 0, np.array([*names, "", ""], dtype=object)[roots], "").astype(str)
    right = ((named != "") & (named == target)).sum()
    precision, recall = right / max((named != "").sum(), 1), right / max((target != "").sum(), 1)
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-12)


def rca(flags, plant, horizon=1):
    """Precision, recall and F1 of Table 1, alone or with a majority over a horizon."""
    roots = roots_of_flags(flags, horizon, horizon // 2 + 1)
    return per_step(roots, plant.target, list(plant.data))
