"""Only messages cross the border between a unit and the server, and they hold states, not measurements.

Raw values are looked for where they could hide: in types, in shapes, in bytes, and in what the fitted
estimator keeps. Imports are checked in the source: server code cannot reach what it must not see.
"""

import ast
import pickle
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import skfedcausal
from skfedcausal import (
    Baseline,
    Communication,
    FederatedGrangerEstimator,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation.exchange import Exchange, InProcessTransport
from skfedcausal.federation.ledger import Ledger
from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Packet
from skfedcausal.message.requests import RecordRequest
from skfedcausal.message.states import SmoothedReply, StateReply

N, D, P = 503, 7, 2  # no product or sum of states gives the number of sensors or of rows


class SpyTransport:
    """Carries packets as bytes and keeps them: what is not in the bytes does not arrive."""

    def __init__(self, workers):
        self._behind = InProcessTransport(workers)
        self.up, self.down = [], []

    def clients(self):
        return self._behind.clients()

    def exchange(self, out, *, timeout=None):
        out = {name: self._through_bytes(packet, self.down, name) for name, packet in out.items()}
        answers = self._behind.exchange(out)
        return {name: self._through_bytes(packet, self.up, name) for name, packet in answers.items()}

    def close(self):
        """Stays open: the tests have more questions after the fit."""

    @staticmethod
    def _through_bytes(packet, log, name):
        data = packet.encode()
        log.append((name, Packet.decode(data), data))
        return Packet.decode(data)


class MinimalTransport:
    """The three methods that a transport must have, and no other."""

    def __init__(self, workers, **how):
        self._behind = InProcessTransport(workers, **how)
        self.clients, self.exchange, self.close = (
            self._behind.clients,
            self._behind.exchange,
            self._behind.close,
        )


class SpyServer(LikelihoodServer):
    """Keeps everything it is given."""

    received = []

    def fit(self, messages):
        self.received.append(messages)
        return super().fit(messages)

    def replies(self, messages):
        self.received.append(messages)
        return super().replies(messages)

    def smoothed(self, messages):
        self.received.append(messages)
        return super().smoothed(messages)

    def filter(self, messages):
        self.received.append(messages)
        return super().filter(messages)


def make_plant(missing=0.0, seed=0, **how):
    X, truth = make_granger_plant(3, n_states=P, n_sensors=D, n_samples=N, missing=missing, random_state=seed, **how)
    return X, truth


def spied_fit(X, client=None, wire_dtype="float64", **settings):
    """Fitted estimator and the transport that carried its packets."""
    spies = []

    def transport(workers):
        spies.append(SpyTransport(workers))
        return spies[-1]

    client = KalmanClient(n_states=P) if client is None else client
    how = Communication(transport=transport, wire_dtype=wire_dtype)
    return FederatedGrangerEstimator(client, communication=how, **settings).fit(X), spies[0]


SETTINGS = {
    "default": {},
    "half precision": {"wire_dtype": "float16"},
    "fixed local models": {"server": LikelihoodServer(options=LikelihoodOptions(fix_local=True))},
    "three rounds": {"server": LikelihoodServer(options=LikelihoodOptions(n_rounds=3))},
}


@cache
def spied(how, missing=0.0):
    """Record, fitted estimator and the transport that carried its packets: tests look at them and change nothing."""
    X, _ = make_plant(missing)
    return X, *spied_fit(X, **SETTINGS[how])


# --- types and shapes -------------------------------------------------------------------------------


@pytest.mark.medium
@pytest.mark.parametrize("n_rounds", [1, 3])
@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["complete", "missing"])
def test_the_server_receives_nothing_but_messages(missing, n_rounds):
    X, _ = make_plant(missing)
    SpyServer.received = []
    estimator, _ = spied_fit(X, server=SpyServer(options=LikelihoodOptions(n_rounds=n_rounds)))
    estimator.predict(X, model="server"), estimator.score(X), estimator.transform(X), estimator.links_
    assert len(SpyServer.received) >= 2 * n_rounds + 3
    for messages in SpyServer.received:
        assert set(messages) == set(X)
        for message in messages.values():
            assert type(message) is StateMessage


