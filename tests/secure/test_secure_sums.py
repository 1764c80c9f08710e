"""A plant from secure sums: the same as from open ones, with units lost, over files, and where it is refused."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from skfedcausal import (
    Communication,
    FederatedCounterfactualEstimator,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    KalmanClient,
    LikelihoodOptions,
    LikelihoodServer,
    inspection,
)
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import load_skab, make_granger_plant
from skfedcausal.federation import (
    ClientError,
    Failure,
    FileLoopback,
    InProcessTransport,
    LostUnits,
    LostUnitWarning,
    verify_ledger,
)
from skfedcausal.message import StateMessage
from skfedcausal.message.packet import Packet, PacketError
from skfedcausal.message.requests import FitRequest
from skfedcausal.secure import SecureSumsServer
from skfedcausal.secure.protocol import effective_rows, fade
from skfedcausal.secure.server.sums import SummedRecord, news_that_follows
from skfedcausal.server.joint import JointRecord
from skfedcausal.server.links.grades import grades_of
from skfedcausal.statespace.episodes import lag_covariances, remove_episode_means
from skfedcausal.statespace.lag_products import rounding_error

from ..ask import question as named

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def plant():
    return make_granger_plant(4, n_samples=1500, links=[(0, 1), (2, 3)], n_states=2, random_state=1)[0]


@pytest.fixture(scope="module")
def messages(plant):
    return {name: KalmanClient().fit(Y).message(Y) for name, Y in plant.items()}


def fitted(X, server=None, **settings):
    return FederatedGrangerEstimator(server=server or SecureSumsServer(), **settings).fit(X)


def test_sums_are_the_open_ones_within_the_derived_error(plant, messages):
    secret, openly = fitted(plant).server_, SecureSumsServer().fit(messages)
    scale = np.sqrt(np.diag(openly.sums_[0]))
    error = np.abs(secret.sums_ - openly.sums_) / np.outer(scale, scale)
    assert error.max() <= rounding_error(1500) + 1e-12
    np.testing.assert_allclose(secret.transition_, openly.transition_, rtol=0, atol=1e-5)
    np.testing.assert_allclose(secret.links_["statistic"], openly.links_["statistic"], rtol=1e-5, atol=1e-5)
    assert secret.links_["verdict"].tolist() == openly.links_["verdict"].tolist()


def test_links_are_those_of_open_messages_but_for_the_faded_rows(plant):
    """Estimates from all rows and from a share f of them differ by sqrt((1 - f) / f) standard errors."""
    secret, openly = (
        fitted(plant).links_,
        fitted(plant, LikelihoodServer(options=LikelihoodOptions(level_shifts=None))).links_,
    )
    assert secret["verdict"].tolist() == openly["verdict"].tolist()
    share = effective_rows([1500])[1] / 1500
    distance = (secret["norm"] - openly["norm"]).abs() / openly["stderr"]
    assert distance.max() < 4 * np.sqrt((1 - share) / share)


def plant_of_two_lags():
    """Three units of two lags, the third driven by the second two rows later, all three in one slow walk."""
    rng = np.random.default_rng(3)
    x, walk = np.zeros((2400, 3)), 0.05 * np.cumsum(rng.normal(size=2400))
    for t in range(2, 2400):
        x[t] = 0.3 * x[t - 1] + 0.4 * x[t - 2] + rng.normal(size=3)
        x[t, 2] += 0.6 * x[t - 2, 1]
    x += walk[:, None]
    return {f"unit{k}": np.column_stack([x[:, k], x[:, k] + 0.01 * rng.normal(size=2400)]) for k in range(3)}


@pytest.fixture(scope="module")
def two_lags():
    """The plant, and messages as units make them for sums."""
    X, messages = plant_of_two_lags(), {}
    for name, Y in X.items():
        worker = UnitWorker(name, Y, None, (0,), None, KalmanClient())
        packet, _ = worker.handle(FitRequest(own_past=True, sharp=True).to_packet(1), {})
        messages[name] = StateMessage.from_packet(packet)
    return X, messages


def test_grades_from_masked_sums_are_those_of_open_ones_but_for_rounding(two_lags):
    """Rounding moves means of unit squares by e; a gain is a ratio of such means, of a condition below 1e3."""
    X, messages = two_lags
    secret, openly = fitted(X).links_, SecureSumsServer().fit(messages).links_
    assert secret["verdict"].tolist() == openly["verdict"].tolist()
    assert secret["basis"].tolist() == openly["basis"].tolist()
    error = 1e3 * rounding_error(3 * 2400)
    for name in ("strength", "low", "high", "total", "same_row"):
        np.testing.assert_allclose(secret[name], openly[name], rtol=0, atol=error)


def test_grades_from_sums_are_those_of_rows_in_words(two_lags):
    """And the likelihood of one lag says nothing, for its news follow what came before."""
    X, messages = two_lags
    secret = fitted(X).links_
    of_rows = grades_of(JointRecord.from_messages(messages)).verdict
    names = list(X)
    expected = [of_rows[names.index(e), names.index(c)] for c, e in zip(secret["cause"], secret["effect"], strict=True)]
    assert secret["verdict"].tolist() == expected
    assert (secret["basis"] == "held-out gain").all()
    told = secret.set_index(["cause", "effect"])["verdict"]
    assert told["unit1", "unit2"] == "influence"
    assert (told == "influence").sum() == 1


@pytest.mark.filterwarnings("ignore::UserWarning")  # of the record: pauses, drift, a search that was ended
def test_grades_of_a_recorded_rig_are_those_of_the_fit_from_states():
    folder = Path(os.environ.get("SKFEDCAUSAL_DATA", "missing")) / "skab"
    if not folder.is_dir():
        pytest.skip("SKFEDCAUSAL_DATA names no folder with skab")
    record = load_skab(folder, "anomaly-free/anomaly-free").data
    secret, openly = fitted(record), FederatedGrangerEstimator().fit(record)
    of_sums, of_rows = secret.server_.learner_._concluded.grades.verdict, openly.server_._concluded.grades.verdict
    pairs = ~np.eye(4, dtype=bool)
    assert of_sums[pairs].tolist() == of_rows[pairs].tolist()
    more = secret.links_["verdict"].eq("influence") & openly.links_["verdict"].ne("influence")
    assert not more.any()


@pytest.mark.parametrize(("n_units", "n_rows", "graded"), [(4, 1500, False), (3, 447, False), (2, 1500, True)])
def test_grades_are_left_out_where_units_would_refuse_or_rows_do_not_suffice(n_units, n_rows, graded):
    X, _ = make_granger_plant(n_units, n_samples=n_rows, links=[(0, 1)], n_states=2, random_state=1)
    est = fitted(X)
    assert (est.server_.learner_._concluded.grades is not None) == graded
    masked = est.ledger_.table.query("op == 'masked_products'")
    assert len(masked) == n_units


def test_without_grades_a_plant_of_more_lags_than_the_model_leaves_verdicts_open(two_lags):
    X = {name: Y[:440] for name, Y in two_lags[0].items()}
    links = fitted(X).links_
    at = links["effect"] == "unit2"
    assert (links.loc[at, "verdict"] == "cannot tell").all()
    assert links.loc[at, "because"].str.contains("beyond the plant still follows what came before").any()


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_news_of_a_plant_of_one_lag_follow_nothing_at_the_stated_rate(noise):
    """Whatever the sensor noise; 400 plants at a level of 0.01, one of two lags always found."""
    rng, n, A = np.random.default_rng(0), 1000, np.array([[0.6, 0.2], [0.0, 0.5]])
    wrong = 0
    for second in (0.0,) * 400 + (0.3,) * 5:
        w, x = rng.normal(size=(n, 2)), np.zeros((n, 2))
        for t in range(2, n):
            x[t] = A @ x[t - 1] + second * x[t - 2] + w[t]
        x += noise * rng.normal(size=(n, 2))
        series = remove_episode_means(x, (0,)) * fade((n,))[:, None]
        information = {name: np.eye(1) for name in "ab"}
        found = news_that_follows(SummedRecord.of(information, (0,), n, lag_covariances(series, range(14), (0,))), A)
        wrong += bool(found) if not second else not found
    assert wrong <= stats.binom.isf(1e-4, 400, 0.01)


def test_what_links_say_stays(plant):
    est = fitted(plant)
    assert len(inspection.link_intervals(est, geweke=True)) == 12
    assert inspection.spectrum(est, "unit0", "unit1").attrs["total"] > 0
    screened = est.server_.screen()
    links = est.links_.query("verdict == 'influence'").index
    assert len(links)
    assert set(screened["p_value"].nsmallest(len(links)).index) == set(links)
    again = pickle.loads(pickle.dumps(est))
    assert again.server_.screen().equals(screened)


@pytest.mark.parametrize("question", ["predict", "transform", "score_samples", "oracle"])
def test_what_is_about_rows_is_refused(plant, question):
    est = fitted(plant)
    with pytest.raises(ValueError, match=r"learned from secure sums.*needs a fit with a LikelihoodServer"):
        named(est, question)(plant)
    with pytest.raises(AttributeError, match="not answered by a fit with SecureSumsServer"):
        est.test_links(plant)


def test_episodes_are_never_crossed(plant):
    secret = FederatedGrangerEstimator(server=SecureSumsServer()).fit(plant, lengths=[700, 800])
    openly = FederatedGrangerEstimator().fit(plant, lengths=[700, 800])
    assert secret.links_["verdict"].tolist() == openly.links_["verdict"].tolist()
    assert len(fade([700, 800])) == 1500
    assert fade([700, 800])[[0, 699, 700, 1499]].tolist() == [0.0] * 4


class Losing(InProcessTransport):
    """Loses a client's answer to one operation."""

    lost, op = "unit1", "secure_sums"

    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out, timeout=timeout)
        for name, packet in out.items():
            if name == self.lost and packet.op == self.op:
                answers[name] = Failure("timeout")
        return answers


