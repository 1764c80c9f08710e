"""The dealer of secure sums: it knows all masks and sees no series."""

import secrets
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from ..message.packet import Packet, PacketError
from ..message.secure import CorrectionsRequest, MaskCorrections
from ..statespace.partition import Partition
from ..statespace.ring import Sums
from .masks import product_masks, series_mask
from .protocol import mask_corrections

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
