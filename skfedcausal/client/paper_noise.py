"""A unit's side of the papers' privacy: noise on the states of every time step and round, for comparison."""

from dataclasses import dataclass, replace

import numpy as np

from ..message.training import AugmentedMessage, LocalModel
from ..privacy.paper import message_noise
from ..statespace.training.descent import correction_curvature


@dataclass(frozen=True)
class PaperNoise:
    """Noise on a unit's messages of training, and public bounds in place of numbers taken from its record.

    Attributes
    ----------
    gain : ndarray of shape (n_states, n_sensors)
        Of the unit's settled filter, K.
    scale : ndarray of shape (n_sensors,)
        Units in which the ball of measurements is round.
    radius, reach : float
        Of that ball, and the largest norm of a measurement in it.
    largest_state : float
        Bound on the norm of a filtered state.
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
    epsilon: float
    delta: float
    key: int

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
        theta = training.parameters[:, : len(self.scale)]
        stds = message_noise(
            self.gain * self.scale, theta * self.scale, self.radius, self.epsilon, self.delta
        )
        rng = np.random.default_rng([self.key, packet.round])
        series = {
            name: getattr(message, name) + std * rng.standard_normal(message.filtered.shape)
            for name, std in zip(("filtered", "augmented"), stds, strict=True)
        }
        return replace(message, **series, loss=self.reach**2, change=1.0).to_packet(packet.round)