@pytest.mark.parametrize("op", ["secure_sums", "secure_products"])
def test_a_unit_that_drops_out_takes_its_own_pairs_only(plant, op, monkeypatch):
    monkeypatch.setattr(Losing, "op", op)
    others = {name: Y for name, Y in plant.items() if name != "unit1"}
    with pytest.warns(LostUnitWarning, match="unit1"):
        left = fitted(plant, communication=Communication(transport=Losing, lost_units=LostUnits(quorum=0.5)))
    assert left.client_names_ == tuple(others)
    assert left.lost_units_[["unit", "operation"]].to_numpy().tolist() == [["unit1", op]]
    assert (left.server_.sums_ == fitted(others).server_.sums_).all()  # masks cancel exactly
    with pytest.raises(ClientError, match="unit1"):
        fitted(plant, communication=Communication(transport=Losing))
    with pytest.raises(ClientError, match="quorum"):
        fitted(plant, communication=Communication(transport=Losing, lost_units=LostUnits(quorum=1.0)))


def test_without_the_dealer_there_are_no_sums(plant, monkeypatch):
    monkeypatch.setattr(Losing, "lost", "dealer")
    monkeypatch.setattr(Losing, "op", "secure_masks")
    with pytest.raises(ClientError, match="dealer"):
        fitted(plant, communication=Communication(transport=Losing, lost_units=LostUnits(quorum=0.5)))