def allowed_shapes(name, n_patterns):
    return {
        "z": (N, P),
        "unscale": (P, P),
        "patterns": (n_patterns, P * (P + 1) // 2),
        "patterns_units": (P,),
        "index": (N,),
        "lengths": (1,),
        "transition": (P, P),
        "process_cov": (P, P),
        "states": (N, P),
        "states_scale": (P,),
        "cross_term": (-(-N * P // 2),),
        "cross_term_beyond": (set(range(N)),),
        "cross_term_level": (P,),
        "cross_term_step": (P,),
        "length": (1,),
        "packed": ({1, N}, P * (P + 1) // 2),
    }[name]


@pytest.mark.medium
@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["complete", "missing"])
@pytest.mark.parametrize("how", SETTINGS)
def test_arrays_on_the_wire_have_columns_for_states_and_none_for_sensors(how, missing):
    *_, spy = spied(how, missing)
    for _, packet, _ in spy.up + spy.down:
        n_patterns = len(packet.arrays.get("patterns", ()))
        for name, value in packet.arrays.items():
            expected = allowed_shapes(name, n_patterns)
            assert len(value.shape) == len(expected)
            for size, wanted in zip(value.shape, expected, strict=True):
                assert size in wanted if isinstance(wanted, set) else size == wanted


@pytest.mark.parametrize("how", SETTINGS)
def test_every_packet_is_one_of_the_known_kinds(how):
    *_, spy = spied(how)
    assert {packet.op for _, packet, _ in spy.up} == {StateMessage.OP, "done"}
    assert {packet.op for _, packet, _ in spy.down} <= {"fit", SmoothedReply.OP, StateReply.OP}
    for _, packet, _ in spy.up:
        assert dict(packet.scalars) == {}  # nothing beside the arrays
        if packet.op == "done":
            assert dict(packet.arrays) == {}


# --- poison -----------------------------------------------------------------------------------------


def marks(value, column, row):
    """Forms in which a raw value could travel, as bytes."""
    centred = value - column.mean()
    forms = {value, centred, centred / column.std(), value**2, centred**2, np.float64(value) * (row + 1)}
    return {np.array(form, dtype=kind).tobytes() for form in forms for kind in ("<f8", ">f8", "<f4", ">f4")}


def short_elements(packets):
    """Elements of four bytes in arrays of such: anywhere else four bytes meet by chance now and then."""
    arrays = [array for packet in packets for array in packet.arrays.values() if array.dtype.itemsize == 4]
    return {element for array in arrays for element in array.reshape(-1).view("V4").tolist()}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_a_marked_raw_value_is_in_no_packet(settings):
    X, _ = make_plant()
    rows, sensors = (5, 250, 500), (0, 3, 6)
    marked = {name: Y.copy() for name, Y in X.items()}
    for k, Y in enumerate(marked.values()):
        for row, sensor in zip(rows, sensors, strict=True):
            Y[row, sensor] = np.sqrt(2 + k) * np.pi + sensor
    _, spy = spied_fit(marked, **settings)
    wire = b"".join(array.tobytes() for _, packet, _ in spy.up + spy.down for array in packet.arrays.values())
    short = short_elements(packet for _, packet, _ in spy.up + spy.down)
    found = {
        (name, row)
        for name, Y in marked.items()
        for row, sensor in zip(rows, sensors, strict=True)
        for mark in marks(Y[row, sensor], Y[:, sensor], row)
        if mark in (wire if len(mark) == 8 else short)
    }
    assert not found
    # the search itself finds what is there
    z = StateMessage.from_packet(spy.up[0][1]).z
    assert (z[250, 0].astype("<f8").tobytes() in wire) == (settings.get("wire_dtype") is None)


def test_what_the_sensors_see_outside_the_space_of_the_states_never_travels():
    X, truth = make_plant()
    models = truth.clients()
    clean = {name: KalmanClient(baseline=Baseline(center=False), **model) for name, model in models.items()}
    _, before = spied_fit(X, client=clean)
    rng = np.random.default_rng(0)
    poisoned = {}
    for name, Y in X.items():
        C, R = models[name]["C"], models[name]["R"]
        outside = np.linalg.svd(np.linalg.solve(R, C).T)[2][P:]  # orthogonal to R^-1 C
        poisoned[name] = Y + (1e6 + 1e6 * rng.normal(size=(N, D - P))) @ outside
    _, after = spied_fit(poisoned, client=clean)
    for (name, packet, _), (other, poison, _) in zip(before.up, after.up, strict=True):
        assert name == other
        for key, value in packet.arrays.items():
            # products with values of size 1e6 that cancel leave their rounding
            assert_allclose(poison.arrays[key], value, rtol=0, atol=1e6 * 100 * np.finfo(float).eps)


# --- what is kept -----------------------------------------------------------------------------------


def arrays_inside(thing, seen):
    """Every array that can be reached from an object, with the path to it."""
    if id(thing) in seen:
        return
    seen[id(thing)] = thing
    if isinstance(thing, np.ndarray):
        yield "", thing
        return
    parts = {}
    if isinstance(thing, dict):
        parts = {f"[{key!r}]": value for key, value in thing.items()}
    elif isinstance(thing, (list, tuple, set, frozenset)):
        parts = {f"[{k}]": value for k, value in enumerate(thing)}
    elif hasattr(thing, "to_numpy"):
        parts = {".to_numpy()": thing.to_numpy()}
    elif hasattr(thing, "__dict__"):
        parts = {f".{name}": value for name, value in vars(thing).items()}
    for name, part in parts.items():
        for path, value in arrays_inside(part, seen):
            yield name + path, value


@pytest.mark.medium
@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["complete", "missing"])
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS.keys())
def test_a_fitted_estimator_keeps_no_series(settings, missing):
    X, _ = make_plant(missing)
    client = KalmanClient(n_states=P)
    estimator = configured(FederatedGrangerEstimator, {"client": client, **settings}).fit(X)
    estimator.predict(X), estimator.predict(X, model="server"), estimator.score(X)
    for message in estimator.server_._evidence[0].values():  # all that waits for tables of links to be asked for
        assert type(message) is StateMessage
    assert not any(Y[:50].tobytes() in pickle.dumps(estimator) for Y in X.values())
    _ = estimator.links_
    long = [path for path, value in arrays_inside(estimator, {}) if N in value.shape]
    assert not long
    assert not any(Y[:50].tobytes() in pickle.dumps(estimator) for Y in X.values())


def test_a_fitted_estimator_does_not_grow_with_the_record():
    sizes = []
    server = LikelihoodServer(options=LikelihoodOptions(sparsity=None))  # as many elements whatever the record
    for n_samples in (1000, 9000):
        X, _ = make_granger_plant(3, n_sensors=D, n_samples=n_samples, random_state=0)
        estimator = FederatedGrangerEstimator(KalmanClient(n_states=P), server=server).fit(X)
        sizes.append(len(pickle.dumps(estimator)))
    assert abs(sizes[1] - sizes[0]) < 1000  # a single series of one number a row would be 64 000 bytes


# --- bytes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", SETTINGS)
def test_communication_is_the_length_of_what_went_over_the_wire(how):
    X, estimator, spy = spied(how)
    sent = estimator.communication_
    for direction, log in (("bytes_up", spy.up), ("bytes_down", spy.down)):
        assert sent[direction] == sum(len(data) for _, _, data in log)
        for name in X:
            assert sent["per_client"][name][direction] == sum(len(data) for who, _, data in log if who == name)
        assert sent[direction] == sum(client[direction] for client in sent["per_client"].values())
    assert sent["raw_bytes"] == sum(Y.nbytes for Y in X.values())
    assert {name: client["raw_bytes"] for name, client in sent["per_client"].items()} == {
        name: Y.nbytes for name, Y in X.items()
    }
    n_rounds = SETTINGS[how].get("server", LikelihoodServer()).n_rounds
    assert sent["rounds"] == estimator.server_.n_rounds_ == (1 if n_rounds == "auto" else n_rounds)
    assert all(type(sent[key]) is int for key in ("rounds", "bytes_up", "bytes_down", "raw_bytes"))


@pytest.mark.parametrize(("dtype", "share"), [("float64", 1.0), ("float32", 0.5), ("float16", 0.25)])
def test_a_fit_sends_states_instead_of_sensors_and_hardly_anything_else(dtype, share):
    X, _ = make_granger_plant(3, n_states=2, n_sensors=8, n_samples=5000, random_state=0)
    sent = (
        FederatedGrangerEstimator(KalmanClient(n_states=2), communication=Communication(wire_dtype=dtype))
        .fit(X)
        .communication_
    )
    assert sent["bytes_up"] <= 1.05 * share * 2 / 8 * sent["raw_bytes"]


@pytest.mark.medium
@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["complete", "missing"])
def test_constants_of_the_likelihood_do_not_travel_in_a_fit(how, missing):
    *_, spy = spied(how, missing)
    assert not any("const" in packet.arrays for _, packet, _ in spy.up)
    assert not any(packet.scalars.get("const", False) for _, packet, _ in spy.down)


