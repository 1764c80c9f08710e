"""Privacy of the detector: of the nominal record, of records and streams that are watched, of flags."""

import pickle
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom
from sklearn.base import clone

from skfedcausal import (
    Communication,
    Evidence,
    FederatedRCADetector,
    GaussianMechanism,
    PrivacyAccountant,
    RandomizedResponse,
    inspection,
)
from skfedcausal.datasets import make_granger_plant
from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Packet
from skfedcausal.message.requests import FlagMessage, VerdictReply
from skfedcausal.privacy import PrivacyBudgetError, Scope, UnitNoise
from skfedcausal.privacy.calibration import Bounds
from skfedcausal.server.watching.incidents import needed_answers, roots_of_flags

from ._audit import gaussian_mu
from ._poison import TRANSPORTS, ByBytes, Poisoning

N, NEW = 1501, 200
SETTINGS = {"mu": 2.0, "delta": 1e-6, "clip_norm": 25.0, "event_radius": 3.0}
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::skfedcausal.privacy.{name}")
    for name in ("UtilityWarning", "SeededNoiseWarning", "WeakPrivacyWarning")
] + [pytest.mark.filterwarnings("ignore:One false alarm per:UserWarning"), pytest.mark.medium]


def make_records(seed=0):
    X, _ = make_granger_plant(3, n_states=2, n_sensors=5, n_samples=N + NEW, random_state=seed)
    return {name: Y[:N].copy() for name, Y in X.items()}, {name: Y[N:].copy() for name, Y in X.items()}


def copied(X):
    return {name: Y.copy() for name, Y in X.items()}


def batches(X, size):
    n_samples = len(next(iter(X.values())))
    return [{name: Y[k : k + size] for name, Y in X.items()} for k in range(0, n_samples, size)]


@pytest.fixture(scope="module")
def fitted():
    """A detector under a mechanism whose account nobody else has."""
    nominal, _ = make_records()
    return FederatedRCADetector(privacy=GaussianMechanism(**SETTINGS)).fit(nominal)


# --- nothing raw passes -----------------------------------------------------------------------------


@pytest.mark.parametrize("evidence", ["innovations", "flags"])
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_nothing_after_a_release_needs_the_raw_record(transport, evidence):
    detectors = {}
    for kind in (Poisoning, GaussianMechanism):
        nominal, new = make_records()
        mechanism = kind(**SETTINGS, random_state=0)
        detector = FederatedRCADetector(
            privacy=mechanism, communication=Communication(transport=transport), evidence=evidence
        )
        if kind is Poisoning:
            poisoned = nominal
        detectors[kind] = detector.fit(nominal)
    assert all(np.isnan(Y).all() for Y in poisoned.values())
    calls = [
        FederatedRCADetector.score_samples,
        FederatedRCADetector.transform,
        FederatedRCADetector.predict,
        lambda d, X: d.attribute(X).to_numpy()[:, 1:].astype(float),
        lambda d, X: (
            d.incidents(X).drop(columns=["root", "path", "ranking", "kind", "repeats", "status"]).to_numpy(dtype=float)
        ),
    ]
    calls += [inspection.flags] if evidence == "flags" else []
    for call in calls:
        found, expected = (np.asarray(call(d, copied(new))) for d in detectors.values())
        assert_array_equal(found, expected)
        assert np.isfinite(found.astype(float)).all() or call is calls[4]  # the end of an open incident


def test_streams_are_clipped_and_noised_and_nothing_else_is_read(fitted, monkeypatch):
    """Messages are a function of the noised rows alone: the same rows and noise give the same ones."""
    _, new = make_records()
    seen = []
    monkeypatch.setattr(fitted._root_cause, "push", lambda messages, stream: seen.append(messages) or [])
    noised = GaussianMechanism.noised

    def only_noise(mechanism, Y, noise, rng, out=None):
        return noised(mechanism, np.zeros_like(Y), noise, np.random.default_rng(0))

    monkeypatch.setattr(GaussianMechanism, "noised", only_noise)
    monkeypatch.setattr(GaussianMechanism, "drawn_by", "float-grid")  # an exact sampler takes no generator
    for X in (new, {name: 2 * Y for name, Y in new.items()}):
        fitted.reset()
        fitted.update(X)
    for name in new:
        assert_array_equal(seen[0][name].z, seen[1][name].z)
        assert_array_equal(seen[0][name].off_subspace, seen[1][name].off_subspace)


