"""Plants of several lags: likelihood, information, priors and tests against brute force."""

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import eigh
from scipy.stats import chi2, kstest, multivariate_normal

from skfedcausal.server.lagged import misfit
from skfedcausal.server.lagged.misfit import (
    LateLags,
    MisfitTest,
    combined,
    kernel_p_values,
    lag_bases,
    misfit_of_all,
    misfit_table,
    one_lag_is_enough,
)
from skfedcausal.statespace.episodes import episodes
from skfedcausal.statespace.lagged.kernels import (
    CHANNEL_SCALES,
    DECAYS,
    Channel,
    ChannelEvidence,
    Nuisance,
    PriorCoordinates,
    efficient,
    kernel_root,
    swept,
)
from skfedcausal.statespace.lagged.likelihood import (
    Elements,
    LaggedLikelihood,
    LagSums,
    RowInformation,
    averaged_periodogram,
    floored_sum,
)
from skfedcausal.statespace.whittle import WhittleLikelihood

pytestmark = pytest.mark.medium


def posterior(G, b, channels, scales, decays):
    return PriorCoordinates(G, b, channels, decays).posterior(scales)


N_LAGS, MEMORY, N, K = 4, 6, 3, 2


def plant(seed=0):
    rng = np.random.default_rng(seed)
    coefficients = 0.1 * rng.normal(size=(N_LAGS + 1, N, N + K))
    coefficients[0, :, :N] = 0.0
    noise, Q = 0.5 * np.eye(N) + 0.1, np.eye(N) + 0.2
    return coefficients, Q, noise


def residuals(coefficients, x):
    Z = -coefficients
    Z[0, :, :N] += np.eye(N)
    return np.array([sum(Z[k] @ x[t - k] for k in range(N_LAGS + 1)) for t in range(N_LAGS, len(x))]).reshape(-1, N)


def brute_force(coefficients, Q, noise, x, starts, n_frequencies):
    """Row by row, with the Fourier coefficients of the inverse spectrum."""
    w = 2 * np.pi * np.arange(n_frequencies) / n_frequencies
    lags = np.exp(-1j * np.outer(w, np.arange(1, N_LAGS + 1)))
    Z = np.eye(N) - np.einsum("fk,kij->fij", lags, coefficients[1:, :, :N])
    Phi = Q + Z @ noise @ np.conj(np.swapaxes(Z, 1, 2))
    inverse = np.fft.ifft(np.linalg.inv(Phi), axis=0).real
    total, n_rows = 0.0, 0
    for start, stop in episodes(starts, len(x)):
        r = residuals(coefficients, x[start:stop])
        n_rows += len(r)
        for t in range(len(r)):
            for lag in range(max(-MEMORY, t - len(r) + 1), min(MEMORY, t) + 1):
                total += r[t] @ inverse[lag] @ r[t - lag]
    return -0.5 * (np.linalg.slogdet(Phi)[1].mean() + total / n_rows), n_rows


@pytest.mark.parametrize("starts", [(0,), (0, 60, 65, 80, 100)])
def test_value_and_gradient_are_those_of_the_rows(starts):
    x = np.random.default_rng(1).standard_normal((150, N + K))
    coefficients, Q, noise = plant()
    likelihood = LaggedLikelihood(LagSums.of(x, starts, N_LAGS, MEMORY), noise)
    point = likelihood.evaluate(coefficients, Q)
    value, n_rows = brute_force(coefficients, Q, noise, x, starts, likelihood.n_fft)
    assert likelihood.n_rows == n_rows
    np.testing.assert_allclose(point.value, value, rtol=1e-12)
    step = 1e-5  # the error of a central difference is its square, times third derivatives of order one
    for at in np.ndindex(*coefficients.shape):
        if at[0] or at[2] >= N:  # states do not act in their own row
            change = np.zeros_like(coefficients)
            change[at] = step
            ends = [likelihood.evaluate(coefficients + s * change, Q).value for s in (1, -1)]
            assert abs((ends[0] - ends[1]) / (2 * step) - point.grad[at]) < 1e-8
    change = np.zeros((N, N))
    change[0, 1] = change[1, 0] = step
    ends = [likelihood.evaluate(coefficients, Q + s * change).value for s in (1, -1)]
    assert abs((ends[0] - ends[1]) / (2 * step) - 2 * point.grad_Q[0, 1]) < 1e-8


