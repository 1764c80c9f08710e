"""What the cross-spectrum of two units says, against exact spectra of pairs of known make."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks._situations import draw
from skfedcausal import FederatedGrangerEstimator
from skfedcausal.server.validity.drivers import Bands, CrossSpectrum
from skfedcausal.server.validity.report import Evidence, _of_echoes

FREQUENCY, N_BINS = np.linspace(0.05, 3.1, 50), np.full(50, 20.0)
FIRST = np.array([[[0.6, 0.2], [-0.1, 0.3]], [[0.1, 0.0], [0.0, 0.1]]])  # two lags of two states
SECOND = np.array([[[0.5]], [[-0.2]]])
NOISE = np.array([[1.0, 0.3], [0.3, 0.5]]), np.array([[2.0]])
OF_SCORES = np.array([[0.4, 0.1], [0.1, 0.3]]), np.array([[0.5]])
LINKS = 3, 2  # rows that they take, there and back
POLE = 0.8


def exact(*, noise=0.0, states=0.0, there=0.0, back=0.0, driver=0.0):
    """Cross-spectrum (k, 2, 1) of the pair, all of it inverted at every frequency."""
    power = np.empty((len(FREQUENCY), 2, 1), dtype=complex)
    one, loads = np.array([1.0, -0.5]), np.array([0.7, -0.4, 1.1])
    for k, w in enumerate(FREQUENCY):
        turn = np.exp(-1j * w)
        A = np.zeros((3, 3), dtype=complex)
        for lag in (1, 2):
            A[:2, :2] += FIRST[lag - 1] * turn**lag
            A[2:, 2:] += SECOND[lag - 1] * turn**lag
        A[2, :2] += there * one * turn ** LINKS[0]
        A[:2, 2] += back * one * turn ** LINKS[1]
        Q, N = np.zeros((3, 3)), np.zeros((3, 3))
        Q[:2, :2], Q[2:, 2:], N[:2, :2], N[2:, 2:] = *NOISE, *OF_SCORES
        Q[:2, 2] = Q[2, :2] = states * one
        N[:2, 2] = N[2, :2] = noise * one
        of_driver = driver * (1 - POLE**2) / abs(1 - POLE * turn) ** 2
        Z = np.linalg.inv(np.eye(3) - A)
        power[k] = (Z @ (Q + of_driver * np.outer(loads, loads)) @ Z.conj().T + N)[:2, 2:]
    return power


def of(power):
    return CrossSpectrum(Bands(FREQUENCY, N_BINS, power), [(FIRST, NOISE[0]), (SECOND, NOISE[1])], OF_SCORES)


@pytest.mark.parametrize("name", ["noise", "states", "there", "back", "driver"])
def test_a_faint_term_is_all_that_its_regressors_explain(name):
    faint = 1e-5
    cross = of(exact(**{name: faint}))
    terms = cross.terms(LINKS)
    term = cross.driver(POLE, terms["states"]) if name == "driver" else terms[name]
    coefficients, *_ = np.linalg.lstsq(term, cross._target, rcond=None)
    np.testing.assert_allclose(term @ coefficients, cross._target, atol=100 * faint**2 * len(term))
    expected = np.outer([0.7, -0.4], [1.1]) if name == "driver" else [[1.0], [-0.5]]
    np.testing.assert_allclose(coefficients / faint, np.ravel(expected), atol=100 * faint)


def test_whitened_periodograms_of_units_apart_are_white():
    """What is left of two units that nothing joins is of unit variance, as the price of coefficients supposes."""
    rng = np.random.default_rng(0)
    roots = [np.linalg.cholesky(np.asarray(part)) for part in (NOISE[0], NOISE[1], *OF_SCORES)]
    squares = []
    for _ in range(40):
        power = np.empty((len(FREQUENCY), 2, 1), dtype=complex)
        for k, w in enumerate(FREQUENCY):
            sides = []
            for lags, root, of_scores in ((FIRST, roots[0], roots[2]), (SECOND, roots[1], roots[3])):
                p, turns = len(root), np.exp(-1j * w * np.arange(1, 3))
                draws = rng.standard_normal((2, p, 20, 2)) @ [1, 1j] / np.sqrt(2)
                Z = np.linalg.inv(np.eye(p) - np.tensordot(turns, lags, 1))
                sides.append(Z @ root @ draws[0] + of_scores @ draws[1])
            power[k] = sides[0] @ sides[1].conj().T / 20
        squares.append(np.square(of(power)._target).mean())
    assert abs(np.mean(squares) - 1) < 4 * np.std(squares) / np.sqrt(len(squares))


def fitted(name, seed):
    return FederatedGrangerEstimator().fit(draw(name, seed).X)


@pytest.mark.medium
@pytest.mark.parametrize("seed", [50015, 50027])
def test_what_a_dead_band_leaves_in_both_units_is_no_driver(seed):
    found = fitted("dead band of one deviation", seed)
    row = found.validity_.query("check == 'no shared driver' and cause == 'u0' and effect == 'u1'")
    assert row["passed"].all()
    assert found.server_.likelihood_links_.set_index(["cause", "effect"]).loc[("u0", "u1"), "verdict"] == "influence"


def test_a_driver_that_the_spectra_of_its_units_hide_is_seen_between_them():
    """Units whose one lag does not hold what the driver brings: fitted spectra prefer a loop by far."""
    links = fitted("hidden AR(.9) driver of two units", 50011).server_.likelihood_links_.set_index(["cause", "effect"])
    between = links.loc[[("u2", "u3"), ("u3", "u2")]]
    assert between["p_adjusted"].max() < 1e-5
    assert set(between["verdict"]) == {"shared driver"}
    assert links.loc[("u0", "u1"), "verdict"] == "influence"


@pytest.mark.medium
def test_a_driver_that_explains_nothing_hides_no_link():
    """Modes behind fewer sensors: of the link and of a driver the cross-spectrum shows less than both cost."""
    links = fitted("two sensors, four states", 70016).links_.set_index(["cause", "effect"])
    assert links.loc[("u0", "u1"), "verdict"] == "influence"
    assert links.loc[("u1", "u0"), "verdict"] != "influence"


@pytest.mark.parametrize("seed", [70033, 72020])
def test_what_an_effect_tells_of_states_that_its_cause_hides_is_no_link_back(seed):
    """One sensor of two states: the effect follows both, so that its rows predict the cause."""
    found = fitted("one sensor, two states", seed)
    links = found.server_.likelihood_links_.set_index(["cause", "effect"])
    back = links.loc[("u1", "u0")]
    assert back["p_adjusted"] < 0.01
    assert back["verdict"] == "cannot tell"
    assert back["because"].startswith("u1 follows u0, and may tell of it what rows of u0 do not show")
    assert links.loc[("u0", "u1"), "verdict"] == "influence"


@pytest.mark.medium
def test_what_happens_within_a_mean_is_no_link_back():
    links = fitted("means over 10 rows", 70025).links_.set_index(["cause", "effect"])
    assert links.loc[("u1", "u0"), "p_adjusted"] < 0.05
    assert links.loc[("u1", "u0"), "verdict"] in ("cannot tell", "negligible")
    assert links.loc[("u0", "u1"), "verdict"] == "influence"


@pytest.mark.parametrize("change", ["surer", "sensors", "one lag", "alone"])
def test_an_echo_is_fainter_than_what_it_echoes_and_of_a_unit_of_few_sensors(change):
    rng = np.random.default_rng(0)
    found = Evidence(**dict.fromkeys(Evidence.__dataclass_fields__) | {
        "names": ("a", "b"), "linked": {(0, 1), (1, 0)}, "sure": set(), "correlated": set(),
        "lags": np.zeros((3, 2, 2)), "p_adjusted": {(0, 1): 1e-5, (1, 0): 1e-3},
        "scores": [rng.standard_normal((500, 1)) for _ in range(2)],
    })  # fmt: skip
    part = SimpleNamespace(mean_information=np.array([[1000.0]]))

    def echoes(found, parts=(part, part), driven=()):
        return [row[:3] for row in _of_echoes(found, SimpleNamespace(parts=parts), driven) if not row[5]]

    assert echoes(found) == [("more than an echo", "b", "a")]
    assert not echoes(found, driven={("a", "b")})
    noisy = SimpleNamespace(mean_information=np.array([[10.0]]))
    others = {
        "surer": (replace(found, p_adjusted={(0, 1): 1e-9, (1, 0): 1e-6}),),
        "sensors": (found, (noisy, part)),
        "one lag": (replace(found, lags=found.lags[:1]),),
        "alone": (replace(found, linked={(1, 0)}, p_adjusted={(1, 0): 1e-3}),),
    }
    assert not echoes(*others[change])
    long = {"scores": [np.tile(own, (8, 1)) for own in found.scores]}  # where the same echo is surer
    assert bool(echoes(replace(others[change][0], **long), *others[change][1:])) == (change == "surer")
    in_one_row = replace(others[change][0], correlated={(0, 1)})
    assert bool(echoes(in_one_row, *others[change][1:])) == (change in ("sensors", "one lag"))
