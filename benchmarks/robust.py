"""How often tests find links where there are none, under noise that is not Gaussian of constant variance.

Run ``python -m benchmarks.robust`` for the table.
"""

import argparse

import numpy as np

from skfedcausal import KalmanClient, LikelihoodServer
from skfedcausal.server.estimation.covariance import COVARIANCES

from ._plants import weak_links
from ._report import table, write
from .size import rate

_PERIOD = 100  # rows in which the variance goes from its smallest to its largest and back


def gaussian(rng, shape):
    """Of unit variance."""
    return rng.normal(size=shape)


def swinging(rng, shape):
    """Gaussian with a variance that all numbers of a row share and that swings tenfold."""
    phase = 2 * np.pi * (np.arange(shape[0]) / _PERIOD + rng.uniform())
    variance = np.sqrt(10) ** np.sin(phase)
    return np.sqrt(variance / variance.mean())[:, None] * rng.normal(size=shape)


def heavy_tailed(rng, shape):
    """Student's t with four degrees of freedom, of unit variance."""
    return rng.standard_t(4, size=shape) / np.sqrt(2)


def heavy_common(rng, shape):
    """Multivariate t with four degrees of freedom: rows of independent sizes that all units share."""
    size = np.sqrt(4 / rng.chisquare(4, size=shape[0]))
    return size[:, None] * rng.normal(size=shape) / np.sqrt(2)


NOISES = {
    "Gaussian": gaussian,
    "common variance, swings tenfold": swinging,
    "t4, independent": heavy_tailed,
    "t4, common to a row": heavy_common,
}


def uncoupled(n_units, n_samples, seed, noise):
    """Messages of units that do not influence each other; states and sensors share the size of the noise."""
    _, truth = weak_links(n_units, 10, seed=seed, n_links=0)
    rng = np.random.default_rng([seed, n_samples])
    n = len(truth.transition)
    sensors = [len(C) for C in truth.observation]
    drawn = noise(rng, (n_samples + 200, n + sum(sensors)))
    w, v = drawn[:, :n] @ np.linalg.cholesky(truth.process_cov).T, drawn[:, n:]
    h = np.zeros((len(w), n))
    for t in range(1, len(w)):
        h[t] = truth.transition @ h[t - 1] + w[t]
    messages, first = {}, 0
    for name, C, R in zip(truth.names, truth.observation, truth.measurement_cov, strict=True):
        own = v[200:, first : first + len(C)] @ np.linalg.cholesky(R).T
        Y = h[200:, truth.state_slices[name]] @ C.T + own
        messages[name] = KalmanClient(C=C).fit(Y).message(Y)
        first += len(C)
    return messages


def p_values(messages, covariance):
    """p-values of all pairs in the table of links, and family-wise adjusted; NaN without convergence."""
    server = LikelihoodServer(covariance=covariance).fit(messages)
    found = server.links_[["p_value", "p_adjusted"]].to_numpy()
    return found if server.converged_ else np.full_like(found, np.nan)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--sets", type=int, default=250)
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 3000])
    options = parser.parse_args()
    rows = []
    for n_samples in options.rows:
        for name, noise in NOISES.items():
            draws = {covariance: [] for covariance in COVARIANCES}
            for seed in range(options.sets):
                messages = uncoupled(options.units, n_samples, seed, noise)
                for covariance, found in draws.items():
                    found.append(p_values(messages, covariance))
            for covariance, found in draws.items():
                found = np.array(found)
                failed = np.isnan(found).any(axis=(1, 2))
                found = found[~failed]
                rows.append(
                    {
                        "rows": n_samples,
                        "noise": name,
                        "covariance": covariance,
                        "data sets": len(failed),
                        "not converged": failed.sum(),
                        "below 5 %": rate(found[:, :, 0].ravel() < 0.05, 0.05),
                        "below 1 %": rate(found[:, :, 0].ravel() < 0.01, 0.01),
                        "any p_adjusted below 5 %": rate(found[:, :, 1].min(axis=1) < 0.05, 0.05),
                    }
                )
            print(table(rows[-3:]), flush=True)
    write(
        "robust",
        f"False links under noise that is not Gaussian of constant variance: {options.units} units",
        "Two states and eight sensors each, known loadings, none of which influences another; p-values of "
        "`links_` after the search, by the `covariance` of the server. Noise of states and sensors is drawn "
        f"the same way; where a variance swings its period is {_PERIOD} rows. `±` is two standard errors of "
        "a share if the tests are independent and the level exact, in per cent.",
        table(rows),
    )


if __name__ == "__main__":
    main()
