"""Noise inside training: the papers' own for comparison, and a trusted server's gradients.

Gradients are those of :class:`~skfedcausal.papers.GradientServer`, or of the third paper's Algorithm 1. Noise on the
record needs none of this: training is then post-processing like everything else.

The papers calibrate every message and every gradient of every time step on its own, by the classical formula [2]_
and the sensitivity of that step [1]_, and add epsilons up. A measurement moves all later messages of its unit's
filter, a message that is sent again with fresh noise can be averaged, and the sum over steps and rounds says
nothing. The exact totals below hold for a correction `theta` that does not depend on the data; while it is
trained on them nothing bounds what its changes reveal.

The gradients of a trusted server, which may see the units' states while units must not see each other's, do
keep a promise: clipping bounds each of them, and nothing else about the trained plant has to be known.

References
----------
.. [1] Mohanty, Mohamed, Ramanan, Gebraeel, Federated Granger Causality Learning for Interdependent Clients
       with State Space Representation, section 7.
.. [2] Dwork, Roth (2014), The algorithmic foundations of differential privacy, appendix A: the classical
       formula, proven for epsilon below one.
"""

import secrets
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...client.kalman import KalmanClient
from ...client.records import COMPLETE, given_matrices
from ...client.unit_model import UnitModel
from ...message.requests import FitRequest, FlagsRequest
from ...message.training import (
    AugmentedMessage,
    GradientReply,
    LocalModel,
    NetworkPlan,
    NetworksTrained,
    NoGradient,
    PredictedMessage,
    TrainingEnd,
    TrainingPlan,
    TrainRequest,
)
from ...privacy.accountant import Charge
from ...privacy.calibration import check_promise, generator, grid_of, normal_noise, on_grid, warn_seeded
from ...privacy.mechanism import bounds_of
from ...privacy.promise import as_paid
from ...privacy.sensitivity import gradient_sensitivity, gramian, root_of_largest
from ..numerics.descent import correction_curvature


def classical_noise_multiplier(epsilon, delta):
    """Noise over sensitivity by the classical formula, ``sqrt(2 ln(1.25 / delta)) / epsilon``."""
    check_promise(epsilon, delta)
    return np.sqrt(2 * np.log(1.25 / delta)) / epsilon


def classical_epsilon(noise_multiplier, delta):
    """Epsilon that the classical formula reads off a noise multiplier."""
    return np.sqrt(2 * np.log(1.25 / delta)) / noise_multiplier


def message_noise(K, theta, radius, epsilon, delta):
    """Noise of the two states a unit sends at every step, each (epsilon, delta) by the papers' theorem.

    Standard deviations of the filtered and of the augmented state; sensitivities ``2 B_y ||K||`` and
    ``2 B_y (||K|| + ||theta||)`` for measurements of norm B_y (`radius`) at most.
    """
    multiplier = classical_noise_multiplier(epsilon, delta)
    gain, correction = np.linalg.norm(K, 2), np.linalg.norm(theta, 2)
    return 2 * radius * gain * multiplier, 2 * radius * (gain + correction) * multiplier


def messages_mu(F, K, theta, stds, radius, n_rounds=1):
    """Exact Gaussian-DP mu of the noised messages of a whole record about one time step.

    `stds` is the noise of the filtered and of the augmented state, `radius` the bound B_y on the norm of a
    measurement (two of them differ by twice as much), `n_rounds` how often the same states are sent with
    fresh noise.
    """
    of_filtered, of_augmented = (1 / std**2 for std in stds)
    eye, Kt = np.eye(len(F)), K + theta
    X = gramian(np.asarray(F, dtype=float), eye)
    total = of_filtered * K.T @ X @ K + of_augmented * (Kt.T @ Kt + K.T @ F.T @ X @ F @ K)
    return float(2 * radius * np.sqrt(n_rounds) * root_of_largest(total))


