"""Seconds of the default Granger fit on complete data, stage by stage.

Run ``python -m benchmarks.fit_speed`` for the table.
"""

import argparse

import numpy as np
from statsmodels.tsa.api import VAR

from skfedcausal import FederatedGrangerEstimator, KalmanClient, LikelihoodServer
from skfedcausal.containers import read_plant
from skfedcausal.server.estimation.block_tests import link_estimates, uncoupled_estimates
from skfedcausal.server.estimation.evidence import shrunk_transition
from skfedcausal.server.estimation.scoring import Point, Scoring, ascend
from skfedcausal.server.estimation.search import search_structure
from skfedcausal.server.estimation.standardised import StandardisedPlant
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.links.tables import links_table
from skfedcausal.statespace.geweke import geweke_measures

from ._plants import weak_links
from ._report import table, write
from ._timing import side_by_side

GOALS = {"p-values only (LikelihoodServer.screen)": 0.03, "full fit, clients given": 0.2}
GOALS["full fit, identified at home"] = 0.2


class Fit:
    """A plant and every stage of its fit as a function without arguments."""

    def __init__(self, n_units=16, seed=0):
        self.X, truth = weak_links(n_units, seed=seed)
        self.given = [KalmanClient(m["A"], None, m["C"], m["Q"], np.diag(m["R"])) for m in truth.clients().values()]
        self.fitted = dict(zip(self.X, self.given, strict=True))
        for name, client in self.fitted.items():
            client.fit(self.X[name])
        self.messages = self.make_messages()
        self.server = LikelihoodServer().fit(self.messages)
        self._prepare()

    def _prepare(self):
        """Intermediate results that the stages start from."""
        self.plant = self.standardise()
        self.likelihood = self.plant.whittle()
        self.start = Point.at(self.likelihood, *self.plant.uncoupled)
        self.search = self.search_links()
        self.top = self.climb().point
        self.scoring = Scoring(self.likelihood, self.search.scoring.structure, self.top)
        self.blocks = link_estimates(self.scoring)

    # -- whole calls ---------------------------------------------------------------------------------

    def with_clients(self):
        """Default fit, unit models given."""
        return FederatedGrangerEstimator([KalmanClient(**c.get_params()) for c in self.given]).fit(self.X)

    def identified(self):
        """Default fit, everything identified at home."""
        return FederatedGrangerEstimator().fit(self.X)

    def screen(self):
        """p-values from messages, without estimating the links."""
        return LikelihoodServer().screen(self.messages)

    def server_fit(self):
        """What the server does with the messages."""
        return LikelihoodServer().fit(self.messages)

    def statsmodels_var(self):
        """First-order VAR of as many principal components, without any test."""
        scores = []
        for Y in self.X.values():
            centred = Y - Y.mean(axis=0)
            scores.append(centred @ np.linalg.eigh(centred.T @ centred)[1][:, -2:])
        return VAR(np.hstack(scores)).fit(1, trend="c")

    def statsmodels_granger(self):
        """The same with the Wald test of every pair."""
        fit = self.statsmodels_var()
        names = list(fit.names)
        units = [names[k : k + 2] for k in range(0, len(names), 2)]
        return [fit.test_causality(e, c, kind="wald").pvalue for e in units for c in units if e is not c]

    # -- stages --------------------------------------------------------------------------------------

    def read(self):
        """Containers to arrays."""
        return read_plant(self.X)

    def identify(self):
        """Unit models at home."""
        return [KalmanClient().fit_arrays(Y) for Y in self.X.values()]

    def make_messages(self):
        """Sufficient statistics."""
        return {name: client.message(self.X[name]) for name, client in self.fitted.items()}

    def standardise(self):
        """Scores, lag covariances, every unit's own maximum likelihood."""
        plant = StandardisedPlant(JointRecord.from_messages(self.messages))
        plant.uncoupled  # noqa: B018
        return plant

    def uncoupled_tests(self):
        """Score tests of every pair at the uncoupled plant."""
        point = Point.at(self.likelihood, self.start.A, self.start.Q)
        return uncoupled_estimates(self.likelihood, self.plant.partition, point)

    def search_links(self):
        """Forward/backward search."""
        return search_structure(self.likelihood, self.plant.structure(), self.start)

    def climb(self):
        """To a gradient of 1e-10."""
        return ascend(self.likelihood, self.search.scoring, gain_tol=self.likelihood.n_samples * 1e-20)

    def estimate_blocks(self):
        """Every block and its covariance at the maximum."""
        return link_estimates(Scoring(self.likelihood, self.search.scoring.structure, self.top))

    def shrink(self):
        """Empirical Bayes."""
        return shrunk_transition(self.likelihood, self.scoring, {"state": self.blocks})

    def geweke(self):
        """Geweke's measure of every pair."""
        s = self.server
        return geweke_measures(s.unshrunk_transition_, s.process_cov_, s.information_, s.partition_)

    def tabulate(self):
        """Table of links with p-values, Geweke's measures included."""
        s = self.server
        levels = {"alpha": s.alpha, "margin": s.margin}
        return links_table(s.names_, s.partition_, self.blocks, self.geweke(), **levels)

    def reply(self):
        """The server's replies."""
        return self.server.replies(self.messages)


