"""Differential privacy: what noise costs by which accounting, and what it leaves of the links.

Run ``python -m benchmarks.privacy`` for the tables, with ``--size`` for the size of the tests without links.
"""

import argparse
import warnings

import numpy as np
from sklearn.metrics import roc_auc_score

from skfedcausal import FederatedGrangerEstimator, GaussianMechanism
from skfedcausal.datasets import make_granger_plant
from skfedcausal.privacy import epsilon_from_mu, event_sensitivity, gaussian_noise_multiplier
from skfedcausal.privacy.paper import classical_epsilon, classical_noise_multiplier, messages_mu
from skfedcausal.statespace.matrices import spectral_radius
from skfedcausal.statespace.riccati import predicted_covariance, stationary_covariance

from ._report import mean_and_error, table, write

DELTA = 1e-5
ROUNDS = 200
QUANTILE = 0.999  # of the norms: the clip radius, a stand-in for a public constant


def plant(seed, n_samples, strength):
    """Four units of two persistent states and eight sensors."""
    return make_granger_plant(
        4,
        n_states=2,
        n_sensors=8,
        n_samples=n_samples,
        radius=(0.95, 0.95),
        measurement_noise=2.2,
        link_strength=strength,
        random_state=seed,
    )


def clip_norms(X):
    """Clip radius of every unit."""
    return {name: float(np.quantile(np.linalg.norm(Y, axis=1), QUANTILE)) for name, Y in X.items()}


def unit_filters(X, truth):
    """F, K, stationary state covariance and relative filter error of every unit's own filter."""
    for name, model in truth.clients().items():
        A, C, Q, R = (np.asarray(model[key]) for key in "ACQR")
        R = np.diag(R) if R.ndim == 1 else R
        before = predicted_covariance(A, C.T @ np.linalg.solve(R, C), Q)
        K = before @ C.T @ np.linalg.inv(C @ before @ C.T + R)
        after = (np.eye(len(A)) - K @ C) @ before
        prior = stationary_covariance(A, Q)
        yield name, (np.eye(len(A)) - K @ C) @ A, K, np.trace(after) / np.trace(prior)


# --- accounting -------------------------------------------------------------------------------------


def multipliers():
    """Noise over sensitivity for a total epsilon, by the papers' accounting and exactly."""
    rows = []
    for epsilon, n_releases in [(1, 1), (1, 2), (1, 400), (1, 2_000_000), (3, 400), (8, 400)]:
        papers = classical_noise_multiplier(epsilon / n_releases, DELTA / n_releases)
        exact = gaussian_noise_multiplier(epsilon, DELTA, n_releases)
        rows.append(
            {
                "total epsilon": epsilon,
                "releases": n_releases,
                "papers (classical, added up)": f"{papers:.4g}",
                "exact": f"{exact:.4g}",
                "ratio": f"{papers / exact:.3g}",
            }
        )
    return table(rows)


def totals(seeds, n_samples=5000):
    """Total epsilon of a run at given noise over signal of what is sent, mean over plants and units."""
    rows = []
    for ratio in (5, 20, 100):
        found = np.array([np.mean(list(_totals(seed, n_samples, ratio)), axis=0) for seed in range(seeds)])
        names = ("papers, added up", "papers' messages, exact", "filtered states once", "one-shot")
        rows.append(
            {"noise / signal": ratio}
            | {name: f"{value:.3g}" for name, value in zip(names, found.mean(axis=0), strict=True)}
        )
    return table(rows)


def _totals(seed, n_samples, ratio):
    X, truth = plant(seed, n_samples, (0.2, 0.5))
    clip = clip_norms(X)
    for name, F, K, _ in unit_filters(X, truth):
        Y, radius = X[name], clip[name]
        H = np.zeros((n_samples, len(F)))
        for t in range(1, n_samples):
            H[t] = F @ H[t - 1] + K @ Y[t]
        std = ratio * np.sqrt(np.mean(H**2))
        per_message = classical_epsilon(std / (2 * radius * np.linalg.norm(K, 2)), DELTA / (2 * ROUNDS))
        rounds = messages_mu(F, K, np.zeros_like(K), (std, std), radius, ROUNDS)
        once = event_sensitivity(F, K, 2 * radius) / std
        C = np.asarray(truth.clients()[name]["C"])
        z = Y @ C  # up to the measurement noise, which is the same for all sensors
        shot = 2 * radius * np.linalg.norm(C) / (ratio * np.sqrt(np.mean(np.sum(z**2, axis=1))))
        yield 2 * ROUNDS * per_message, *(epsilon_from_mu(mu, DELTA) for mu in (rounds, once, shot))


# --- what is left -----------------------------------------------------------------------------------