def test_constants_of_the_likelihood_travel_when_they_are_asked_for():
    X, _ = make_plant()
    estimator, spy = spied_fit(X)
    exchange = Exchange(spy, Ledger())
    exchange.round = 1
    messages = exchange.ask_all(RecordRequest(const=True), StateMessage)
    assert all(message.const.shape == (N,) for message in messages.values())
    assert_allclose(estimator.server_.filter(messages).log_likelihood(), estimator.score_samples(X), rtol=1e-12)


@pytest.mark.parametrize("needed", [True, False])
def test_local_models_travel_only_if_the_server_needs_them(needed):
    X, _ = make_plant()
    _, spy = spied_fit(X, server=LikelihoodServer(options=LikelihoodOptions(fix_local=needed)))
    messages = [packet for _, packet, _ in spy.up if packet.op == StateMessage.OP]
    assert all(("transition" in packet.arrays) == needed for packet in messages)


def test_rounds_do_not_go_backwards():
    X, _ = make_plant()
    estimator, _ = spied_fit(X, server=LikelihoodServer(options=LikelihoodOptions(n_rounds=3)))
    rounds = [entry.round for entry in estimator.ledger_.entries]
    assert rounds == sorted(rounds)


def test_any_transport_with_the_three_methods_will_do():
    X, _ = make_plant()
    estimator = FederatedGrangerEstimator(
        KalmanClient(n_states=P), communication=Communication(transport=MinimalTransport)
    )
    expected = FederatedGrangerEstimator(KalmanClient(n_states=P)).fit(X)
    assert_array_equal(estimator.fit(X).transition_, expected.transition_)
    for model in ("server", "augmented", "client"):
        assert_array_equal(estimator.predict(X, model=model), expected.predict(X, model=model))


