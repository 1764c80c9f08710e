"""Differential privacy and secure sums: what a promise costs, what noise leaves, and what an attack finds."""

import numpy as np
from sklearn.metrics import roc_auc_score

from skfedcausal import (
    Evidence,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    RandomizedResponse,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.papers.client.noise import classical_epsilon, classical_noise_multiplier, messages_mu
from skfedcausal.privacy import epsilon_from_mu, event_sensitivity, gaussian_noise_multiplier
from skfedcausal.secure import SecureSumsServer
from skfedcausal.statespace.kalman import predicted_covariance

from .._networks import links_of
from .._rivals import Autoregression, components
from ._attack import Attack, seeded

TITLE = "What privacy costs and what it leaves"
TEXT = (
    "Differential privacy of all measurements of one unit at one time step (neighbours: other values there) at delta = "
    "{delta:g}, or {root_delta:g} for root causes; the clip radius is the {quantile:.1%} quantile of the norms, taken "
    "for a public constant. Then sums under masks, which hide all series and add no noise."
)
QUANTILE = "quantile"
FORGOTTEN = 600  # first rows: the first state's root is another on other processors, 0.95^600 = 4e-14 of it is left
NOTES = {
    "Noise over sensitivity": (
        "Noise that a total epsilon asks for when as many values are released: by the classical formula and epsilons "
        "added up, as the papers do, and exactly (Gaussian differential privacy), which nothing can be below."
    ),
    "Total epsilon": (
        "Of a run over 5000 rows of four units of two persistent states and eight sensors, at a given noise over the "
        "signal of what is sent: 200 rounds of the papers' two messages, by their accounting and exactly; filtered "
        "states sent once; measurements noised once, as `GaussianMechanism` does. Means over units and plants."
    ),
    "Links": (
        "The same plants, 5000 rows, an event of 10 % of the range hidden. Ranking of the pairs by `statistic` (AUROC) "
        "and p-values below 5 % where there is no link; beside a VAR(1) of two principal components a unit of the very "
        "same noised records with Wald tests. The limit is the record without noise, and 0.05. Undecided: plants in "
        'which noise may hide states, so that `links_` says "cannot tell" of every pair.'
    ),
    "Root causes": (
        "Share of faults whose unit is named: four units of two states and four sensors, links of strength 0.4 to 0.9, "
        "3000 nominal rows, then 200 more and 200 with a constant push of one unit's states; chance is 0.25. An event "
        "of 10 % of the range is hidden in nominal and watched record, told by states or by flags of the noised "
        "record; or pairs of flags are randomised, the nominal record public. The limit is the answer without noise."
    ),
    "Attack": (
        "Two records differ in one row by as much as is protected; the likelihood ratio of what one unit sends tells "
        "them apart. At least: what the attack proves, at 99 %. A promise is broken where that is above it. The noise "
        "is as large as the promise needs and no larger, so that estimates lie on both sides."
    ),
    "Secure sums": (
        "`SecureSumsServer()`, the dealer's packets among the bytes, beside open messages "
        "(`level_shifts=None`): verdicts that differ, and the largest difference of a strength in "
        "standard errors, which comes from first and last rows that are faded."
    ),
}


# -- accounting ---------------------------------------------------------------------------------------


def plant(seed, strength, n_samples=5000):
    """Four units of two persistent states and eight sensors; no links without a strength."""
    links = {"link_strength": strength} if strength else {"n_links": 0}
    settings = {"n_samples": FORGOTTEN + n_samples, "radius": (0.95, 0.95), "measurement_noise": 2.2}
    X, truth = make_granger_plant(4, n_states=2, n_sensors=8, **links, **settings, random_state=seed)
    return {name: Y[FORGOTTEN:] for name, Y in X.items()}, truth


def clip_norms(X, quantile):
    """Clip radius of every unit."""
    return {name: float(np.quantile(np.linalg.norm(Y, axis=1), quantile)) for name, Y in X.items()}


def multiplier_row(epsilon, n_releases, s):
    """Noise over sensitivity by both accountings."""
    papers = classical_noise_multiplier(epsilon / n_releases, s["delta"] / n_releases)
    exact = gaussian_noise_multiplier(epsilon, s["delta"], n_releases)
    name = {"promise": f"epsilon {epsilon} of {n_releases} releases"}
    return name | {"exact": exact, "papers' accounting": papers, "papers' / exact": papers / exact}


def total_row(ratio, s):
    """Total epsilon at a noise over signal of what is sent, mean over plants and units."""
    totals = [total for seed in s["total_seeds"] for total in _totals(seed, ratio, s)]
    names = "ours: measurements once", "filtered states once", "papers' messages, exact", "papers' accounting"
    return {"noise / signal": str(ratio)} | dict(zip(names, np.mean(totals, axis=0), strict=True))


def _totals(seed, ratio, s):
    X, truth = plant(seed, (0.2, 0.5))
    clip, n_rounds = clip_norms(X, s[QUANTILE]), s["rounds"]
    for name, model in truth.clients().items():
        Y, radius, C = X[name], clip[name], np.asarray(model["C"])
        F, K = _own_filter(*(np.asarray(model[key]) for key in "ACQR"))
        std = ratio * np.sqrt(np.mean(_filtered(F, K, Y) ** 2))
        one = classical_epsilon(std / (2 * radius * np.linalg.norm(K, 2)), s["delta"] / (2 * n_rounds))
        rounds = messages_mu(F, K, np.zeros_like(K), (std, std), radius, n_rounds)
        once = event_sensitivity(F, K, 2 * radius) / std
        signal = np.sqrt(np.mean(np.sum((Y @ C) ** 2, axis=1)))  # the noise of all sensors is the same
        shot = 2 * radius * np.linalg.norm(C) / (ratio * signal)
        yield *(epsilon_from_mu(mu, s["delta"]) for mu in (shot, once, rounds)), 2 * n_rounds * one


def _own_filter(A, C, Q, R):
    """F and K of a unit's stationary filter ``h[t] = F h[t-1] + K y[t]``."""
    R = np.diag(R) if R.ndim == 1 else R
    before = predicted_covariance(A, C.T @ np.linalg.solve(R, C), Q)
    K = before @ C.T @ np.linalg.inv(C @ before @ C.T + R)
    return (np.eye(len(A)) - K @ C) @ A, K


def _filtered(F, K, Y):
    H = np.zeros((len(Y), len(F)))
    for t in range(1, len(Y)):
        H[t] = F @ H[t - 1] + K @ Y[t]
    return H


# -- what noise leaves --------------------------------------------------------------------------------


def mechanism(X, epsilon, delta, s, seed):
    """Noise on the measurements; None without an epsilon."""
    if epsilon is None:
        return None
    clip = clip_norms(X, s[QUANTILE])
    radius = {name: 2 * s["share"] * value for name, value in clip.items()}
    return GaussianMechanism(epsilon=epsilon, delta=delta, clip_norm=clip, event_radius=radius, random_state=seed)


def link_row(strength, epsilon, s):
    """Ranking and size of the tests of ours and of an autoregression, mean over plants."""
    found = np.array([_link_scores(strength, epsilon, seed, s) for seed in s["seeds"]])
    noise, ours, its, size, its_size, open_pairs = found.mean(axis=0)
    row = {
        "links": f"strength {strength[0]} to {strength[1]}" if strength else "none",
        "promise": "no noise" if epsilon is None else f"epsilon {epsilon:g}",
        "noise / signal": noise,
    }
    if strength:
        row |= {"AUROC": ours, "AUROC, VAR": its}
    return row | {"p < 5 %": size, "p < 5 %, VAR": its_size, "undecided": open_pairs}


def _link_scores(strength, epsilon, seed, s):
    X, truth = plant(seed, strength)
    privacy = mechanism(X, epsilon, s["delta"], s, seed)
    estimator, linked = FederatedGrangerEstimator(privacy=privacy).fit(X), links_of(truth)
    links = estimator.links_
    seen = (
        X if privacy is None else {name: r.values for name, r in privacy.release(X, lengths=(len(X["unit0"]),)).items()}
    )
    p = Autoregression(components(seen, 2)[0], 1).p_values()[~np.eye(len(X), dtype=bool)]
    noise = [np.sqrt(N[0, 0]) / X[name].std() for name, N in estimator.noise_covariance_.items()]
    ranks = [roc_auc_score(linked, e) if strength else np.nan for e in (links["statistic"], -p)]
    sizes = [np.mean(values[~linked] < 0.05) for values in (links["p_value"].to_numpy(), p)]
    return np.mean(noise or 0.0), *ranks, *sizes, float((links["p_value"] == 1).all())


def root_row(epsilon, s):
    """Share of faults whose unit is named, by what is noised."""
    plants = [_fault_records(seed) for seed in s["fault_seeds"]]
    row = {"promise": "no noise" if epsilon is None else f"epsilon {epsilon:g}"}
    named = {name: [] for name in ("states", "flags of noised records", "randomised flags")}
    for seed, (nominal, record, root) in zip(s["fault_seeds"], plants, strict=True):
        noise = mechanism(nominal, epsilon, s["root_delta"], s, seed)
        flags = None if epsilon is None else RandomizedResponse(epsilon=epsilon, random_state=seed)
        named["states"].append(_by_states(nominal, record, noise) == root)
        named["flags of noised records"].append(_by_flags(nominal, record, noise) == root)
        named["randomised flags"].append(_by_flags(nominal, record, flags) == root)
    return row | {name: float(np.mean(right)) for name, right in named.items()}


def _fault_records(seed, n_nominal=3000, size=2.0):
    """A nominal record, one of 400 rows whose later half has a constant push of one unit's states, and that unit."""
    n, root = FORGOTTEN + n_nominal + 400, f"unit{seed % 4}"
    push = {"unit": root, "size": size, "at": (n - 200) / n, "until": 1.0}
    X, _ = make_granger_plant(
        4, n_sensors=4, n_samples=n, link_strength=(0.4, 0.9), level_shift=push, random_state=seed
    )
    parts = slice(FORGOTTEN, n - 400), slice(n - 400, n)
    nominal, record = ({name: Y[rows] for name, Y in X.items()} for rows in parts)
    return nominal, record, root


def _by_states(nominal, record, privacy):
    return FederatedRCADetector(privacy=privacy).fit(nominal).attribute(record, start=200).client[0]


def _by_flags(nominal, record, privacy, horizon=20):
    """The unit that is most often the root in the faulty stretch."""
    detector = FederatedRCADetector(privacy=privacy, evidence=Evidence("flags", n_steps=horizon)).fit(nominal)
    names, counts = np.unique(detector.predict_root_cause(record)[200 + horizon :], return_counts=True)
    return names[np.where(np.isin(names, detector.client_names_), counts, -1).argmax()]


# -- attack and secure sums ---------------------------------------------------------------------------


def attack_rows(s):
    """Epsilon measured through every way out."""
    attack = Attack(s["claimed"], s["delta"], s["draws"])
    with seeded(0):
        found = {way: attack.bounds(way) for way in s["ways"]} | {"flags": attack.flag_bounds(s["flag_draws"])}
    columns = "measured at least", "estimate", "estimate at most"
    return [
        {"way out": name, "promised": s["claimed"]} | dict(zip(columns, values, strict=True))
        for name, values in found.items()
    ]


def secure_row(n_units, s):
    """One plant fitted from sums under masks and from open messages."""
    chain = [(k, k + 1) for k in range(0, n_units - 1, 2)]
    X, _ = make_granger_plant(n_units, n_samples=s["secure_rows"], links=chain, random_state=0)
    servers = LikelihoodServer(options=LikelihoodOptions(level_shifts=None)), SecureSumsServer()
    openly, secret = (FederatedGrangerEstimator(KalmanClient(n_states=2), server=one).fit(X) for one in servers)
    one, other = openly.links_, secret.links_
    sent = {"open": openly.communication_, "secure": secret.communication_}
    row = {
        "plant": f"{n_units} units, {s['secure_rows']} rows",
        "verdicts that differ": int((one["verdict"] != other["verdict"]).sum()),
        "strengths apart": ((one["norm"] - other["norm"]).abs() / one["stderr"]).max(),
    }
    for way in ("up", "down"):
        row |= {f"MB {way}, {kind}": told[f"bytes_{way}"] / 1e6 for kind, told in sent.items()}
    return row | {f"rounds, {kind}": told["rounds"] for kind, told in sent.items()}


def figures(s):
    """Sections of the page."""
    return {
        "Noise over sensitivity": [multiplier_row(*promise, s) for promise in s["promises"]],
        "Total epsilon": [total_row(ratio, s) for ratio in s["ratios"]],
        "Links": [link_row(strength, epsilon or None, s) for strength in s["strengths"] for epsilon in s["epsilons"]],
        "Root causes": [root_row(epsilon or None, s) for epsilon in s["root_epsilons"]],
        "Attack": attack_rows(s),
        "Secure sums": [secure_row(n_units, s) for n_units in s["units"]],
    }