def test_two_records_with_one_noised_copy_get_one_verdict(fitted):
    (_, new), (_, other) = make_records(), make_records(1)
    mechanism = fitted.privacy
    for name, release in mechanism.release(new, (NEW,), noise=fitted._noise).items():
        plan = mechanism._plan(name, other[name], (NEW,), fitted._noise[name])
        mechanism.account.remember(plan.key, release)
    assert fitted.incidents(new).equals(fitted.incidents(other))
    assert_array_equal(fitted.score_samples(new), fitted.score_samples(other))


# --- thresholds -------------------------------------------------------------------------------------


def test_watched_records_get_the_noise_that_thresholds_were_set_under(fitted):
    _, new = make_records()
    data, noise = fitted._released(fitted._read(new))
    for name, Y in zip(data.names, data.outputs, strict=True):
        added = Y - new[name]
        variance = np.diag(fitted.noise_covariance_[name])
        assert_allclose(added.var(axis=0), variance, rtol=5 * np.sqrt(2 / NEW))
        assert noise[name] == fitted._noise[name]


@pytest.mark.slow
def test_false_alarms_keep_the_budget_under_noise():
    """Ten records of 2000 steps at one false alarm in 500 steps; three standard errors of a Poisson count
    and as much again for the thresholds, which come from one record."""
    X, _ = make_granger_plant(3, n_states=2, n_sensors=5, n_samples=26_000, random_state=3)
    privacy = GaussianMechanism(**SETTINGS)
    detector = FederatedRCADetector(privacy=privacy, false_alarm_rate=1 / 500)
    detector.fit({name: Y[:6000] for name, Y in X.items()})
    n_alarms = 0
    for k in range(6000, 26_000, 2000):
        n_alarms += len(detector.incidents({name: Y[k : k + 2000] for name, Y in X.items()}))
    assert n_alarms < 40 + 6 * np.sqrt(40)


def test_another_promise_needs_another_fit(fitted):
    nominal, new = make_records()
    detector = FederatedRCADetector(privacy=GaussianMechanism(**SETTINGS)).fit(nominal)
    detector.set_params(privacy=GaussianMechanism(**{**SETTINGS, "mu": 4.0}))
    with pytest.raises(ValueError, match="Fit it again"):
        detector.incidents(new)
    with pytest.raises(ValueError, match="Fit it again"):
        detector.update(new)
    detector.set_params(privacy=None)
    for call in (detector.incidents, detector.update):
        with pytest.raises(ValueError, match="no mechanism any more"):
            call(new)
    plain = FederatedRCADetector().fit(nominal).set_params(privacy=GaussianMechanism(**SETTINGS))
    with pytest.raises(ValueError, match="Fit it again"):
        plain.predict(new)
    assert len(plain.privacy.account) == 0


# --- the account ------------------------------------------------------------------------------------


def test_a_record_is_paid_for_once_and_every_record_counts():
    nominal, new = make_records()
    detector = FederatedRCADetector(privacy=GaussianMechanism(**SETTINGS), evidence="flags").fit(nominal)
    account = detector.privacy.account
    assert len(account) == 3  # flags, thresholds and messages are all about one noised record
    detector.incidents(new), detector.predict(new), inspection.flags(detector, new), detector.transform(new)
    assert len(account) == 6
    assert_allclose(detector.privacy_spent_.mu, np.sqrt(2) * 2.0)
    assert "2 releases per unit" in detector.privacy_statement_
    account.new_period()
    detector.score(copied(make_records(1)[1]))
    assert_allclose(detector.privacy_spent_.mu, np.sqrt(2) * 2.0)  # an event is in one of the periods