WHOLE = {
    "p-values only (LikelihoodServer.screen)": "screen",
    "full fit, clients given": "with_clients",
    "full fit, identified at home": "identified",
    "LikelihoodServer.fit on messages": "server_fit",
    "statsmodels VAR(1) on PCA scores, no tests": "statsmodels_var",
    "statsmodels VAR(1) on PCA scores, all tests": "statsmodels_granger",
}
STAGES = {
    "read the containers": "read",
    "identify the units at home": "identify",
    "messages": "make_messages",
    "lag covariances, units alone": "standardise",
    "score tests of all pairs": "uncoupled_tests",
    "search (its own tests included)": "search_links",
    "climb to gradient 1e-10": "climb",
    "blocks and covariances": "estimate_blocks",
    "shrinkage": "shrink",
    "Geweke's measures": "geweke",
    "links table (Geweke's measures included)": "tabulate",
    "replies to the units": "reply",
}


class FitSuite:
    """Time of the fit for asv."""

    params = [8, 16, 32]
    param_names = ("n_units",)

    def setup(self, n_units):
        self.fit = Fit(n_units)

    def time_full_fit(self, n_units):
        self.fit.with_clients()

    def time_full_fit_identified(self, n_units):
        self.fit.identified()

    def time_screen(self, n_units):
        self.fit.screen()

    def time_server(self, n_units):
        self.fit.server_fit()

    def peakmem_full_fit(self, n_units):
        self.fit.identified()


def timed(kinds, n_units, seeds, repeats):
    """Best seconds of each function, the median over data sets."""
    seconds = {name: [] for name in kinds}
    for seed in seeds:
        fit = Fit(n_units, seed)
        best = side_by_side({name: getattr(fit, m) for name, m in kinds.items()}, repeats=repeats)
        for name, value in best.items():
            seconds[name].append(value)
    return {name: (float(np.median(x)), max(x)) for name, x in seconds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", default="8,16,32")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    units = [int(m) for m in options.units.split(",")]
    seeds = range(options.seeds)
    whole = {m: timed(WHOLE, m, seeds, options.repeats) for m in units}
    stages = {m: timed(STAGES, m, seeds, options.repeats) for m in units}
    rows = []
    for name in WHOLE:
        row = {"call": name}
        for m in units:
            median, worst = whole[m][name]
            row[f"M={m}: s (worst)"] = f"{median:.4f} ({worst:.4f})"
        if 16 in units:
            median, _ = whole[16][name]
            against = whole[16]["statsmodels VAR(1) on PCA scores, all tests"][0] / median
            row["statsmodels, all tests / this, M=16"] = f"{against:.1f}"
            if name in GOALS:
                row["goal at M=16"] = f"{GOALS[name]} s: " + ("met" if median <= GOALS[name] else "missed")
        rows.append(row)
    stage_rows = [
        {"stage": name, **{f"M={m}: ms": f"{1e3 * stages[m][name][0]:.1f}" for m in units}} for name in STAGES
    ]
    write(
        "fit_speed",
        "Default fit on complete data: T = 5000, P = 2, D = 8",
        f"Best of {options.repeats} turns side by side per data set; median (and worst) of {options.seeds} data sets.",
        table(rows),
        "## Stages\n\nOf the fit above; the stages overlap where said.",
        table(stage_rows),
    )


if __name__ == "__main__":
    main()
