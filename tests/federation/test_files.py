"""Files between the machines carry the same fit, whole or not at all; what is not the site's is refused."""

import os
import threading
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pandas import testing

from skfedcausal import (
    Communication,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GradientServer,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
)
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import (
    ClientError,
    FileLoopback,
    FileSite,
    FileTransport,
    Gate,
    LostUnits,
    LostUnitWarning,
    Packet,
    SitePolicy,
    verify_ledger,
)
from skfedcausal.federation.atomic import file_name
from skfedcausal.federation.envelope import Envelope
from skfedcausal.message.requests import FitRequest
from skfedcausal.papers import StopRule

pytestmark = pytest.mark.medium

# Sites are threads here. The BLAS of numpy 1.26 answers in other last bits in up to one of a hundred fits of a unit
# while another thread uses LAPACK, both with one thread of their own (none of 17 000 with that of numpy 2.4).
_LAST_BITS = 1e-9 if np.lib.NumpyVersion(np.__version__) < "2.0.0" else 0.0
assert_array_equal = partial(assert_allclose, rtol=_LAST_BITS, atol=_LAST_BITS / 1000)
assert_frame_equal = partial(testing.assert_frame_equal, rtol=_LAST_BITS, atol=_LAST_BITS / 1000)

UNITS = ("mill", "kiln", "raw mix/2")
X, _ = make_granger_plant(3, names=UNITS, n_samples=400, random_state=3)
DRIVEN, DRIVEN_TRUTH = make_granger_plant(
    2, n_samples=600, links=[(0, 1)], n_inputs=1, input_links=[(0, 1)], random_state=0
)
KEYS = {name: bytes([k + 1]) * 32 for k, name in enumerate((*UNITS, *DRIVEN))}


