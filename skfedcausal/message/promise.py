"""Differential privacy as a site promises it for everything that leaves it.

The promise rides on another packet, the first message of the site, and is taken off before that is read.
"""

import numpy as np

from .packet import Packet, PacketError
from .schema import RIDERS, Message, wire

_NOISE = "added_noise"
_PREFIX = "promise_"


class PrivacyPromise(Message, op="promise"):
    """Differential privacy of a unit's record, as its site promises it.

    Attributes
    ----------
    noise : ndarray of shape (n_sensors,)
        Variance of the noise that was added to each sensor, before anything was computed.
    mu : float
        Gaussian-DP parameter of everything that the site has released, this run included.
    delta : float
        At which epsilon is reported.
    clip_norm : float
        Public radius that time steps are clipped to, in the site's scaled measurements.
    rows, releases : int
        Time steps of the record, and noised records released so far.
    unit : {"event", "window", "client"}
    relation : {"replace", "zero_out"}
    window : int or None
    event_radius : float or None
        Largest change that is protected, where that is less than any inside the ball.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.federation import Packet
    >>> from skfedcausal.message.promise import PrivacyPromise
    >>> promise = PrivacyPromise(np.array([0.5, 0.5]), 0.3, 1e-6, 6.0, 1000, 1, "event", "replace")
    >>> packet, promised = PrivacyPromise.taken_off(promise.put_on(Packet("states", 1)))
    >>> (promised.mu, promised.unit, packet.scalars)
    (0.3, 'event', {})
    """

    noise: np.ndarray = wire("numbers d", "variance of the noise added to each sensor", array=_NOISE)
    mu: float = wire("number", "Gaussian-DP parameter of all releases")
    delta: float = wire("number", "at which epsilon is reported")
    clip_norm: float = wire("number", "radius that time steps are clipped to")
    rows: int = wire("count", "time steps of the record")
    releases: int = wire("count", "noised records released so far")
    unit: str = wire("word", "protected unit", of="event window client")
    relation: str = wire("word", "neighbouring relation", of="replace zero_out")
    window: int | None = wire("count", "time steps of a protected window", default=None)
    event_radius: float | None = wire("number", "largest change that is protected", default=None)

    def put_on(self, packet: Packet) -> Packet:
        """A packet with this promise on it.

        Parameters
        ----------
        packet : Packet

        Returns
        -------
        Packet
        """
        own = self.to_packet()
        promised = {_PREFIX + name: value for name, value in own.scalars.items()}
        return Packet(packet.op, packet.round, {**packet.arrays, **own.arrays}, {**packet.scalars, **promised})

    @classmethod
    def taken_off(cls, packet: Packet) -> tuple[Packet, "PrivacyPromise | None"]:
        """A packet without the promise on it, and the promise.

        Parameters
        ----------
        packet : Packet

        Returns
        -------
        packet : Packet
        promise : PrivacyPromise or None
            None if there is none on it.

        Raises
        ------
        PacketError
            If what is on it cannot be meant as a promise.
        """
        arrays, scalars = dict(packet.arrays), dict(packet.scalars)
        noise = {name: arrays.pop(name) for name in packet.arrays if name == _NOISE}
        riding = [name for name in scalars if name.startswith(_PREFIX)]
        promised = {name.removeprefix(_PREFIX): scalars.pop(name) for name in riding}
        if not noise and not promised:
            return packet, None
        promise = cls.from_packet(Packet(cls.OP, packet.round, noise, promised))
        return Packet(packet.op, packet.round, arrays, scalars), promise

    def _check(self, packet):
        radius = 1.0 if self.event_radius is None else self.event_radius
        positive = (self.noise > 0).all() and min(self.mu, self.delta, self.clip_norm, radius) > 0
        if not (positive and self.delta < 1 and (self.unit == "window") == (self.window is not None)):
            raise PacketError("A packet promises differential privacy in terms that make no sense.")


RIDERS[_NOISE] = PrivacyPromise.PURPOSES[_NOISE]