def test_the_cost_of_a_value_does_not_depend_on_the_length_of_the_record():
    x = np.random.default_rng(1).standard_normal((20_000, N))
    coefficients, Q, noise = plant()
    short, long = (LaggedLikelihood(LagSums.of(rows, (0,), N_LAGS, MEMORY), noise) for rows in (x[:500], x))
    assert short.n_fft == long.n_fft
    assert short.ends[0].spectrum.shape == long.ends[0].spectrum.shape
    assert np.isfinite(long.evaluate(coefficients[..., :N], Q).value)


def simulated(rng, n_samples, A, Q, noise, burn_in=100):
    n_lags, n = A.shape[:2]
    h = np.zeros((n_samples + burn_in, n))
    w = rng.standard_normal(h.shape) @ np.linalg.cholesky(Q).T
    for t in range(n_lags, len(h)):
        h[t] = w[t] + sum(A[k] @ h[t - 1 - k] for k in range(n_lags))
    s = h + rng.standard_normal(h.shape) @ np.linalg.cholesky(noise).T
    return s[burn_in:]


TRUE_A = np.array([[[0.6, 0.3, 0.2], [-0.2, 0.5, 0.0], [0.0, 0.0, 0.7]]])
TRUE_Q = np.array([[1.0, 0.4, 0.0], [0.4, 1.0, 0.0], [0.0, 0.0, 1.0]])
TRUE_N = 0.7 * np.eye(3)


@pytest.fixture(scope="module")
def scores():
    """Gradients at the true plant of many records, and one of the likelihoods."""
    n_lags, memory, rng = 6, 20, np.random.default_rng(2)
    coefficients = np.zeros((n_lags + 1, 3, 3))
    coefficients[1] = TRUE_A[0]
    gradients = []
    for _ in range(300):
        s = simulated(rng, 1000, TRUE_A, TRUE_Q, TRUE_N)
        likelihood = LaggedLikelihood(LagSums.of(s, (0,), n_lags, memory), TRUE_N)
        gradients.append(likelihood.evaluate(coefficients, TRUE_Q).grad * likelihood.n_rows)
    return np.array(gradients), likelihood, coefficients, averaged_periodogram(s, (0,))


def test_information_is_the_covariance_of_the_scores(scores):
    gradients, likelihood, coefficients, periodogram = scores
    rows, lags = slice(0, 2), np.arange(1, 7)
    info = RowInformation(likelihood, coefficients, TRUE_Q, periodogram)
    H = info.of_rows(rows, Elements.of(rows, [(0, lags), (1, lags), (2, lags)]))
    q = np.moveaxis(gradients[:, 1:, rows], 1, -1).reshape(len(gradients), -1)
    z = q / np.sqrt(np.diag(H))
    # variances over information: within four standard errors of one record's periodogram and of 300 scores
    ratio = np.square(z).mean(axis=0)
    assert np.abs(ratio - 1).max() < 4 * np.sqrt(2 / len(q)) + 4 * np.sqrt(2 / 1000)
    assert np.abs(z.mean(axis=0)).max() < 4 / np.sqrt(len(q))


