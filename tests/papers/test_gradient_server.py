"""GradientServer through the estimator: the literal protocol, its short cuts, and what training cannot do."""

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from skfedcausal import Communication, FederatedGrangerEstimator, GradientServer, KalmanClient, inspection, papers
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation.exchange import ClientError, InProcessTransport
from skfedcausal.message.packet import Packet, PacketError
from skfedcausal.message.training import (
    AugmentedMessage,
    BlockRow,
    CorrectionMoments,
    GradientReply,
    LocalModel,
    PredictedMessage,
    TrainingPlan,
)
from skfedcausal.papers import StopRule
from skfedcausal.papers.numerics.descent import Rates, augmented_problem
from skfedcausal.theory.descent import descend, descend_online

UNCONVERGED = "ignore:Training did not converge:sklearn.exceptions.ConvergenceWarning"
MODES = {
    "series": {},
    "moments": {"exchange": "moments"},
    "steps": {"update": "online"},
    "stationary": {"solve": "stationary"},
}


def make_plant(n_samples=120, **how):
    settings = {"n_states": [2, 1, 3], "n_sensors": [7, 8, 9], "link_strength": (0.2, 0.4), "random_state": 0}
    return make_granger_plant(3, n_samples=n_samples, **{**settings, **how})


def clients_of(truth):
    return [KalmanClient(**model) for model in truth.clients().values()]


def fitted(X, truth, transport=None, wire_dtype="float64", lengths=None, **settings):
    server = configured(GradientServer, settings)
    estimator = FederatedGrangerEstimator(
        clients_of(truth), server=server, communication=Communication(transport=transport, wire_dtype=wire_dtype)
    )
    return estimator.fit(X, lengths=lengths)


def parameters_of(estimator):
    thetas = [augmenter.theta_.ravel() for augmenter in estimator.augmenters_.values()]
    return np.concatenate([estimator.transition_.ravel(), *thetas])


def reference(estimator, X, *, max_iter, lengths=None):
    """The same training by the numerics alone, on pooled series."""
    A, thetas = np.array(estimator.transition_), []
    for name, (problem, rates) in papers.training_problems(estimator, X, lengths=lengths).items():
        own = estimator.state_slices_[name]
        others = np.delete(np.arange(len(A)), own)
        zeros = (
            np.zeros((len(problem.transition), problem.n_local)),
            np.zeros((len(problem.transition), len(others))),
        )
        end = descend(problem, rates, *zeros, max_iter=max_iter)
        A[own, others] = end.blocks
        thetas.append(end.parameters.ravel())
    return np.concatenate([A.ravel(), *thetas])


def online_reference(estimator, X, *, max_iter):
    """Algorithm 2 on pooled series."""
    A, thetas = np.array(estimator.transition_), []
    states = np.hstack([client.filter(X[name]) for name, client in estimator.clients_.items()])
    for name, client in estimator.clients_.items():
        own, model = estimator.state_slices_[name], client.model
        others = np.delete(np.arange(len(A)), own)
        y = X[name] - model.mean
        series = {
            "measurements": y[:-1],
            "drivers": states[:-1, others],
            "residuals": y[1:] - states[:-1, own] @ (model.C @ model.A).T,
        }
        rates = Rates.constant(augmented_problem(model.A, model.C, **series), *estimator.server_.rates_.loc[name])
        theta, W = np.zeros(model.C.T.shape), np.zeros((len(model.A), len(others)))
        for _ in range(max_iter):
            theta, W, *_ = descend_online(model.A, model.C, rates, theta, W, **series)
        A[own, others] = W
        thetas.append(theta.ravel())
    return np.concatenate([A.ravel(), *thetas])


# --- the protocol is the algorithm ------------------------------------------------------------------


