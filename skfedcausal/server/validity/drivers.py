"""Whether two units that look linked are rather moved by something nobody measures: spectra and evidence."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components

from ...statespace.episodes import episodes
from ...statespace.matrices import companion, hermitian, positions_of, slices_of, spectral_radius
from .tuning import TUNING

# What the cross-spectrum of two units says of what joins them: links or a driver.
#
# Scores of units are ``s[t] = h[t] + e[t]``. Faint terms change the cross-spectrum of two units only, and that
# linearly: noise N of the sensors of both is a constant, noise Q of the states of both ``Z_a^-1 Q Z_b^-H``, a driver of
# spectrum f ``Z_a^-1 D Z_b^-H f``, a link B from a to b at delay d ``S_a (B exp(-i w d))^H Z_b^-H``, with Z the filter
# of a unit's own memory and S the spectrum of its states. Whitened by the spectra of the two alone, these are
# regressions of averaged periodograms, compared by the Bayesian information criterion: no climb, a millisecond for a
# pair, and nothing that a unit's own spectrum has beside its model counts.

CLEAR = 6.0  # difference of criteria that is strong evidence (Kass and Raftery, 1995)
_SPECTRAL_POLES = (0.0, 0.5, 0.8, 0.9, 0.95, 0.98)  # of drivers, the first without a memory


def beside_links(found, record, whole, pair):
    """By how much a driver is better than links that were found, where that is clear either way; else None.

    Links are clear only where the spectra of the units are right, and a driver only where it has a memory: one without
    is noise that states share, as links between rows have it that act within a row too. Nor is a driver clear that is
    no better than none at all: links of plants of many lags may be seen where their cross-spectrum shows nothing.
    """
    cross = cross_spectrum(found, record, whole, pair)
    ways = pair, pair[::-1]
    links = [name for name, way in zip(("there", "back"), ways, strict=True) if way in found.linked]
    terms = cross.terms([known_delay(found.delays.get(way)) or 1 for way in ways])
    drivers = {f"driver {pole}": cross.driver(pole, terms["states"]) for pole in _SPECTRAL_POLES}
    gains, left = cross.gains(terms | drivers, links, [*links, "states"], *([name] for name in drivers))
    by_links, white = max(gains[:2]), gains[2]
    driver = max(gains[3:])
    if driver - max(by_links, white, 0.0) >= CLEAR and left <= TUNING.cross_far:
        return driver - by_links
    excess = max(driver, white) - by_links
    return excess if excess <= -CLEAR and left <= TUNING.cross_left else None


def cross_spectrum(found, record, whole, pair):
    """:class:`CrossSpectrum` of two units, less what others do to them."""
    cols = [np.arange(found.slices[unit].start, found.slices[unit].stop) for unit in pair]
    maps = without_others(whole.frequency, found.lags, np.concatenate(cols))
    n_first = len(cols[0])
    power = maps[:, :n_first] @ whole.power @ hermitian(maps[:, n_first:])
    units = [(found.lags[:, own[:, None], own], found.noise[np.ix_(own, own)]) for own in cols]
    noise = [np.linalg.inv(record.parts[unit].mean_information) for unit in pair]
    return CrossSpectrum(whole._replace(power=power), units, noise)


class CrossSpectrum:
    """What linear terms explain of the cross-spectrum of two units, whitened by those of each unit alone.

    `seen` has averaged periodograms (k, p, q); `units` are two pairs of lag matrices (n_lags, p, p) and noise (p, p)
    of states, `noise` two (p, p) of scores.
    """

    def __init__(self, seen, units, noise):
        self._turn = np.exp(-1j * seen.frequency)
        self._root, self._n = np.sqrt(2 * seen.n_bins)[:, None, None], 2 * seen.n_bins.sum()
        self._filters, self._spectra, self._whiteners = [], [], []
        for (lags, own), of_scores in zip(units, noise, strict=True):
            turns = self._turn[:, None] ** np.arange(1, len(lags) + 1)
            inverse = np.linalg.inv(np.eye(len(own)) - np.tensordot(turns, lags, 1))
            spectrum = inverse @ own @ hermitian(inverse)
            self._filters.append(inverse)
            self._spectra.append(spectrum)
            self._whiteners.append(np.linalg.inv(np.linalg.cholesky(spectrum + of_scores)))
        first, second = self._whiteners
        self._target = _real((self._root * (first @ seen.power @ hermitian(second))).reshape(-1, 1))[:, 0]

    def terms(self, delays):
        """Regressors (., n) of all terms by name; `delays` of links from the first to the second unit and back."""
        (Z, Y), (S, U) = self._filters, self._spectra
        there, back = ((self._turn**delay)[:, None, None] for delay in delays)
        one = np.ones_like(there)
        return {
            "noise": self._term(one * np.eye(Z.shape[1]), one * np.eye(Y.shape[1])),
            "states": self._term(Z, hermitian(Y)),
            "there": self._term(S, np.conj(there) * hermitian(Y)),
            "back": self._term(back * Z, U),
        }

    def driver(self, pole, states):
        """Regressors of an autoregression that acts on both units: those of noise of both `states` by its spectrum."""
        power = (1 - pole**2) / np.square(np.abs(1 - pole * self._turn))
        return (states.reshape(2, len(power), -1) * power[:, None]).reshape(states.shape)

    def _term(self, left, right):
        """Regressors of ``left E right`` (k, ., .), one for each element of E."""
        left, right = self._whiteners[0] @ left, right @ hermitian(self._whiteners[1])
        whole = self._root[..., None, None] * np.einsum("kij,klm->kimjl", left, right)
        return _real(whole.reshape(-1, left.shape[2] * right.shape[1]))

    def gains(self, terms, *sets):
        """What sets of terms gain on none, twice the log-likelihood less the price of their coefficients.

        In units of what all terms leave, where that is more than chance does, as spectra of units may be wrong; with
        that, one where these are right.
        """
        every = np.hstack([*terms.values()])
        products, target = every.T @ every, every.T @ self._target
        place = dict(zip(terms, slices_of(term.shape[1] for term in terms.values()), strict=True))
        explained, size = _explained(products, target)
        left = np.square(self._target).sum() - explained
        rank = np.count_nonzero(size > len(size) * np.finfo(float).eps * size.max(initial=0.0))
        left /= max(len(self._target) - rank, 1)
        gains = []
        for names in sets:
            own = positions_of(names, place)
            gain, _ = _explained(products[own[:, None], own], target[own])
            gains.append(gain / max(1.0, left) - len(own) * np.log(self._n))
        return gains, left


def _explained(products, target):
    """What regressors of these products explain, and the size of the eigenvalues of these."""
    values, axes = np.linalg.eigh(products)
    size = np.abs(values)
    kept = size > TUNING.cross_same * size.max(initial=0.0)
    return float(np.square(target @ axes[:, kept]) @ (1 / values[kept])), size


def _real(values):
    return np.concatenate([values.real, values.imag])


def known_delay(delay):
    return None if delay is None or not np.isfinite(delay) else int(delay)


def without_others(frequency, lags, cols):
    """Maps (k, p, n) from the scores of a plant to those of some, less what the others do to them."""
    n = lags.shape[1]
    turn = np.exp(-1j * np.outer(frequency, np.arange(1, len(lags) + 1)))
    A = np.einsum("kl,lij->kij", turn, lags[:, cols])
    others = np.delete(np.arange(n), cols)
    maps = np.zeros((len(frequency), len(cols), n), dtype=complex)
    maps[:, np.arange(len(cols)), cols] = 1.0
    if len(others):
        maps[:, :, others] = -np.linalg.solve(np.eye(len(cols)) - A[:, :, cols], A[:, :, others])
    return maps


# Whether two units that look linked are rather moved by something nobody measures: models compared by evidence.
#
# A pair of units as ``s[t] = h[t] + e[t]`` with ``h[t] = sum_l A_l h[t-l] + b f[t] + w[t]``: either blocks of A
# join the units, or the same series f does, an autoregression of one lag with a pole of its own. Both are fitted to
# periodograms averaged in bands (Whittle's likelihood) and compared by the Bayesian information criterion.

_POLES = (0.5, 0.95)  # from which the driver's own memory is sought
_LINKS = "forward", "backward", "loop"
_DRIVER = "no shared driver"


class Bands(NamedTuple):
    """Periodograms of all states averaged in bands of frequency."""

    frequency: np.ndarray  # (k,) radians per row
    n_bins: np.ndarray  # (k,) Fourier frequencies in each
    power: np.ndarray  # (k, n, n) complex

    def of(self, columns):
        """The bands of some of the series, or of a linear map of all at each band (k, m, n)."""
        if columns.ndim == 1:
            return self._replace(power=self.power[:, columns[:, None], columns])
        return self._replace(power=columns @ self.power @ hermitian(columns))


def bands(series, starts):
    """`Bands` of series (n_samples, n) in episodes."""
    n_samples, n = series.shape
    edges = _edges(max(stop - start for start, stop in episodes(starts, n_samples)))
    total, count, place = np.zeros((len(edges) - 1, n, n), dtype=complex), *np.zeros((2, len(edges) - 1))
    for start, stop in episodes(starts, n_samples):
        length = stop - start
        k = np.arange(1, (length + 1) // 2)
        if not len(k):
            continue
        X = np.fft.rfft(series[start:stop] - series[start:stop].mean(axis=0), axis=0)[k] / np.sqrt(length)
        frequency = 2 * np.pi * k / length
        for j, (first, last) in enumerate(pairwise(np.searchsorted(frequency, edges))):
            rows = X[first:last]
            total[j] += rows.T @ rows.conj()
            count[j] += last - first
            place[j] += frequency[first:last].sum()
    kept = count > 0
    return Bands(place[kept] / count[kept], count[kept], total[kept] / count[kept, None, None])


def _edges(length):
    """Ends of the bands of a record, the last above pi."""
    widths, last = [1.0] * TUNING.drivers_single, 1.0
    while sum(widths) < length / 2:
        last *= TUNING.drivers_growth
        widths.append(last)
    return 2 * np.pi * (0.5 + np.concatenate([[0.0], np.cumsum(widths)])) / length


class PairModel:
    """What a pair of units, of `sizes` states, would look like: links at `delays` by direction, or a driver.

    `own` is the number of lags of each unit's own memory, `noise` (n, n) that of the scores.
    """

    def __init__(self, found, noise, sizes, *, own=1):
        self._found, self._N, self._n, self._p = found, noise, sum(sizes), sizes[0]
        self._turn, self._powers = np.exp(-1j * found.frequency), {}
        self._tri = np.tril_indices(self._n)
        self._own_lags = own
        self._weight = found.n_bins[:, None, None]

    def masks(self, delays):
        """Places of free coefficients by lag, {lag: (n, n)}; `delays` are of first to second unit and back."""
        p, n = self._p, self._n
        own, there, back = np.zeros((3, n, n), dtype=bool)
        own[:p, :p] = own[p:, p:] = there[p:, :p] = back[:p, p:] = True
        masks = {lag: own.copy() for lag in range(1, self._own_lags + 1)}
        for delay, cross in zip(delays, (there, back), strict=True):
            if delay is not None:
                masks[delay] = masks.get(delay, np.zeros((n, n), dtype=bool)) | cross
        return masks

    def start(self, masks):
        """Coefficients by lag and noise to start from: regressions on bands, corrected for noise of the scores."""
        power, c = self._found.power, self._found.n_bins / self._found.n_bins.sum()
        G = np.einsum("k,kij->ij", c, power).real - self._N
        G = _raised(G, 1e-2)
        first = np.einsum("k,kij->ij", c * np.conj(self._turn), power).real
        A = np.where(masks[1], first @ np.linalg.inv(G), 0.0)
        A *= min(1.0, TUNING.drivers_stable / max(np.abs(np.linalg.eigvals(A)).max(), 1e-9))
        Q = _raised(G - A @ G @ A.T, 0.05)
        values = [A[mask] if lag == 1 else np.zeros(mask.sum()) for lag, mask in masks.items()]
        return np.concatenate([*values, np.linalg.cholesky(Q)[self._tri]])

    def fitted(self, masks, theta, *, also="", enough=np.inf):
        """Twice the negative log-likelihood, less constants, and the parameters, at the maximum.

        `also` says what the last parameters are: of a "driver", or of noise of the scores that has a "colour". The
        climb goes in coordinates in which the information at its start is one, and anew after some steps. It is given
        up where twice of what these gained leaves it above `enough`. With many parameters, whose information takes
        longer than all the steps that it saves, the coordinates stay as they are. Nothing leads back over the unit
        circle, on which spectra are infinite: from outside of it the climb is tried again from within.
        """
        found = self._up(masks, theta, also, enough)
        stable = self._made_stable(masks, found[1])
        if stable is None:
            return found
        return min(found, self._up(masks, stable, also, enough), key=lambda fit: fit[0])

    def _up(self, masks, theta, also, enough):
        before = np.inf
        at_once = TUNING.drivers_at_once if len(theta) <= TUNING.drivers_turned else TUNING.drivers_steps
        for _ in range(TUNING.drivers_steps // at_once):
            found, theta = self._climbed(masks, theta, also, at_once)
            gained, before = before - found.fun, found.fun
            if found.nit < at_once or gained < TUNING.drivers_little or 2 * (found.fun - 2 * gained) > enough:
                break
        return 2 * float(found.fun), theta

    def _made_stable(self, masks, theta):
        """The parameters with coefficients that are stable, None where they are."""
        n, most = self._n, max(masks)
        A, (coefficients, at) = np.zeros((most, n, n)), self._lags(masks, theta)
        A[np.array([*masks]) - 1] = coefficients
        radius = spectral_radius(companion(np.hstack([*A]), most))
        if radius < 1:
            return None
        shares = [(TUNING.drivers_stable / radius) ** lag for lag in masks]
        parts = [share * own[mask] for share, own, mask in zip(shares, coefficients, masks.values(), strict=True)]
        return np.concatenate([*parts, theta[at:]])

    def _coordinates(self, theta, masks, also):
        """Directions in which the information of few parameters is one."""
        if len(theta) > TUNING.drivers_turned:
            return np.eye(len(theta))
        try:
            info = self.information(theta, masks, also)
            diagonal = np.diag_indices_from(info)
            info[diagonal] += TUNING.drivers_damping * (info[diagonal] + info.trace() / len(info))
            return np.linalg.inv(np.linalg.cholesky(info)).T
        except np.linalg.LinAlgError:  # a spectrum of lower rank, as of copies without noise
            return np.eye(len(theta))

    def _climbed(self, masks, theta, also, n_steps):
        """Some steps up from `theta`: what scipy's minimiser found, and the parameters it ends with."""
        turn = self._coordinates(theta, masks, also)

        def value(x):
            found, slope = self._value(theta + turn @ x, masks, also)
            return found, slope @ turn

        start, most = np.zeros_like(theta), {"maxiter": n_steps}
        found = minimize(value, start, jac=True, method="L-BFGS-B", options=most)
        return found, theta + turn @ found.x

    def criterion(self, value, theta):
        """Bayesian information criterion."""
        return value + self._price(len(theta))

    def _price(self, n_parameters):
        return n_parameters * np.log(2 * self._found.n_bins.sum())

    @property
    def price_of_a_driver(self):
        """By how much a driver costs more than a loop that fits no better."""
        return self._price(max(self._n + 1 - 2 * self._p * (self._n - self._p), 0))

    def information(self, theta, masks, also=""):
        """Fisher information of the parameters, the Hessian of the value where power is as expected."""
        Z, noise, L, Phi, share, slope = self._parts(theta, masks, also)
        n, root = self._n, np.linalg.cholesky(Phi)
        W = np.linalg.inv(root)
        Wh, ZW = hermitian(W), W @ Z
        ahead = np.linalg.solve(Z, root) - noise @ hermitian(ZW)
        # derivatives of the spectrum, whitened: columns of one times rows of the other, frequencies last
        of_rows, of_cols = (np.ascontiguousarray(np.moveaxis(x, 0, 2)) for x in (W, np.swapaxes(ahead, 1, 2)))
        left, right = [], []
        for turn, mask in zip(self._turns(masks).T, masks.values(), strict=True):
            rows, cols = np.nonzero(mask)
            left.append(of_rows[:, rows] * turn)
            right.append(of_cols[:, cols])
        rows, cols = self._tri
        left.append(of_rows[:, rows])
        right.append(np.moveaxis(L.T @ Wh, 0, 2).swapaxes(0, 1)[:, cols])
        if also == "driver":
            b = theta[-n - 1 : -1]
            seen = (W @ b).T[:, None]
            left += [share * of_rows, 0.5 * slope * seen]
            right += [np.broadcast_to(np.conj(seen), of_rows.shape), np.conj(seen)]
        columns, others = np.concatenate(left, axis=1), np.concatenate(right, axis=1)
        whole = _coordinates(n, lambda i, j: columns[i] * others[j])
        if also == "colour":
            shapes = np.moveaxis(ZW[:, None] @ self._shapes @ hermitian(ZW)[:, None], 0, 3)
            sizes = theta[-3:-1, None]
            of_pole = 0.5 * slope * np.tensordot(np.square(theta[-3:-1]), shapes, 1)
            shapes = np.concatenate([(sizes * share)[:, None, None] * shapes, of_pole[None]])
            whole = np.concatenate([whole, _coordinates(n, lambda i, j: shapes[:, i, j])])
        whole = (whole * np.sqrt(self._found.n_bins)).reshape(len(whole), -1)
        return whole @ whole.T

    def _turns(self, masks):
        """Powers of ``exp(-i w)`` at the lags of some masks, (k, n_lags)."""
        if tuple(masks) not in self._powers:
            self._powers[tuple(masks)] = self._turn[:, None] ** np.array([*masks])
        return self._powers[tuple(masks)]

    def _lags(self, masks, theta):
        """Coefficients by lag (n_lags, n, n), and where among the parameters they end."""
        A, at = np.zeros((len(masks), self._n, self._n)), 0
        for own, mask in zip(A, masks.values(), strict=True):
            size = int(mask.sum())
            own[mask] = theta[at : at + size]
            at += size
        return A, at

    def _parts(self, theta, masks, also):
        """Filter Z, noise of the scores, root of that of states, spectrum behind Z, and what the last ones give."""
        n = self._n
        A, at = self._lags(masks, theta)
        Z = np.eye(n) - (self._turns(masks) @ A.reshape(len(A), -1)).reshape(-1, n, n)
        L = np.zeros((n, n))
        L[self._tri] = theta[at : at + len(self._tri[0])]
        at += len(self._tri[0])
        noise, share, slope = self._N, np.zeros(0), np.zeros(0)
        if also:
            share, slope = self._series_of(theta[-1])
        if also == "colour":
            noise = noise + share[:, None, None] * np.tensordot(theta[at:-1] ** 2, self._shapes, 1)
        Phi = L @ L.T + 1e-9 * np.eye(n) * self._scale + Z @ noise @ hermitian(Z)
        if also == "driver":
            b = theta[at:-1]
            Phi = Phi + np.outer(b, b) * share[:, None, None]
        return Z, noise, L, Phi, share, slope

    def _value(self, theta, masks, also):
        power = self._found.power
        Z, noise, L, Phi, share, slope = self._parts(theta, masks, also)
        Zh = hermitian(Z)
        inverse = np.linalg.inv(Phi)
        IR = inverse @ (Z @ power @ Zh)
        # |det Z| is one on the mean of all frequencies, not of bands: roots near the circle would be free at a band
        each = np.linalg.slogdet(Phi)[1] - 2 * np.linalg.slogdet(Z)[1] + np.einsum("kii->k", IR).real
        G = (inverse - IR @ inverse) * self._weight
        into = noise @ Zh @ G + power @ Zh @ (inverse * self._weight) - np.linalg.inv(Z) * self._weight
        of_lags = -2 * (self._turns(masks).T @ into.reshape(len(into), -1)).real.reshape(-1, *Phi.shape[1:])
        grads = [of_lag.T[mask] for of_lag, mask in zip(of_lags, masks.values(), strict=True)]
        grads.append((2 * G.real.sum(axis=0) @ L)[self._tri])
        if also == "driver":
            b = theta[-self._n - 1 : -1]
            Gb = G.real @ b
            grads += [2 * share @ Gb, [(Gb @ b) @ slope]]
        elif also == "colour":
            sizes, inner = theta[-3:-1], Zh @ G @ Z
            of_size = np.einsum("uij,kji->ku", self._shapes, inner).real
            grads += [2 * sizes * (share @ of_size), [slope @ of_size @ sizes**2]]
        return float(self._found.n_bins @ each), np.concatenate(grads)

    def _series_of(self, theta):
        """Spectrum of an autoregression of unit variance whose pole is tanh(theta), and its slope in theta."""
        pole, cos = np.tanh(theta), np.cos(self._found.frequency)
        gain = 1 - 2 * pole * cos + pole**2
        slope = (-2 * pole * gain - (1 - pole**2) * (2 * pole - 2 * cos)) / gain**2
        return (1 - pole**2) / gain, slope * (1 - pole**2)

    @property
    def _shapes(self):
        """Noise of either unit's scores alone, of unit size, (2, n, n)."""
        shapes = np.zeros((2, self._n, self._n))
        for shape, own in zip(shapes, (slice(0, self._p), slice(self._p, None)), strict=True):
            noise = self._N[own, own]
            size = np.trace(noise) / len(noise)
            shape[own, own] = noise / size if size > 0 else np.eye(len(noise))
        return shapes

    def coloured(self, masks, theta):
        """The best fit whose scores have noise with a memory as well, as of sensors that wander, from one without."""
        start = np.concatenate([theta, [TUNING.drivers_faint, TUNING.drivers_faint, np.arctanh(_POLES[-1])]])
        return self.fitted(masks, start, also="colour")

    @property
    def _scale(self):
        return np.trace(self._N) / self._n + 1e-9

    def driven(self, theta, *, enough=np.inf):
        """The best fit of a plant without links whose units share a driver, from one without it.

        Only as near as tells that its criterion is above `enough`, where it is.
        """
        masks = self.masks((None, None))
        low = self._found.frequency < 0.6
        cross = np.einsum("k,kij->ij", self._found.n_bins[low], self._found.power[low]).real[: self._p, self._p :]
        left, _, right = np.linalg.svd(cross)
        Q = np.zeros((self._n, self._n))
        Q[self._tri] = theta[-len(self._tri[0]) :]
        size = 0.5 * np.sqrt(np.square(Q).sum() / self._n)
        b = size * np.concatenate([left[:, 0], right[0]])
        starts = [np.concatenate([theta, b, [np.arctanh(pole)]]) for pole in _POLES]
        enough -= self._price(len(starts[0]))
        fits = [self.fitted(masks, start, also="driver", enough=enough) for start in starts]
        return min(fits, key=lambda fit: fit[0])


