"""Messages of secure sums: series, products and corrections that are uniform without the masks."""

import hashlib
import json
from typing import Any

import numpy as np

from ..statespace.episodes import block_toeplitz
from ..statespace.lag_products import Sums, fraction_bits, from_ring, rounding_error
from ..statespace.observation import is_regular
from .packet import PacketError
from .schema import Message, wire
from .tuning import TUNING

_NAMES = "whose they are"
_SIZES = "numbers of states of these units"
_SCALES = 1e-100, 1e100  # with squares that are finite and not zero


class MaskedSeries(Message, op="masked"):
    """A unit's states under a mask, and what they are worth.

    Attributes
    ----------
    masked : ndarray of uint64 of shape (n_rows, n_states)
        Faded scores of unit mean square in fixed point, less the mask: uniform. Either ``n_samples`` rows, or three
        times as many: behind them those whose sums in segments grades rest on.
    own : ndarray of uint64 of shape (n_sums, n_states, n_states)
        Sums of lagged products of the unit's own scores, not masked, see :attr:`sums`.
    scale : ndarray of shape (n_states,)
        What the scores were divided by.
    information : ndarray of shape (n_states, n_states)
        Inverse of the covariance of the scores around the states.
    lengths : tuple of int
        Time steps of each episode.
    tag : ndarray of uint8 of shape (32,)
        From which the dealer draws the same mask.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.secure import MaskedSeries
    >>> from skfedcausal.statespace.lag_products import lagged_products, to_ring
    >>> series = to_ring(np.array([[1.0, -1.0], [1.0, 1.0]] * 20), bits=28)
    >>> ring, own = np.zeros((40, 2), dtype=np.uint64), lagged_products(series, series, 2)
    >>> message = MaskedSeries(ring, own, np.ones(2), np.eye(2), (40,), np.zeros(32, dtype=np.uint8))
    >>> MaskedSeries.from_packet(message.to_packet()).masked.dtype
    dtype('uint64')
    """

    masked: np.ndarray = wire("ring T p", "states less a mask that the server does not know")
    own: np.ndarray = wire("ring k p p", "sums of products of the unit's own states, rows apart")
    scale: np.ndarray = wire("numbers p", "what the states were divided by")
    information: np.ndarray = wire("covariance p p", "how precisely the sensors see the states")
    lengths: tuple[int, ...] = wire("lengths e", "number of time steps of each episode")
    tag: np.ndarray = wire("octets 32", "from which the dealer draws the same mask")

    @property
    def sums(self) -> Any:
        """What was summed, as the shapes say."""
        plain = Sums(0, self.lengths, len(self.masked) > sum(self.lengths))
        return Sums(len(self.own) - plain.n_sums, self.lengths, plain.graded)

    def _check(self, packet):
        if min(self.lengths, default=0) < 1 or self.sums.n_rows != len(self.masked) or self.sums.lags < 0:
            raise PacketError(f"Array 'lengths' is {self.lengths}, which does not cut {len(self.masked)} rows.")
        if self.masked.shape[1] < 1 or not ((self.scale > _SCALES[0]) & (self.scale < _SCALES[1])).all():
            raise PacketError("Packet 'masked' has no states, or states without a scale.")
        if not is_regular(self.information):
            raise PacketError("Array 'information' of packet 'masked' is singular.")
        self._check_own()

    def _check_own(self):
        """Refuse sums that no series of unit mean square has."""
        n_rows, sums = sum(self.lengths), self.sums
        try:
            means = from_ring(self.own, fraction_bits(len(self.masked))) / n_rows
        except ValueError as error:
            raise PacketError(str(error)) from None
        largest = 1 + 2 * rounding_error(len(self.masked)) + TUNING.secure_rounding
        parts = [means[: sums.lags + 1], *(sums.in_segments(means) if sums.graded else [])]
        squares = [parts[0][0], *(part[:, 0].sum(axis=0) for part in parts[1:])]
        has_unit_squares = all(np.abs(np.diagonal(square) - 1).max() < largest - 1 for square in squares)
        series = [parts[0], *(segment for part in parts[1:] for segment in part)]
        fits = np.abs(means).max() < largest and all((one[0] == one[0].T).all() for one in series)
        if not (has_unit_squares and fits and all(map(_is_of_a_series, series))):
            raise PacketError("Array 'own' of packet 'masked' holds no sums of products of series of unit mean square.")


def _is_of_a_series(means):
    return np.linalg.eigvalsh(block_toeplitz(means))[0] > -TUNING.secure_nothing


class SecureSumsRequest(Message, op="secure_sums", answer=MaskedSeries):
    """Asks for the unit's states under a mask, for sums of products between units.

    Attributes
    ----------
    lags : int
        Most time steps between the two factors of a product.
    graded : bool or None
        Whether to send also what grades of links rest on, where the record is long enough; None, like False, for no.

    Examples
    --------
    >>> from skfedcausal.message.secure import SecureSumsRequest
    >>> SecureSumsRequest(13).to_packet().scalars
    {'lags': 13}
    """

    lags: int = wire("count", "most time steps between the factors of a product")
    graded: bool | None = wire("flag", "whether to send what grades of links rest on", default=None)
    OPENS = True


