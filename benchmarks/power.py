"""Which links are found: ranking and decisions of tests of links, beside someone who knows the plant.

Run ``python -m benchmarks.power`` for the table. PCMCI is run where ``tigramite`` is installed, otherwise its
row says that it is not.
"""

import argparse
import json
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np
from sklearn.metrics import roc_auc_score
from statsmodels.stats.multitest import multipletests

from skfedcausal import FederatedGrangerEstimator

from ._limits import Clairvoyant
from ._plants import links_of, weak_links
from ._report import mean_and_error, table, write
from .links import components, known_sensors, screen, var_of_components, var_of_filtered_states

LEVEL = 0.05
CLAIRVOYANT = "clairvoyant: all other links known"
GOALS = {"AUROC": 0.005, "F1": 0.02}


def holm(p_values):
    """Rejections at the family-wise level."""
    return multipletests(p_values, LEVEL, method="holm")[0]


def by_p_value(p_values):
    """Ranking and decisions of plain p-values: ``(score, decided)``."""
    return -np.log(np.maximum(p_values, 1e-300)), holm(p_values)


def clairvoyant(limit, X, truth):
    """Efficient tests by someone who knows which other links there are."""
    return by_p_value(limit.statistics()[1])


def clairvoyant_of_values(limit, X, truth):
    """Efficient tests by someone who knows every other element of the plant."""
    return by_p_value(limit.statistics(given_values=True)[1])


def fitted(fits, known, X, truth):
    """The table of links of the default estimator; `fits` keeps it for the next method on these data."""
    if known not in fits:
        clients = known_sensors(truth) if known else None
        fits[known] = FederatedGrangerEstimator(clients).fit(X).links_
    return fits[known]


def default(fits, known, X, truth):
    """Column ``p_adjusted`` of the default estimator."""
    p = fitted(fits, known, X, truth)["p_adjusted"].to_numpy()
    return -np.log(np.maximum(p, 1e-300)), p < LEVEL


def default_by_holm(fits, known, X, truth):
    """Column ``p_value`` of the default estimator."""
    return by_p_value(fitted(fits, known, X, truth)["p_value"].to_numpy())


def screened(X, truth):
    """Column ``p_adjusted`` of score tests at the uncoupled plant."""
    answer = screen(X, truth)
    return -np.log(np.maximum(answer.p, 1e-300)), answer.decided


def plain(method, X, truth):
    """A method of the benchmark of links by its p-values."""
    return by_p_value(method(X, truth).p)


def pcmci(X, truth):
    """PCMCI with partial correlations on the units' principal components, two lags.

    A pair's p-value is the smallest of its components' and lags', times their number.
    """
    from tigramite.data_processing import DataFrame
    from tigramite.independence_tests.parcorr import ParCorr
    from tigramite.pcmci import PCMCI

    scores = np.hstack(components(X, truth)[0])
    found = PCMCI(DataFrame(scores), ParCorr(), verbosity=0).run_pcmci(tau_min=1, tau_max=2, pc_alpha=0.05)
    slices = list(truth.state_slices.values())
    p, size = [], []
    for effect in slices:
        for cause in slices:
            if effect != cause:
                block = found["p_matrix"][cause, effect, 1:]
                p.append(min(1.0, block.min() * block.size))
                size.append(np.abs(found["val_matrix"][cause, effect, 1:]).max())
    return np.array(size), holm(np.array(p))


def methods(limit):
    """Every method, called with ``(X, truth)``, in the order of the table."""
    fits = {}
    return {
        CLAIRVOYANT: partial(clairvoyant, limit),
        "clairvoyant: values of all other elements known": partial(clairvoyant_of_values, limit),
        "default, sensors known: p_adjusted": partial(default, fits, True),
        "default, sensors known: p_value, Holm": partial(default_by_holm, fits, True),
        "default, identified at home: p_adjusted": partial(default, fits, False),
        "default, identified at home: p_value, Holm": partial(default_by_holm, fits, False),
        "screen only, sensors known: p_adjusted": screened,
        "VAR(1) on local Kalman states, Wald, Holm": partial(plain, var_of_filtered_states),
        "statsmodels VAR(1) on PCA scores, Wald, Holm": partial(plain, var_of_components),
        "PCMCI (tigramite) on PCA scores, Holm": pcmci,
    }