class Sites:
    """Sites in threads of this process, as they would be in processes of their own."""

    def __init__(self, tmp_path, record, inputs=None, keys=KEYS, run="march"):
        self.folder, self.home, self.run, self.keys = tmp_path / "exchange", tmp_path / "home", run, keys
        self.record, self.inputs = record, dict(zip(record, inputs or (), strict=False))
        self.stop, self.threads, self.gates = False, [], {}
        self.client, self.policy = KalmanClient(), SitePolicy()

    def gate(self, name, **settings):
        U = self.inputs.get(name)
        worker = UnitWorker(name, self.record[name], U, (0,), None, self.client)
        settings = {"policy": self.policy} | settings
        return Gate(name, worker, self.home / file_name(name), key=self.keys[name], **settings)

    def start(self, *names, **settings):
        for name in names or self.record:
            self.gates[name] = self.gate(name, **settings)
            site = FileSite(self.gates[name], self.folder)
            thread = threading.Thread(target=site.serve, kwargs={"stop": lambda: self.stop}, daemon=True)
            self.threads.append(thread)
            thread.start()
        return self

    def transport(self, **settings):
        settings = {"timeout": 30.0} | settings
        return FileTransport(self.folder, list(self.record), self.run, self.keys, **settings)

    def wire(self, box):
        return sum(path.stat().st_size for path in self.folder.glob(f"*/{box}/*.packet"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop = True
        for thread in self.threads:
            thread.join()


@pytest.fixture
def sites(tmp_path):
    with Sites(tmp_path, X) as sites:
        yield sites


# --- the same numbers -----------------------------------------------------------------------------

TRAINED = SitePolicy(operations=("train",), rounds=100)
SERVERS = {
    "likelihood": (LikelihoodServer(), SitePolicy()),
    "likelihood, two rounds": (
        LikelihoodServer(options=LikelihoodOptions(n_rounds=2)),
        SitePolicy(operations=("refine",), rounds=2),
    ),
    "gradient, series": (GradientServer(stop=StopRule(max_iter=5, tol=0.0)), TRAINED),
    "gradient, moments": (GradientServer(exchange="moments", stop=StopRule(max_iter=5, tol=0.0)), TRAINED),
    "gradient, stationary": (GradientServer(solve="stationary"), TRAINED),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("server", "policy"), SERVERS.values(), ids=SERVERS.keys())
def test_sites_behind_files_learn_the_identical_plant(sites, server, policy):
    sites.policy = policy
    here = FederatedGrangerEstimator(server=server).fit(X)
    sites.start()
    transport = sites.transport()
    there = FederatedGrangerEstimator(server=server).fit_sites(transport)
    transport.close()
    assert_array_equal(there.transition_, here.transition_)
    assert_frame_equal(there.links_, here.links_)
    for name in UNITS:
        state = sites.gates[name].state
        assert_array_equal(state["augmenter"].coef_, here.augmenters_[name].coef_)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_identical_plant_in_lower_precision(sites, dtype):
    sites.start()
    there = FederatedGrangerEstimator(communication=Communication(wire_dtype=dtype)).fit_sites(sites.transport())
    here = FederatedGrangerEstimator(communication=Communication(wire_dtype=dtype)).fit(X)
    assert_array_equal(there.transition_, here.transition_)


def test_counterfactuals_are_identical_at_the_sites(tmp_path):
    here = FederatedCounterfactualEstimator(server=LikelihoodServer(options=LikelihoodOptions(n_rounds=1))).fit(
        DRIVEN, inputs=DRIVEN_TRUTH.inputs
    )
    effect, std = here.counterfactual("unit0", 0.0, 1.0, horizon=5, return_std=True)
    with Sites(tmp_path, DRIVEN, DRIVEN_TRUTH.inputs) as sites:
        sites.policy = SitePolicy(operations=("counterfactual",))
        sites.start()
        there = FederatedCounterfactualEstimator().fit_sites(sites.transport())
        assert_frame_equal(there.counterfactual("unit0", 0.0, 1.0, horizon=5), effect)
        states = there.counterfactual("unit0", 0.0, 1.0, horizon=5, of="state")
        assert_array_equal(there.input_, here.input_)
        assert_frame_equal(states, here.counterfactual("unit0", 0.0, 1.0, horizon=5, of="state"))
        for name in DRIVEN:
            columns = [c for c in effect if c.startswith(name)]
            assert_array_equal(sites.gates[name].state["effect"], effect[columns])
            assert_array_equal(sites.gates[name].state["effect_std"], std[columns])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("exchange", ["series", "moments"])
def test_gradient_training_with_inputs_is_identical_at_the_sites(tmp_path, exchange):
    server = GradientServer(exchange=exchange, stop=StopRule(max_iter=4, tol=0.0))
    here = FederatedCounterfactualEstimator(server=server).fit(DRIVEN, inputs=DRIVEN_TRUTH.inputs)
    effect = here.counterfactual("unit0", 0.0, 1.0, horizon=3)
    with Sites(tmp_path, DRIVEN, DRIVEN_TRUTH.inputs) as sites:
        sites.policy = SitePolicy(operations=("train", "counterfactual"), rounds=100)
        sites.start()
        there = FederatedCounterfactualEstimator(server=server).fit_sites(sites.transport())
        assert_frame_equal(there.counterfactual("unit0", 0.0, 1.0, horizon=3), effect)
        assert_array_equal(there.input_, here.input_)
        for name in DRIVEN:
            columns = [c for c in effect if c.startswith(name)]
            assert_array_equal(sites.gates[name].state["effect"], effect[columns])


@pytest.mark.parametrize("one_way", [False, True])
def test_a_detector_learns_links_and_thresholds_from_sites(sites, one_way):
    here = FederatedRCADetector(false_alarm_rate=0.01).fit(X)
    sites.client = KalmanClient()
    if one_way:
        request = FitRequest(monitor=True).to_packet(1)
        for name in UNITS:
            FileSite(sites.gate(name), sites.folder).send("march", request)
    else:
        sites.start()
    there = FederatedRCADetector(false_alarm_rate=0.01).fit_sites(sites.transport(one_way=one_way))
    assert_array_equal(there.transition_, here.transition_)
    assert there.thresholds_ == here.thresholds_
    assert there.false_alarms_ == here.false_alarms_


ESTIMATORS = {
    "granger": (FederatedGrangerEstimator, X, {}),
    "counterfactual": (FederatedCounterfactualEstimator, DRIVEN, {"inputs": DRIVEN_TRUTH.inputs}),
    "root cause": (partial(FederatedRCADetector, false_alarm_rate=0.01), X, {}),
}


@pytest.mark.parametrize("case", ESTIMATORS.values(), ids=ESTIMATORS.keys())
def test_every_estimator_fits_over_files_as_in_process(case, tmp_path):
    kind, record, more = case
    there = kind(communication=Communication(transport=FileLoopback(tmp_path))).fit(record, **more)
    here = kind().fit(record, **more)
    assert_array_equal(there.transition_, here.transition_)
    assert_array_equal(there.transform(record, **more), here.transform(record, **more))


# --- one-way --------------------------------------------------------------------------------------


def test_over_a_one_way_link_links_come_out_and_nothing_goes_in(sites):
    here = FederatedGrangerEstimator().fit(X)
    request = Packet("fit", 1, scalars={"dtype": "float64", "const": False, "local_model": False})
    for name in UNITS:
        FileSite(sites.gate(name), sites.folder).send("march", request)
    there = FederatedGrangerEstimator().fit_sites(sites.transport(one_way=True))
    assert_array_equal(there.transition_, here.transition_)
    assert_frame_equal(there.links_, here.links_)
    assert not list(sites.folder.glob("*/inbox/*"))
    assert there.communication_["bytes_down"] == 0


def test_training_by_gradients_is_refused_over_a_one_way_link(sites):
    with pytest.raises(ValueError, match="several rounds"):
        FederatedGrangerEstimator(server=GradientServer()).fit_sites(sites.transport(one_way=True))


# --- accounts -------------------------------------------------------------------------------------


def test_ledgers_equal_the_bytes_of_the_files(sites):
    sites.start()
    transport = sites.transport()
    est = FederatedGrangerEstimator().fit_sites(transport)
    transport.close()
    accounts = [verify_ledger(sites.home / file_name(name) / "ledger.jsonl") for name in UNITS]
    assert sum(account["bytes_up"] for account in accounts) == sites.wire("outbox") == transport.bytes_up
    assert sum(account["bytes_down"] for account in accounts) == sites.wire("inbox") == transport.bytes_down
    closing = sum(e["packet_bytes"] for g in sites.gates.values() for e in g.ledger.entries() if e["round"] == 0)
    packets = sum(e["packet_bytes"] for gate in sites.gates.values() for e in gate.ledger.entries())
    assert packets - closing == est.communication_["bytes_up"] + est.communication_["bytes_down"]


def test_a_limit_of_bytes_stops_before_anything_is_sent(sites):
    sites.start(*UNITS[:2])
    sites.start(UNITS[2], max_bytes=1000)
    with pytest.raises(ClientError, match=r"'raw mix/2' gave no answer: refused max_bytes"):
        FederatedGrangerEstimator().fit_sites(sites.transport())
    account = sites.gates[UNITS[2]].ledger
    assert account.verify()["bytes_up"] < 1000
    assert [e["event"] for e in account.entries()] == ["taken", "not sent", "sent"]


# --- lost units -----------------------------------------------------------------------------------


def test_a_unit_that_never_answers_is_left_out_exactly(sites):
    sites.start("mill", "kiln")
    est = FederatedGrangerEstimator(communication=Communication(lost_units=LostUnits(quorum=2, timeout=1.0)))
    with pytest.warns(LostUnitWarning, match="raw mix/2"):
        est.fit_sites(sites.transport())
    alone = FederatedGrangerEstimator().fit({name: X[name] for name in ("mill", "kiln")})
    assert_array_equal(est.transition_, alone.transition_)
    assert list(est.lost_units_["unit"]) == ["raw mix/2"]
    assert "timeout" in est.lost_units_["reason"][0]


def test_below_the_quorum_the_fit_ends_with_names_and_reasons(sites):
    sites.start("mill")
    est = FederatedGrangerEstimator(communication=Communication(lost_units=LostUnits(quorum=2, timeout=0.5)))
    with pytest.raises(ClientError, match=r"(?s)'kiln' gave no answer: timeout.*1 of 3 units.*quorum is 2"):
        est.fit_sites(sites.transport())


def test_a_late_site_is_not_asked_what_is_no_longer_wanted(sites):
    sites.start("mill", "kiln")
    with pytest.warns(LostUnitWarning):
        FederatedGrangerEstimator(communication=Communication(lost_units=LostUnits(quorum=2, timeout=0.5))).fit_sites(
            sites.transport()
        )
    assert not list((sites.folder / file_name("raw mix/2") / "inbox").glob("*"))


# --- what is not taken ----------------------------------------------------------------------------


def put(sites, name, data, sequence=1):
    path = sites.folder / file_name(name) / "outbox" / f"march-{sequence:08d}.packet"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_part_of_a_file_is_waited_for_and_never_read(sites):
    transport = sites.transport(timeout=0.5, one_way=True)
    request = Packet("fit", 1, scalars={"dtype": "float64", "const": False, "local_model": False})
    path = FileSite(sites.gate("mill"), sites.folder).send("march", request)
    whole = path.read_bytes()
    for size in (0, 3, 10, 60, len(whole) - 1):
        path.write_bytes(whole[:size])
        transport._sequence = 0
        answer = transport.exchange({"mill": request})["mill"]
        assert (answer.kind, answer.detail) == ("timeout", f"only part of a file came to {path}")
    threading.Timer(0.2, path.write_bytes, [whole]).start()
    transport._sequence = 0
    assert transport.exchange({"mill": request}, timeout=5.0)["mill"].op == "states"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda frame: b"garbage" * 30, "wrong magic number"),
        (lambda frame: frame[:4] + b"\x07\x00" + frame[6:], "version 7 is not known"),
        (lambda frame: frame[:-1] + bytes([frame[-1] ^ 1]), "Signature does not fit"),
        (lambda frame: frame[:200] + bytes([frame[200] ^ 1]) + frame[201:], "Signature does not fit"),
        (lambda frame: frame + b"more", "4 bytes after"),
    ],
)
def test_a_file_that_was_tampered_with_is_refused_by_name(sites, change, reason):
    request = Packet("fit", 1, scalars={"dtype": "float64", "const": False, "local_model": False})
    for name in UNITS:
        path = FileSite(sites.gate(name), sites.folder).send("march", request)
    path.write_bytes(change(path.read_bytes()))
    transport = sites.transport(one_way=True)
    with pytest.raises(ClientError, match=f"'raw mix/2' gave no answer: refused .*{reason}"):
        FederatedGrangerEstimator().fit_sites(transport)
    assert [name for name, _ in transport.refusals] == ["raw mix/2"]


