"""What the estimator says where its assumptions do not hold: two units, known truth, shares of data sets.

Run ``python -m benchmarks.failures``. The user guide quotes the table (page "When it fails").
"""

import argparse
import warnings

import numpy as np

from skfedcausal import FederatedGrangerEstimator, KalmanClient

from ._report import table, write

_SENSORS = 8
_TRANSITION = np.array([[0.7, 0.1], [-0.1, 0.7]])


def noise(rng, n_samples, width=2):
    return rng.standard_normal((n_samples, width))


def states(w, drive=0.0, A=_TRANSITION):
    """States of one unit, ``h[t] = A h[t-1] + drive[t] + w[t]``."""
    forced = w + drive
    h = np.zeros_like(w)
    for t in range(1, len(w)):
        h[t] = A @ h[t - 1] + forced[t]
    return h


def sensors(rng, h, n_sensors=_SENSORS):
    """Noisy measurements of states through random loadings."""
    loadings = rng.standard_normal((h.shape[1], n_sensors))
    return h @ loadings + noise(rng, len(h), n_sensors)


def delayed(x, lag):
    """Series moved down by `lag` rows, zeros above."""
    return np.vstack([np.zeros((lag, x.shape[1])), x[: len(x) - lag]])


def plain(rng, T, gain=0.0):
    """Unit a acts on unit b with the given gain."""
    a = states(noise(rng, T))
    b = states(noise(rng, T), gain * delayed(a, 1))
    return {"a": sensors(rng, a), "b": sensors(rng, b)}


def hidden_driver(rng, T, lag):
    """A series nobody measures reaches a after one step and b after `lag` steps."""
    z = states(noise(rng, T))
    a = states(noise(rng, T), 0.6 * delayed(z, 1))
    b = states(noise(rng, T), 0.6 * delayed(z, lag))
    return {"a": sensors(rng, a), "b": sensors(rng, b)}


def measured_driver(rng, T, lag):
    """The same with the driver as a unit of its own."""
    z = states(noise(rng, T))
    a = states(noise(rng, T), 0.6 * delayed(z, 1))
    b = states(noise(rng, T), 0.6 * delayed(z, lag))
    return {"a": sensors(rng, a), "b": sensors(rng, b), "driver": sensors(rng, z)}