def _coordinates(n, element):
    """Real numbers of sums F + F^H, (k, n * n, frequencies), whose products add up to the traces of products of these.

    `element` gives those of F, (k, frequencies).
    """
    found = []
    for i in range(n):
        found.append(2 * element(i, i).real)
        for j in range(i):
            sums = np.sqrt(2) * (element(i, j) + np.conj(element(j, i)))
            found += [sums.real, sums.imag]
    return np.stack(found, axis=1)


def _raised(G, least):
    values, axes = np.linalg.eigh((G + G.T) / 2)
    return (axes * np.maximum(values, least * max(values[-1], 1e-300))) @ axes.T


def criteria(model, delays, is_linked=False):
    """Criteria of a pair linked at `delays` or the row after, and without links, with or without a driver.

    That of a driver is no more than a bound where it is clearly above what is there without one; where links that were
    found are that much likelier, others are not looked at, and theirs are infinite. Where a driver seems to explain a
    link that was found, the links are given noise of sensors that has a memory, which is no driver either.
    """
    there, back = (delay or 1 for delay in delays)
    lags = {"none": (None, None), "forward": (there, None), "backward": (None, back), "loop": (there, back)}
    masks = {name: model.masks(these) for name, these in lags.items()}
    found, fits = dict.fromkeys(lags, np.inf), {}

    def fit(names):
        for name in names:
            fits[name] = model.fitted(masks[name], model.start(masks[name]))
            found[name] = model.criterion(*fits[name])

    told = [name for name in _LINKS if is_linked and lags[name] == tuple(delays)] or _LINKS
    fit(["none", *told])
    enough = CLEAR + min(found[name] for name in (told if is_linked else lags))
    found["driver"] = model.criterion(*model.driven(fits["none"][1], enough=enough))
    if is_linked and found["driver"] < enough:
        fit([name for name in _LINKS if name not in fits])
    if is_linked and found["driver"] < CLEAR + min(found[name] for name in _LINKS):
        for name in _LINKS:
            if found[name] > found["driver"]:
                found[name] = min(found[name], model.criterion(*model.coloured(masks[name], fits[name][1])))
    return found