def scores(ranking, decided, linked):
    """AUROC, F1 and false decisions of one answer."""
    hits = (decided & linked).sum()
    return {
        "AUROC": roc_auc_score(linked, ranking),
        "F1": 2 * hits / max(1, decided.sum() + linked.sum()),
        "false": int((decided & ~linked).sum()),
    }


def run(n_units, seeds, n_pcmci, kept):
    """Records ``(method, seed, scores)``; those in the file `kept` are not measured again."""
    records = {}
    if kept is not None and kept.exists():
        for line in kept.read_text().splitlines():
            units, method, seed, record = json.loads(line)
            if units == n_units:
                records[method, seed] = record
    for k, seed in enumerate(seeds):
        X, truth = weak_links(n_units, seed=seed)
        linked = links_of(truth)
        for name, method in methods(Clairvoyant(truth, X)).items():
            is_pcmci = method is pcmci
            if (name, seed) in records or (is_pcmci and (k >= n_pcmci or not find_spec("tigramite"))):
                continue
            start = perf_counter()
            answer = method(X, truth)
            seconds = perf_counter() - start
            records[name, seed] = {**scores(*answer, linked), "seconds": seconds}
            if kept is not None:
                with kept.open("a") as file:
                    file.write(json.dumps([n_units, name, seed, records[name, seed]]) + "\n")
    return [(name, seed, record) for (name, seed), record in records.items() if seed in seeds]


def summary(records):
    """One row per method."""
    rows = []
    reference = {seed: record for name, seed, record in records if name == CLAIRVOYANT}
    for method in methods(None):
        mine = {seed: record for name, seed, record in records if name == method}
        if not mine:
            rows.append({"method": f"{method}: not installed"})
            continue
        gap = {key: [r[key] - reference[seed][key] for seed, r in mine.items()] for key in GOALS}
        rows.append(
            {
                "method": method,
                "data sets": len(mine),
                "AUROC": mean_and_error([r["AUROC"] for r in mine.values()]),
                "AUROC less clairvoyant's": mean_and_error(gap["AUROC"], 4),
                "F1": mean_and_error([r["F1"] for r in mine.values()]),
                "F1 less clairvoyant's": mean_and_error(gap["F1"]),
                "false links": f"{np.mean([r['false'] for r in mine.values()]):.2f}",
                "any false": f"{np.mean([r['false'] > 0 for r in mine.values()]):.1%}",
                "within goals": "yes" if all(np.mean(gap[k]) >= -goal for k, goal in GOALS.items()) else "no",
            }
        )
    return rows


class PowerSuite:
    """Ranking and decisions of the default fit for asv."""

    params = [8, 16]
    param_names = ("n_units",)

    def setup(self, n_units):
        self.X, self.truth = weak_links(n_units)

    def track_auroc(self, n_units):
        return scores(*default({}, True, self.X, self.truth), links_of(self.truth))["AUROC"]

    def track_f1(self, n_units):
        return scores(*default({}, True, self.X, self.truth), links_of(self.truth))["F1"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", default="8,16,32")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--pcmci-seeds", default="10,10,2", help="minutes each for 32 units")
    parser.add_argument("--keep", type=Path, help="file of records to continue from")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    sections = []
    units, n_pcmci = (list(map(int, text.split(","))) for text in (options.units, options.pcmci_seeds))
    for n_units, n_sets in zip(units, n_pcmci, strict=True):
        records = run(n_units, seeds, n_sets, options.keep)
        sections += [f"## M = {n_units}", table(summary(records))]
        report(sections)


def report(sections):
    """Write what is there; a long run may be stopped."""
    write(
        "power",
        "Power of the tests of links: T = 5000, P = 2, D = 8, 1.5 M links of norm 0.04-0.2",
        "Sensor noise as large as the state noise; a new plant and record for every seed, from 0 on. Decisions at a "
        "family-wise level of 5 %: `p_adjusted < 0.05` (ordered by evidence) where the row says so, Holm's method on "
        "p-values elsewhere. The first clairvoyant knows which other links there are, and estimates their values "
        "efficiently; the second also knows the values of all other elements of A and Q. Both know the sensors. PCMCI "
        "is ranked by its largest partial correlation; two lags, a pair's p-value is the smallest of its components' "
        "and lags' times their number. Goals: AUROC at most 0.005 and F1 at most 0.02 below the first clairvoyant's. "
        "Means over data sets ± standard errors; differences are on the same data sets. PCMCI, which takes minutes "
        "for 32 units, ran on the first ones only.",
        *sections,
    )


if __name__ == "__main__":
    main()
