"""What a site promises about everything that leaves it; told with its first message.

Like the types of :mod:`skfedcausal.message`: nothing else crosses. It rides on another packet, and is taken
off before that is read.
"""

from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np

from .fields import Fields
from .packet import Packet, PacketError

_NOISE = "added_noise"
_PREFIX = "promise_"


@dataclass(frozen=True)
class PrivacyPromise:
    """Differential privacy of a unit, as its site says.

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
    >>> from skfedcausal.message import PrivacyPromise
    >>> promise = PrivacyPromise(np.array([0.5, 0.5]), 0.3, 1e-6, 6.0, 1000, 1, "event", "replace")
    >>> packet, told = PrivacyPromise.taken_off(promise.put_on(Packet("states", 1)))
    >>> (told.mu, told.unit, packet.scalars)
    (0.3, 'event', {})
    """

    noise: np.ndarray
    mu: float
    delta: float
    clip_norm: float
    rows: int
    releases: int
    unit: str
    relation: str
    window: int | None = None
    event_radius: float | None = None

    _UNITS: ClassVar = ("event", "window", "client")
    _RELATIONS: ClassVar = ("replace", "zero_out")

    def put_on(self, packet):
        """The packet with this promise on it."""
        told = {field.name: getattr(self, field.name) for field in fields(self)[1:]}
        told = {_PREFIX + name: value for name, value in told.items() if value is not None}
        arrays = {**packet.arrays, _NOISE: self.noise}
        return Packet(packet.op, packet.round, arrays, {**packet.scalars, **told})

    @classmethod
    def taken_off(cls, packet):
        """A packet without the promise on it, and the promise; None where there is none.

        Raises
        ------
        PacketError
            If what is on it cannot be meant as a promise.
        """
        told = {name: value for name, value in packet.scalars.items() if name.startswith(_PREFIX)}
        if _NOISE not in packet.arrays and not told:
            return packet, None
        noise = {name: value for name, value in packet.arrays.items() if name == _NOISE}
        noise = Fields(Packet(packet.op, 0, noise), packet.op).numbers(_NOISE, (None,))
        try:
            promise = cls(noise, **{name.removeprefix(_PREFIX): value for name, value in told.items()})
        except TypeError:
            raise PacketError(f"Packet {packet.op!r} holds an incomplete promise: {sorted(told)}.") from None
        promise._check()
        arrays = {name: value for name, value in packet.arrays.items() if name != _NOISE}
        scalars = {name: value for name, value in packet.scalars.items() if name not in told}
        return Packet(packet.op, packet.round, arrays, scalars), promise

    def _check(self):
        numbers = [self.mu, self.delta, self.clip_norm, 1 if self.event_radius is None else self.event_radius]
        counts = [self.rows, self.releases, 1 if self.window is None else self.window]
        good = (
            all(isinstance(x, float | int) and not isinstance(x, bool) and x > 0 for x in numbers)
            and all(type(k) is int and k > 0 for k in counts)
            and self.delta < 1
            and (self.noise > 0).all()
            and self.unit in self._UNITS
            and self.relation in self._RELATIONS
            and (self.unit == "window") == (self.window is not None)
        )
        if not good:
            raise PacketError("A packet promises differential privacy in terms that cannot be meant.")