def run_mu(transitions, gains, epsilon, delta, n_augmented=1):
    """Largest Gaussian-DP mu of one round of the papers' messages about one time step, for any fixed theta.

    `gains` are the ``K_t`` and `transitions` the ``F_t = (I - K_t C) A`` from the first time step until the
    filter has settled. The noise is that of the settled filter, calibrated for `epsilon` and `delta` of each
    message by the papers' formulas; the gains of the first time steps, which are larger, count as they are.

    Reached for theta = 0 where one measurement moves the states most at once and later. The augmented state
    has the noise of ``||K|| + ||theta||``, more than a theta can add. `n_augmented` counts it and the state
    predicted from it, which a unit with inputs sends too, with ``||A||`` times its noise.
    """
    settled = np.asarray(gains[-1], dtype=float)
    X, worst = gramian(np.asarray(transitions[-1], dtype=float), np.eye(len(settled))), 0.0
    for k in reversed(range(len(gains))):
        K = np.asarray(gains[k], dtype=float)
        later = K.T @ (X - np.eye(len(X))) @ K
        augmented = np.linalg.norm(K, 2) ** 2 + root_of_largest(later) ** 2
        here = root_of_largest(K.T @ X @ K) ** 2 + n_augmented * augmented
        worst = max(worst, here)
        X = np.eye(len(X)) + transitions[k].T @ X @ transitions[k]
    return float(np.sqrt(worst) / (np.linalg.norm(settled, 2) * classical_noise_multiplier(epsilon, delta)))


@dataclass(frozen=True)
class GradientGuard:
    """Clip and noise of all gradients that a trusted server sends in a run; `mu` of all of them together."""

    clip: float
    std: float
    mu: float

    @classmethod
    def calibrated(cls, clip, mu, n_steps, n_rounds, n_recipients, width):
        """Noise for a run whose gradients together are mu-GDP.

        `width` bounds the numbers in a gradient: rounding to the grid moves each of them.
        """
        std = gradient_sensitivity(clip, n_steps, n_rounds, n_recipients) / mu
        for _ in range(2):  # the grid follows the noise
            rounded = clip + np.sqrt(width) * grid_of(std) / 2
            std = gradient_sensitivity(rounded, n_steps, n_rounds, n_recipients) / mu
        return cls(clip, std, mu)

    def noised(self, gradients, rng):
        """Gradients of shape (n_steps, n_states) as they may leave the server: clipped row by row, noise on a grid."""
        norms = np.linalg.norm(gradients, axis=1, keepdims=True)
        bounded = gradients * (self.clip / np.maximum(norms, self.clip))
        return on_grid(bounded, grid_of(self.std)) + normal_noise(gradients.shape, self.std, rng)

    def charge(self, name):
        """Cost of the run to every unit."""
        return Charge(name, "gradients", mu=self.mu, sensitivity=self.std * self.mu, noise_std=self.std)


_SETTINGS = (FitRequest, FlagsRequest, NetworkPlan, NetworksTrained, NoGradient, TrainRequest)  # that users choose


def training_noise(mechanism, server, data, templates, dtype, augmenter=None):
    """Noise inside training, charged before anything is sent: of units by name, and the guard of what they are sent."""
    check_training(mechanism)
    _check_server(mechanism, server, data)
    if mechanism.place == "gradients":
        return {}, _gradient_guard(mechanism, server, data, templates)
    if dtype != "float64":
        raise ValueError(f"protocol='paper' adds noise to numbers in double precision; got {dtype!r}.")
    if augmenter is not None:
        raise ValueError(
            "protocol='paper' knows how far a measurement moves the correction theta y, and no other; got "
            f"augmenter={augmenter!r}. Leave it out, or use noise on the record (the default)."
        )
    records = zip(data.names, data.outputs, data.inputs, strict=True)
    units = {name: _paper_noise(mechanism, name, Y, U, templates[name]) for name, Y, U in records}
    times = server.n_rounds_at_most + 1  # that the states of every time step are sent, at most
    charges = [as_paid(mechanism, noise.charge(name, times), data.n_samples) for name, noise in units.items()]
    mechanism.account.charge(charges, mechanism.scope)
    return units, None


def check_training(mechanism):
    """Refuse settings that belong to noise on the record, or lack what noise inside training needs."""
    mechanism.mu_of_release()
    if mechanism.random_state is not None:
        warn_seeded()
    if mechanism.trust == "server" and (mechanism.protocol == "paper" or mechanism.gradient_clip is None):
        raise ValueError(
            f"Got trust='server' with protocol={mechanism.protocol!r} and gradient_clip={mechanism.gradient_clip}; "
            "give protocol='one-shot' and the largest norm of a gradient that is sent."
        )
    if mechanism.place == "gradients":
        return
    events = mechanism.scope.unit == "event" and mechanism.event_radius is None
    if mechanism.clip_norm is None or mechanism.epsilon is None or not events:
        raise ValueError(
            "protocol='paper' needs epsilon and delta of each message and a public clip_norm, and knows "
            f"no unit but the event; got epsilon={mechanism.epsilon}, clip_norm={mechanism.clip_norm}, "
            f"unit={mechanism.scope.unit!r}, event_radius={mechanism.event_radius}."
        )


