"""What planned inputs, held sensors and disturbances do to a plant, and which moves would tell most."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..statespace.kalman import stationary_covariance
from ..statespace.matrices import companion
from .links.tables import rows_to_decide
from .tuning import TUNING

# A record without what its inputs do beyond what is linear: that is no disturbance, which would die away.


def straight_run(server, messages, n_steps=0, share=0.0):
    """Filter over a record as if its inputs acted linearly, and what they add to the states beyond that.

    The second, (n_samples + n_steps, n), is None for nothing; after the record inputs stay as they are. Only the
    last episode has it: earlier ones say nothing of what is to come. A `share` of what no forecast may count on is
    part of it.
    """
    added = _bent(server, messages, n_steps, share)
    if added is None:
        return server.filter(messages), None
    straight = {}
    for name, message in messages.items():
        J = message.patterns[message.information.pattern_of]
        bent = np.einsum("tij,tj->ti", J, added[: len(J), server.state_slices_[name]])
        straight[name] = replace(message, z=message.z - bent)
    return server.filter(straight), added


def expected_states(server, messages):
    """Filter over a record and its states given the messages of earlier rows; those of missing rows are forecast."""
    run, added = straight_run(server, messages)
    return run, run.predicted if added is None else run.predicted + added


def _bent(server, messages, n_steps, share):
    """What inputs add to the states, None for nothing."""
    curvature = getattr(server, "curvature_", None)
    if curvature is None or not curvature.foretells(share):
        return None
    u = np.hstack([message.inputs for message in messages.values() if message.inputs is not None])
    u = np.vstack([u, np.repeat(u[-1:], n_steps, axis=0)]) - server.input_level_
    lengths = next(iter(messages.values())).lengths
    last = len(u) - n_steps - lengths[-1]
    added = np.zeros((len(u), curvature.dynamics.n_states))
    added[last + 1 :] = curvature.driven(u[last:-1], share)
    return added


# What planned inputs do to a few sensors: impulse responses of a learned plant, and how sure they are.


@dataclass(frozen=True, eq=False)
class Impulses:
    """Answers of sensors to one unit of every input for one row, (n_sensors, n_steps, k): step 0 is that row."""

    mean: np.ndarray
    draws: np.ndarray  # (n_draws, n_sensors, n_steps, k), of the estimate's error


def impulses(server, loadings, n_steps, early, n_draws):
    """:class:`Impulses` of sensors ``loadings`` (n_sensors, n); inputs `early` (k,) were sent a row ahead."""
    A, B = server.plant_.A, server.plant_.B
    mean = _responses(A, B, loadings, n_steps, early)
    drawn = [_responses(own, driven, loadings, n_steps, early) for own, driven in server.errors_.drawn(server, n_draws)]
    usable = [one - mean for one in drawn if np.isfinite(one).all()]
    return Impulses(mean, np.array(usable).reshape(len(usable), *mean.shape))


def state_responses(server, n_steps, early):
    """Answers of all states to one unit of every input for one row, (n, n_steps, k)."""
    A, B = server.plant_.A, server.plant_.B
    return _responses(A, B, np.eye(len(A[0])), n_steps, early)


def _responses(A, B, loadings, n_steps, early):
    """Impulse responses of sensors by the adjoint recursion, inputs in the rows that users write them in."""
    if early.any():
        B = B.copy()
        B[:-1, :, early], B[-1, :, early] = B[1:, :, early], 0.0
    n = A.shape[1]
    step = companion(np.hstack(list(A)), len(A))
    adjoint = np.hstack([loadings, np.zeros((len(loadings), len(step) - n))])
    found = np.zeros((len(loadings), n_steps, B.shape[2]))
    for k in range(n_steps):
        for lag in range(min(len(B), n_steps - k)):
            found[:, k + lag] += adjoint[:, :n] @ B[lag]
        adjoint = adjoint @ step
    return found


def held_run(server, messages, n_steps):
    """Filter over a record and expected states of the rows after it, (n_steps, n), if inputs stay as they are.

    What inputs do beyond what is linear goes on as long as they do, wherever it moves effects: what a plan adds to
    this run is an effect, and a plan starts from the plant that it moves. The filter is the one that forecasts may
    count on: what was fitted to a record beyond that makes misses of this record small, and no others.
    """
    run, added = straight_run(server, messages, n_steps, share=1.0)
    states = held_forecast(run, n_steps)
    if added is None:
        return run, states
    return straight_run(server, messages)[0], states + added[-n_steps:]


def held_forecast(run, n_steps):
    """Expected states of the rows after a record if its inputs stay as they are, shape (n_steps, n)."""
    plain, record = run.plain, run.record
    state, found = plain.filtered[-1], np.empty((n_steps, record.partition.n_states))
    exogenous = plain.goes_on(n_steps)
    for k in range(n_steps):
        state = plain.A @ state + exogenous[k]
        found[k] = state[: found.shape[1]]
    return found


def spread_of(server):
    """Standard deviations and correlations of states in the record of `fit`, as a covariance (n, n)."""
    scale = server.plant_.scale
    return scale @ scale.T


# Sensors that are held at values, whatever it takes: hard interventions on the states of their units.


def held_effects(server, C, targets, n_draws=60):
    """Effect (n_samples, n) on all states of sensors ``C h`` moved by `targets` (n_samples, m), and draws of it.

    NaN where a sensor is not held. The states of a unit are moved as disturbances would most likely have moved them,
    by as little as it takes; those of other units follow. Draws (n_draws, n_samples, n) are those of plants from the
    sampling distribution, without those that run away.
    """
    Q = np.zeros_like(server.process_cov_)
    for rows in server.state_slices_.values():
        Q[rows, rows] = server.process_cov_[rows, rows]
    effect = _run(server.plant_.A, Q, C, targets)
    drawn = [_run(other, Q, C, targets) for other, _ in server.errors_.drawn(server, n_draws)]
    draws = [one for one in drawn if one is not None]
    if effect is None or 2 * len(draws) < len(drawn):
        raise ValueError(
            "With these sensors held other states run away: the plant as learned is not stable then, as where units "
            "or sensors say the same and their links are shared out at will. Leave out copies, or hold the sensors in "
            "fewer rows."
        )
    return effect, np.array(draws).reshape(-1, *effect.shape)


def _run(A, Q, C, targets):
    """The same in one plant with transition matrices A (p, n, n); None where it runs away."""
    n_samples, n = len(targets), A.shape[1]
    effect, ways, most = np.zeros((n_samples, n)), {}, 0.0
    held = ~np.isnan(targets)
    for t in range(n_samples):
        for k in range(1, min(len(A), t) + 1):
            effect[t] += A[k - 1] @ effect[t - k]
        if held[t].any():
            key = held[t].tobytes()
            if key not in ways:
                rows = C[held[t]]
                ways[key] = Q @ rows.T @ np.linalg.pinv(rows @ Q @ rows.T, hermitian=True)
            effect[t] += ways[key] @ (targets[t, held[t]] - C[held[t]] @ effect[t])
            most = max(most, TUNING.held_runs_away * np.abs(ways[key] @ targets[t, held[t]]).max())
        if np.abs(effect[t]).max(initial=0.0) > most:
            return None
    return effect


# What disturbances do to the units of a plant.


def lasting_covariances(server, n_steps):
    """Covariances (n_steps, p, p) of each unit's states of what noise that stays for 1, 2, ... rows does to them.

    Of a disturbance that is drawn once, as those of a row are, and lasts: ``G Q G'``, G the sum of the first powers
    of A.
    """
    A, Q = server.plant_.transition, server.plant_.process_cov
    slices = list(server.state_slices_.values())
    found = [np.empty((n_steps, rows.stop - rows.start, rows.stop - rows.start)) for rows in slices]
    step, G = np.eye(len(A)), np.zeros_like(A)
    for k in range(n_steps):
        G, step = G + step, step @ A
        V = G @ Q @ G.T
        for own, rows in zip(found, slices, strict=True):
            own[k] = V[rows, rows]
    return found


def settled_covariance(server):
    """Covariance (n, n) of the states under disturbances alone."""
    n = len(server.transition_)
    return stationary_covariance(server.plant_.transition, server.plant_.process_cov)[:n, :n]


# Moves of inputs that tell most about one link: optimal design on the information matrix.
#
# The coefficients of a link have the information ``sum_t z[t] z[t]'`` over the noise of the rows they act on, z what
# the cause shows that the other regressors of these rows do not explain. Inputs drive z linearly, so the determinant of
# the information grows along its gradient until bounds stop it, and the best moves go from one bound to the other [1]_.
# When they do is found by going to the corner of the bounds that the gradient points to (Frank and Wolfe's method),
# from square waves that are held for longer and longer.
#
# .. [1] Mehra (1974), Optimal input signals for parameter estimation in dynamic systems, IEEE Transactions on Automatic
#        Control 19(6).

_HOLDS = (1, 2, 4, 8, 16, 32)  # rows that square waves stay on one side at least
_SHARES = (1.0, 0.5, 0.25, 0.1, 0.03)  # of the way to a corner


@dataclass(frozen=True, eq=False)
class LinkDesign:
    """How inputs (n_rows, m), from -1 to 1 between their bounds, move the regressors of a link's effect.

    `responses` (n, n_rows, m) are those of standardised states, `noise` (n, n) their covariance under disturbances
    alone. Regressors are states by `states`, those of the cause first, and inputs by `direct`, each of the row before,
    or of the row itself for inputs that are `early`; the first `n_causes` of all are those of the link, of which
    `of_input` says that they are inputs. The rest of the link's rows has the covariance `rest`.
    """

    responses: np.ndarray
    noise: np.ndarray
    states: np.ndarray
    direct: np.ndarray
    early: np.ndarray
    n_causes: int
    of_input: bool
    rest: np.ndarray

    @cached_property
    def _spectra(self):
        return np.fft.rfft(self.responses, 2 * self.responses.shape[1], axis=1)

    def regressors(self, u):
        """Shape (n_rows, r), those of the link first, less their means."""
        n_rows = len(u)
        driven = np.einsum("nfm,fm->fn", self._spectra, np.fft.rfft(u, 2 * n_rows, axis=0), optimize=True)
        states = np.fft.irfft(driven, 2 * n_rows, axis=0)[:n_rows]
        parts = [_late(states)[:, self.states], np.where(self.early, u, _late(u))[:, self.direct]]
        found = np.hstack(parts[::-1] if self.of_input else parts)
        return found - found.mean(axis=0)

    def _pulled_back(self, slopes):
        """Gradient in the inputs from that in the regressors."""
        n_rows = len(slopes)
        slopes = slopes - slopes.mean(axis=0)
        first = len(self.direct) if self.of_input else len(self.states)
        of_states, of_inputs = (slopes[:, :first], slopes[:, first:])[:: -1 if self.of_input else 1]
        states = np.zeros((n_rows, len(self.responses)))
        states[:-1, self.states] = of_states[1:]
        spectra = np.fft.rfft(states, 2 * n_rows, axis=0)
        found = np.einsum("nfm,fn->fm", self._spectra.conj(), spectra, optimize=True)
        found = np.fft.irfft(found, 2 * n_rows, axis=0)[:n_rows]
        acting = np.zeros_like(found)
        acting[:, self.direct] = of_inputs
        late = np.vstack([acting[1:], np.zeros_like(acting[:1])])
        return found + np.where(self.early, acting, late)

    def information(self, u):
        """Of the link's coefficients given the others (d, d), what is left of the cause, and how others explain it."""
        found, d = self.regressors(u), self.n_causes
        M = found.T @ found + len(u) * self._noise
        M[np.diag_indices_from(M)] += TUNING.experiments_jitter * len(u)
        explained = np.linalg.solve(M[d:, d:], M[d:, :d])
        return M[:d, :d] - M[:d, d:] @ explained, found[:, :d] - found[:, d:] @ explained, explained

    @cached_property
    def _noise(self):
        r = len(self.states) + len(self.direct)
        found = np.zeros((r, r))
        rows = slice(len(self.direct), None) if self.of_input else slice(0, len(self.states))
        found[rows, rows] = self.noise[np.ix_(self.states, self.states)]
        return found

    def value(self, u):
        """Log-determinant of the information."""
        return float(np.linalg.slogdet(self.information(u)[0])[1])

    def gradient(self, u):
        """Its gradient, (n_rows, m)."""
        information, left, explained = self.information(u)
        pull = 2 * np.linalg.solve(information, left.T).T
        return self._pulled_back(np.hstack([pull, -pull @ explained.T]))

    def rows_needed(self, u, alpha, margin):
        """Rows of moves like these after which a link of strength `margin` is separated from none four times in five.

        Of a link whose direction is not known: any one is as likely as any other.
        """
        information = self.information(u)[0]
        n_free = len(information) * len(self.rest)
        known = max(np.trace(information) * np.trace(np.linalg.inv(self.rest)) / n_free, TUNING.experiments_jitter)
        return int(rows_to_decide(np.array([1 / known]), [n_free], len(u), alpha, margin)[0])