@pytest.mark.parametrize("unit", ["event", Scope("window", window=30)], ids=["event", "window"])
def test_an_event_is_in_a_stream_once(unit):
    nominal, new = make_records()
    detector = FederatedRCADetector(privacy=GaussianMechanism(**SETTINGS, protects=unit)).fit(nominal)
    account = detector.privacy.account
    for batch in batches(new, 7):
        detector.update(batch)
    assert len(account) == 6
    assert_allclose(detector.privacy_spent_.mu, np.sqrt(2) * 2.0)
    account.new_period()
    detector.update(batch)  # the stream goes on into a period that has not paid for it
    assert len(account) == 9
    assert_allclose(detector.privacy_spent_.mu, np.sqrt(2) * 2.0)
    detector.reset()
    detector.update(batch)
    assert_allclose(detector.privacy_spent_.mu, np.sqrt(2) * 2.0)  # two streams in the new period
    assert set(account.table["channel"]) == {"measurement", "stream"}


def test_a_client_pays_for_every_row_of_a_stream():
    nominal, new = make_records()
    mechanism = GaussianMechanism(protects="client", **{**SETTINGS, "mu": 200.0})
    detector = FederatedRCADetector(privacy=mechanism).fit(nominal)
    for batch in batches(new, 20):
        detector.update(batch)
    assert_allclose(detector.privacy_spent_.mu, 200 * np.sqrt(1 + NEW / N))  # the noise is that of the fit
    table = mechanism.account.table
    assert list(table["count"]) == [1, 1, 1, 10, 10, 10]
    detector.score({name: Y[:100] for name, Y in new.items()})  # a record pays for its length, too
    assert_allclose(detector.privacy_spent_.mu, 200 * np.sqrt(1 + NEW / N + 100 / N))


@pytest.mark.parametrize("unit", ["event", "client"])
def test_a_budget_stops_a_stream_before_anything_leaves(unit):
    nominal, new = make_records()
    mechanism = GaussianMechanism(protects=Scope(unit), **{**SETTINGS, "mu": 1.0})
    mechanism.set_params(accountant=PrivacyAccountant(8.0, 1e-6))
    detector = FederatedRCADetector(privacy=mechanism).fit(nominal)
    detector.update({name: Y[:10] for name, Y in new.items()})  # spends little per client
    if unit == "event":
        detector.reset()
    spent, position = detector.privacy_spent_, detector._stream.n_batches
    sent = detector.stream_ledger_.total("up")
    many = {name: np.tile(Y, (20, 1)) for name, Y in new.items()}
    with pytest.raises(PrivacyBudgetError, match="Nothing was released"):
        detector.update(many)
    assert detector.privacy_spent_ is spent
    assert detector._stream.n_batches == position
    assert detector.stream_ledger_.total("up") == sent
    with pytest.raises(PrivacyBudgetError):
        detector.incidents(many)
    assert not any(entry.op == "states" and entry.round == 0 for entry in detector.ledger_.entries)


@pytest.mark.parametrize("several", [False, True], ids=["one", "list"])
def test_copies_share_the_account_and_files_have_none(several):
    nominal, new = make_records()
    mechanism = GaussianMechanism(**SETTINGS)
    privacy = [mechanism, RandomizedResponse(epsilon=2.0)] if several else mechanism
    detector = FederatedRCADetector(privacy=privacy, evidence=Evidence("flags", n_steps=20)).fit(nominal)
    (detector.attribute if several else detector.update)(new)
    clone(detector).fit({name: 2 * Y for name, Y in nominal.items()})
    assert_allclose(mechanism.account.spent().mu, np.sqrt(3) * 2.0)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(detector)
    saved = pickle.loads(pickle.dumps(detector.set_params(privacy=None)))
    assert saved.privacy_statement_ == detector.privacy_statement_
    with pytest.raises(ValueError, match="no mechanism any more"):
        saved.update(new)