def common_level(rng, T, size, units=("a", "b")):
    """Constants appear in the states' equations of the units at mid-record and stay."""
    step = np.zeros((T, 2))
    step[T // 2 :] = size
    return {name: sensors(rng, states(noise(rng, T), step if name in units else 0.0)) for name in "ab"}


def random_walks(rng, T):
    """One random walk per unit."""
    return {name: sensors(rng, np.cumsum(noise(rng, T, 1), axis=0)) for name in "ab"}


def growing(rng, T):
    """Unit a grows without bound, unit b is stationary."""
    a = 1.01 ** np.arange(T)[:, None] * noise(rng, 1, _SENSORS) + noise(rng, T, _SENSORS)
    return {"a": a, "b": sensors(rng, states(noise(rng, T)))}


def skipped_rows(rng, T, every):
    """Unit a acts on b in every step; only each `every`-th row is recorded."""
    record = plain(rng, T * every, gain=0.3)
    return {name: Y[::every] for name, Y in record.items()}


def sensor_feedback(rng, T, gain):
    """A controller in b acts on the last noisy reading of a; nothing acts on a."""
    a = states(noise(rng, T))
    reading = a[:, :1] + 2 * noise(rng, T, 1)
    Y = sensors(rng, a)
    Y[:, :1] = reading
    b = states(noise(rng, T), gain * delayed(reading, 1) * np.ones((1, 2)))
    return {"a": Y, "b": sensors(rng, b)}


def same_period(rng, T):
    """Half of a's disturbance reaches b within the sampling period; nothing else does."""
    w = noise(rng, T)
    return {"a": sensors(rng, states(w)), "b": sensors(rng, states(noise(rng, T) + 0.7 * w))}


def twins(rng, T):
    """The same states behind both units."""
    h = states(noise(rng, T))
    return {"a": sensors(rng, h), "b": sensors(rng, h)}


def one_sensor(rng, T, gain=0.3):
    """Unit b has two states and one sensor."""
    record = plain(rng, T, gain)
    record["b"] = record["b"][:, :1]
    return record


# (situation, truth, record, rows, keywords of fit)
CASES = (
    ("no link", "none", plain, 2000, {}),
    ("link of gain 0.3", "a to b", lambda rng, T: plain(rng, T, 0.3), 2000, {}),
    ("no link, 40 rows", "none", plain, 40, {}),
    ("link of gain 0.3, 40 rows", "a to b", lambda rng, T: plain(rng, T, 0.3), 40, {}),
    ("link of gain 0.3, 150 rows", "a to b", lambda rng, T: plain(rng, T, 0.3), 150, {}),
    ("hidden driver, both after 1 step", "none", lambda rng, T: hidden_driver(rng, T, 1), 2000, {}),
    ("hidden driver, b one step later", "none", lambda rng, T: hidden_driver(rng, T, 2), 2000, {}),
    ("the same driver measured", "none", lambda rng, T: measured_driver(rng, T, 1), 2000, {}),
    ("one disturbance reaches both in a period", "none", same_period, 2000, {}),
    ("level shift of 1 in both", "none", lambda rng, T: common_level(rng, T, 1.0), 2000, {}),
    ("level shift of 5 in both", "none", lambda rng, T: common_level(rng, T, 5.0), 2000, {}),
    ("level shift of 5 in a only", "none", lambda rng, T: common_level(rng, T, 5.0, "a"), 2000, {}),
    (
        "level shift of 5 in both, cut there",
        "none",
        lambda rng, T: common_level(rng, T, 5.0),
        2000,
        {"lengths": [1000, 1000]},
    ),
    ("independent random walks", "none", random_walks, 2000, {}),
    ("a grows by 1 % a step", "none", growing, 1000, {}),
    ("link of gain 0.3, each 2nd row", "a to b", lambda rng, T: skipped_rows(rng, T, 2), 2000, {}),
    ("link of gain 0.3, each 10th row", "a to b", lambda rng, T: skipped_rows(rng, T, 10), 2000, {}),
    ("controller reads a noisy sensor", "a to b", lambda rng, T: sensor_feedback(rng, T, 0.5), 2000, {}),
    ("two units with the same states", "none", twins, 2000, {}),
    ("two states, one sensor in b", "a to b", one_sensor, 2000, {}),
)


def judge(make, n_rows, fit, n_seeds):
    """Shares of data sets with each finding."""
    found = dict.fromkeys(("a to b", "b to a", "correlated", "prior", "warned"), 0)
    for seed in range(n_seeds):
        record = make(np.random.default_rng([seed, n_rows]), n_rows)
        clients = {name: KalmanClient() for name in record}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            estimator = FederatedGrangerEstimator(client=clients).fit(record, **fit)
        links = estimator.links_.set_index(["cause", "effect"]).verdict == "influence"
        pairs = estimator.server_.correlations_[["first", "second"]].to_numpy().tolist()
        found["a to b"] += links["a", "b"]
        found["b to a"] += links["b", "a"]
        found["correlated"] += ["a", "b"] in pairs
        found["prior"] += estimator.server_.has_prior_
        found["warned"] += bool(caught)
    return {name: f"{count / n_seeds:.2f}" for name, count in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    n_seeds = parser.parse_args().seeds
    rows = []
    for situation, truth, make, n_rows, fit in CASES:
        found = judge(make, n_rows, fit, n_seeds)
        rows.append({"situation": situation, "rows": n_rows, "true link": truth, **found})
        print(table(rows[-1:]), flush=True)
    write(
        "failures",
        "Where the assumptions do not hold",
        f"Two units with two states and {_SENSORS} sensors each, default settings, models identified at "
        f"home. Shares of {n_seeds} data sets in which a link from a to b, or from b to a, got the verdict "
        '"influence" (adjusted p-value at most 0.05), in which the process noise of a and b was found '
        "correlated, in which the likelihood was backed by the prior (`has_prior_`), and in which any "
        "warning was given. Level shifts are in standard deviations of the process noise.",
        table(rows),
    )


if __name__ == "__main__":
    main()
