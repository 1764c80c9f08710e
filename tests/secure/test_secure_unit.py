"""A unit in secure sums answers once, about its whole record, and nothing else."""

import json
import pickle

import numpy as np
import pytest

from skfedcausal import KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.federation import Gate
from skfedcausal.federation.atomic import LedgerError, read_ledger
from skfedcausal.message.packet import PacketError
from skfedcausal.message.requests import FitRequest, RecordRequest
from skfedcausal.message.secure import MaskedSeries, SecureSumsRequest
from skfedcausal.secure import SumsAccount, SumsWorker
from skfedcausal.secure.client import SumsRefusedError
from skfedcausal.secure.protocol import graded_series
from skfedcausal.secure.server.sums import others_of
from skfedcausal.statespace.lag_products import Sums

from ._plant import LAGS, SUMS, first_round, records, units


def worker(Y, inputs=None, client=None, **settings):
    unit = UnitWorker("unit0", Y, inputs, (0,), None, client or KalmanClient(n_states=2))
    return SumsWorker(unit, b"k" * 32, **settings)


def ask(unit, state=None, lags=LAGS):
    return unit.handle(SecureSumsRequest(lags).to_packet(1), state or {})


@pytest.mark.parametrize("request_", [FitRequest(), RecordRequest()])
def test_nothing_else_is_answered(request_):
    unit = worker(records()["unit0"])
    _, state = ask(unit)
    for known in ({}, state):
        with pytest.raises(PacketError, match=f"secure sums only and does not answer {request_.OP!r}"):
            unit.handle(request_.to_packet(2), known)


def test_products_need_a_first_round():
    workers, _ = units(records())
    messages, _ = first_round(workers)
    with pytest.raises(PacketError, match="before it was asked for its states"):
        workers["unit0"].handle(others_of(messages, SUMS)["unit0"].to_packet(2), {})


def test_the_same_question_has_the_same_answer_and_other_lags_have_none():
    unit = worker(records()["unit0"])
    answer, state = ask(unit)
    assert ask(unit, state)[0].encode() == answer.encode()
    with pytest.raises(PacketError, match="answers only once"):
        ask(unit, state, LAGS + 1)


def test_nothing_is_masked_twice_with_the_same_mask():
    """Masks of records that differ in one cell share no element, nor do those of other lags."""
    Y = records()["unit0"]
    changed = Y.copy()
    changed[200, 3] += 1e-3
    told = [ask(worker(Y)), ask(worker(changed)), ask(worker(Y), lags=LAGS + 1)]
    series = [MaskedSeries.from_packet(packet).masked for packet, _ in told]
    tags = {MaskedSeries.from_packet(packet).tag.tobytes() for packet, _ in told}
    assert len(tags) == 3
    for other in series[1:]:  # what an observer could subtract is far from the difference of the scores
        assert np.abs((series[0] - other).view(np.int64).astype(float)).mean() > 2**60


def test_an_account_outlives_the_process(tmp_path):
    Y, path = records()["unit0"], tmp_path / "home" / "sums.json"
    answer, _ = ask(worker(Y, account=SumsAccount(path)))
    assert ask(worker(Y, account=SumsAccount(path)))[0].encode() == answer.encode()
    with pytest.raises(PacketError, match="answers only once"):
        ask(worker(Y[1:], account=SumsAccount(path)))  # two answers over nearly the same rows
    assert len(path.read_text().splitlines()) == 1
    ask(worker(Y[1:], account=SumsAccount(path, most=2)))


def test_a_gate_that_was_shut_down_goes_on(tmp_path):
    """The journal brings the worker back to where it was, and the account takes that for the same answer."""

    def gate():
        unit = SumsWorker(workers["unit0"]._worker, b"unit0".ljust(32), account=SumsAccount(tmp_path / "sums.json"))
        return Gate("unit0", unit, tmp_path)

    workers, _ = units(records())
    messages, _ = first_round(workers)
    first, second = SecureSumsRequest(LAGS).to_packet(1), others_of(messages, SUMS)["unit0"].to_packet(2)
    assert gate().volunteer("may", first) == gate().volunteer("may", first)
    told = gate().volunteer("may", second)
    assert told[1] is not None
    assert gate().volunteer("may", second) == told
    tags = {line["tag"] for line in read_ledger(tmp_path / "sums.json")}
    assert tags == {messages["unit0"].tag.tobytes().hex()}