def test_a_huge_file_is_refused_unread(sites):
    put(sites, "mill", bytes(50_000))
    transport = sites.transport(one_way=True, max_frame=40_000)
    answer = transport.exchange({"mill": Packet("fit", 1)})["mill"]
    assert answer.kind == "refused"
    assert "50000 bytes" in answer.detail


def test_another_unit_s_packet_and_an_old_one_are_refused(sites):
    request = Packet("fit", 1, scalars={"dtype": "float64", "const": False, "local_model": False})
    frame = FileSite(sites.gate("mill"), sites.folder).send("march", request).read_bytes()
    transport = FileTransport(sites.folder, ["mill", "kiln"], "march", dict.fromkeys(UNITS, KEYS["mill"]), one_way=True)
    put(sites, "kiln", frame)
    answers = transport.exchange({"mill": request, "kiln": request})
    assert answers["mill"].op == "states"
    assert "site 'mill', not 'kiln'" in answers["kiln"].detail
    put(sites, "mill", frame, sequence=2)
    assert "sequence 1, not 2: late or misrouted" in transport.exchange({"mill": request})["mill"].detail


@pytest.mark.parametrize("key", [None, b"another key of another site 12345"])
def test_a_site_answers_nobody_but_its_server(sites, key):
    gate = sites.gate("mill")
    transport = FileTransport(sites.folder, ["mill"], "march", None if key is None else {"mill": key}, timeout=0.3)
    site = FileSite(gate, sites.folder)
    thread = threading.Thread(target=site.serve, kwargs={"timeout": 0.5})
    thread.start()
    answer = transport.exchange({"mill": Packet("fit", 1)})["mill"]
    thread.join()
    assert answer.kind == "timeout"
    assert [e["event"] for e in gate.ledger.entries()] == ["refused"]
    assert "Signature" in gate.ledger.entries()[0]["reason"]


