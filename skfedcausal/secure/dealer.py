"""The dealer of secure sums: it knows all masks, which units draw alike, and sees no series."""

import hashlib
import math
import secrets
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from ..message.packet import Packet, PacketError
from ..message.secure import CorrectionsRequest, MaskCorrections
from ..statespace.lag_products import Sums
from ..statespace.matrices import Partition
from .protocol import mask_corrections

# Masks that a unit and the dealer draw alike from the key that they share: SHAKE-256 of the key and a label.
#
# Every mask depends on a tag of what is masked, so that nothing is ever masked twice with the same numbers unless
# it is the same: the same series, lags and episodes, and for products the same series of the others. A tag says nothing
# without the key.

TAG = 32  # bytes
_NAME = b"skfedcausal secure sums 2"


def record_tag(key, series, lags, lengths):
    """Tag of a series in the ring, of the products asked of it and of its episodes, bytes."""
    request = _bytes([*series.shape, lags, *lengths])
    return _drawn(key, TAG, b"tag", request, np.ascontiguousarray(series, dtype="<u8").tobytes())


def series_mask(key, tag, lengths, n_states, n_rows=None):
    """Mask of a unit's series, shape (n_rows, n_states); rows behind those of the record have a mask of their own."""
    of_record = _elements(key, (sum(lengths), n_states), tag, b"series", _bytes(lengths))
    n_more = 0 if n_rows is None else n_rows - sum(lengths)
    return np.concatenate([of_record, _elements(key, (n_more, n_states), tag, b"graded", _bytes(lengths))])


def product_masks(key, tags, digest, other, lengths, sizes):
    """Masks of a unit's products with another: shapes (n_sums, n_other, n_own) and (n_sums, n_own, n_other).

    They depend on the tags of both, so that the dealer's word about another series of the other says nothing; and on
    the digest of all that the unit was asked, for the server names the tags: two answers under the same masks would
    differ by the rows of the unit's mask.
    """
    n_sums, n_own, n_other = sizes
    context = *tags, digest.tobytes(), other.encode(), _bytes(lengths)
    behind = _elements(key, (n_sums, n_other, n_own), b"behind", *context)
    return behind, _elements(key, (n_sums, n_own, n_other), b"ahead", *context)


def _elements(key, shape, *labels):
    drawn = _drawn(key, 8 * math.prod(shape), *labels, _bytes(shape))
    return np.frombuffer(drawn, dtype="<u8").astype(np.uint64).reshape(shape)


def _bytes(numbers):
    return np.array(numbers, dtype="<i8").tobytes()


def _drawn(key, size, *labels):
    """Bytes of SHAKE-256 of the key and labels, each with its length, so that no two inputs run together."""
    source = hashlib.shake_256()
    for part in (_NAME, key, *labels):
        source.update(len(part).to_bytes(8, "little") + part)
    return source.digest(size)


# The dealer of secure sums: it knows all masks and sees no series.

_MOST = 2**28  # numbers that one answer may need


class Dealer:
    """Answers the server's question what masks add to sums of products; a worker without data.

    It runs where neither the server nor a unit has access: whoever has its keys and what one of them
    received has the rows of all units.

    Parameters
    ----------
    keys : dict of str to bytes
        The key that each unit shares with the dealer, 32 random bytes, see
        :func:`~skfedcausal.federation.write_key`.
    account : SumsAccount, default=None
        What was dealt, on disk; None keeps it in the state of the run.

    See Also
    --------
    skfedcausal.secure.SecureSumsServer : Learns a plant from sums.
    skfedcausal.secure.SumsWorker : The unit's side.

    Notes
    -----
    The same question gets the same answer. Of two questions to a unit about one series the dealer tells masks for one:
    with both, masks would fall out of the difference of what the unit answered. A question about other sizes, episodes
    or lags than those that a unit answered gives numbers that fit to nothing: masks depend on a tag of what they mask.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.message.secure import CorrectionsRequest
    >>> from skfedcausal.secure import Dealer
    >>> dealer = Dealer.with_new_keys(["mill", "kiln"])
    >>> tags = np.zeros((2, 32), dtype=np.uint8)
    >>> request = CorrectionsRequest(np.array([1, 2]), tags, (40,), ("mill", "kiln"), 1, tags)
    >>> dealer.handle(request.to_packet(), {})[0].arrays["corrections"].shape
    (2, 3, 3)
    """

    def __init__(self, keys, account=None):
        self.keys, self._account = {name: bytes(key) for name, key in keys.items()}, account

    @classmethod
    def with_new_keys(cls, names: Iterable[str]) -> Self:
        """A dealer of units with keys that were just drawn.

        Parameters
        ----------
        names : iterable of str

        Returns
        -------
        Dealer
        """
        return cls({name: secrets.token_bytes(32) for name in names})

    def handle(self, packet: Packet, state: dict[str, Any]) -> tuple[Packet, dict[str, Any]]:
        """Answer one packet.

        Parameters
        ----------
        packet : Packet
        state : dict

        Returns
        -------
        answer : Packet
        state : dict

        Raises
        ------
        PacketError
            If it is another question, about units whose keys the dealer does not have, or about one of which it has
            told masks for other series of the others.
        """
        if packet.op != CorrectionsRequest.OP:
            raise PacketError(f"The dealer has only masks and does not know the operation {packet.op!r}.")
        request = CorrectionsRequest.from_packet(packet)
        unknown = [name for name in request.names if name not in self.keys]
        if unknown:
            raise PacketError(f"The dealer shares no key with {unknown}; it has keys of {sorted(self.keys)}.")
        state = self._dealt(request, state)
        return MaskCorrections(self._corrections(request)).to_packet(packet.round), state

    def _dealt(self, request, state):
        """The state with what is dealt now; PacketError where masks of a unit were dealt for another question."""
        known = dict(state.get("dealt", {}))
        for name, tag, digest in zip(request.names, request.tags, request.asked, strict=True):
            of, question = f"{name} {tag.tobytes().hex()}", digest.tobytes().hex()
            same = known.setdefault(of, question) == question
            if not (same if self._account is None else self._account.allows(of, question)):
                raise PacketError(
                    f"The dealer has sent masks for {name!r} for other series of the others, and does so only once."
                )
        return {**state, "dealt": known}

    def _corrections(self, request):
        """Products of the masks of all pairs less the masks of these units' own sums."""
        sizes, lengths = request.sizes.tolist(), request.lengths
        sums = Sums(request.lags, lengths, bool(request.graded))
        if sums.n_rows * sum(sizes) > _MOST or sums.n_sums * sum(sizes) ** 2 > _MOST:
            raise PacketError(f"The dealer makes at most {_MOST} masks at once; ask for fewer rows, lags or units.")
        tags = [tag.tobytes() for tag in request.tags]
        units = list(zip(request.names, tags, sizes, strict=True))
        series = [series_mask(self.keys[name], tag, lengths, size, sums.n_rows) for name, tag, size in units]
        masks = {}
        for k, (name, tag, size) in enumerate(units):
            for j, (other, other_tag, n_other) in enumerate(units):
                if j != k:
                    pair, shape = (tag, other_tag), (sums.n_sums, size, n_other)
                    masks[k, j] = product_masks(self.keys[name], pair, request.asked[k], other, lengths, shape)
        return mask_corrections(np.concatenate(series, axis=1), Partition(sizes).slices, masks, sums.products)
