"""Figure 2 and the theory: losses and errors along training, and what the theorems say of them."""

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from skfedcausal import Baseline, KalmanClient, LinearAugmenter, papers
from skfedcausal.papers.numerics.descent import fixed_point, from_delta, recurrence
from skfedcausal.statespace.matrices import Partition
from skfedcausal.theory.oracle_bounds import oracle_gaps, unit_dependence
from skfedcausal.theory.unified import codependence, normal_equations, rate_conditions

from ._setting import SETTING, by_default, relative_error, trained, two_clients

TITLE = "Figure 2 and Sections 5 and 6"
TEXT = SETTING + (
    " The paper prints curves without numbers: all losses and distances of client 2 fall during training, as here."
)
ALONG = "Losses and distances along training (Figure 2)"
THEORY = "Theorems 5.1 to 5.7 with the default step sizes"
BOUNDS = "Section 6 at the fixed point"
UNITS = "Theorem A.14"
NOTES = {
    THEORY: "The server's pull keeps the client's own equation of Proposition 5.3 from holding.",
    BOUNDS: "Theorem 6.1's zero is not reached, and the left sides of Theorem 6.3 and Corollary 6.4 may "
    "exceed their bounds: the proofs take E|r| = 0 where only E r = 0 holds.",
    UNITS: "Units are neither identically distributed nor independent.",
}
CURVES = {
    "figure2_losses": (ALONG, "rounds", ["client 1", "client 2", "server"], ("log", "log")),
    "figure2_distances": (
        ALONG,
        "rounds",
        ["client - augmented", "oracle - augmented", "oracle - server"],
        ("log", "log"),
    ),
    "figure2_error": (ALONG, "rounds", ["error of A21"], ("log", "log")),
}


def central_filter(X, truth):
    """Filtered states of the paper's oracle: a Kalman filter that has all measurements and the true A."""
    sensors = [len(C) for C in truth.observation]
    C = np.zeros((sum(sensors), len(truth.transition)))
    for first, block, rows in zip(
        np.cumsum([0, *sensors]), truth.observation, truth.state_slices.values(), strict=False
    ):
        C[first : first + len(block), rows] = block
    noise = np.concatenate([np.diag(model["R"]) for model in truth.clients().values()])
    central = KalmanClient(truth.transition, None, C, truth.process_cov, noise, baseline=Baseline(center=False))
    return central.fit(np.hstack(list(X.values()))).filter(np.hstack(list(X.values())))


def along_training(X, truth, after):
    """Losses and distances after numbers of rounds."""
    oracle, rows = central_filter(X, truth), []
    for rounds in after:
        fit = trained(X, truth, exchange="moments", max_iter=rounds, tol=0.0)
        losses, gaps = papers.losses(fit, X), distances(fit, X, oracle, truth)
        rows.append(
            {
                "rounds": rounds,
                "client 1": losses.client["unit0"],
                "client 2": losses.client["unit1"],
                "server": losses.server.sum(),
                **gaps,
                "error of A21": np.linalg.norm((fit.transition_ - truth.transition)[2:, :2]),
            }
        )
    return rows


def trained_squares(X, truth):
    """The limit of training whose f_ML takes squares and products of measurements as well."""
    features = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False))
    return trained(X, truth, LinearAugmenter(features=features), solve="stationary")


def distances(fit, X, oracle, truth):
    """Mean distances of client 2's predicted states (Fig. 2d)."""
    A, name = truth.transition, "unit1"
    client, augmenter = fit.clients_[name], fit.augmenters_[name]
    own = client.filter(X[name])[:-1]
    h_a = own @ client.model.A.T + X[name][:-1] @ augmenter.coef_.T
    h_s = fit.transform(X)[:-1] @ fit.transition_[2:].T
    h_o = oracle[:-1] @ A[2:].T
    pairs = {"client - augmented": own @ client.model.A.T - h_a, "oracle - augmented": h_o - h_a}
    pairs["oracle - server"] = h_o - h_s
    return {key: np.linalg.norm(value, axis=1).mean() for key, value in pairs.items()}


def theory(fit, X):
    """Theorems 5.1 to 5.7 of each unit."""
    rows = []
    for name, (problem, rates) in papers.training_problems(fit, X).items():
        unified = recurrence(problem, rates)
        told = rate_conditions(unified)
        left = normal_equations(problem, *from_delta(problem, fixed_point(unified)))
        depends = codependence(unified, problem)
        rows.append(
            {
                "": name,
                "1 - rho(H)": 1 - told["spectral_radius"],
                "norm of I - H": told["norm"],
                "Thm 5.6 holds": told["sublinear"],
                "Thm 5.7 holds": told["linear"],
                "rounds per decimal": told["rounds"],
                "steps may grow by": told["largest_factor"],
                "dH client on server": depends["client_on_server"],
                "dH server on client": depends["server_on_client"],
                "Prop. 5.3 (1), relative": left["client"],
                "Prop. 5.3 (2), relative": left["server"],
            }
        )
    return rows


def bounds(fit, X, truth):
    """Section 6: measured errors beside the bounds."""
    partition = Partition((2, 2))
    augmented = np.zeros_like(truth.states)
    for (name, own), client in zip(fit.state_slices_.items(), fit.clients_.values(), strict=True):
        h = client.filter(X[name])[:-1] @ client.model.A.T
        augmented[1:, own] = h + X[name][:-1] @ fit.augmenters_[name].coef_.T
    states = fit.transform(X)
    told = oracle_gaps(truth.transition, fit.transition_, partition, central_filter(X, truth), states, augmented)
    names = {
        "delta": "delta_max (6.2)",
        "prediction_gap": "mean distance of h_a and h_o (6.1: 0)",
        "coupling": "left side (6.3)",
        "printed_bound": "bound as printed",
        "bound": "bound repaired",
        "error": "error (6.4)",
        "error_bound": "bound (6.4)",
    }
    return [{"": f"client {m + 1}", **{names[key]: one[key] for key in names}} for m, one in enumerate(told)]


def figures(s):
    """Sections of the page."""
    X, truth = two_clients(s, s["records"][0])
    limit = trained(X, truth, solve="stationary")
    batch = trained(X, truth, exchange="moments", max_iter=10)
    (pair,) = unit_dependence(np.array(truth.transition), truth.process_cov, Partition((2, 2)))
    ends = {"paper's mode, its limit": limit, "paper's mode, f_ML with squares (A.2)": trained_squares(X, truth)}
    ends["default mode"] = by_default(X, truth)
    return {
        ALONG: along_training(X, truth, s["rounds"]),
        "Where training ends": [
            {"": name, "error of both blocks": relative_error(fit.transition_, truth)} for name, fit in ends.items()
        ],
        THEORY: theory(batch, X),
        BOUNDS: bounds(limit, X, truth),
        UNITS: [
            {
                "": "units 1 and 2",
                "distance of their stationary covariances": pair["covariance_difference"],
                "norm of their cross-covariance": pair["cross_covariance"],
            }
        ],
    }
