"""Noise inside gradient training: the papers' own, for comparison, and a trusted server's gradients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.neural_network import MLPRegressor

from skfedcausal import (
    Baseline,
    Communication,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GradientServer,
    KalmanClient,
    PrivacyAccountant,
    RegressorServer,
    inspection,
    papers,
)
from skfedcausal.bases import configured
from skfedcausal.client.unit_model import UnitModel
from skfedcausal.datasets import make_granger_plant
from skfedcausal.message.training import (
    AugmentedMessage,
    GradientReply,
    LocalModel,
    NetworkPlan,
    PredictedMessage,
    TrainingPlan,
)
from skfedcausal.papers import StopRule, TrainingMechanism
from skfedcausal.papers.client.noise import GradientGuard, _filters, classical_noise_multiplier, message_noise, run_mu
from skfedcausal.privacy import PrivacyBudgetError
from skfedcausal.privacy.sensitivity import gradient_sensitivity

from ..privacy._audit import gaussian_mu
from ..privacy._poison import TRANSPORTS, ByBytes

N, CLIP = 403, 25.0
STEPS = {"eta1": 1e-3, "eta2": 1e-3, "gamma": 1e-3, "max_iter": 3, "tol": 0}
pytestmark = [
    pytest.mark.medium,
    pytest.mark.filterwarnings("ignore::skfedcausal.privacy.SeededNoiseWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),  # noise makes it diverge
]


def make_plant(seed=0):
    X, truth = make_granger_plant(2, n_states=2, n_sensors=5, n_samples=N, random_state=seed)
    return X, {name: KalmanClient(baseline=Baseline(center=False), **model) for name, model in truth.clients().items()}


def paper(**settings):
    return TrainingMechanism(
        **{"epsilon": 1.0, "delta": 1e-5, "clip_norm": CLIP, "protocol": "paper", "random_state": 0} | settings
    )


def trusted(**settings):
    given = {"mu": 1.0, "delta": 1e-5, "trust": "server", "gradient_clip": 0.01, "random_state": 0}
    return TrainingMechanism(**given | settings)


class BothWays(ByBytes):
    """Keeps what goes down, too."""

    def exchange(self, out, *, timeout=None):
        self.down = [*getattr(self, "down", []), *out.items()]
        return super().exchange(out, timeout=timeout)


def fit(privacy, X, clients, transport=BothWays, **settings):
    server = configured(GradientServer, STEPS | settings)
    return FederatedGrangerEstimator(
        clients, server=server, privacy=privacy, communication=Communication(transport=transport)
    ).fit(X)


# --- the papers' noise ------------------------------------------------------------------------------


def brute_force_mu(gains, transitions, theta, stds, n_steps):
    """Largest mu of the messages ``[h_c, h_a]`` of all steps about one measurement of norm 2 (radius one)."""
    worst = 0.0
    for s in range(n_steps - 200):
        K = gains[min(s, len(gains) - 1)]
        at, gram = K, (K / stds[0]).T @ (K / stds[0]) + ((K + theta) / stds[1]).T @ ((K + theta) / stds[1])
        for t in range(s + 1, n_steps):
            at = transitions[min(t, len(transitions) - 1)] @ at
            gram += at.T @ at * (1 / stds[0] ** 2 + 1 / stds[1] ** 2)
        worst = max(worst, 2 * np.sqrt(np.linalg.eigvalsh(gram)[-1]))
    return worst


@pytest.mark.parametrize("size", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_exact_total_of_a_round_bounds_brute_force_and_is_near_it(seed, size):
    _, truth = make_granger_plant(1, n_states=2, n_sensors=3, n_samples=50, random_state=seed)
    model = truth.clients()["unit0"]
    R = np.asarray(model["R"])
    gains, transitions = _filters(UnitModel(model["A"], model["C"], model["Q"], R, np.zeros(3)))
    theta = size * np.random.default_rng(seed).normal(size=gains[0].shape)
    stds = message_noise(gains[-1], theta, 1.0, 1.0, 1e-5)
    found = brute_force_mu(gains, transitions, theta, stds, 260)
    bound = run_mu(transitions, gains, 1.0, 1e-5)
    assert found <= bound * (1 + 1e-9)
    if size == 0:
        assert found >= 0.95 * bound


def test_messages_have_the_noise_of_the_papers_formulas_in_every_round():
    X, clients = make_plant()
    fit(paper(), X, clients)
    sent = [(n, AugmentedMessage.from_packet(p)) for n, p in ByBytes.last.up if p.op == AugmentedMessage.OP]
    assert len(sent) == 2 * 4
    for name, client in clients.items():
        clipped = X[name] * np.minimum(1, CLIP / np.linalg.norm(X[name], axis=1))[:, None]
        model = client.fit(clipped).model
        K = _filters(model)[0][-1]
        std = 2 * CLIP * np.linalg.norm(K, 2) * classical_noise_multiplier(1.0, 1e-5)
        messages = [message for unit, message in sent if unit == name]
        noise = [message.filtered - model.filter(clipped)[:-1] for message in messages]
        for added in noise:
            assert_allclose(added.std(), std, rtol=5 / np.sqrt(2 * added.size))
        for k in range(1, 4):  # fresh in every round, as in the papers
            r = np.corrcoef(noise[k].ravel(), noise[0].ravel())[0, 1]
            assert abs(r) < 4.5 / np.sqrt(noise[0].size)
        added = messages[0].augmented - model.filter(clipped)[:-1]  # theta is still zero
        assert_allclose(added.std(), std, rtol=5 / np.sqrt(2 * added.size))


def test_nothing_else_of_the_record_leaves_under_the_papers_protocol():
    (X, clients), (other, _) = make_plant(0), make_plant(1)
    told = []
    for record in (X, other):
        fit(paper(), record, clients)
        told.append([p for _, p in ByBytes.last.up])
    for one, two in zip(*told, strict=True):
        assert one.op == two.op
        if one.op == LocalModel.OP:
            assert one.encode() == two.encode()  # public bounds stand in for what comes from the record
        if one.op == AugmentedMessage.OP:
            one, two = (AugmentedMessage.from_packet(packet) for packet in (one, two))
            assert (one.loss, one.change) == (two.loss, two.change)
            assert (one.filtered != two.filtered).all()


def test_the_statement_gives_the_papers_total_and_the_exact_one():
    X, clients = make_plant()
    estimator = fit(paper(), X, clients)
    spent, statement = estimator.privacy_spent_, estimator.privacy_statement_
    mu = max(
        run_mu(transitions, gains, 1.0, 1e-5)
        for gains, transitions in (_filters(client.fit(X[name]).model) for name, client in clients.items())
    )
    assert_allclose(spent.mu, 2 * mu)  # four rounds
    assert statement.startswith("NO GUARANTEE")
    assert "4 rounds of two messages make epsilon = 8" in statement
    assert f"epsilon = {spent.epsilon:.4g} at delta = 1e-05" in statement
    assert set(estimator.privacy_ledger_["bound"]) == {"theta taken for public"}
    with pytest.raises(ValueError, match="has none for a record"):
        papers.losses(estimator, X)
    with pytest.raises(ValueError, match="The oracle pools"):
        inspection.oracle(estimator, X)


@pytest.mark.parametrize("privacy", [paper, trusted])
@pytest.mark.parametrize("update", ["batch", "online"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_transport_trains_the_same(privacy, update, transport):
    X, clients = make_plant()
    X = {name: Y[:12] for name, Y in X.items()}
    found = fit(privacy(), X, clients, transport, update=update).transition_
    assert_array_equal(found, fit(privacy(), X, clients, None, update=update).transition_)


# --- a trusted server's gradients -------------------------------------------------------------------


@pytest.mark.parametrize("xi", [0.0, 0.5])
def test_all_that_units_are_told_is_public_or_noised(xi):
    (X, clients), (other, _) = make_plant(0), make_plant(1)
    down = []
    for record in (X, other):
        estimator = fit(trusted(gradient_clip=1e-9), record, clients, xi=xi)  # nothing but noise is left
        down.append(ByBytes.last.down)
    for (_, one), (_, two) in zip(*down, strict=True):
        if one.op != GradientReply.OP:
            assert one.encode() == two.encode()
            continue
        one, two = (GradientReply.from_packet(packet) for packet in (one, two))
        std = estimator.privacy_ledger_["noise_std"].iloc[0]
        assert (one.augmented is None) == (xi == 0)
        assert_allclose(one.predicted, two.predicted, rtol=0, atol=2.1e-9)  # same seed, other records
        assert np.abs(one.predicted).max() > std
    assert {packet.op for _, packet in down[0]} >= {TrainingPlan.OP, GradientReply.OP}


def test_the_account_of_a_trusted_server_is_for_the_whole_training():
    X, clients = make_plant()
    estimator = fit(trusted(), X, clients)
    assert_allclose(estimator.privacy_spent_.mu, 1.0)
    ledger = estimator.privacy_ledger_
    expected = gradient_sensitivity(0.01, N - 1, 3, 2)
    assert_allclose(ledger["sensitivity"], expected, rtol=1e-3)
    assert (ledger["sensitivity"] > expected).all()  # rounding to the grid is paid for
    assert "against the other units" in estimator.privacy_statement_
    assert "Nothing is hidden from the server" in estimator.privacy_statement_
    assert estimator.noise_covariance_ == {}
    assert np.isfinite(papers.losses(estimator, X)).all(axis=None)  # the server may see the record
    estimator.fit(X)
    assert_allclose(estimator.privacy_spent_.mu, np.sqrt(2))  # other noise, another charge


@pytest.mark.parametrize("halved", [False, True], ids=["as it is", "half the noise"])
@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_no_attack_on_gradients_learns_more_than_promised(mu, halved):
    """Every row is a run of one step; the gradients of two neighbours lie far outside opposite ends."""
    n, p, rng = 10_000, 3, np.random.default_rng(0)
    guard = GradientGuard.calibrated(0.5, mu, 1, 1, 1, p)
    guard = GradientGuard(guard.clip, guard.std / (2 if halved else 1), mu)
    direction = np.array([1.0, 2.0, -2.0]) / 3
    scores = [guard.noised(np.tile(sign * 7.0 * direction, (n, 1)), rng) @ direction for sign in (-1.0, 1.0)]
    found = gaussian_mu(*scores)
    assert (found > mu) == halved
    assert found >= 0.9 * mu


@pytest.mark.parametrize("privacy", [paper, trusted])
def test_a_budget_stops_training_before_anything_leaves(privacy):
    X, clients = make_plant()
    ByBytes.last = None
    with pytest.raises(PrivacyBudgetError, match="Nothing was released"):
        fit(privacy(accountant=PrivacyAccountant(0.1, 1e-5)), X, clients)
    assert ByBytes.last is None


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("privacy", "server", "message"),
    [
        (paper(), {"exchange": "moments"}, "relays the units' states"),
        (trusted(), {"solve": "stationary"}, "relays the units' states"),
        (trusted(), {"eta1": None, "gamma": None}, "eta1, gamma missing"),
        (trusted(), {"tol": 1e-9}, "tol=1e-09"),
        (trusted(gradient_clip=None), {}, "largest norm of a gradient"),
        (trusted(protocol="paper"), {}, "largest norm of a gradient|protocol='paper' needs"),
        (paper(clip_norm=None), {}, "public clip_norm"),
        (paper(protects="client"), {}, "no unit but the event"),
    ],
)
def test_training_that_would_go_around_the_noise_is_refused(privacy, server, message):
    X, clients = make_plant()
    with pytest.raises(ValueError, match=message):
        fit(privacy, X, clients, **server)
    assert len(privacy.account) == 0


def test_the_papers_noise_needs_public_models_and_complete_records():
    X, clients = make_plant()
    for others in (KalmanClient(n_states=2), {n: c.set_params(baseline__center=True) for n, c in clients.items()}):
        with pytest.raises(ValueError, match=r"public A, C, Q and R .* and center=False"):
            fit(paper(), X, others)
    X, clients = make_plant()
    X["unit0"][3, 2] = np.nan
    with pytest.raises(ValueError, match="the papers have no formula"):
        fit(paper(), X, clients)
    with pytest.raises(ValueError, match="double precision"):
        FederatedGrangerEstimator(
            clients,
            server=configured(GradientServer, STEPS),
            privacy=paper(),
            communication=Communication(wire_dtype="float32"),
        ).fit(make_plant()[0])


@pytest.mark.parametrize("privacy", [paper(), trusted()])
def test_noise_inside_training_is_for_gradient_training(privacy):
    X, clients = make_plant()
    with pytest.raises(ValueError, match="is about gradient training; LikelihoodServer has none"):
        FederatedGrangerEstimator(clients, privacy=privacy).fit(X)
    with pytest.raises(ValueError, match="which this detector does not have"):
        FederatedRCADetector(privacy=privacy).fit(X)
    est = FederatedGrangerEstimator(clients, server=configured(GradientServer, STEPS), privacy=privacy)
    with pytest.raises(ValueError, match="noise on the record"):
        inspection.privacy_curve(est, X, [1.0])
    assert len(privacy.account) == 0


# --- the second paper: plants with inputs ------------------------------------------------------------


def make_plant_with_inputs(seed=0):
    X, truth = make_granger_plant(2, n_states=2, n_sensors=5, n_inputs=1, n_samples=N, random_state=seed)
    clients = {name: KalmanClient(baseline=Baseline(center=False), **model) for name, model in truth.clients().items()}
    return X, clients, list(truth.inputs)


def fit_with_inputs(record, **settings):
    X, clients, U = record
    server = configured(GradientServer, STEPS | {"xi": 1.0} | settings)
    estimator = FederatedCounterfactualEstimator(
        clients, server=server, privacy=paper(), communication=Communication(transport=BothWays)
    )
    return estimator.fit(X, inputs=U)


def test_what_phi_tells_has_the_noise_of_the_predicted_state():
    X, clients, U = make_plant_with_inputs()
    fitted = fit_with_inputs((X, clients, U))
    up = [(name, p) for name, p in ByBytes.last.up if p.op in (AugmentedMessage.OP, PredictedMessage.OP)]
    assert [p.op for _, p in up] == [AugmentedMessage.OP] * 2 + [PredictedMessage.OP] * 6
    for m, (name, packet) in enumerate(up[:2]):
        message, client = AugmentedMessage.from_packet(packet), fitted.clients_[name]
        clipped = X[name] * np.minimum(1, CLIP / np.linalg.norm(X[name], axis=1))[:, None]
        K = _filters(client.model)[0][-1]
        of_augmented = 2 * CLIP * np.linalg.norm(K, 2) * classical_noise_multiplier(1.0, 1e-5)
        std = of_augmented * np.linalg.norm(client.model.A, 2)
        exact = client.filter(clipped, inputs=U[m])[:-1] @ client.model.A.T + U[m][:-1] @ client.model.B.T
        assert_allclose((message.predicted - exact).std(), std, rtol=5 / np.sqrt(2 * exact.size))
        assert 0 < np.abs(message.constant).max() < 5 * std  # phi is still zero
        assert_array_equal(message.inputs, U[m][:-1])  # inputs are not what the papers protect


def test_phi_is_trained_under_noise_as_without():
    X, clients, U = make_plant_with_inputs()
    server = GradientServer(stop=StopRule(max_iter=30, tol=0))
    nearly_none = paper(epsilon=1e6, clip_norm=1e3)
    plain, noisy = (
        FederatedCounterfactualEstimator(clients, server=server, privacy=privacy).fit(X, inputs=U)
        for privacy in (None, nearly_none)
    )
    for name in clients:
        phi = noisy.augmenters_[name].phi_
        assert np.abs(phi).max() > 0.01
        # steps are of the largest measurement that the bound allows, not of those seen: slower, not elsewhere
        assert_allclose(phi, plain.augmenters_[name].phi_, atol=0.1 * np.abs(phi).max())


def test_nothing_else_of_a_record_with_inputs_leaves():
    (X, clients, U), (other, _, _) = make_plant_with_inputs(0), make_plant_with_inputs(1)
    told = []
    for record in (X, other):
        fit_with_inputs((record, clients, U))
        told.append([p for _, p in ByBytes.last.up])
    for one, two in zip(*told, strict=True):
        assert one.op == two.op
        if one.op in (AugmentedMessage.OP, PredictedMessage.OP):
            kind = {AugmentedMessage.OP: AugmentedMessage, PredictedMessage.OP: PredictedMessage}[one.op]
            one, two = (kind.from_packet(packet) for packet in (one, two))
            assert (one.loss, one.change) == (two.loss, two.change)
            assert (one.predicted != two.predicted).all()
        else:
            assert one.encode() == two.encode()


@pytest.mark.parametrize("seed", range(3))
def test_the_total_with_predicted_states_bounds_brute_force(seed):
    """Messages ``[h_c, h_a, A h_a]`` of all steps about one measurement."""
    _, truth = make_granger_plant(1, n_states=2, n_sensors=3, n_samples=50, random_state=seed)
    model = truth.clients()["unit0"]
    A = np.asarray(model["A"])
    gains, transitions = _filters(UnitModel(A, model["C"], model["Q"], np.asarray(model["R"]), np.zeros(3)))
    theta = 0.3 * np.random.default_rng(seed).normal(size=gains[0].shape)
    of_filtered, of_augmented = message_noise(gains[-1], theta, 1.0, 1.0, 1e-5)
    of_predicted, worst = np.linalg.norm(A, 2) * of_augmented, 0.0
    for s in range(60):
        at, gram = gains[min(s, len(gains) - 1)], 0.0
        for t in range(s, 260):
            corrected = at + theta if t == s else at
            for part, std in ((at, of_filtered), (corrected, of_augmented), (A @ corrected, of_predicted)):
                gram = gram + part.T @ part / std**2
            at = transitions[min(t + 1, len(transitions) - 1)] @ at
        worst = max(worst, 2 * np.sqrt(np.linalg.eigvalsh(gram)[-1]))
    assert worst <= run_mu(transitions, gains, 1.0, 1e-5, 2) * (1 + 1e-9)


def test_inputs_need_a_public_matrix_and_a_server_that_tells_nothing_of_their_levels():
    X, clients, U = make_plant_with_inputs()
    without = {name: clone(client).set_params(B=None) for name, client in clients.items()}
    with pytest.raises(ValueError, match=r"and B, with inputs"):
        fit_with_inputs((X, without, U))
    estimator = FederatedCounterfactualEstimator(clients, server=configured(GradientServer, STEPS), privacy=trusted())
    with pytest.raises(ValueError, match="mean influence of the others' inputs"):
        estimator.fit(X, inputs=U)


# --- the third paper: Algorithm 1 --------------------------------------------------------------------


def trained_detector(X, privacy, transport=BothWays):
    network = MLPRegressor(hidden_layer_sizes=(8,), activation="tanh", batch_size=1, random_state=0)
    server = RegressorServer(network, labels="augmented", n_epochs=2, batch_size=64)
    detector = FederatedRCADetector(
        KalmanClient(n_states=2), server=server, evidence="flags", false_alarm_rate=0.05, privacy=privacy
    )
    return detector.set_params(communication__transport=transport).fit(X)


def test_all_that_units_are_told_by_algorithm_one_is_public_or_noised():
    (X, _), (other, _) = make_plant(0), make_plant(1)
    down = []
    for record in (X, other):
        detector = trained_detector(record, trusted(gradient_clip=1e-9))
        down.append(ByBytes.last.down)
    std = detector.privacy_ledger_["noise_std"].iloc[0]
    assert {packet.op for _, packet in down[0]} >= {GradientReply.OP, NetworkPlan.OP}
    for (_, one), (_, two) in zip(*down, strict=True):
        if one.op != GradientReply.OP:
            assert one.encode() == two.encode()
            continue
        one, two = (GradientReply.from_packet(packet).predicted for packet in (one, two))
        assert_allclose(one, two, rtol=0, atol=2.1e-9)  # same seed, other records
        assert_allclose(one.std(), std, rtol=6 / np.sqrt(2 * one.size))


def test_the_account_of_algorithm_one_is_for_all_epochs():
    X, _ = make_plant()
    detector = trained_detector(X, trusted(), None)
    assert_allclose(detector.privacy_spent_.mu, 1.0)
    expected = gradient_sensitivity(0.01, N - 1, 2, 2)
    assert_allclose(detector.privacy_ledger_["sensitivity"], expected, rtol=1e-3)
    assert "against the other units" in detector.privacy_statement_
    assert len(detector.predict_root_cause(X)) == N
    assert_array_equal(detector.server_.loss_history_, trained_detector(X, trusted()).server_.loss_history_)


def test_algorithm_one_has_no_noise_on_messages():
    """Theorem 7.1 bounds no nonlinear filter's states: a unit whom nobody influences would get none."""
    X, _ = make_plant()
    with pytest.raises(ValueError, match="adds its noise to the messages"):
        trained_detector(X, paper())
    with pytest.raises(ValueError, match="which this detector does not have"):
        FederatedRCADetector(server=RegressorServer(), privacy=trusted()).fit(X)