class MaskedProducts(Message, op="masked_products"):
    """Sums of products of a unit's mask with the masked states of others, masked once more.

    Attributes
    ----------
    behind : ndarray of uint64 of shape (n_sums, n_others, n_states)
        Others' states at t + l with the mask at t.
    ahead : ndarray of uint64 of shape (n_sums, n_states, n_others)
        The mask at t + l with others' states at t.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.secure import MaskedProducts
    >>> products = MaskedProducts(np.zeros((2, 3, 1), dtype=np.uint64), np.zeros((2, 1, 3), dtype=np.uint64))
    >>> list(products.to_packet().arrays)
    ['behind', 'ahead']
    """

    behind: np.ndarray = wire("ring k o p", "masked sums of products, the others' states later")
    ahead: np.ndarray = wire("ring k p o", "masked sums of products, the others' states earlier")


class ProductsRequest(Message, op="secure_products", answer=MaskedProducts):
    """The other units' masked states, to be multiplied with the unit's mask.

    Attributes
    ----------
    masked : ndarray of uint64 of shape (n_rows, n_others)
        States of all other units side by side.
    sizes : ndarray of int of shape (n_units,)
    tags : ndarray of uint8 of shape (n_units, 32)
    names : tuple of str

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.secure import ProductsRequest
    >>> masked, tags = np.zeros((40, 3), dtype=np.uint64), np.zeros((2, 32), dtype=np.uint8)
    >>> request = ProductsRequest(masked, np.array([1, 2]), tags, ("mill", "kiln"))
    >>> ProductsRequest.from_packet(request.to_packet()).names
    ('mill', 'kiln')
    """

    masked: np.ndarray = wire("ring T o", "masked states of the other units")
    sizes: np.ndarray = wire("counts u", _SIZES)
    tags: np.ndarray = wire("octets u 32", "of what their masks depend on")
    names: tuple[str, ...] = wire("names u", _NAMES)

    @property
    def digest(self) -> np.ndarray:
        """Digest of all that it holds, 32 bytes: masks of the answer are of this question alone."""
        source = hashlib.sha256(json.dumps([self.names, self.masked.shape]).encode())
        for array, kind in ((self.sizes, "<i8"), (self.tags, "u1"), (self.masked, "<u8")):
            source.update(np.ascontiguousarray(array, dtype=kind).tobytes())
        return np.frombuffer(source.digest(), dtype=np.uint8)

    def _check(self, packet):
        if self.sizes.sum() != self.masked.shape[1]:
            raise PacketError(f"Packet {self.OP!r} has {self.masked.shape[1]} states of units of {self.sizes.sum()}.")


class MaskCorrections(Message, op="masks"):
    """What the masks of all units add to their sums of products.

    Attributes
    ----------
    corrections : ndarray of uint64 of shape (n_sums, n, n)
        Zero on the diagonal blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.secure import MaskCorrections
    >>> MaskCorrections(np.zeros((2, 4, 4), dtype=np.uint64)).to_packet().op
    'masks'
    """

    corrections: np.ndarray = wire("ring k n n", "sums of products of masks, less the masks of the units' sums")


class CorrectionsRequest(Message, op="secure_masks", answer=MaskCorrections):
    """Asks the dealer what masks add; it gets sizes and tags, and no series.

    Attributes
    ----------
    sizes : ndarray of int of shape (n_units,)
    tags : ndarray of uint8 of shape (n_units, 32)
    lengths : tuple of int
        Time steps of each episode.
    names : tuple of str
    lags : int
        Most time steps between the two factors of a product.
    asked : ndarray of uint8 of shape (n_units, 32)
        What each of them was asked, ``ProductsRequest.digest``.
    graded : bool or None
        Whether they were asked about the rows of grades, too; None, like False, for no.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.secure import CorrectionsRequest
    >>> tags = np.zeros((2, 32), dtype=np.uint8)
    >>> CorrectionsRequest(np.array([1, 2]), tags, (40,), ("mill", "kiln"), 13, tags).to_packet().scalars["lags"]
    13
    """

    sizes: np.ndarray = wire("counts u", _SIZES)
    tags: np.ndarray = wire("octets u 32", "from which the dealer draws the masks")
    lengths: tuple[int, ...] = wire("lengths e", "number of time steps of each episode")
    names: tuple[str, ...] = wire("names u", _NAMES)
    lags: int = wire("count", "most time steps between the factors of a product")
    asked: np.ndarray = wire("octets u 32", "digests of what these units were asked to multiply")
    graded: bool | None = wire("flag", "whether that was about the rows of grades, too", default=None)

    def _check(self, packet):
        if min(self.lengths, default=0) < 1:
            raise PacketError(f"Array 'lengths' of packet {self.OP!r} is {self.lengths}.")
