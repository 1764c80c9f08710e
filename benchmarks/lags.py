"""Links that act after several time steps: delay, strength, false links, and how many lags are chosen.

Run ``python -m benchmarks.lags`` for the tables.
"""

import argparse

import numpy as np

from skfedcausal import KalmanClient, LikelihoodServer

from ._report import table, write
from .size import rate

_OWN = np.array([[0.6, 0.1], [-0.1, 0.6]])
_MAX_LAGS = 5


def delayed(n_samples, delay, strength, seed):
    """Messages of four units of two states, of which unit0 acts on unit1 after `delay` steps.

    Returns
    -------
    messages : dict of str to StateMessage
    strength : float
        Of the link in states of unit variance.
    """
    rng = np.random.default_rng([seed, delay, n_samples])
    h = np.zeros((n_samples + 200, 4, 2))
    w = rng.normal(size=h.shape)
    for t in range(delay, len(h)):
        h[t] = h[t - 1] @ _OWN.T + w[t]
        h[t, 1] += strength * h[t - delay, 0]
    h, messages = h[200:], {}
    for m in range(4):
        C = np.linalg.qr(rng.normal(size=(6, 2)))[0]
        Y = h[:, m] @ C.T + 0.7 * rng.normal(size=(n_samples, 6))
        messages[f"unit{m}"] = KalmanClient(C=C).fit(Y).message(Y)
    return messages, strength * np.sqrt(2) * h[:, 0].std() / h[:, 1].std()


def answers(messages):
    """Row of the true link, p-values and adjusted p-values of the others, lags chosen by each criterion."""
    server = LikelihoodServer().fit(messages)
    links = server.lagged_links(messages, _MAX_LAGS).set_index(["cause", "effect"])
    others = links.drop(index=("unit0", "unit1"))
    orders = server.lag_orders(messages, _MAX_LAGS)
    chosen = [orders["aic"].idxmin(), orders["bic"].idxmin(), orders["held_out"].idxmax()]
    return links.loc[("unit0", "unit1")], others, chosen


def row_of(setting, records):
    """One row of the table."""
    draws = [answers(messages) for messages, _ in records]
    true = np.array([strength for _, strength in records])
    delay = np.array([link["delay"] for link, _, _ in draws])
    strength = np.array([link["delay_strength"] for link, _, _ in draws])
    p_values = np.concatenate([others["p_value"] for _, others, _ in draws])
    reverse = np.array([others.loc[("unit1", "unit0"), "p_value"] for _, others, _ in draws])
    chosen = np.array([lags for _, _, lags in draws]) == setting["delay"]
    found = ~np.isnan(delay)
    error = (strength - true)[found]
    return {
        **setting,
        "records": len(records),
        "link found": f"{found.mean():.0%}",
        "delay right": f"{(delay[found] == setting['delay']).mean():.0%}",
        "mean strength (true)": f"{strength[found].mean():.3f} ({true.mean():.3f})",
        "root mean square error": f"{np.sqrt((error**2).mean()):.3f}",
        "other pairs below 5 %": rate(p_values < 0.05, 0.05),
        "reverse pair below 5 %": rate(reverse < 0.05, 0.05),
        "lags right by AIC, BIC, held out": ", ".join(f"{share:.0%}" for share in chosen.mean(axis=0)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=100)
    options = parser.parse_args()
    rows = []
    for n_samples in (1000, 4000):
        for delay in (1, 2, 3):
            records = [delayed(n_samples, delay, 0.2, seed) for seed in range(options.sets)]
            rows.append(row_of({"rows": n_samples, "delay": delay}, records))
            print(table(rows[-1:]), flush=True)
    write(
        "lags",
        "Links that act after several time steps: four units of two states, six sensors each, one link",
        f"`lagged_links` with {_MAX_LAGS} lags; `lag_orders` chooses among 1 to {_MAX_LAGS}. Sensor noise of "
        "half the variance of the process noise. The strength is that of the link at its delay alone, where "
        "one was found (adjusted p-value of at most 5 %). `±` is two standard errors of a share if the tests "
        "are independent and the level exact, in per cent.",
        table(rows),
    )


if __name__ == "__main__":
    main()