@pytest.mark.filterwarnings(UNCONVERGED)
@pytest.mark.parametrize("exchange", ["series", "moments"])
@pytest.mark.parametrize("lengths", [None, [50, 1, 69]], ids=["one episode", "episodes"])
def test_batch_rounds_are_the_numerics_iterates(exchange, lengths):
    X, truth = make_plant()
    estimator = fitted(X, truth, exchange=exchange, max_iter=40, lengths=lengths)
    expected = reference(estimator, X, max_iter=40, lengths=lengths)
    assert_allclose(parameters_of(estimator), expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    assert estimator.server_.n_iter_ == 40


@pytest.mark.filterwarnings(UNCONVERGED)
def test_steps_are_algorithm_2_step_after_step():
    X, truth = make_plant()
    estimator = fitted(X, truth, update="online", max_iter=3)
    expected = online_reference(estimator, X, max_iter=3)
    assert_allclose(parameters_of(estimator), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.filterwarnings(UNCONVERGED)
def test_both_exchanges_have_the_same_losses():
    X, truth = make_plant()
    one, other = (
        fitted(X, truth, exchange=exchange, max_iter=30).server_.loss_history_ for exchange in ("series", "moments")
    )
    assert list(one.columns) == [(kind, name) for kind in ("client", "server") for name in X]
    assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings(UNCONVERGED)
@pytest.mark.parametrize("exchange", ["series", "moments"])
def test_penalty_and_regularisation_are_the_numerics(exchange):
    X, truth = make_plant()
    estimator = fitted(X, truth, exchange=exchange, max_iter=40, xi=2.0, ridge=0.1)
    expected = reference(estimator, X, max_iter=40)
    assert_allclose(parameters_of(estimator), expected, rtol=0, atol=1e-9 * np.abs(expected).max())


def well_posed():
    """White, weakly related states: the second derivative has a condition number far below 1000."""
    A = np.kron(np.eye(2), 0.5 * np.eye(2))
    A[2:, :2] = 0.1
    return make_granger_plant(2, transition=A, n_sensors=2, measurement_noise=3.0, n_samples=200, random_state=2)


@pytest.mark.medium
@pytest.mark.parametrize("exchange", ["series", "moments"])
def test_the_stationary_solve_is_the_limit_of_the_rounds(exchange):
    X, truth = well_posed()
    limit = fitted(X, truth, solve="stationary")
    rounds = fitted(X, truth, exchange=exchange, max_iter=20_000, tol=1e-11)
    assert rounds.server_.converged_
    expected = parameters_of(limit)
    assert_allclose(parameters_of(rounds), expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    last = rounds.server_.loss_history_.iloc[-1]
    assert_allclose(last, limit.server_.loss_history_.iloc[-1], rtol=1e-6)


@pytest.mark.filterwarnings(UNCONVERGED)
def test_given_step_sizes_are_used():
    X, truth = make_plant()
    rates = fitted(X, truth, eta1=1e-4, eta2=2e-4, gamma=3e-4, max_iter=2).server_.rates_
    assert_allclose(rates, np.tile([1e-4, 2e-4, 3e-4], (3, 1)))
    rates = fitted(X, truth, client_weight=4.0, max_iter=2).server_.rates_
    assert_allclose(rates["eta1"], 4 * rates["eta2"])
    rates = fitted(X, truth, client_weight=4.0, eta1=1e-4, max_iter=2).server_.rates_
    assert_allclose(rates["eta2"], 2.5e-5)


# --- what is sent -----------------------------------------------------------------------------------


class BytesTransport:
    """Carries packets as bytes and keeps what they were."""

    def __init__(self, workers):
        self._behind = InProcessTransport(workers)
        self.clients, self.state, self.close = (
            self._behind.clients,
            self._behind.state,
            self._behind.close,
        )
        self.log = []

    def exchange(self, out, *, timeout=None):
        answers = self._behind.exchange({name: self._through(packet) for name, packet in out.items()})
        return {name: self._through(packet) for name, packet in answers.items()}

    def _through(self, packet):
        packet = Packet.decode(packet.encode())
        self.log.append(packet)
        return packet


@pytest.mark.medium
@pytest.mark.filterwarnings(UNCONVERGED)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_only_states_gradients_and_small_matrices_cross(mode):
    X, truth = make_plant()
    spies = []

    def transport(workers):
        spies.append(BytesTransport(workers))
        return spies[-1]

    estimator = fitted(X, truth, transport=transport, max_iter=3, **mode)
    assert_allclose(estimator.transition_, fitted(X, truth, max_iter=3, **mode).transition_, rtol=1e-12)
    to_server = LocalModel, AugmentedMessage, PredictedMessage, CorrectionMoments, BlockRow
    known = {kind.OP for kind in (*to_server, TrainingPlan, GradientReply)}
    assert {packet.op for packet in spies[0].log} <= {*known, "train", "finish", "done"}
    for packet in spies[0].log:
        for name, value in packet.arrays.items():
            assert not {7, 8, 9} & set(value.shape), name
            for Y in X.values():
                assert Y[7].tobytes() not in value.tobytes()


@pytest.mark.filterwarnings(UNCONVERGED)
def test_the_series_protocol_sends_two_states_up_and_one_gradient_down_per_step_and_round():
    X, truth = make_plant()
    numbers = {"up": 0, "down": 0}
    for entry in fitted(X, truth, max_iter=5).ledger_.entries:
        for name, (_, shape) in entry.fields.items():
            if name in ("filtered", "augmented", "predicted"):
                numbers[entry.direction] += int(np.prod(shape))
    assert numbers["up"] == 6 * 2 * 119 * (2 + 1 + 3)  # the answer to the last gradient comes for nothing
    assert numbers["down"] == 5 * 119 * (2 + 1 + 3)


@pytest.mark.medium
@pytest.mark.filterwarnings(UNCONVERGED)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_a_packet_that_comes_twice_counts_once(mode):
    class Echo(InProcessTransport):
        def exchange(self, out, *, timeout=None):
            super().exchange(out)
            return super().exchange(out)

    X, truth = make_plant()
    twice = parameters_of(fitted(X, truth, transport=Echo, max_iter=3, **mode))
    assert_allclose(twice, parameters_of(fitted(X, truth, max_iter=3, **mode)), rtol=1e-12)


@pytest.mark.filterwarnings(UNCONVERGED)
def test_rounds_on_moments_send_no_series_after_the_first():
    X, truth = make_plant()
    entries = fitted(X, truth, exchange="moments", max_iter=5).ledger_.entries
    assert max(int(np.prod(shape)) for e in entries if e.round > 2 for _, shape in e.fields.values()) <= 15
    relayed = [e.fields["drivers"][1] for e in entries if e.op == "plan"]
    assert relayed == [(120, 4), (120, 5), (120, 3)]


@pytest.mark.filterwarnings(UNCONVERGED)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_lower_precision_on_the_wire_costs_little(dtype):
    X, truth = make_plant()
    exact = fitted(X, truth, max_iter=30)
    rounded = fitted(X, truth, max_iter=30, wire_dtype=dtype)
    size = np.abs(exact.transition_).max()
    assert np.abs(rounded.transition_ - exact.transition_).max() < {"float32": 1e-5, "float16": 1e-2}[dtype] * size
    assert rounded.communication_["bytes_up"] < exact.communication_["bytes_up"]


# --- stopping, diverging, refusing ------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["series", "moments", "steps"])
def test_divergence_is_reported_with_the_step_size_that_would_hold(mode):
    X, truth = make_plant()
    sizes = {"eta2": 10.0, "gamma": 10.0}
    with pytest.warns(ConvergenceWarning) as told:
        estimator = fitted(X, truth, **MODES[mode], **sizes)
    messages = [str(w.message) for w in told]
    assert any("not sure to converge" in m and "eta2 <=" in m for m in messages)
    assert any("diverged" in m and "gamma <=" in m for m in messages)
    assert estimator.server_.diverged_
    assert not estimator.server_.converged_
    assert np.isfinite(estimator.transition_).all()


@pytest.mark.filterwarnings(UNCONVERGED)
def test_the_largest_sizes_of_the_warning_hold():
    X, truth = make_plant()
    with pytest.warns(ConvergenceWarning) as told:
        fitted(X, truth, eta2=10.0)
    text = str(told[0].message)
    limits = [float(text.split(f"{name} <= ")[1].split(",")[0].rstrip(".")) for name in ("eta1", "eta2", "gamma")]
    eta1, eta2, gamma = limits
    estimator = fitted(X, truth, eta1=eta1, eta2=eta2, gamma=gamma, max_iter=50)
    assert not estimator.server_.diverged_


def test_too_few_rounds_are_reported():
    X, truth = make_plant()
    with pytest.warns(ConvergenceWarning, match="did not converge in 7 rounds"):
        fitted(X, truth, max_iter=7)


def test_a_callback_sees_every_round_and_can_stop():
    X, truth = make_plant()
    seen = []

    def callback(round, losses):
        seen.append((round, losses))
        return round == 4

    estimator = fitted(X, truth, callback=callback)
    assert [round for round, _ in seen] == [1, 2, 3, 4]
    assert set(seen[0][1]) == {"client", "server"}
    assert seen[3][1]["server"]["unit1"] == estimator.server_.loss_history_.loc[3, ("server", "unit1")]


def test_online_updates_need_the_states_of_every_step():
    X, truth = make_plant()
    with pytest.raises(ValueError, match="exchange='series'"):
        fitted(X, truth, update="online", exchange="moments")


def test_a_client_without_matrices_is_refused():
    class Black:
        def filter_moments(self, Y):
            states, unit = np.zeros((len(Y), 1)), np.ones((len(Y), 1, 1))
            return states, 2 * unit, states, unit

    X, _ = make_plant()
    with pytest.raises(TypeError, match=r"unit 'unit0' is a Black.*needs the unit's A and C"):
        FederatedGrangerEstimator(Black(), server=GradientServer()).fit(X)


def test_one_row_is_not_enough():
    X, truth = make_plant(n_samples=2)
    with pytest.raises(ValueError, match="two time steps"):
        fitted(X, truth, lengths=[1, 1])


class Meddler(InProcessTransport):
    """Replaces an array in packets of one kind."""

    def __init__(self, workers, op, name):
        super().__init__(workers)
        self._op, self._name = op, name

    def exchange(self, out, *, timeout=None):
        answers = super().exchange({client: self._changed(packet) for client, packet in out.items()})
        return {client: self._changed(packet) for client, packet in answers.items()}

    def _changed(self, packet):
        if packet.op != self._op:
            return packet
        arrays = {name: value[:-1] if name == self._name else value for name, value in packet.arrays.items()}
        return Packet(packet.op, packet.round, arrays, packet.scalars)


@pytest.mark.parametrize(
    ("mode", "op", "name", "error"),
    [
        ("series", "gradient", "predicted", PacketError),
        ("moments", "plan", "drivers", PacketError),
        ("moments", "plan", "rates", PacketError),
        ("series", "augmented", "augmented", ClientError),
        ("moments", "correction", "cross", ValueError),
        ("stationary", "local-model", "transition", ClientError),
    ],
)
def test_arrays_of_another_shape_are_refused(mode, op, name, error):
    X, truth = make_plant()
    with pytest.raises(error, match=r"shape|dimensions"):
        fitted(X, truth, transport=lambda workers: Meddler(workers, op, name), max_iter=3, **MODES[mode])


# --- baselines --------------------------------------------------------------------------------------


def test_without_augmentation_nothing_is_learned():
    X, truth = make_plant()
    estimator = fitted(X, truth, variant="no_augmentation")
    own = np.zeros_like(estimator.transition_)
    for rows in estimator.state_slices_.values():
        own[rows, rows] = estimator.transition_[rows, rows]
    assert_allclose(estimator.transition_, own)
    assert not any(augmenter.theta_.any() for augmenter in estimator.augmenters_.values())
    assert_allclose(estimator.predict(X, model="augmented"), estimator.predict(X, model="client"))


def test_pretrained_clients_are_those_without_a_server_and_the_server_is_fitted_to_them():
    X, truth = well_posed()
    alone = fitted(X, truth, variant="no_server", solve="stationary")
    before = fitted(X, truth, variant="pretrained", solve="stationary")
    for name in X:
        assert_allclose(before.augmenters_[name].theta_, alone.augmenters_[name].theta_, atol=1e-10)
    assert_allclose(alone.transition_[:2, 2:], 0)
    joint = fitted(X, truth, solve="stationary")

    def loss(estimator, kind):
        return estimator.server_.loss_history_[kind].iloc[-1].sum()

    assert loss(alone, "client") == pytest.approx(loss(before, "client"))
    assert loss(joint, "server") < loss(before, "server")
    assert loss(joint, "client") > loss(before, "client")


# --- after training ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings(UNCONVERGED)
def test_predictions_are_those_of_the_papers_tables_1_and_2():
    X, truth = make_plant()
    estimator = fitted(X, truth, max_iter=20)
    for name, rows in estimator.state_slices_.items():
        client = estimator.clients_[name]
        model, filtered = client.model, client.filter(X[name])
        theta, centred = estimator.augmenters_[name].theta_, X[name] - client.mean_
        h_a = (filtered + centred @ theta.T)[:-1] @ model.A.T
        columns = estimator.layout_.outputs[list(X).index(name)]
        where = [estimator.layout_.columns.index(c) for c in columns]
        expected = h_a @ model.C.T + client.mean_
        assert_allclose(estimator.predict(X, model="augmented")[1:, where], expected, atol=1e-9)
        states = np.hstack([estimator.clients_[n].filter(X[n]) for n in X])
        h_s = states[:-1] @ estimator.transition_[rows].T
        expected = h_s @ model.C.T + client.mean_
        assert_allclose(estimator.predict(X, model="server")[1:, where], expected, atol=1e-8)
    assert_allclose(estimator.transform(X), states, atol=1e-9)


@pytest.mark.medium
@pytest.mark.filterwarnings(UNCONVERGED)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_the_oracle_is_the_same_training_on_pooled_data(mode):
    X, truth = make_plant()
    assert inspection.oracle_gap(fitted(X, truth, max_iter=3, **mode), X) < 1e-12


@pytest.mark.filterwarnings(UNCONVERGED)
def test_links_are_measured_but_not_tested():
    X, truth = make_plant()
    links = fitted(X, truth, max_iter=50).links_
    assert len(links) == 6
    assert (links["p_value"] == 1).all()
    assert (links["verdict"] == "cannot tell").all()
    assert (links["norm"] > 0).all()
    assert links["geweke"].notna().all()


@pytest.mark.medium
@pytest.mark.filterwarnings(UNCONVERGED)
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_missing_measurements_and_units_identified_at_home(mode):
    X, _ = make_plant(n_samples=300, missing=0.05)
    estimator = FederatedGrangerEstimator(
        KalmanClient(n_states=1), server=configured(GradientServer, {"max_iter": 3} | mode)
    ).fit(X)
    assert np.isfinite(estimator.transition_).all()
    assert np.isfinite(estimator.predict(X)).all()
    assert np.isfinite(estimator.score(X))


@pytest.mark.filterwarnings(UNCONVERGED, "ignore:X has one unit:UserWarning")
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES.keys())
def test_a_plant_of_one_unit(mode):
    X, truth = make_granger_plant(1, n_samples=60, random_state=0)
    estimator = fitted(X, truth, max_iter=3, **mode)
    assert_allclose(estimator.transition_, truth.transition)


@pytest.mark.filterwarnings(UNCONVERGED)
def test_the_order_of_the_units_permutes_the_answer():
    X, truth = make_plant()
    clients = dict(zip(X, clients_of(truth), strict=True))
    names = ["unit2", "unit0", "unit1"]
    one, other = (
        FederatedGrangerEstimator(clients, server=GradientServer(stop=StopRule(max_iter=10))).fit(
            {name: X[name] for name in order}
        )
        for order in (list(X), names)
    )
    states = np.concatenate([np.arange(6)[one.state_slices_[name]] for name in names])
    assert_allclose(other.transition_, one.transition_[np.ix_(states, states)], atol=1e-12)


def test_the_server_is_cloned():
    server = GradientServer(solve="stationary")
    X, truth = make_plant()
    estimator = FederatedGrangerEstimator(clients_of(truth), server=server).fit(X)
    assert not hasattr(server, "names_")
    assert clone(estimator).server.solve == "stationary"


# --- scikit-learn -----------------------------------------------------------------------------------

NOT_FOR_TIME_SERIES = {
    "check_methods_subset_invariance": "batches of rows are cut out of their past",
    "check_methods_sample_order_invariance": "rows are time steps, their order is the data",
}
STRICT = {"xfail_strict": True} if parse_version(sklearn.__version__) >= parse_version("1.8") else {}


@pytest.mark.medium
@parametrize_with_checks(
    [FederatedGrangerEstimator(server=GradientServer(solve="stationary"))],
    expected_failed_checks=lambda estimator: NOT_FOR_TIME_SERIES,
    **STRICT,
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_every_parameter_is_validated():
    names = set(GradientServer().get_params(deep=False))
    assert set(GradientServer._parameter_constraints) == names
    X, truth = make_plant()
    with pytest.raises(ValueError, match="client_weight"):
        fitted(X, truth, client_weight=-1.0)
