"""How often the tests find links where there are none.

Run ``python -m benchmarks.size`` for the table.
"""

import argparse
import warnings

import numpy as np
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from skfedcausal import FederatedGrangerEstimator, KalmanClient

from ._plants import weak_links
from ._report import table, write

_MISSING = 0.1


def uncoupled(n_units, n_samples, missing, seed):
    """Measurements of units that do not influence each other, and their loadings."""
    X, truth = weak_links(n_units, n_samples, seed=seed, n_links=0, missing=missing)
    return X, truth.observation


def p_values(X, loadings=None):
    """p-values of all pairs by the tests: before and after the search for links, and family-wise adjusted.

    Loadings that are not given are identified at home. NaN if the fit did not converge.
    """
    client = None if loadings is None else [KalmanClient(C=C) for C in loadings]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted
        estimator = FederatedGrangerEstimator(client).fit(X)
    messages = {name: estimator.clients_[name].message(Y) for name, Y in X.items()}
    screened, links = estimator.server_.screen(messages), estimator.links_
    columns = screened.p_value, screened.p_adjusted, links.p_value, links.p_adjusted
    table = np.array([column.to_numpy() for column in columns])
    return table if estimator.server_.converged_ else np.full_like(table, np.nan)


def rate(rejected, level):
    """Share of rejections as text, with two standard errors of a share `level` of as many tests."""
    n = len(rejected)
    share, error = np.mean(rejected), np.sqrt(level * (1 - level) / n)
    verdict = "within" if abs(share - level) <= 2 * error else "outside"
    return f"{100 * share:.2f} of {100 * level:g} ± {200 * error:.2f}, {verdict}"


def rows_of(setting, draws):
    """One row per test; `draws` has shape (data sets, 4, pairs)."""
    rows = []
    failed = np.isnan(draws).any(axis=(1, 2))
    draws = draws[~failed]
    for name, p, adjusted in (("screen", 0, 1), ("links_ (after the search)", 2, 3)):
        tests = draws[:, p].ravel()
        rows.append(
            {
                **setting,
                "data sets": len(failed),
                "not converged": failed.sum(),
                "tests": len(tests),
                "p-values": name,
                "below 5 %": rate(tests < 0.05, 0.05),
                "below 1 %": rate(tests < 0.01, 0.01),
                "any p_adjusted below 5 %": rate(draws[:, adjusted].min(axis=1) < 0.05, 0.05),
                "uniform (Kolmogorov-Smirnov p)": f"{stats.kstest(tests, 'uniform').pvalue:.2f}",
            }
        )
    return rows


SETTINGS = (  # rows, share missing, loadings known, share of the data sets asked for
    (500, 0.0, True, 1.0),
    (5000, 0.0, True, 1.0),
    (500, _MISSING, True, 1.0),
    (5000, _MISSING, True, 0.5),
    (500, 0.0, False, 0.5),
    (5000, 0.0, False, 0.5),
)


class SizeSuite:
    """Share of false links at 5 % for asv."""

    params = [500, 5000]
    param_names = ("n_samples",)

    def track_false_links(self, n_samples):
        draws = [p_values(*uncoupled(8, n_samples, 0.0, seed))[2] for seed in range(20)]
        return float(np.mean(np.array(draws) < 0.05))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--sets", type=int, default=1000)
    options = parser.parse_args()
    rows = []
    for n_samples, missing, known, share in SETTINGS:
        n_sets = max(int(options.sets * share), 1)
        draws = []
        for seed in range(n_sets):
            X, loadings = uncoupled(options.units, n_samples, missing, seed)
            draws.append(p_values(X, loadings if known else None))
        setting = {
            "rows": n_samples,
            "missing": f"{missing:.0%}",
            "loadings": "known" if known else "identified at home",
        }
        rows += rows_of(setting, np.array(draws))
        report(rows, options.units)


def report(rows, n_units):
    """Write what is there; a long run may be stopped."""
    write(
        "size",
        f"False links where there are none: {n_units} units, 2 states and 8 sensors each",
        "Units with sensor noise as large as the state noise, none of which influences another; a new plant "
        "and a new record for every seed. `±` is two standard errors of a share if the tests are independent "
        "and the level exact, in per cent; about one cell in twenty of a perfect test lies outside. "
        "`p_adjusted` controls the family-wise rate over the pairs of a plant, so its unit is the data set. "
        "Shares do not depend on the machine.",
        table(rows),
    )


if __name__ == "__main__":
    main()