def driver_rows(found, record, whole, pairs, is_late):
    """Rows of the report on pairs that look linked or correlated; `whole` are :class:`Bands` of all scores.

    Nothing is climbed for any more where `is_late` says so, and those pairs are left open.
    """
    noise = record.block_diagonal([np.linalg.inv(part.mean_information) for part in record.parts])
    rows = []
    linked = {tuple(sorted(pair)) for pair in found.linked}
    for first, second in sorted(pairs):
        names, is_suspected = (found.names[first], found.names[second]), (first, second) in found.suspected
        if (first, second) in linked:
            excess = beside_links(found, record, whole, (first, second))
            # where this is clear no climb, and what each unit has beside its model is no driver; loops that are sure
            # both ways are one only where it is clear
            if excess is not None and (excess > 0 or is_suspected):
                rows.append((_DRIVER, *names, excess, np.nan, excess <= 0, "measure it" if excess > 0 else ""))
                continue
        if not is_suspected:
            continue
        if is_late():
            rows.append(("time for a driver", *names, np.nan, np.nan, False, "raise max_time"))
            continue
        places = [np.arange(found.slices[unit].start, found.slices[unit].stop) for unit in (first, second)]
        cols = np.concatenate(places)
        pair = whole.of(without_others(whole.frequency, found.lags, cols))
        pair, own_noise = standardised(pair, noise[np.ix_(cols, cols)], len(places[0]))
        model = PairModel(pair, own_noise, [len(own) for own in places], own=TUNING.drivers_own_lags)
        delays = [known_delay(found.delays.get(way)) for way in ((first, second), (second, first))]
        values = criteria(model, delays, (first, second) in linked)
        # without a link that was found, noise they share in a row is a driver as well, or a link within the row
        is_fast = (first, second) not in linked and values["none"] < values["driver"]
        excess = min(values[name] for name in _LINKS) - values["none" if is_fast else "driver"]
        remedy = "measure it, or sample faster" if is_fast else "measure it"
        rows.append((_DRIVER, *names, excess, np.nan, excess <= 0, "" if excess <= 0 else remedy))
        is_loop = (first, second) in found.backed_loops
        if (len(found.lags) > 1 or is_loop) and (first, second) in linked:
            least = CLEAR + (model.price_of_a_driver if is_loop else 0.0)
            passed = bool(excess <= -least or excess > 0)
            rows.append(("link rather than driver", *names, excess, np.nan, passed, "" if passed else "more rows"))
    return rows + _of_more_units(found, rows)