def test_a_transport_without_a_dealer_is_refused_before_anything_is_asked(plant):
    asked = []

    class Watched(InProcessTransport):
        def exchange(self, out, *, timeout=None):
            asked.extend(out)
            return super().exchange(out, timeout=timeout)

    with pytest.raises(ValueError, match="no dealer 'dealer'"):
        fitted(
            plant,
            communication=Communication(
                transport=lambda sites: Watched({k: v for k, v in sites.items() if k != "dealer"})
            ),
        )
    assert not asked


def test_over_files_with_every_byte_in_the_ledgers(plant, tmp_path):
    there, here = fitted(plant, communication=Communication(transport=FileLoopback(tmp_path))), fitted(plant)
    assert (there.transition_ == here.transition_).all()
    for name in (*plant, "dealer"):
        account = verify_ledger(tmp_path / "home" / name / "ledger.jsonl")
        own = there.ledger_.total("up", name), there.ledger_.total("down", name)
        assert account["bytes_up"] >= own[0] > 0  # and the closing
        assert account["bytes_down"] >= own[1] > 0
    assert here.communication_["rounds"] == 3
    assert here.communication_["bytes_up"] == sum(e.n_bytes for e in here.ledger_.entries if e.direction == "up")


def test_nothing_but_declared_masked_series_leaves(plant):
    table = fitted(plant).ledger_.table
    assert set(table["op"]) == {
        "secure_sums", "masked", "secure_products", "masked_products", "secure_masks", "masks",
    }  # fmt: skip
    assert not table["purpose"].str.contains("unknown").any()
    plan = FederatedGrangerEstimator(server=SecureSumsServer()).plan(plant)
    assert plan.groupby("op")["bytes"].sum().to_dict() == table.groupby("op")["bytes"].sum().to_dict()