def test_the_text_of_an_exception_stays_at_the_site(sites):
    gate = sites.gate("mill")
    gate.worker.client = 3.14159  # no client
    with Sites(sites.home.parent, X) as own:
        own.gates["mill"] = gate
        thread = threading.Thread(target=FileSite(gate, own.folder).serve, kwargs={"timeout": 1.0})
        thread.start()
        answer = sites.transport().exchange({"mill": Packet("fit", 1)})["mill"]
        thread.join()
    assert (answer.kind, answer.detail) == ("client-error", "TypeError")
    assert "3.14159" not in str(answer)
    assert "TypeError" in (sites.home / "mill" / "errors.log").read_text()


# --- after a crash --------------------------------------------------------------------------------


def test_a_site_that_was_killed_goes_on_where_it_was(sites):
    server = GradientServer(stop=StopRule(max_iter=8, tol=0.0))
    transport = sites.transport()
    exchange, rounds = transport.exchange, []

    def killing_exchange(out, *, timeout=None):
        rounds.append(len(rounds))
        if len(rounds) == 5:
            sites.__exit__()
            sites.stop = False
            sites.start()
        return exchange(out, timeout=timeout)

    transport.exchange = killing_exchange
    sites.policy = TRAINED
    sites.start()
    there = FederatedGrangerEstimator(server=server).fit_sites(transport)
    here = FederatedGrangerEstimator(server=server).fit(X)
    assert_array_equal(there.transition_, here.transition_)
    account = verify_ledger(sites.home / "mill" / "ledger.jsonl")
    assert account["bytes_up"] == sum(p.stat().st_size for p in (sites.folder / "mill/outbox").glob("*.packet"))