class OtherProcesses(MinimalTransport):
    """Units handled in processes of their own."""

    def __init__(self, workers):
        super().__init__(workers, n_jobs=2, backend="multiprocessing")


class OtherSites(SpyTransport):
    """Units whose workers and state the estimator has no hand on, reached by bytes."""

    def __init__(self, workers):
        super().__init__(pickle.loads(pickle.dumps(workers)))


@cache
def two_rounds(missing):
    """Record and what the default transport makes of it."""
    X, _ = make_plant(missing)
    return X, FederatedGrangerEstimator(
        KalmanClient(n_states=P), server=LikelihoodServer(options=LikelihoodOptions(n_rounds=2))
    ).fit(X)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("transport", "missing"),
    [(SpyTransport, 0.0), (SpyTransport, 0.1), (OtherProcesses, 0.1), (OtherSites, 0.0), (OtherSites, 0.1)],
)
def test_results_do_not_depend_on_the_transport(transport, missing):
    X, expected = two_rounds(missing)
    estimator = clone(expected).set_params(communication__transport=transport).fit(X)
    assert_array_equal(estimator.transition_, expected.transition_)
    assert estimator.links_.equals(expected.links_)
    assert estimator.communication_ == expected.communication_
    if transport is OtherSites:
        assert estimator.clients_ == estimator.augmenters_ == {}
        with pytest.raises(NotFittedError, match="model of unit 'unit0' was fitted at its site and is kept"):
            estimator.predict(X)
    else:
        assert_array_equal(estimator.predict(X), expected.predict(X))