def test_information_of_a_unit_behind_its_own_effect_is_the_covariance_of_the_scores():
    # 2 follows 1, so that the noise of unit 1 comes back in what its link from 2 is estimated from
    A, n_lags, rng = np.zeros((1, 2, 2)), 4, np.random.default_rng(7)
    A[0] = [[0.6, 0.0], [0.7, 0.3]]
    Q, noise, gradients = np.eye(2), 2.0 * np.eye(2), []
    coefficients = np.zeros((n_lags + 1, 2, 2))
    coefficients[1] = A[0]
    for _ in range(400):
        s = simulated(rng, 1000, A, Q, noise)
        likelihood = LaggedLikelihood(LagSums.of(s, (0,), n_lags, 20), noise)
        gradients.append(likelihood.evaluate(coefficients, Q).grad[1:, 0] * likelihood.n_rows)
    info = RowInformation(likelihood, coefficients, Q, averaged_periodogram(s, (0,)))
    lags = np.arange(1, n_lags + 1)
    own_rows = slice(0, 1)
    H = info.of_rows(own_rows, Elements.of(own_rows, [(0, lags), (1, lags)]))
    q = np.moveaxis(np.array(gradients), 1, -1).reshape(len(gradients), -1)
    # of 400 scores and one record's periodogram, four standard errors: every combination, and the link's given
    # the unit's own coefficients
    tolerance = 4 * np.sqrt(2 / len(q)) + 4 * np.sqrt(2 / 1000)
    white = q @ np.linalg.inv(np.linalg.cholesky(H)).T
    assert np.abs(np.square(white).mean(axis=0) - 1).max() < tolerance
    first, second = (Elements.of(own_rows, [(col, lags)]) for col in (0, 1))
    inside, cross, own = info.of_rows(own_rows, first), *(info.between(own_rows, x, second) for x in (first, second))
    np.testing.assert_allclose(np.block([[inside, cross], [cross.T, own]]), H, atol=1e-6 * H.max())


def test_gradient_with_respect_to_sensor_noise_is_that_of_the_value():
    coefficients, Q, noise = plant()
    x = np.random.default_rng(1).standard_normal((150, N + K))
    sums, step = LagSums.of(x, (0,), N_LAGS, MEMORY), 1e-5
    D = np.array([[1.0, 0.5, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 2.0]])
    values = [LaggedLikelihood(sums, noise + k * step * D).evaluate(coefficients, Q).value for k in (-1, 1)]
    found = LaggedLikelihood(sums, noise).evaluate(coefficients, Q).grad_N
    np.testing.assert_allclose((found * D).sum(), (values[1] - values[0]) / (2 * step), rtol=1e-6)


def test_a_sum_is_floored_where_it_would_not_be_positive():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, 30, 5))
    H, term = X.T @ X, 0.1 * Y.T @ Y
    np.testing.assert_allclose(floored_sum(H, term), H + term, rtol=1e-8)
    floored = floored_sum(H, -10 * term)
    shares = eigh(floored, H, eigvals_only=True)
    np.testing.assert_allclose(shares, np.maximum(1 - eigh(10 * term, H, eigvals_only=True)[::-1], 0.25), rtol=1e-6)


def true_information():
    """Of the true plant, one lag."""
    sums = np.zeros((30, 3, 3))
    moments = type("M", (), {"n_transitions": 999, "late": sums, "spectra": lambda self, w: (sums,) * 3})()
    return WhittleLikelihood(moments, TRUE_N).information(TRUE_A[0], TRUE_Q, 6)


def test_the_test_of_misfit_has_its_size(scores):
    gradients, likelihood, _, _ = scores
    info, p_values = true_information(), []
    for gradient in gradients:
        test = MisfitTest(info, gradient / likelihood.n_rows, likelihood.n_rows, lag_bases(5, (0.1, 0.8)))
        p_values.append(test.p_values(slice(0, 2), np.arange(3), np.array([[0, 1]]))[0])
        p_values.append(test.p_values(slice(2, 3), np.array([2]), np.array([[0], [1]]))[1])
    p_values = np.array(p_values)
    # Cauchy's rule is exact in the tail only
    for level in (0.05, 0.01):
        assert abs(np.mean(p_values < level) - level) < 4 * np.sqrt(level / len(p_values))