def test_a_server_that_was_killed_goes_on_where_it_was(sites, tmp_path):
    server = GradientServer(stop=StopRule(max_iter=8, tol=0.0))
    sites.policy = TRAINED
    sites.start()
    transport = sites.transport(journal=tmp_path / "journal")
    exchange = transport.exchange

    def dying_exchange(out, *, timeout=None):
        if transport._sequence == 5:
            raise KeyboardInterrupt
        return exchange(out, timeout=timeout)

    transport.exchange = dying_exchange
    with pytest.raises(KeyboardInterrupt):
        FederatedGrangerEstimator(server=server).fit_sites(transport)
    asked = sites.wire("inbox")
    again = sites.transport(journal=tmp_path / "journal")
    there = FederatedGrangerEstimator(server=server).fit_sites(again)
    here = FederatedGrangerEstimator(server=server).fit(X)
    assert_array_equal(there.transition_, here.transition_)
    assert sites.wire("inbox") == asked + again.bytes_down


def test_a_run_is_not_continued_on_another_record(sites):
    gate = sites.gate("mill", fingerprint="a")
    request = Packet("fit", 1, scalars={"dtype": "float64", "const": False, "local_model": False})
    FileSite(gate, sites.folder).send("march", request)
    with pytest.raises(ValueError, match="begun on another record"):
        FileSite(sites.gate("mill", fingerprint="b"), sites.folder).send("march", request)