def test_estimators_that_need_rows_say_so(plant):
    with pytest.raises(ValueError, match="FederatedRCADetector needs every row"):
        FederatedRCADetector(server=SecureSumsServer(), false_alarm_rate=0.5).fit(plant)
    with pytest.raises(
        ValueError,
        match=r"SecureSumsServer learns .*CounterfactualEstimator needs every row; .* or a LikelihoodServer here",
    ):
        FederatedCounterfactualEstimator(server=SecureSumsServer()).fit(plant)


@pytest.mark.parametrize(
    ("learner", "match"),
    [
        (LikelihoodServer(), "level_shifts='auto'"),
        (LikelihoodServer(covariance="hac", options=LikelihoodOptions(level_shifts=None)), "covariance='hac'"),
        (LikelihoodServer(options=LikelihoodOptions(level_shifts=None, n_rounds=2)), "n_rounds=2"),
        (LikelihoodServer(options=LikelihoodOptions(level_shifts=None, held_out=0.3)), "held_out=0.3"),
    ],
)
def test_learners_that_need_rows_are_refused(plant, learner, match):
    with pytest.raises(ValueError, match=f"needs rows for {match}"):
        fitted(plant, SecureSumsServer(learner=learner))


def test_a_gap_names_the_unit(plant):
    gap = plant | {"unit2": np.where(np.arange(1500)[:, None] == 7, np.nan, plant["unit2"])}
    with pytest.raises(PacketError, match="'unit2' has missing measurements"):
        fitted(gap)


def test_units_and_dealer_need_different_names(plant):
    with pytest.raises(ValueError, match="'unit0' like the dealer"):
        fitted(plant, SecureSumsServer(dealer="unit0"))


@pytest.mark.filterwarnings("ignore:X has one unit")
def test_one_unit_has_no_pairs(plant):
    with pytest.raises(ValueError, match="need two units"):
        fitted({"unit0": plant["unit0"]})


def test_few_lags_are_warned_of():
    """Slow states seen through noisy sensors: filters remember more rows than sums reach."""
    rng = np.random.default_rng(0)
    h = np.zeros((3000, 2))
    for t in range(1, 3000):
        h[t] = 0.97 * h[t - 1] + 0.1 * rng.standard_normal(2)
    X = {f"unit{k}": h[:, [k]] + 0.8 * rng.standard_normal((3000, 3)) for k in range(2)}
    client = KalmanClient(n_states=1)
    with pytest.warns(UserWarning, match=r"remember \d+ rows, and sums reach 12.*n_lags="):
        fitted(X, client=client)
    few = fitted(X, SecureSumsServer(n_lags=60), client=client)
    assert few.server_.sums_.shape == (62, 2, 2)


def test_three_lags_are_enough_to_learn_from(plant):
    est = fitted(plant, SecureSumsServer(n_lags=3))
    assert est.server_.sums_.shape == (5, 8, 8)
    assert est.links_["verdict"].tolist() == fitted(plant).links_["verdict"].tolist()


def test_noise_of_a_mechanism_on_the_record_stays_accounted(plant):
    mechanism = GaussianMechanism(epsilon=5.0, delta=1e-5, clip_norm=30.0, event_radius=0.1, protects="event")
    est = fitted(plant, privacy=mechanism)
    assert est.privacy_spent_.epsilon == pytest.approx(5.0)
    assert set(est.noise_covariance_) == set(plant)