def utility(seeds, n_samples, strength, share):
    """Ranking of the pairs and error rate of the tests by epsilon; event radius a share of the range."""
    rows = []
    for epsilon in (None, 30.0, 8.0, 3.0, 1.0):
        ranking, false, noise = [], [], []
        for seed in range(seeds):
            X, truth = plant(seed, n_samples, strength)
            estimator = FederatedGrangerEstimator(privacy=_mechanism(X, epsilon, share, seed)).fit(X)
            links = estimator.links_
            true = {(row.cause, row.effect) for row in truth.links.itertuples()}
            is_link = np.array([(row.cause, row.effect) in true for row in links.itertuples()])
            ranking.append(roc_auc_score(is_link, links["statistic"]))
            false.append(np.mean(links["p_value"][~is_link] < 0.05))
            added = estimator.noise_covariance_
            ratios = [np.sqrt(C[0, 0]) / X[name].std() for name, C in added.items()]
            noise.append(np.mean(ratios or 0.0))
        rows.append(
            {
                "epsilon": "no noise" if epsilon is None else f"{epsilon:g}",
                "noise / signal": f"{np.mean(noise):.2f}",
                "AUROC": mean_and_error(ranking, 3),
                "p < 0.05 without a link": mean_and_error(false, 3),
            }
        )
    return table(rows)


def size(seeds, n_samples=5000, share=0.1):
    """Error rates of the tests of plants without a link, by epsilon."""
    rows = []
    for epsilon in (None, 8.0, 3.0, 1.0):
        p_values, found, backed = [], [], []
        for seed in range(seeds):
            X, _ = make_granger_plant(
                4, n_links=0, n_samples=n_samples, radius=0.95, measurement_noise=2.2, random_state=seed
            )
            estimator = FederatedGrangerEstimator(privacy=_mechanism(X, epsilon, share, seed)).fit(X)
            p_values.append(np.mean(estimator.links_["p_value"] < 0.05))
            found.append(float((estimator.links_["p_adjusted"] < 0.05).any()))
            backed.append(float(estimator.server_.has_prior_))
        rows.append(
            {
                "epsilon": "no noise" if epsilon is None else f"{epsilon:g}",
                "p < 0.05": mean_and_error(p_values, 3),
                "any link found": mean_and_error(found, 2),
                "prior needed": mean_and_error(backed, 2),
            }
        )
    return table(rows)


def _mechanism(X, epsilon, share, seed):
    if epsilon is None:
        return None
    clip = clip_norms(X)
    radius = {name: 2 * share * value for name, value in clip.items()}
    return GaussianMechanism(epsilon=epsilon, delta=DELTA, clip_norm=clip, event_radius=radius, random_state=seed)


def described(seeds):
    """Spectral radius and relative error of the units' own filters, mean over plants."""
    units = [unit for seed in range(seeds) for unit in unit_filters(*plant(seed, 50, (0.2, 0.5)))]
    radius = np.mean([spectral_radius(F) for _, F, _, _ in units])
    error = np.mean([error for *_, error in units])
    return (
        "Plants: 4 units of 2 states and 8 sensors. The units' own filters have spectral radius "
        f"{radius:.2f} and an error of {error:.3f} of the states' variance. Clip radius: {QUANTILE:.1%} "
        f"quantile of the norms, taken for a public constant. delta = {DELTA:g}. Unit: all measurements of "
        "one unit at one time step; neighbours: other values there."
    )


def main():
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--size", action="store_true", help="only the size of the tests without links")
    arguments = parser.parse_args()
    seeds = arguments.seeds
    warnings.simplefilter("ignore")  # of weak promises and useless noise: that is what the tables show
    if arguments.size:
        title = "Privacy: size of the tests without links"
        write(
            "privacy_size",
            title,
            f"4 units, T = 5000, event radius 10% of the range, {seeds} plants.",
            size(seeds),
        )
        return
    sections = [
        described(seeds),
        "## Noise over sensitivity for a total epsilon\n\n" + multipliers(),
        f"## Total epsilon of a run, T = 5000, {ROUNDS} rounds of the papers' protocol\n\n" + totals(5),
    ]
    for strength, share, n_plants in (
        ((0.2, 0.5), 0.1, seeds),
        ((0.04, 0.2), 0.1, seeds),
        ((0.2, 0.5), 1.0, max(seeds // 4, 2)),
    ):
        sections.append(
            f"## Links of strength {strength[0]} to {strength[1]}, event radius {share:.0%} of the range, "
            f"T = 5000, mean of {n_plants} plants\n\n" + utility(n_plants, 5000, strength, share)
        )
    write("privacy", "Privacy: accounting and what noise leaves", *sections)


if __name__ == "__main__":
    main()