# --- folders --------------------------------------------------------------------------------------


class Echo:
    """Answers with what it was asked, and that there is nothing yet where it was asked to wait."""

    def handle(self, packet, state):
        return Packet("nothing yet" if packet.op == "wait" else "echo", packet.round, scalars={"of": packet.op}), state


def echo_site(tmp_path, home="home"):
    return FileSite(Gate("raw mix/2", Echo(), tmp_path / home, key=b"k" * 32), tmp_path / "exchange")


def asked(tmp_path, *numbers, run="march"):
    """Questions in the inbox of the site, in this order of time."""
    inbox = tmp_path / "exchange" / "raw mix%2F2" / "inbox"
    inbox.mkdir(parents=True, exist_ok=True)
    for when, number in enumerate(numbers, start=1):
        frame = Envelope(run, "raw mix/2", "down", number).seal(Packet("ask", number).encode(), b"k" * 32)
        (inbox / f"{run}-{number:08d}.packet").write_bytes(frame)
        os.utime(inbox / f"{run}-{number:08d}.packet", ns=(when, when))
    return inbox


def names(paths):
    return [path.name for path in paths]


def test_questions_are_answered_once_the_oldest_first(tmp_path):
    site = echo_site(tmp_path)
    assert site.step() == []
    asked(tmp_path, 1, 2, 10)
    answers = site.step()
    assert names(answers) == ["march-00000001.packet", "march-00000002.packet", "march-00000010.packet"]
    assert {path.parent for path in answers} == {tmp_path / "exchange" / "raw mix%2F2" / "outbox"}
    assert site.step() == []


def test_the_time_of_a_question_counts_before_its_name(tmp_path):
    asked(tmp_path, 2, run="march")
    inbox = asked(tmp_path, 1, run="april")
    os.utime(inbox / "april-00000001.packet", ns=(7, 7))
    assert names(echo_site(tmp_path).step()) == ["march-00000002.packet", "april-00000001.packet"]


def test_a_question_that_is_put_again_is_answered_again_with_the_same_bytes(tmp_path):
    site = echo_site(tmp_path)
    inbox = asked(tmp_path, 1)
    (answer,) = site.step()
    data, written = answer.read_bytes(), answer.stat().st_mtime_ns
    os.utime(inbox / answer.name, ns=(9, 9))
    assert site.step() == [answer]
    assert (answer.read_bytes(), answer.stat().st_mtime_ns) == (data, written)  # it was not written again
    answer.unlink()
    os.utime(inbox / answer.name, ns=(10, 10))
    assert site.step() == [answer]
    assert answer.read_bytes() == data


def test_a_site_that_starts_again_passes_by_what_has_its_answer(tmp_path):
    asked(tmp_path, 1)
    echo_site(tmp_path).step()
    asked(tmp_path, 1, 2)
    assert names(echo_site(tmp_path).step()) == ["march-00000002.packet"]


def test_drafts_other_files_and_parts_are_no_questions(tmp_path):
    site = echo_site(tmp_path)
    inbox = asked(tmp_path, 1)
    whole = inbox / "march-00000001.packet"
    frame = whole.read_bytes()
    whole.rename(inbox / ".march-00000001.packet")
    (inbox / "march-00000001.packet.7-7.part").write_bytes(frame)
    (inbox / "march-00000002.packet").write_bytes(frame[:-1])
    assert site.step() == []
    assert site.gate.ledger.entries() == []
    (inbox / "march-00000002.packet").write_bytes(frame)
    assert names(site.step()) == ["march-00000001.packet"]  # the number on the envelope counts
    (inbox / "march-00000003.packet").write_bytes(b"garbage")
    assert site.step() == []
    assert site.gate.ledger.entries()[-1]["event"] == "refused"


