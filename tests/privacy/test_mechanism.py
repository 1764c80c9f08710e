"""The contract that every mechanism keeps, those of strangers included."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

from skfedcausal import FederatedGrangerEstimator, GaussianMechanism, PrivacyAccountant, RandomizedResponse
from skfedcausal.bases import configured
from skfedcausal.datasets import make_granger_plant
from skfedcausal.papers import TrainingMechanism
from skfedcausal.privacy import (
    Charge,
    NoiseOptions,
    PrivacyBudgetError,
    PrivacyLeakWarning,
    PrivacyMechanism,
    Scope,
    SeededNoiseWarning,
    calibration,
)
from skfedcausal.privacy.calibration import grid_of
from skfedcausal.privacy.mechanism import trial_of

from ._strangers import LaplaceMechanism, RoundingMechanism

pytestmark = pytest.mark.filterwarnings(
    "ignore::skfedcausal.privacy.UtilityWarning",
    "ignore::skfedcausal.privacy.SeededNoiseWarning",
    "ignore::skfedcausal.privacy.WeakPrivacyWarning",
)
N, D, CLIP = 24, 3, 2.0


def gaussian(**settings):
    return lambda **more: configured(
        GaussianMechanism, {"mu": 0.7, "delta": 1e-6, "clip_norm": CLIP, **settings, **more}
    )


MECHANISMS = {
    "gaussian event": gaussian(),
    "gaussian part of the range": gaussian(event_radius=0.5),
    "gaussian zero out": gaussian(protects=Scope("event", "zero_out")),
    "gaussian scaled": gaussian(scale=[1.0, 50.0, 0.1], center=[3.0, -100.0, 0.0]),
    "gaussian window": gaussian(protects=Scope("window", window=5)),
    "gaussian client": gaussian(protects="client"),
    "laplace": lambda **more: LaplaceMechanism(epsilon=1.1, clip_norm=CLIP, **more),
    "rounding": lambda **more: RoundingMechanism(std=7.0, step=0.25, clip_norm=CLIP, **more),
    "rounding window": lambda **more: RoundingMechanism(std=7.0, step=0.25, clip_norm=CLIP, window=4, **more),
}
every_mechanism = pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)


def records(n_units=2, n_samples=N, seed=0):
    rng = np.random.default_rng(seed)
    return {f"unit{k}": rng.normal(size=(n_samples, D)) for k in range(n_units)}


# --- what is hidden: neighbours by brute force --------------------------------------------------------


def rows_that_differ(scope, n_samples, rng):
    """Time steps of one protected unit, at a random place; the whole record for a client."""
    steps = {"event": 1, "window": scope.window, "client": n_samples}[scope.unit]
    start = rng.integers(0, n_samples - steps + 1)
    return slice(start, start + steps)


def neighbours(mechanism, noise, rng):
    """Pairs of records that differ in one protected unit: random ones, and one as far apart as they go."""
    bounds, n_samples = noise.bounds, N
    zero_out = mechanism.scope.relation == "zero_out"
    radius = bounds.radius
    for k in range(60):
        size = 10.0 ** rng.uniform(-2, 2)
        Y, rows = size * rng.normal(size=(n_samples, D)), rows_that_differ(mechanism.scope, n_samples, rng)
        other, count = Y.copy(), len(Y[rows])
        direction = rng.normal(size=(count, D))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        if k == 0:
            direction = np.full((count, D), 1 / np.sqrt(D))  # long in both norms
            Y[rows] = bounds.clip * direction
            other[rows] = (bounds.clip - radius) * direction
        elif zero_out:
            other[rows] = 0.0
        elif radius < 2 * bounds.clip:
            other[rows] = Y[rows] + radius * direction * rng.random((count, 1))
        else:
            other[rows] = size * rng.normal(size=(count, D))
        yield bounds.center + bounds.scale * Y, bounds.center + bounds.scale * other


def losses(mechanism, first, other, noise):
    """Largest loss between two copies before their noise: of Gaussian noise, or of Laplace noise (l1)."""
    moved = (first - other) / noise.bounds.scale / noise.std
    return np.abs(moved).sum() * np.sqrt(2) if mechanism.law == "laplace" else np.linalg.norm(moved)


def paid(account):
    """What the ledger says of it, as a loss of the same kind."""
    spent = account.spent(0.0)
    return spent.mu if spent.mu else spent.epsilon


def without_noise(monkeypatch, mechanism):
    """What is clipped and rounded to the grid, and nothing added."""
    monkeypatch.setattr(type(mechanism), "draw", lambda self, shape, std, rng: np.zeros(shape))


@every_mechanism
def test_no_neighbour_is_further_away_than_is_paid_for(make, monkeypatch):
    mechanism, rng = make(), np.random.default_rng(0)
    release = mechanism.release(records(1), (N,))["unit0"]
    promised = paid(mechanism.account)
    without_noise(monkeypatch, mechanism)
    found = [
        losses(mechanism, *(mechanism.noised(Y, release.noise, rng) for Y in pair), release.noise)
        for pair in neighbours(mechanism, release.noise, rng)
    ]
    assert max(found) <= promised
    assert found[0] >= 0.999 * promised


@every_mechanism
@pytest.mark.parametrize("size", [1, 7, N])
def test_no_neighbour_in_a_stream_is_further_away_than_is_paid_for(make, size, monkeypatch):
    """Batches of any size, windows over their borders."""
    mechanism, rng = make(), np.random.default_rng(1)
    noise = {"unit0": mechanism.noise_of("unit0", np.zeros((N, D)))}
    without_noise(monkeypatch, mechanism)
    found = []
    for pair in neighbours(mechanism, noise["unit0"], rng):
        copies = []
        for Y in pair:
            twin = make(accountant=PrivacyAccountant())
            stream = twin.stream(noise)
            batches = [stream.release({"unit0": Y[k : k + size]}) for k in range(0, N, size)]
            copies.append(np.concatenate([values["unit0"] for values, _ in batches]))
        found.append(losses(mechanism, *copies, noise["unit0"]))
    charged = [charged for _, charged in batches]
    assert charged[0]
    assert charged[1:] == [mechanism.scope.unit == "client"] * (len(batches) - 1)
    assert max(found) <= paid(twin.account)
    assert found[0] >= 0.999 * paid(twin.account)


@every_mechanism
def test_noise_of_an_earlier_release_is_paid_for_as_it_is_worth_here(make, monkeypatch):
    mechanism, rng = make(), np.random.default_rng(2)
    noise = {"unit0": mechanism.noise_of("unit0", np.zeros((5 * N, D)))}
    mechanism.release(records(1), (N,), noise=noise)
    without_noise(monkeypatch, mechanism)
    found = [
        losses(mechanism, *(mechanism.noised(Y, noise["unit0"], rng) for Y in pair), noise["unit0"])
        for pair in neighbours(mechanism, noise["unit0"], rng)
    ]
    assert max(found) <= paid(mechanism.account)
    assert found[0] >= 0.999 * paid(mechanism.account)


@every_mechanism
def test_noise_is_what_is_stated_and_lies_on_a_grid(make):
    n = 4000
    mechanism = make(random_state=0)
    Y = np.zeros((n, D)) + getattr(mechanism, "center", 0.0)
    Y[7, 1] = np.nan
    release = mechanism.release({"unit0": Y}, (n,))["unit0"]
    assert_array_equal(np.isnan(release.values), np.isnan(Y))
    added = (release.values - Y) / np.sqrt(release.variance)
    kurtosis = 6.0 if mechanism.law == "laplace" else 3.0
    assert_allclose(np.nanvar(added, axis=0), 1, rtol=5 * np.sqrt((kurtosis - 1) / n))
    assert abs(np.corrcoef(added[8:-1, 0], added[9:, 0])[0, 1]) < 5 / np.sqrt(n)
    scaled = (release.values - Y) / release.noise.bounds.scale / grid_of(release.noise.std)
    assert_allclose(np.nan_to_num(scaled), np.round(np.nan_to_num(scaled)), atol=1e-4)
    assert_allclose(release.variance, (release.noise.std * release.noise.bounds.scale) ** 2, rtol=1e-12)


# --- what is paid, remembered and refused -------------------------------------------------------------


@every_mechanism
def test_a_record_is_charged_once_before_anything_is_drawn(make, monkeypatch):
    mechanism, Y = make(), records()
    cost = mechanism.cost(Y, (N,))
    assert len(mechanism.account) == 0
    first = mechanism.release(Y, (N,))
    table = mechanism.account.table
    assert list(table["client"]) == ["unit0", "unit1"]
    assert set(table["channel"]) == {"measurement"}
    assert set(table["mechanism"]) == {mechanism.law}
    assert_array_equal(table["mu"], [charge.mu for charge in cost])
    assert_array_equal(table["epsilon"], [charge.epsilon for charge in cost])
    again = mechanism.release({name: values.copy() for name, values in Y.items()}, (N,))
    assert all(again[name] is first[name] for name in Y)
    assert len(mechanism.account) == 2
    assert mechanism.cost(Y, (N,)) == []
    assert not first["unit0"].values.flags.writeable
    mechanism.release(Y, (N - 4, 4))  # other episodes are another record
    assert len(mechanism.account) == 4

    def no_noise(*_):
        raise AssertionError("drawn before it was charged")

    monkeypatch.setattr(type(mechanism), "draw", no_noise)
    budget = PrivacyAccountant(1e-3, 1e-9)
    with pytest.raises(PrivacyBudgetError):
        make(accountant=budget).release(Y, (N,))
    with pytest.raises(PrivacyBudgetError):
        make(accountant=budget).stream({name: r.noise for name, r in first.items()}).release(Y)
    assert len(budget) == 0


@every_mechanism
def test_all_units_or_none(make):
    budget = PrivacyAccountant(1e9, 1e-6)
    mechanism, Y = make(accountant=budget), records()
    mechanism.release({"unit0": Y["unit0"]}, (N,))
    budget.epsilon = 1.01 * budget.spent().epsilon
    with pytest.raises(PrivacyBudgetError, match="'unit0'"):
        mechanism.release({"unit1": Y["unit1"], "unit0": -Y["unit0"]}, (N,))
    assert len(budget) == 1
    assert mechanism.release({"unit1": Y["unit1"], "unit0": Y["unit0"]}, (N,)).keys() == Y.keys()
    assert len(budget) == 2  # unit0 was released before


@every_mechanism
@pytest.mark.parametrize("how", [clone, copy.copy, copy.deepcopy])
def test_copies_share_the_account_and_nothing_is_pickled(make, how):
    mechanism = make()
    twin = how(mechanism)
    assert twin is not mechanism
    assert twin.account is mechanism.account
    assert twin.release(records(), (N,))["unit0"] is mechanism.release(records(), (N,))["unit0"]
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(mechanism)


@every_mechanism
def test_a_trial_has_an_epsilon_an_account_and_a_seed_of_its_own(make):
    mechanism = make()
    trials = [trial_of(mechanism, 0.9, seed=3) for _ in range(2)]
    assert len({id(m.account) for m in (mechanism, *trials)}) == 3
    one, two = (trial.release(records(), (N,))["unit0"].values for trial in trials)
    assert_array_equal(one, two)
    assert (one != trial_of(mechanism, 0.9, seed=4).release(records(), (N,))["unit0"].values).any()
    stated = getattr(trials[0], "epsilon", None)
    assert stated == (None if isinstance(mechanism, RoundingMechanism) else 0.9)
    if stated:
        assert_allclose(trials[0].account.spent(1e-6).epsilon, 0.9, rtol=1e-5)


def test_parameters_that_have_parameters_themselves_are_handed_on_as_they_are():
    class Scaled(RoundingMechanism):
        def __init__(self, *, scaler, std=7.0, step=0.25, clip_norm=CLIP, window=None, accountant=None):
            super().__init__(std=std, step=step, clip_norm=clip_norm, window=window, accountant=accountant)
            self.scaler = scaler

    mechanism = Scaled(scaler=StandardScaler())
    assert clone(mechanism).scaler is trial_of(mechanism, 1.0, 0).scaler is mechanism.scaler


def test_seeds_give_every_unit_release_and_stream_noise_of_its_own():
    mechanism, zeros = GaussianMechanism(mu=1.0, clip_norm=1.0, random_state=0), np.zeros((500, 2))
    released = mechanism.release({"a": zeros, "b": zeros}, (500,))
    later = mechanism.release({"a": zeros}, (250, 250))
    stream = mechanism.stream({"a": later["a"].noise, "b": later["a"].noise})
    streamed = [stream.release({"a": zeros, "b": zeros})[0] for _ in range(2)]
    again = mechanism.stream({"a": later["a"].noise}).release({"a": zeros})[0]
    drawn = [released["a"].values, released["b"].values, later["a"].values, again["a"]]
    drawn += [batch[name] for batch in streamed for name in "ab"]
    found = np.corrcoef([values.ravel() for values in drawn])
    assert np.abs(found - np.eye(len(drawn))).max() < 4.5 / np.sqrt(1000)


def test_records_of_different_kinds_of_mechanisms_are_not_mixed_up():
    class Other(RoundingMechanism):
        pass

    account = PrivacyAccountant()
    for kind in (RoundingMechanism, Other):
        kind(std=7.0, step=0.25, clip_norm=CLIP, accountant=account).release(records(), (N,))
    assert len(account) == 4


@every_mechanism
def test_a_stream_pays_again_in_a_new_period_and_as_often_as_it_is_started(make):
    mechanism, Y = make(), records()
    noise = {name: mechanism.noise_of(name, values) for name, values in Y.items()}
    stream = mechanism.stream(noise)
    per_row = mechanism.scope.unit == "client"
    assert [stream.release(Y)[1] for _ in range(3)] == [True, per_row, per_row]
    assert set(mechanism.account.table["channel"]) == {"stream"}
    assert len(mechanism.account) == 2
    assert mechanism.account.table["count"].tolist() == [3 if per_row else 1] * 2
    mechanism.account.new_period()
    assert stream.release(Y)[1]
    assert stream.release(Y)[1] == per_row
    assert mechanism.stream(noise).release(Y)[1]
    assert len(mechanism.account) == 6


@pytest.mark.parametrize("streamed", [False, True])
def test_bounds_from_the_data_cost_everything(streamed):
    mechanism = GaussianMechanism(mu=0.5, delta=1e-6)
    stream = mechanism.stream({"unit0": mechanism.noise_of("unit0", records(1)["unit0"])})
    with pytest.warns(PrivacyLeakWarning, match="data of unit0:"):
        stream.release(records(1)) if streamed else mechanism.release(records(1), (N,))
    assert mechanism.account.spent(1e-6).epsilon == np.inf
    assert set(mechanism.account.table["bound"]) == {"data"}
    assert mechanism.cost(records(1, seed=1), (N,))[0].mu == np.inf


@pytest.mark.parametrize("new", [False, True])
def test_who_starts_a_stream_or_a_release_is_warned_once(new):
    mechanism, Y = GaussianMechanism(mu=0.5, clip_norm=1.0, random_state=0), records(1)
    if new:
        with pytest.warns(SeededNoiseWarning):
            mechanism.release(Y, (N,))
    stream = mechanism.stream({"unit0": mechanism.noise_of("unit0", Y["unit0"])})
    with pytest.warns(SeededNoiseWarning):
        stream.release(Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream.release(Y)
        if new:
            mechanism.release(Y, (N,))  # remembered


def test_parts_of_the_contract_and_where_noise_is_added():
    with pytest.raises(TypeError, match="abstract"):
        PrivacyMechanism()
    places = {
        "record": GaussianMechanism(mu=1.0),
        "messages": TrainingMechanism(mu=1.0, protocol="paper"),
        "gradients": TrainingMechanism(mu=1.0, trust="server"),
        "flags": RandomizedResponse(epsilon=1.0),
    }
    for place, mechanism in places.items():
        assert isinstance(mechanism, PrivacyMechanism)
        assert mechanism.place == place
    assert LaplaceMechanism(epsilon=1.0, clip_norm=1.0).place == "record"
    stranger = RoundingMechanism(std=1.0, step=0.1, clip_norm=1.0)
    assert (stranger.epsilon, stranger.delta, stranger.event_radius) == (None, None, None)


@pytest.mark.parametrize(
    ("scope", "n_samples", "steps", "count"),
    [
        (Scope("event"), 10, 1, 10),
        (Scope("window", window=4), 10, 4, 3),
        (Scope("window", window=5), 10, 5, 2),
        (Scope("window", window=40), 10, 10, 1),
        (Scope("client"), 10, 10, 1),
        (Scope("flag pair"), 10, 1, 10),
        (Scope("event"), 0, 0, 0),
    ],
)
def test_protected_units_of_a_record(scope, n_samples, steps, count):
    assert (scope.steps(n_samples), scope.count(n_samples)) == (steps, count)


def test_noise_is_added_to_what_is_clipped_in_units_of_the_columns(monkeypatch):
    mechanism = GaussianMechanism(mu=1.0, clip_norm=2.0, noise=NoiseOptions(center=[1.0, -1.0], scale=[10.0, 0.5]))
    noise = mechanism.noise_of("unit0", np.empty((3, 2)))
    monkeypatch.setattr(GaussianMechanism, "draw", lambda self, shape, std, rng: np.full(shape, 3.0))
    Y = np.array([[1.0, -1.0], [11.0, -1.0], [1.0, np.nan], [61.0, 3.0]])  # the last one outside the ball
    expected = [[31.0, 0.5], [41.0, 0.5], [31.0, np.nan], [1 + 10 * (1.2 + 3), -1 + 0.5 * (1.6 + 3)]]
    assert_allclose(mechanism.noised(Y, noise, None), expected, rtol=1e-5)


def test_a_long_stream_row_by_row_is_drawn_in_pieces(monkeypatch):
    mechanism, Y = GaussianMechanism(mu=1.0, clip_norm=1.0, random_state=0), records(1, 20)["unit0"]
    given, drawn = mechanism.noise_of("unit0", Y), []
    for chunk in (3, 5, 100):
        monkeypatch.setattr(calibration, "_CHUNK", chunk)
        out = np.empty(Y.shape)
        values = mechanism.noised(Y, given, np.random.default_rng(0), out)
        assert values.base is out
        drawn.append(values)
    assert_array_equal(drawn[0], drawn[1])
    assert_array_equal(drawn[0], drawn[2])


# --- a stranger's mechanism with an estimator ----------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [LaplaceMechanism(epsilon=90.0, clip_norm=25.0), RoundingMechanism(std=1.5, step=0.01, clip_norm=25.0)],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_an_estimator_learns_under_a_mechanism_it_does_not_know(mechanism, monkeypatch):
    monkeypatch.setitem(FederatedGrangerEstimator._parameter_constraints, "privacy", [PrivacyMechanism, None])
    X, _ = make_granger_plant(2, n_samples=600, random_state=0)
    estimator = FederatedGrangerEstimator(privacy=mechanism).fit(X)
    assert np.isfinite(estimator.transition_).all()
    assert estimator.privacy_statement_.startswith("Differentially private per event (replace)")
    assert len(estimator.privacy_ledger_) == 2
    for name, release in mechanism.release(X, (600,)).items():
        assert_allclose(np.diag(estimator.noise_covariance_[name]), release.variance)
    estimator.predict(X)
    assert len(mechanism.account) == 2  # about a record that was released


def test_charges_of_a_stranger_are_kept_as_they_are():
    mechanism = LaplaceMechanism(epsilon=1.0, clip_norm=1.0)
    charge = mechanism.cost(records(1), (N,))[0]
    assert isinstance(charge, Charge)
    assert_allclose((charge.epsilon, charge.mu, charge.count), (1.0, 0.0, 1), rtol=1e-9)