@pytest.mark.parametrize("place", [(slice(0, 2), np.arange(3), np.array([[0, 1]])), (slice(2, 3), [2], [[0], [1]])])
def test_later_lags_are_the_same_one_by_one_and_in_the_bases_that_weigh_them(scores, place):
    gradients, likelihood, _, _ = scores
    info, bases = true_information(), lag_bases(5, (0.1, 0.8))
    about = info, gradients[0] / likelihood.n_rows, likelihood.n_rows
    rows, inside, channels = place[0], np.array(place[1]), np.array(place[2])
    whole, q = MisfitTest(*about, [np.eye(5)]).efficient(rows, inside, channels)
    e = q.shape[1]
    by_vector = np.arange(e).reshape(5, e // 5).T.ravel()  # lags of one row and column after those of another
    expected = kernel_p_values(whole[:, by_vector[:, None], by_vector], q[:, by_vector], 5, bases)
    np.testing.assert_allclose(MisfitTest(*about, bases).p_values(rows, inside, channels), expected, rtol=1e-8)


def test_single_late_lags_are_those_of_the_whole_test(scores):
    gradients, likelihood, _, _ = scores
    place = slice(2, 3), np.array([2]), np.array([[0], [1], [2]])
    quiet = gradients[0] / likelihood.n_rows
    p, latest = LateLags(true_information(), quiet, likelihood.n_rows, None).p_values(*place, 6)
    assert (p.tolist(), latest) == ([1, 1, 1], 0)
    loud = quiet.copy()
    loud[6, 2, 1] += 12 / np.sqrt(likelihood.n_rows)  # of the sixth lag from 1 to 2
    p, latest = LateLags(true_information(), loud, likelihood.n_rows, None).p_values(*place, 6)
    assert latest == 6
    assert p[0] == p[2] == 1
    S, q = MisfitTest(true_information(), loud, likelihood.n_rows, [np.eye(5)]).efficient(*place)
    expected = 2 * chi2.sf(q[1, 4] ** 2 / S[1, 4, 4], 1)  # the last of lags 2 to 6, one of two late ones
    np.testing.assert_allclose(np.log(p[1]), np.log(expected), rtol=0.01)  # far tails are those of a saddle point


def test_single_late_lags_have_at_most_their_size(scores, monkeypatch):
    monkeypatch.setattr(misfit, "_SUSPECT", 0.2)
    gradients, likelihood, _, _ = scores
    info, p_values = true_information(), []
    for gradient in gradients:
        late = LateLags(info, gradient / likelihood.n_rows, likelihood.n_rows, None)
        p_values.append(late.p_values(slice(0, 2), np.arange(3), np.array([[0, 1]]), 6)[0][0])
        p_values.append(late.p_values(slice(2, 3), np.array([2]), np.array([[0], [1]]), 6)[0][1])
    for level in (0.05, 0.01):
        assert np.mean(np.array(p_values) < level) < level + 4 * np.sqrt(level / len(p_values))


def test_kernel_p_values_are_uniform_without_an_effect():
    rng = np.random.default_rng(3)
    S = np.array([np.cov(rng.normal(size=(12, 40))) for _ in range(400)])
    q = np.einsum("xij,xj->xi", np.linalg.cholesky(S), rng.normal(size=(400, 12)))
    for basis in lag_bases(6):
        assert kstest(kernel_p_values(S, q, 6, [basis]), "uniform").pvalue > 1e-3


def test_single_lags_find_a_link_with_a_dead_time_and_keep_the_size():
    n_lags, rng = 20, np.random.default_rng(6)
    S = 100 * (0.7 ** np.abs(np.subtract.outer(np.arange(n_lags), np.arange(n_lags))))
    L, S = np.linalg.cholesky(S), np.broadcast_to(S, (4000, n_lags, n_lags))
    q = rng.normal(size=(4000, n_lags)) @ L.T
    settings = n_lags, lag_bases(n_lags)
    p = kernel_p_values(S, q, *settings, of_each_lag=True)
    # exact for independent p values only, and in the tail
    for level in (0.05, 0.01, 0.005):
        assert abs(np.mean(p < level) - level) < 0.1 * level + 3 * np.sqrt(level / len(p))
    q = q + 0.45 * S[0, 14]  # of a coefficient of 0.45 at lag 15
    powers = [np.mean(kernel_p_values(S, q, *settings, of_each_lag=each) < 0.001) for each in (False, True)]
    assert powers[1] > powers[0] + 4 * np.sqrt(0.25 / len(p))


def test_scores_without_a_negative_tail_keep_the_size_of_a_combination():
    p, shares = np.random.default_rng(8).uniform(size=(12, 40_000)), np.arange(1.0, 13)
    for level in (0.1, 0.05, 0.01):
        error = 4 * np.sqrt(level / p.shape[1])
        assert abs(np.mean(combined(p, shares, 0.9) < level) - level) < 0.05 * level + error
        assert np.mean(combined(np.minimum(p, 0.9), shares) < level) > level + error / 4  # without the correction
    tiny = combined(np.full((12, 1), 1e-200), shares, 0.9)
    assert 0 < tiny[0] < 1e-150


def test_channels_that_each_ask_a_little_for_lags_ask_for_them_together():
    rng, names = np.random.default_rng(10), list("abcde")

    def of_all(few):
        p = np.full((5, 10), np.nan)
        p[:, :5] = rng.uniform(size=(5, 5))
        p[0, : len(few)] = few
        table = misfit_table(names, p)
        return misfit_of_all(table), table["p_adjusted"].min()

    together, least = of_all([0.004] * 5)
    assert together < 0.05 < least
    together, least = of_all([1e-8])
    assert together == pytest.approx(least, rel=1e-3)
    nothing = misfit_table(names, None)
    assert np.isnan(misfit_of_all(nothing))
    assert one_lag_is_enough(nothing)
    several = pd.DataFrame({"p_value": [0.004] * 5 + [0.5] * 20, "p_adjusted": [0.1] * 5 + [1.0] * 20})
    assert not one_lag_is_enough(several)
    assert one_lag_is_enough(several, 0.001)
    found = np.array([of_all([])[0] for _ in range(2000)])
    for level in (0.05, 0.01):  # the least p value alone reaches 1 - (1 - level / 25) ** 25 of these
        assert np.mean(found <= level) < 1.2 * level + 3 * np.sqrt(level / len(found))


def test_sets_tested_together_are_those_tested_alone():
    rng = np.random.default_rng(9)
    inner, R = np.cov(rng.normal(size=(6, 50))), np.diag(rng.uniform(0.1, 1, 6))
    own = np.array([np.cov(rng.normal(size=(3, 50))) for _ in range(4)])
    cross, b, b_own = 0.1 * rng.normal(size=(4, 6, 3)), rng.normal(size=6), rng.normal(size=(4, 3))
    S, q = Nuisance(inner, b, R).efficient(cross, own, b_own)
    prior = np.linalg.inv(R @ R.T)
    for k in range(4):
        explained = cross[k].T @ np.linalg.inv(inner + prior)
        np.testing.assert_allclose(S[k], own[k] - explained @ cross[k], rtol=1e-8)
        np.testing.assert_allclose(q[k], b_own[k] - explained @ b, rtol=1e-8)


def test_roots_of_groups_of_states_wind_as_those_of_the_plant_do():
    x, A = np.random.default_rng(4).standard_normal((200, 3)), np.zeros((N_LAGS + 1, 3, 3))
    likelihood = LaggedLikelihood(LagSums.of(x, (0,), N_LAGS, MEMORY), np.eye(3))
    A[1] = [[0.9, 0.0, 0.5], [0.4, 0.5, 0.0], [0.0, 0.0, 0.7]]
    for gain in (0.0, 0.3, -0.9, 2.0):  # a loop from 2 to 3 and back by 1
        A[2, 2, 1] = gain
        top = np.hstack(list(A[1:]))
        radius = np.abs(np.linalg.eigvals(np.vstack([top, np.eye(len(top[0]) - 3, len(top[0]))]))).max()
        assert likelihood.winds(A) == (radius > 1)


@pytest.mark.parametrize("dead", [1, 4])
def test_kernels_may_begin_late(dead):
    late, early = kernel_root(12, 3 + dead * len(DECAYS)), kernel_root(12 - dead, 3)
    np.testing.assert_array_equal(late[:dead], 0.0)
    np.testing.assert_array_equal(late[dead:], early)


def test_a_sweep_finds_a_dead_time():
    rng, n_lags = np.random.default_rng(5), 10
    channels = [Channel(("unit", 0), (0,), np.arange(1, 11), 1), Channel(("unit", 1), (1,), np.arange(1, 11), 1)]
    X, theta = rng.normal(size=(500, 20)), np.zeros(20)
    theta[0], theta[n_lags + 6] = 0.5, 0.8
    y = X @ theta + rng.normal(size=500)
    scales, decays = swept(X.T @ X, X.T @ y, channels, np.full(2, 0.03), np.array([2, 2]), coarse=True)
    assert decays[0] < len(DECAYS)
    assert decays[1] // len(DECAYS) == 6
    before = posterior(X.T @ X, X.T @ y, channels, scales, np.array([decays[0], 2])).log_evidence
    assert posterior(X.T @ X, X.T @ y, channels, scales, decays).log_evidence > before


@pytest.mark.parametrize("number", range(len(DECAYS)))
def test_kernels_are_what_they_say(number):
    lag, decay = np.arange(12), DECAYS[number]
    R = kernel_root(12, number)
    exponent = np.maximum.outer(lag, lag) if number < 13 else np.where(np.eye(12), lag[:, None], np.inf)
    np.testing.assert_allclose(R @ R.T, decay**exponent, atol=1e-5)


def quadratic(seed=4):
    rng = np.random.default_rng(seed)
    channels = [
        Channel(("unit", 0), (0,), np.arange(1, 6), 2),
        Channel(("unit", 1), (1,), np.arange(1, 6), 1),
    ]
    X = rng.normal(size=(60, 15))
    theta = rng.normal(size=15)
    y = X @ theta + rng.normal(size=60)
    return channels, X, y


def test_posterior_and_evidence_are_those_of_the_gaussian():
    channels, X, y = quadratic()
    scales, decays = np.array([0.3, 2.0]), np.array([3, 15])
    found = posterior(X.T @ X, X.T @ y, channels, scales, decays)
    blocks = [np.kron(np.eye(2), kernel_root(5, 3)) * np.sqrt(0.3), kernel_root(5, 15) * np.sqrt(2.0)]
    R = np.zeros((15, sum(b.shape[1] for b in blocks)))
    R[:10, : blocks[0].shape[1]], R[10:, blocks[0].shape[1] :] = blocks
    prior = R @ R.T
    gain = prior @ X.T @ np.linalg.inv(X @ prior @ X.T + np.eye(60))
    np.testing.assert_allclose(found.mean, gain @ y, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.covariance, prior - gain @ X @ prior, atol=1e-9)
    log_density = [multivariate_normal(np.zeros(60), C).logpdf(y) for C in (X @ prior @ X.T + np.eye(60), np.eye(60))]
    np.testing.assert_allclose(found.log_evidence, log_density[0] - log_density[1], rtol=1e-8)


def test_a_channel_alone_has_the_evidence_of_the_whole():
    channels, X, y = quadratic()
    scales, decays = np.array([0.3, 2.0]), np.array([3, 4])
    G, b = X.T @ X, X.T @ y
    S, q = efficient(G, b, channels, scales, decays, np.arange(len(channels)) == 0)
    (values,) = ChannelEvidence(S, q, 2)(kernel_root(5, 3)[None])
    at = [3, 25]
    whole = [posterior(G, b, channels, np.array([CHANNEL_SCALES[k], 2.0]), decays).log_evidence for k in at]
    np.testing.assert_allclose(values[at[0]] - values[at[1]], whole[0] - whole[1], rtol=1e-6)


def test_a_sweep_never_lowers_the_evidence_and_takes_idle_channels_out():
    channels, X, y = quadratic()
    y = y - X[:, 10:] @ np.linalg.lstsq(X, y, rcond=None)[0][10:]
    scales, decays = np.array([0.03, 0.03]), np.array([2, 2])
    before = posterior(X.T @ X, X.T @ y, channels, scales, decays).log_evidence
    new_scales, new_decays = swept(X.T @ X, X.T @ y, channels, scales, decays, coarse=True)
    assert posterior(X.T @ X, X.T @ y, channels, new_scales, new_decays).log_evidence >= before
    assert new_scales[1] < 1e-2 * new_scales[0]