@pytest.mark.parametrize("end", ["close", "stop", "timeout"])
def test_a_site_serves_until_the_run_is_closed_or_it_is_to_stop_or_nothing_comes(tmp_path, end):
    site, seen = echo_site(tmp_path), []
    inbox = asked(tmp_path, 1)

    def watch(path):
        seen.append(path.name)
        if end == "close" and len(seen) == 1:
            frame = Envelope("march", "raw mix/2", "down", 2).seal(Packet("close").encode(), b"k" * 32)
            (inbox / "march-00000002.packet").write_bytes(frame)

    site.gate.closed = True  # of a run before
    how = {"stop": lambda: len(seen) > 0} if end == "stop" else {"timeout": 0.05} if end == "timeout" else {}
    assert site.serve(watch=watch, **how) is (end == "close")
    assert names([tmp_path / name for name in seen]) == [
        f"march-0000000{k}.packet" for k in (1, 2)[: 1 + (end == "close")]
    ]


def test_what_a_site_sends_on_its_own_is_in_its_outbox_once_there_is_something(tmp_path):
    site = echo_site(tmp_path)
    assert site.send("run 7", Packet("wait")) is None
    path = site.send("run 7", Packet("hello"))
    assert path == tmp_path / "exchange" / "raw mix%2F2" / "outbox" / "run 7-00000001.packet"
    assert site.send("run 7", Packet("hello")) == path


def exchanged(tmp_path, timeout=0.0, **settings):
    transport = FileTransport(tmp_path / "exchange", ["raw mix/2"], "march", {"raw mix/2": b"k" * 32}, **settings)
    return transport, transport.exchange({"raw mix/2": Packet("ask", 1)}, timeout=timeout)["raw mix/2"]


@pytest.mark.parametrize("one_way", [False, True])
def test_a_question_without_an_answer_is_taken_back_and_none_is_put_over_a_one_way_link(tmp_path, one_way):
    outbox = tmp_path / "exchange" / "raw mix%2F2" / "outbox"
    outbox.mkdir(parents=True)
    transport, answer = exchanged(tmp_path, one_way=one_way)
    path = outbox / "march-00000001.packet"
    assert (answer.kind, answer.detail) == ("timeout", f"no file came to {path}; does its site run, with the same key?")
    assert [one for one in (tmp_path / "exchange").rglob("*") if one.is_file()] == []
    assert (tmp_path / "exchange" / "raw mix%2F2" / "inbox").exists() is not one_way
    assert transport.one_way is one_way
    assert FileTransport(tmp_path, [], "march", {}).one_way is False


def test_an_answer_of_a_run_that_was_broken_off_is_not_taken_for_this_one(tmp_path):
    echo_site(tmp_path).send("march", Packet("old"))
    assert exchanged(tmp_path)[1].kind == "timeout"
    assert exchanged(tmp_path, one_way=True)[1].kind == "timeout"


def test_a_file_may_have_as_many_bytes_as_are_taken(tmp_path):
    size = echo_site(tmp_path).send("march", Packet("hello")).stat().st_size
    for limit, op in ((size, "echo"), (size - 1, None)):
        assert getattr(exchanged(tmp_path, one_way=True, max_frame=limit)[1], "op", None) == op


def test_units_of_this_process_have_folders_keys_and_threads_of_their_own(tmp_path):
    loopback = FileLoopback(tmp_path)
    assert loopback.timeout == 600.0
    sites = {"raw mix/2": Echo(), "mill": Echo()}
    transport = loopback(sites)
    answers = transport.exchange(dict.fromkeys(sites, Packet("ask")), timeout=30.0)
    transport.close()
    assert [answers[name].scalars for name in sites] == [{"of": "ask"}, {"of": "ask"}]
    assert not any(thread.is_alive() for thread in transport.threads)
    assert all(thread.daemon for thread in transport.threads)  # who forgets to close can leave
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["mill", "raw mix%2F2"]
    assert len(set(transport._keys.values())) == 2
    assert {len(key) for key in transport._keys.values()} == {32}