def _late(x):
    """Of the row before."""
    return np.vstack([np.zeros_like(x[:1]), x[:-1]])


def square_waves(n_rows, m, hold, rng):
    """Inputs at one of their bounds or the other, each for a multiple of so many rows, shape (n_rows, m)."""
    return np.repeat(rng.integers(0, 2, (n_rows // hold + 1, m)) * 2.0 - 1.0, hold, axis=0)[:n_rows]


def best_moves(design, n_rows, keep):
    """Inputs from -1 to 1 that tell most about a link, (n_rows, m); `keep` makes any moves such as are allowed."""
    m, rng = design.responses.shape[2], np.random.default_rng(0)
    starts = [keep(square_waves(n_rows, m, hold, rng)) for hold in _HOLDS if hold < n_rows]
    starts = sorted(starts, key=design.value)[-TUNING.experiments_best :]
    return max((_climbed(design, u, keep) for u in starts), key=design.value)


def _climbed(design, u, keep):
    best = design.value(u)
    for _ in range(TUNING.experiments_climbs):
        corner = np.sign(design.gradient(u))
        corner = np.where(corner == 0, u, corner)
        others = [keep(u + share * (corner - u)) for share in _SHARES]
        values = [design.value(other) for other in others]
        k = int(np.argmax(values))
        if values[k] < best + TUNING.experiments_enough:
            break
        u, best = others[k], values[k]
    return u


def random_rows_needed(design, n_rows, keep, alpha, margin):
    """Rows that random moves from bound to bound in every row need, in the median."""
    m, rng = design.responses.shape[2], np.random.default_rng(1)
    found = [
        design.rows_needed(keep(square_waves(n_rows, m, 1, rng)), alpha, margin)
        for _ in range(TUNING.experiments_random)
    ]
    return int(np.median(found))