def test_an_account_knows_what_the_others_sent(tmp_path):
    X, path = records(), tmp_path / "sums.json"
    for shift in (0, 1):
        workers, _ = units(X)
        workers["unit0"] = SumsWorker(workers["unit0"]._worker, b"unit0".ljust(32), account=SumsAccount(path))
        messages, states = first_round(workers)
        request = others_of(messages, SUMS)["unit0"]
        request.masked[0, 0] += np.uint64(shift)
        if shift:
            with pytest.raises(PacketError, match="other series of the others"):
                workers["unit0"].handle(request.to_packet(2), states["unit0"])
        else:
            workers["unit0"].handle(request.to_packet(2), states["unit0"])
    more = SumsWorker(workers["unit0"]._worker, b"unit0".ljust(32), account=SumsAccount(path, most=2))
    more.handle(request.to_packet(2), states["unit0"])
    assert [line["asked"] is None for line in read_ledger(path)] == [True, False, False]


def test_an_account_of_an_earlier_version_counts(tmp_path):
    path = tmp_path / "sums.json"
    path.write_text(json.dumps([["may", "a"], ["june", None]]))
    account = SumsAccount(path, most=2)
    assert [account.allows(*one) for one in (("may", "a"), ("may", "b"), ("june", "c"), ("july",))] == [
        *(True, False, True, False)
    ]
    assert [(line["tag"], line["asked"]) for line in read_ledger(path)][:2] == [("may", "a"), ("june", None)]


def test_an_account_of_an_earlier_version_that_is_not_whole_is_refused(tmp_path):
    (tmp_path / "sums.json").write_text('[["may", "a')
    with pytest.raises(LedgerError, match=r"sums.json is not whole"):
        SumsAccount(tmp_path / "sums.json")


def test_an_account_that_is_taken_away_meanwhile_is_missed(tmp_path):
    account = SumsAccount(tmp_path / "sums.json")
    account.allows("may", "a")
    account.path.unlink()
    with pytest.raises(LedgerError, match="put the whole account back"):
        account.allows("may", "b")


def test_own_sums_at_all_lags_would_tell_the_series():
    with pytest.raises(PacketError, match="asked for 202 sums about each series of 400 rows"):
        ask(worker(records()["unit0"]), lags=100)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda Y: {"Y": np.where(np.arange(len(Y))[:, None] == 3, np.nan, Y)}, "missing measurements"),
        (lambda Y: {"Y": Y, "inputs": np.ones((len(Y), 1)) * np.arange(len(Y))[:, None]}, "has inputs"),
        (lambda Y: {"Y": Y[:30, :2], "client": KalmanClient(n_states=1)}, "at least 32 rows"),
    ],
)
def test_records_that_sums_do_not_suffice_for(change, match):
    with pytest.raises(PacketError, match=f"'unit0' .*{match}"):
        ask(worker(**change(records()["unit0"])))


def test_a_short_key_is_refused():
    with pytest.raises(ValueError, match=r"'unit0'.*3 bytes"):
        SumsWorker(UnitWorker("unit0", records()["unit0"], None, (0,), None, KalmanClient()), b"abc")


def test_series_of_other_rows_are_refused():
    workers, _ = units(records())
    messages, states = first_round(workers)
    request = others_of(messages, SUMS)["unit0"]
    short = type(request)(request.masked[:-1], request.sizes, request.tags, request.names)
    with pytest.raises(PacketError, match="399 rows"):
        workers["unit0"].handle(short.to_packet(2), states["unit0"])
    mine = type(request)(request.masked, request.sizes, request.tags, ("unit0", "unit2"))
    with pytest.raises(PacketError, match="'unit0'"):
        workers["unit0"].handle(mine.to_packet(2), states["unit0"])


@pytest.mark.parametrize(("n_rows", "most", "sent"), [(600, 0.5, 1800), (600, 0.2, 600), (447, 0.5, 447)])
def test_what_grades_rest_on_is_sent_where_it_tells_little_enough(n_rows, most, sent):
    """88 x 2 sums among its own two states are 0.29 of 600 rows."""
    workers, _ = units(records(n_samples=n_rows), most=most)
    answer, _ = workers["unit0"].handle(SecureSumsRequest(LAGS, graded=True).to_packet(1), {})
    message = MaskedSeries.from_packet(answer)
    assert len(message.masked) == sent
    assert message.sums == Sums(LAGS, (n_rows,), sent > n_rows)


def test_a_refusal_is_the_same_in_another_process():
    workers, _ = units(records(), most=0.01)
    with pytest.raises(SumsRefusedError, match="over its limit") as refused:
        first_round(workers)
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.rule) == (str(refused.value), "most")


def test_a_state_that_is_lines_has_no_grades():
    z = np.repeat([0.0, 1.0], 300)[:, None] + np.arange(600)[:, None] * 1e-3
    with pytest.raises(ValueError, match="a line within every 25 rows"):
        graded_series(np.cumsum(np.ones((600, 1)), axis=0), np.eye(1), (0,))
    assert np.isfinite(graded_series(z, np.eye(1), (0,))).all()