def _check_server(mechanism, server, data):
    """Refuse a server that has no training, or relays what noise should hide."""
    trusted = mechanism.place == "gradients"
    setting = "trust='server'" if trusted else "protocol='paper'"
    if trusted and getattr(server, "trains_corrections", False):
        return
    if not hasattr(server, "sends_series_once"):
        raise ValueError(
            f"{setting} is about gradient training; {type(server).__name__} has none. Give "
            "server=GradientServer(...), or noise on the record (the default)."
        )
    if server.sends_series_once:
        raise ValueError(
            f"{setting} needs GradientServer(exchange='series', solve='iterate'): otherwise the server "
            "relays the units' states to each other as they are."
        )
    if trusted and any(U is not None for U in data.inputs):
        raise ValueError(
            f"{setting} is for plants without inputs: nothing hides what the mean influence of the others' inputs, "
            "which ends training, tells a unit of them. Use noise on the record (the default)."
        )


def _paper_noise(mechanism, name, Y, U, template):
    """Noise of a unit's messages of training, from its record (n_samples, n_sensors) and public matrices."""
    if (
        not isinstance(template, KalmanClient)
        or any(getattr(template, key) is None for key in COMPLETE)
        or template.center
        or (U is not None and template.B is None)
    ):
        raise ValueError(
            f"protocol='paper' takes its noise from the filter of unit {name!r} and sends its A, without noise: give "
            "a KalmanClient with public A, C, Q and R (and B, with inputs) and center=False, none of it identified "
            "from the record."
        )
    if not np.isfinite(Y).all():
        raise ValueError(f"The record of unit {name!r} has missing values, for which the papers have no formula.")
    model = UnitModel(mean=np.zeros(Y.shape[1]), **given_matrices(template, Y.shape[1]))
    gains, transitions = _filters(model)
    return PaperNoise.calibrated(mechanism, name, Y, transitions, gains, model=model, U=U)


def _filters(model):
    """Gains ``K_t``, (n_states, n_sensors), and transitions ``(I - K_t C) A`` of the filter until it has settled."""
    gains = [P @ model.weights.T for P in model.schedule().filtered]
    eye = np.eye(model.n_states)
    return gains, [(eye - K @ model.C) @ model.A for K in gains]


def _gradient_guard(mechanism, server, data, templates):
    """What clips and noises all gradients of a run, a function of replies by unit; charged here."""
    if not getattr(server, "trains_corrections", False):
        _check_public_steps(server)
    n_steps = sum(length - 1 for length in data.lengths)
    rounds, recipients = server.n_rounds_at_most, len(data.names)
    width = 2 * max(_largest_order(templates[name], Y) for name, Y in zip(data.names, data.outputs, strict=True))
    clip, mu = mechanism.gradient_clip, mechanism.mu_of_release()
    guard = GradientGuard.calibrated(clip, mu, n_steps, rounds, recipients, width)
    charges = [as_paid(mechanism, guard.charge(name), data.n_samples) for name in data.names]
    mechanism.account.charge(charges, mechanism.scope)
    rng = generator(mechanism.random_state, "gradients", len(mechanism.account))

    def guarded(replies):
        return {name: _noised(reply, guard, rng) for name, reply in replies.items()}

    return guarded


def _largest_order(template, Y):
    """Bound on the number of a unit's states."""
    chosen = getattr(template, "n_states", None)
    return max(Y.shape[1], chosen if isinstance(chosen, int) else 0)


def _check_public_steps(server):
    """Refuse step sizes and stop rules that depend on records."""
    missing = [name for name in ("eta1", "eta2", "gamma", "max_iter") if getattr(server, name) is None]
    if missing or server.tol != 0 or server.callback is not None or server.constraint != "penalty":
        raise ValueError(
            "trust='server' adds noise to the gradients and to nothing else that units are told: step sizes and the "
            "number of rounds must not depend on the records. Give a GradientServer eta1, eta2, gamma and max_iter, "
            f"constraint='penalty', tol=0 and no callback; got {', '.join(missing) or 'nothing'} missing, "
            f"constraint={server.constraint!r}, tol={server.tol:g}."
        )


def _noised(reply, guard, rng):
    """A message that may leave the server; raises TypeError if nothing is known to hide what it tells."""
    if isinstance(reply, _SETTINGS) or (isinstance(reply, TrainingEnd) and reply.input_level is None):
        return reply
    if isinstance(reply, TrainingPlan) and reply.drivers is None:
        return reply
    if not isinstance(reply, GradientReply):
        raise TypeError(f"Nothing hides what a {type(reply).__name__} tells of the other units.")
    p = reply.predicted.shape[1]
    parts = [reply.predicted] if reply.augmented is None else [reply.predicted, reply.augmented]
    noised = guard.noised(np.hstack(parts), rng)
    return GradientReply(noised[:, :p], None if reply.augmented is None else noised[:, p:])