class Closing(MinimalTransport):
    closed = 0

    def __init__(self, workers):
        super().__init__(workers)
        behind = self.close

        def close():
            Closing.closed += 1
            behind()

        self.close = close


@pytest.mark.parametrize("client", [KalmanClient(n_states=P), KalmanClient(n_states=5 * D + 1)], ids=["fits", "fails"])
def test_a_transport_is_closed_after_the_fit_and_after_its_failure(client):
    X, _ = make_plant()
    Closing.closed = 0
    estimator = FederatedGrangerEstimator(client, communication=Communication(transport=Closing))
    if client.n_states == P:
        estimator.fit(X)
    else:
        with pytest.raises(ValueError, match="n_states"):
            estimator.fit(X)
        assert not {"server_", "ledger_", "clients_", "layout_"} & set(vars(estimator))
    assert Closing.closed == 1


def test_the_oracle_does_not_send_its_pooled_data_anywhere():
    X, _ = make_plant()
    estimator, spy = spied_fit(X, server=LikelihoodServer(options=LikelihoodOptions(n_rounds=2)))
    n_packets = len(spy.up)
    assert inspection.oracle_gap(estimator, X) < 1e-8
    assert len(spy.up) == n_packets


@pytest.mark.medium
@pytest.mark.parametrize("missing", [0.0, 0.1], ids=["complete", "missing"])
def test_half_precision_hardly_changes_the_estimate_in_any_units_of_the_sensors(missing):
    X, _ = make_plant(missing)
    exact = FederatedGrangerEstimator(KalmanClient(n_states=P)).fit(X).transition_
    for scale in (1e-9, 1e6):
        scaled = {name: scale * Y for name, Y in X.items()}
        estimator = FederatedGrangerEstimator(
            KalmanClient(n_states=P), communication=Communication(wire_dtype="float16")
        ).fit(scaled)
        assert np.linalg.norm(estimator.transition_ - exact) < 1e-3 * np.linalg.norm(exact)


@pytest.mark.parametrize("model", ["augmented", "client"])
def test_predictions_of_a_unit_need_no_server(model):
    X, _ = make_plant()
    estimator, _ = spied_fit(X)
    expected = estimator.predict(X, model=model)
    del estimator.server_
    assert_allclose(estimator.predict(X, model=model), expected, rtol=0, atol=0)


def test_message_types_hold_arrays_and_numbers_only():
    for kind in (StateMessage, StateReply, SmoothedReply):
        assert is_dataclass(kind)
        assert kind.__dataclass_params__.frozen
        for field in fields(kind):
            assert field.type in (np.ndarray, np.ndarray | None, tuple[int, ...], float | None, bool | None)


# --- imports ----------------------------------------------------------------------------------------

ROOT = Path(skfedcausal.__file__).parent


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in ROOT.rglob("*.py")}