@pytest.mark.parametrize("noise", [1.0, 0.5], ids=["as promised", "halved"])
def test_no_attack_on_a_stream_learns_more_than_promised(noise):
    """Every row is a stream's row of its own: the same worst case in all of them."""
    mechanism = GaussianMechanism(mu=1.0, clip_norm=1.0, random_state=1)
    bounds = Bounds(np.zeros(2), np.ones(2), 1.0, 2.0, True)
    std = noise * mechanism.noise_for(bounds, 1, mechanism.mu_of_release()).std
    scores = []
    for sign in (-1, 1):
        stream = mechanism.stream({"mill": UnitNoise(bounds, std)})
        rows = np.tile(sign * np.array([[0.6, 0.8]]), (1000, 1))
        drawn = np.concatenate([stream.release({"mill": rows})[0]["mill"] for _ in range(10)])
        scores.append(drawn @ [0.6, 0.8])
    assert (gaussian_mu(*scores) > 1.0) == (noise < 1)
    expected = 1.0 / noise * np.sqrt(2)
    assert_allclose(mechanism.account.spent(1e-6).mu, expected, rtol=1e-5)  # and the account is right


def test_noise_of_a_stream_is_never_the_same_twice():
    mechanism = GaussianMechanism(**SETTINGS)
    noise = {"mill": mechanism.noise_of("mill", np.zeros((10, 2)))}
    one, two = mechanism.stream(noise), mechanism.stream(noise)
    rows = {"mill": np.zeros((500, 2))}
    drawn = [stream.release(rows)[0]["mill"] for stream in (one, one, two)]
    for k in range(3):
        for j in range(k):
            r = np.corrcoef(drawn[k].ravel(), drawn[j].ravel())[0, 1]
            assert abs(r) < 4.5 / np.sqrt(1000)


# --- packets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("privacy", [None, GaussianMechanism(**SETTINGS)], ids=["plain", "noise"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_watching_passes_the_ledger(privacy, dtype):
    nominal, new = make_records()
    detector = FederatedRCADetector(privacy=privacy, communication=Communication(wire_dtype=dtype)).fit(nominal)
    before = len(detector.ledger_.entries)
    detector.incidents(new)
    crossed = detector.ledger_.entries[before:]
    expected = [("down", "message"), ("up", "states"), ("down", "verdict"), ("up", "done")]
    assert [(e.client, e.direction, e.op) for e in crossed] == [(name, *kind) for kind in expected for name in new]
    for entry in crossed[3:6]:
        assert entry.fields["z"][1][0] == NEW
        assert entry.fields["z"][0] == dtype
        assert entry.n_bytes < 2 * np.dtype(dtype).itemsize * NEW * (entry.fields["z"][1][1] + 1)


def test_streams_are_counted_to_the_byte(monkeypatch):
    nominal, new = make_records()
    new["unit1"][30:50, 2] = np.nan
    detector, sent, told, asked = FederatedRCADetector().fit(nominal), [], [], []
    push = detector._root_cause.push

    def spy(messages, stream):
        sent.extend(len(message.to_packet().encode()) for message in messages.values())
        changed = push(messages, stream)
        if changed:
            reply = VerdictReply(np.zeros((len(changed), 3)), np.zeros(len(changed)))
            told.extend([len(reply.to_packet().encode())] * len(new))
            sent.extend([len(Packet("done").encode())] * len(new))
        asked.append(detector.stream_ledger_.table.query("op == 'watch'")["bytes"].sum())
        return changed

    monkeypatch.setattr(detector._root_cause, "push", spy)
    new["unit0"][100:] += 3 * new["unit0"].std(axis=0)
    for batch in [*batches(new, 10), *batches(new, 1)[:20]]:
        detector.update(batch)
    assert detector.stream_ledger_.total("up") == sum(sent)
    assert detector.stream_ledger_.total("down") - asked[-1] == sum(told) > 0
    table = detector.stream_ledger_.table
    assert set(table["op"]) == {"watch", "states", "verdict", "done"}
    assert (table.query("op == 'states'")["packets"] == 40).all()