@dataclass(frozen=True)
class PaperNoise:
    """Noise on a unit's messages of training, and public bounds in place of numbers taken from its record.

    `gain` (n_states, n_sensors) is that of the unit's settled filter in scaled measurements, `mu` the cost of
    one round of messages about one time step, were theta and phi public. A repeated packet gets the same
    noise. Inputs are not protected: the papers' neighbours differ in a measurement. phi, which the papers do
    not send by itself, has the noise of the predicted state that it is a term of.
    """

    gain: np.ndarray
    scale: np.ndarray
    radius: float
    reach: float
    largest_state: float
    mu: float
    epsilon: float
    delta: float
    key: int
    drive: float = 0.0  # largest norm of an input
    growth: float = 1.0  # of a state to the next

    @classmethod
    def calibrated(cls, mechanism, name, Y, transitions, gains, *, model=None, U=None):
        """Noise of a unit whose filter has these transitions and gains, see :func:`run_mu`.

        A unit with inputs `U` has its `model` too.
        """
        bounds = bounds_of(mechanism, name, Y)
        reach = float(np.linalg.norm(bounds.center) + bounds.scale.max() * bounds.clip)
        scaled = [K * bounds.scale for K in gains]
        if mechanism.random_state is None:
            key = secrets.randbits(128)
        else:
            key = int(generator(mechanism.random_state, name).integers(2**62))
        largest, of_inputs = reach * _peak_gain(transitions[-1], gains), {}
        if U is not None:
            drive = float(np.linalg.norm(U, axis=1).max())
            entries = [model.B - K @ model.C @ model.B for K in gains]
            largest += drive * _peak_gain(transitions[-1], entries)
            of_inputs = {"drive": drive, "growth": float(np.linalg.norm(model.A, 2))}
        epsilon, delta = mechanism.epsilon, mechanism.delta
        mu = run_mu(transitions, scaled, epsilon, delta, 1 if U is None else 2)
        return cls(scaled[-1], bounds.scale, bounds.clip, reach, largest, mu, epsilon, delta, key, **of_inputs)

    def stds(self, theta):
        """Standard deviations of the noise on filtered and augmented states; theta is (n_states, n_sensors)."""
        return message_noise(self.gain, theta * self.scale, self.radius, self.epsilon, self.delta)

    def charge(self, name, n_rounds):
        """What a run costs, were theta public."""
        sensitivity = 2 * self.radius * float(np.linalg.norm(self.gain, 2))
        std = sensitivity * classical_noise_multiplier(self.epsilon, self.delta)
        sizes: dict[str, Any] = {"mu": self.mu, "count": n_rounds, "sensitivity": sensitivity, "noise_std": std}
        return Charge(name, "messages of training", "gaussian (paper)", **sizes, bound="theta taken for public")

    def noised(self, message, training, round):
        """The unit's answer of a round as it leaves."""
        if isinstance(message, LocalModel):
            gram = training.problem.gram
            curvature = correction_curvature(message.transition, gram, self.reach**2)
            if training.constant is not None:  # the pair of phi after the pair of theta
                curvature += correction_curvature(np.eye(len(message.transition)), gram, 1.0)
            reach = self.largest_state**2 + self.drive**2
            return replace(message, curvature=np.array(curvature), loss=self.reach**2, reach=reach)
        if not isinstance(message, AugmentedMessage | PredictedMessage):
            return message  # says that training has ended
        of_filtered, of_augmented = self.stds(training.theta)
        stds = {"filtered": of_filtered, "augmented": of_augmented}
        stds |= dict.fromkeys(("predicted", "constant"), self.growth * of_augmented)
        rng = np.random.default_rng([self.key, round])
        series = {name: getattr(message, name, None) for name in stds}
        noised = {
            name: states + stds[name] * rng.standard_normal(states.shape)
            for name, states in series.items()
            if states is not None
        }
        return replace(message, **noised, loss=self.reach**2, change=1.0)


def _peak_gain(F, gains):
    """Bound on the norm of a filtered state for measurements of norm one; F is (n_states, n_states)."""
    total, power = 0.0, np.eye(len(F))
    while (size := float(np.linalg.norm(power, 2))) > 1e-12:
        total, power = total + size, F @ power
    return total * max(float(np.linalg.norm(K, 2)) for K in gains)
