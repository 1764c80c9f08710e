"""A unit's side of the papers' privacy: noise on the states of every time step and round, for comparison."""

import secrets
from dataclasses import dataclass, replace

import numpy as np

from ..message.training import AugmentedMessage, LocalModel
from ..privacy import Charge
from ..privacy.noise import generator
from ..privacy.paper import classical_noise_multiplier, message_noise, run_mu
from ..statespace.training.descent import correction_curvature


@dataclass(frozen=True)
class PaperNoise:
    """Noise on a unit's messages of training, and public bounds in place of numbers taken from its record.

    Attributes
    ----------
    gain : ndarray of shape (n_states, n_sensors)
        Of the unit's settled filter in scaled measurements, K.
    scale : ndarray of shape (n_sensors,)
        Units in which the ball of measurements is round.
    radius, reach : float
        Of that ball, and the largest norm of a measurement in it.
    largest_state : float
        Bound on the norm of a filtered state.
    mu : float
        Of one round of messages about one time step, were theta public.
    epsilon, delta : float
        Of each message of each time step and round.
    key : int
        Secret that the noise is drawn with; a packet that comes again gets the same noise.
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

    @classmethod
    def calibrated(cls, mechanism, name, Y, transitions, gains):
        """Noise of a unit whose filter has these transitions and gains, see :func:`run_mu`."""
        bounds = mechanism.bounds(name, Y)
        reach = float(np.linalg.norm(bounds.center) + bounds.scale.max() * bounds.clip)
        scaled = [K * bounds.scale for K in gains]
        if mechanism.random_state is None:
            key = secrets.randbits(128)
        else:
            key = int(generator(mechanism.random_state, name).integers(2**62))
        return cls(
            scaled[-1],
            bounds.scale,
            bounds.clip,
            reach,
            reach * _peak_gain(transitions[-1], gains),
            run_mu(transitions, scaled, mechanism.epsilon, mechanism.delta),
            mechanism.epsilon,
            mechanism.delta,
            key,
        )

    def stds(self, theta):
        """Standard deviations of the noise on the filtered and on the augmented state."""
        return message_noise(self.gain, theta * self.scale, self.radius, self.epsilon, self.delta)

    def charge(self, name, n_rounds):
        """What a run costs, were theta public."""
        sensitivity = 2 * self.radius * float(np.linalg.norm(self.gain, 2))
        return Charge(
            name,
            "messages of training",
            "gaussian (paper)",
            mu=self.mu,
            count=n_rounds,
            sensitivity=sensitivity,
            noise_std=sensitivity * classical_noise_multiplier(self.epsilon, self.delta),
            bound="theta taken for public",
        )

    def noised(self, packet, training):
        """The unit's answer as it leaves."""
        if packet.op == LocalModel.OP:
            message = LocalModel.from_packet(packet)
            curvature = correction_curvature(message.transition, training.problem.gram, self.reach**2)
            public = {
                "curvature": np.array(curvature),
                "loss": self.reach**2,
                "reach": self.largest_state**2,
            }
            return replace(message, **public).to_packet(packet.round)
        if packet.op != AugmentedMessage.OP:
            return packet  # says that training has ended
        message = AugmentedMessage.from_packet(packet)
        stds = self.stds(training.parameters[:, : len(self.scale)])
        rng = np.random.default_rng([self.key, packet.round])
        series = {
            name: getattr(message, name) + std * rng.standard_normal(message.filtered.shape)
            for name, std in zip(("filtered", "augmented"), stds, strict=True)
        }
        return replace(message, **series, loss=self.reach**2, change=1.0).to_packet(packet.round)


def _peak_gain(F, gains):
    """Bound on the norm of a filtered state for measurements of norm one."""
    total, power = 0.0, np.eye(len(F))
    while (size := float(np.linalg.norm(power, 2))) > 1e-12:
        total, power = total + size, F @ power
    return total * max(float(np.linalg.norm(K, 2)) for K in gains)