@pytest.mark.slow
def test_false_links_stay_at_their_level():
    """480 p-values of pairs without a link: rejections within four standard errors of the level."""
    p_values = []
    for seed in range(40):
        X, _ = make_granger_plant(4, n_samples=800, links=[], n_states=2, random_state=seed)
        messages = {name: KalmanClient(n_states=2).fit(Y).message(Y) for name, Y in X.items()}
        p_values.extend(SecureSumsServer().fit(messages).screen()["p_value"])
    for level in (0.05, 0.2):
        assert abs(np.mean(np.array(p_values) < level) - level) < 4 * np.sqrt(level * (1 - level) / len(p_values))


def changed(packet, name, change):
    """The packet with one array changed."""
    arrays = {key: np.array(value) for key, value in packet.arrays.items()}
    arrays[name] = np.ascontiguousarray(change(arrays[name]))
    return Packet(packet.op, packet.round, arrays, packet.scalars)


def noise(x):
    return np.random.default_rng(0).integers(-(2**63), 2**63, x.shape, dtype=np.int64)


LIES = {
    "own sums of nothing": ("own", np.zeros_like),
    "own sums that are noise": ("own", noise),
    "own sums with another sign": ("own", np.negative),
    "own sums twice as large": ("own", lambda x: 2 * x),
    "own sums that are not symmetric": ("own", lambda x: x + np.triu(np.full(x.shape[1:], 2**20), 1)),
    "a lag larger than squares": ("own", lambda x: np.where((np.arange(len(x)) == 1)[:, None, None], 2**63 - 1, x)),
    "lags of another series": ("own", lambda x: np.where((np.arange(len(x)) == 3)[:, None, None], x[0], x)),
    "a scale of nothing": ("scale", np.zeros_like),
    "a scale beyond squares": ("scale", lambda x: x * 1e200),
    "a scale that is not finite": ("scale", lambda x: x * np.inf),
    "sensors that see nothing": ("information", np.zeros_like),
    "information that is no covariance": ("information", np.negative),
    "other episodes than rows": ("lengths", lambda x: x - 1),
    "too short a tag": ("tag", lambda x: x[:-1]),
    "states without masks": ("masked", lambda x: x[:, :0]),
    "real numbers": ("masked", lambda x: x.astype(float)),
    "small whole numbers": ("tag", lambda x: x.astype(np.uint16)),
}


class Lying(InProcessTransport):
    """Changes what one unit says."""

    op, array, change = "masked", "own", staticmethod(np.zeros_like)

    def exchange(self, out, *, timeout=None):
        answers = super().exchange(out, timeout=timeout)
        for name, packet in answers.items():
            if name == "unit2" and packet.op == self.op:
                answers[name] = changed(packet, self.array, self.change)
        return answers


@pytest.mark.parametrize("lie", LIES)
def test_who_contradicts_itself_is_left_out_by_name(plant, lie, monkeypatch):
    array, change = LIES[lie]
    monkeypatch.setattr(Lying, "array", array)
    monkeypatch.setattr(Lying, "change", staticmethod(change))
    with pytest.warns(LostUnitWarning, match="unit2"):
        left = fitted(plant, communication=Communication(transport=Lying, lost_units=LostUnits(quorum=0.5)))
    others = {name: Y for name, Y in plant.items() if name != "unit2"}
    assert (left.server_.sums_ == fitted(others).server_.sums_).all()


@pytest.mark.parametrize(
    ("op", "array", "change"),
    [
        ("masked", "masked", noise),
        ("masked", "masked", lambda x: x + np.eye(*x.shape, dtype=np.int64) * 2**61),
        ("masked", "own", lambda x: x[:-1]),
        ("masked", "tag", np.zeros_like),
        ("masked_products", "behind", noise),
        ("masked_products", "ahead", np.zeros_like),
        ("masked_products", "behind", lambda x: x[:, :-1]),
    ],
)
def test_who_contradicts_others_is_named(plant, op, array, change, monkeypatch):
    """Nobody can tell a lie about series from the truth before sums open; then they fit to nothing."""
    for name, value in (("op", op), ("array", array), ("change", staticmethod(change))):
        monkeypatch.setattr(Lying, name, value)
    with pytest.raises((ValueError, ClientError), match="unit2"):
        fitted(plant, communication=Communication(transport=Lying))