@cache
def imported_modules(name):
    """Modules of the package that a module imports, at the top or inside a function."""
    path = MODULES[name]
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    package = [part for part in package if part]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            targets = [alias.name.split(".") for alias in node.names]
            targets = [parts[1:] for parts in targets if parts[0] == "skfedcausal"]
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            if node.level:
                base = package[: len(package) - node.level + 1] + base
            elif base[:1] == ["skfedcausal"]:
                base = base[1:]
            else:
                continue
            targets = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for parts in targets:
            while parts and ".".join(parts) not in MODULES:
                parts = parts[:-1]
            found.add(".".join(parts))
    return found


def reachable(name):
    """Modules that come along with a module, its packages' own ``__init__`` aside."""
    seen, queue = set(), [name]
    while queue:
        for target in imported_modules(queue.pop()) - seen:
            seen.add(target)
            queue.append(target)
    return seen


def is_lowest(name):
    """Whether a module is below everything: checks of arguments, and the numbers that decide in a room."""
    return name in LOWEST or name.split(".")[-1] == "tuning"


def inside(name, *packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


LOWEST = ("arguments",)  # below everything, as the numbers of every room are: they import nothing of the package
ONLY = {
    "statespace": ("statespace",),
    "message": ("message", "statespace"),
    "datasets": ("datasets", "papers.numerics", "statespace", "bases"),
    "papers.numerics": ("papers.numerics", "statespace"),
    "theory": ("theory", "papers.numerics", "statespace"),
    "message.packet": (),
}
NEVER = {
    # no keys of secure sums, and nothing of rooms beside the core
    "server": ("client", "containers", "datasets", "estimators", "secure", "papers", "beside"),
    "papers.numerics": ("client", "server", "federation", "containers", "estimators"),
    "papers.server": ("client", "papers.client", "containers", "datasets", "estimators", "secure", "beside"),
    "papers.client": ("server", "papers.server", "estimators"),
    "secure.dealer": ("client", "server", "containers", "estimators"),
    "secure.protocol": ("client", "server", "federation", "message", "containers", "estimators", "secure.dealer"),
    "secure.server": ("client", "containers", "datasets", "estimators", "secure.client", "secure.dealer", "beside"),
    "secure.client": ("server", "secure.server", "estimators"),
    "privacy": ("client", "server", "estimators"),
    "parallel": ("client", "server", "federation", "message", "containers", "estimators"),  # it carries what it gets
    "client": ("server", "estimators"),
    "federation": ("client", "server", "containers", "estimators"),
    "containers": ("client", "server", "federation", "message", "estimators"),
}


@pytest.mark.medium
def test_the_import_graph_is_read():
    assert "server.likelihood" in imported_modules("estimators._parts")
    assert "statespace.observation" in imported_modules("message.states")
    assert "message.packet" in reachable("server.likelihood")


@pytest.mark.medium
def test_what_lies_below_everything_imports_nothing():
    lowest = [name for name in MODULES if is_lowest(name)]
    assert {*LOWEST, "message.tuning"} <= set(lowest)
    assert {name: found for name in lowest if (found := imported_modules(name))} == {}


@pytest.mark.medium
@pytest.mark.parametrize("part", ONLY)
def test_a_part_imports_only_what_lies_below_it(part):
    modules = [name for name in MODULES if inside(name, part)]
    assert modules
    for name in modules:
        others = {target for target in imported_modules(name) if not (inside(target, *ONLY[part]) or is_lowest(target))}
        assert not others, f"{name} imports {others}"


@pytest.mark.medium
@pytest.mark.parametrize("part", NEVER)
def test_a_part_cannot_reach_what_it_must_not_see(part):
    modules = [name for name in MODULES if inside(name, part)]
    assert modules
    for name in modules:
        forbidden = {target for target in reachable(name) if inside(target, *NEVER[part])}
        assert not forbidden, f"{name} reaches {forbidden}"