def test_flags_travel_as_two_bits():
    nominal, new = make_records()
    detector = FederatedRCADetector(evidence="flags").fit(nominal)
    before = len(detector.ledger_.entries)
    roots = detector.predict_root_cause(new)
    entries = detector.ledger_.entries[before:]
    assert [entry.op for entry in entries] == [op for op in ("flag", "flags", "verdict", "done") for _ in "abc"]
    assert entries[3].fields["bits"] == ("uint8", (2 * NEW // 8,))
    flags = inspection.flags(detector, new).to_numpy().reshape(NEW, 3, 2)
    assert_array_equal(roots == "", roots_of_flags(flags) == -1)


@pytest.mark.parametrize("n_samples", [1, 3, 4, 100])
def test_flags_and_verdicts_survive_their_way(n_samples):
    pairs = np.random.default_rng(0).random((n_samples, 2)) < 0.3
    assert_array_equal(FlagMessage.from_packet(FlagMessage(pairs).to_packet(7)).pairs, pairs)
    reply = VerdictReply(np.arange(3 * n_samples).reshape(-1, 3), np.arange(n_samples))
    again = VerdictReply.from_packet(reply.to_packet(7))
    assert_array_equal(again.rows, reply.rows)
    assert_array_equal(again.roots, reply.roots)


# --- randomised flags -------------------------------------------------------------------------------


def test_flags_are_answered_at_random_and_only_flags_leave():
    nominal, new = make_records()
    mechanism = RandomizedResponse(epsilon=2.0, random_state=0)
    detector = FederatedRCADetector(privacy=mechanism, evidence=Evidence("flags", n_steps=20)).fit(nominal)
    assert (detector.privacy_spent_.epsilon, detector.privacy_spent_.unit) == (0, "flag pair")
    assert detector.privacy_statement_.startswith("Not differentially private as to the nominal record")
    plain = FederatedRCADetector(evidence=Evidence("flags", n_steps=20)).fit(nominal)
    before = len(detector.ledger_.entries)
    received, true = inspection.flags(detector, new).to_numpy(), inspection.flags(plain, new).to_numpy()
    same = (received == true).reshape(NEW, 3, 2).all(axis=2).mean()
    kept = mechanism.confusion[0, 0]
    assert abs(same - kept) < 4.5 * np.sqrt(kept * (1 - kept) / (3 * NEW))
    assert_array_equal(inspection.flags(detector, new).to_numpy(), received)  # asked again, answered as before
    assert detector.privacy_spent_.epsilon == np.inf  # with a seed that somebody may know
    assert detector.privacy_ledger_["epsilon"].tolist() == pytest.approx([2.0] * 3)
    assert detector.privacy_spent_.unit == "flag pair"
    detector.predict(new)
    detector.incidents(new)
    crossed = {(entry.direction, entry.op) for entry in detector.ledger_.entries[before:]}
    assert crossed == {("down", "flag"), ("up", "flags"), ("down", "verdict"), ("up", "done")}
    with pytest.raises(ValueError, match="stream of randomised flags"):
        detector.update(new)
    for call in (detector.attribute, detector.score, detector.transform):
        with pytest.raises(ValueError, match="protects flags, and this method needs states"):
            call(new)


def test_both_mechanisms_protect_what_is_theirs():
    nominal, new = make_records()
    privacy = [GaussianMechanism(**SETTINGS), RandomizedResponse(epsilon=2.0)]
    detector = FederatedRCADetector(privacy=privacy, evidence=Evidence("flags", n_steps=20)).fit(nominal)
    detector.predict(new)
    assert len(privacy[0].account) == 3  # the flags come from the raw record, at home
    assert len(privacy[1].account) == 3
    detector.attribute(new)
    assert len(privacy[0].account) == 6
    assert "the distribution of all but flags that left the units" in detector.privacy_statement_
    assert "4-ary randomised responses" in detector.privacy_statement_
    assert detector.privacy_spent_.unit == "event"


@pytest.mark.parametrize("horizon", [1, 10, 40])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
@pytest.mark.filterwarnings("ignore:Randomised flags cannot tell:UserWarning")
def test_randomised_flags_of_nominal_operation_keep_the_rate(horizon, epsilon):
    kept, other = RandomizedResponse(epsilon=epsilon).confusion[0, :2]
    needed = needed_answers(horizon, kept, other, 0.05, 1e-2)
    chance = 0.05 * kept + 0.95 * other
    assert binom.sf(needed - 1, horizon, chance) <= 1e-2
    majority = horizon // 2 + 1
    assert needed >= majority * kept + (horizon - majority) * other  # the inverted count reaches the majority
    assert needed_answers(horizon, 1.0, 0.0, 0.0, 1e-2) == majority
    rng = np.random.default_rng(0)
    received = rng.random((20_000, 2, 2)) < np.sqrt(chance)  # both flags together with probability `chance`
    roots = roots_of_flags(received.astype(int), horizon, needed)
    rate = (roots != -1).mean()
    assert rate <= 2 * 1e-2 + 5 * np.sqrt(2e-2 * horizon / 20_000)


def test_a_horizon_that_is_too_short_for_the_noise_is_warned_about():
    nominal, _ = make_records()
    detector = FederatedRCADetector(privacy=RandomizedResponse(epsilon=0.5), evidence=Evidence("flags", n_steps=2))
    with pytest.warns(UserWarning, match=r"never be an alarm\. Give a horizon of at least \d+"):
        detector.fit(nominal)


@pytest.mark.parametrize(("rate", "epsilon", "percentile"), [(0.05, 1.0, 95), (0.005, 0.5, 90)])
def test_the_rate_of_false_alarms_is_shared_by_the_units(rate, epsilon, percentile):
    """The horizon that a warning asks for is the first at which chance alone keeps a unit's share."""
    nominal, _ = make_records()
    mechanism = RandomizedResponse(epsilon=epsilon)
    detector = FederatedRCADetector(
        privacy=mechanism, false_alarm_rate=rate, evidence=Evidence("flags", n_steps=2, percentile=percentile)
    )
    with pytest.warns(UserWarning, match=r"never be an alarm\.") as caught:
        detector.fit(nominal)
    (asked,) = (re.search(r"horizon of at least (\d+)", str(warning.message)) for warning in caught)
    kept, other = mechanism.confusion[0, :2]
    nominal_share = 1 - percentile / 100
    chance = nominal_share * kept + (1 - nominal_share) * other

    def an_alarm_is_possible(horizon):  # in all steps of the horizon, in one of three units
        majority = horizon // 2 + 1
        expected = majority * kept + (horizon - majority) * other
        return max(expected, binom.isf(rate / len(nominal), horizon, chance) + 1) <= horizon

    assert int(asked[1]) == next(horizon for horizon in range(2, 100) if an_alarm_is_possible(horizon))
    unshared = next(k for k in range(2, 100) if binom.isf(rate, k, chance) + 1 <= k)
    assert unshared < int(asked[1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"privacy": RandomizedResponse(epsilon=1.0)}, "answers with flags, but evidence='innovations'"),
        ({"privacy": [GaussianMechanism(**SETTINGS)] * 2}, "may hold one mechanism for the messages"),
        ({"privacy": ["noise"]}, "holds a str, which is not a PrivacyMechanism"),
        ({"privacy": "noise"}, "'privacy' parameter"),
    ],
)
def test_mechanisms_that_would_protect_nothing_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        FederatedRCADetector(**settings).fit(make_records()[0])


def test_a_message_of_a_watched_unit_knows_the_noise():
    nominal, _ = make_records()
    detector = FederatedRCADetector(
        privacy=GaussianMechanism(**{**SETTINGS, "mu": 0.5}), communication=Communication(transport=ByBytes)
    ).fit(nominal)
    noisy = StateMessage.from_packet(dict(ByBytes.last.up[:3])["unit0"])
    FederatedRCADetector(communication=Communication(transport=ByBytes)).fit(nominal)
    clean = StateMessage.from_packet(dict(ByBytes.last.up[:3])["unit0"])
    assert np.isfinite(detector.thresholds_["energy"])
    if noisy.J.shape == clean.J.shape:
        assert np.trace(noisy.J) < np.trace(clean.J)
