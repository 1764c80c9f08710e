"""The paper's two-client task, the models that are compared on it, and how they are counted."""

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
from skfedcausal.client.monitor import ResidualFlag
from skfedcausal.client.worker import local_prediction
from skfedcausal.datasets import make_nonlinear_plant
from skfedcausal.metrics import alarm_report, naming_report
from skfedcausal.server.watching.incidents import roots_of_flags

SETTING = (
    "Two clients of two states and four sensors, C1 drives C2 (dependency strength {strength}), dynamics "
    "'{dynamics}', process noise {process_noise}, sensor noise {sensor_noise}, faults of size {size} over "
    "ten steps, about every 110. {n_train} nominal steps to learn from, {n_nominal} others of which one "
    "half sets the thresholds and the other gives ARL0, {n_test} with faults. All choices are in "
    "`benchmarks/paper3/settings.toml`, those of the generator in the docstring of `make_nonlinear_plant`."
)


def records(s, plant, **changes):
    """Nominal records to learn and to set thresholds on, and one with faults, of one plant."""
    names = ("dynamics", "strength", "process_noise", "sensor_noise")
    told = {name: s[name] for name in names} | {"plant_state": plant} | changes
    size = told.pop("size", s["size"])
    quiet = {name: value for name, value in told.items() if name not in ("roots", "everywhere")}
    train = make_nonlinear_plant(n_samples=s["n_train"], size=0, random_state=1, **quiet)
    nominal = make_nonlinear_plant(n_samples=s["n_nominal"], size=0, random_state=2, **quiet)
    test = make_nonlinear_plant(n_samples=s["n_test"], size=size, random_state=3, **told)
    return train.data, nominal.data, test


def no_torch(s):
    """Why the paper's own networks cannot be trained here."""
    if s["network"] == "lstm" and find_spec("torch") is None:
        return "network = 'lstm' needs torch (pip install 'skfedcausal[torch]')"
    return ""


def parts(s, epochs, seed=0):
    """Clients, correction and server of one kind of network.

    The paper's: f_m an LSTM of width 16, h_m a SELU layer of width 32, phi_m an LSTM of width 16 over 20
    steps, f_s an LSTM of width 64. The same sizes with tanh layers for scikit-learn.
    """
    window = s["window"]
    if s["network"] == "lstm":
        client = ExtendedKalmanClient(
            LSTMRegressor(16, max_iter=30, tol=0), SELURegressor(32, max_iter=30, tol=0), random_state=seed
        )
        phi = LSTMRegressor(16, n_steps=window, zero_output=True, random_state=seed)
        f_s = LSTMRegressor(64, random_state=seed)
    else:
        client = ExtendedKalmanClient(random_state=seed)
        phi, f_s = perceptron(16, seed), perceptron(64, seed)
    server = RegressorServer(f_s, labels="augmented", n_epochs=epochs)
    return {"client": client, "augmenter": RegressorAugmenter(phi, n_lags=window), "server": server}


def perceptron(width, seed):
    """One layer of tanh units."""
    return MLPRegressor(hidden_layer_sizes=(width,), activation="tanh", random_state=seed)


def trained(s, train, *, feedback=True, seed=0, **settings):
    """Detector trained by Algorithm 1."""
    chosen = parts(s, s["epochs"], seed)
    chosen["server"].set_params(feedback=feedback)
    settings = {"false_alarm_rate": 1e-2, "evidence": "flags"} | settings
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


def matched_percentile(nominal, budget):
    """Percentile at which the last flag of any unit is raised once per `budget` steps of the known half."""
    known, _ = halves(nominal)
    low, high = 50.0, 100.0
    for _ in range(30):
        middle = (low + high) / 2
        rate = flags_of(known, known, middle)[:, :, -1].any(axis=1).mean()
        low, high = (middle, high) if rate > 1 / budget else (low, middle)
    return min(high, 99.99)


def per_step(named, truth):
    """Precision, recall and F1 of names given at every step, "" for none."""
    right = ((named != "") & (named == truth)).sum()
    precision, recall = right / max((named != "").sum(), 1), right / max((truth != "").sum(), 1)
    return precision, recall, 2 * precision * recall / max(precision + recall, 1e-12)


def named_by_flags(flags, names, horizon=1):
    """Root of every step by Table 1, alone or with a majority over a horizon."""
    roots = roots_of_flags(flags, horizon, horizon // 2 + 1)
    return np.where(roots >= 0, np.array([*names, "", ""], dtype=object)[roots], "").astype(str)


def rca(flags, plant, horizon=1):
    """Precision, recall and F1 of Table 1."""
    return per_step(named_by_flags(flags, list(plant.data), horizon), plant.target)


def rca_delay(named, faults):
    """Mean and standard deviation of the steps from onset to the first right name, where there is one."""
    told = naming_report(named, faults)
    return told["delay"], told["delay_std"]


def scores(values, after=""):
    """Columns of precision, recall and F1."""
    return {f"{name}{after}": value for name, value in zip(("precision", "recall", "F1"), values, strict=True)}


def detection(quiet, flags, faults):
    """Columns about alarms: ARL0 on quiet data, delay and gap with faults."""
    report, calm = alarm_report(flags, faults), alarm_report(quiet, [])
    return {
        "ARL0": calm["arl0"] if np.isfinite(calm["arl0"]) else None,
        "wait": calm["wait"],
        "detected": report["detected"],
        "delay": report["delay"],
        "gap": report["gap"],
    }