def _of_more_units(found, rows):
    """Rows on links of units that each share a driver with what others share one with: it may be the same for both."""
    place = {name: k for k, name in enumerate(found.names)}
    driven = {(place[a], place[b]) for check, a, b, *_, passed, _ in rows if check == _DRIVER and not passed}
    group = groups_of(driven, len(place))
    return [
        ("apart from a shared driver", found.names[c], found.names[e], np.nan, np.nan, False, "measure it")
        for c, e in sorted(found.linked)
        if group[c] == group[e] and tuple(sorted((c, e))) not in driven
    ]


def groups_of(pairs, n_units):
    """Group of every unit, (n_units,), of those that pairs connect."""
    graph = np.zeros((n_units, n_units))
    graph[tuple(np.array(sorted(pairs), dtype=int).reshape(-1, 2).T)] = 1
    return connected_components(graph, directed=False)[1]


def standardised(found, noise, n_first):
    """Bands and noise of a pair with both units' states turned to unit variance, which climbs are short in."""
    share = found.n_bins / found.n_bins.sum()
    G = np.einsum("k,kij->ij", share, found.power).real
    turn = np.zeros_like(G)
    for own in (slice(0, n_first), slice(n_first, None)):
        values, axes = np.linalg.eigh(G[own, own])
        turn[own, own] = (axes / np.sqrt(np.maximum(values, 1e-12 * values[-1]))).T
    maps = np.broadcast_to(turn.astype(complex), (len(share), *turn.shape))
    return found.of(maps), turn @ noise @ turn.T
