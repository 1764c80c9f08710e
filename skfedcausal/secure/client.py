"""A unit's side of secure sums: all that leaves is masked, and one answer for a record."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..federation.atomic import START, Chain, LedgerError
from ..federation.exchange import Site
from ..federation.gate import PolicyError
from ..message.packet import Packet, PacketError
from ..message.requests import FitRequest
from ..message.secure import MaskedProducts, MaskedSeries, ProductsRequest, SecureSumsRequest
from ..message.states import StateMessage
from ..statespace.lag_products import Sums, fraction_bits, to_ring
from ..statespace.matrices import Partition
from ..statespace.observation import is_regular
from .dealer import Dealer, product_masks, record_tag, series_mask
from .protocol import MOST, can_be_graded, faded_scores, graded_series, masked_products


class SumsAccount:
    """What a unit answered, on disk, so that it answers once whatever is started again or asked.

    Parameters
    ----------
    path : str or Path
        Lines of JSON, each sealed with the one before it; nobody else writes them. The ledger of a site names the last
        one, so that an account that was lost, or is an older one, is noticed.
    most : int, default=1
        Sums that may be answered in all. Two answers over nearly the same rows can be subtracted, and what is
        left are products of the few rows in which they differ; two about the same rows with series of others
        that differ add up to twice as many equations. Allow another one for other rows only.
    of_each : bool, default=False
        Whether `most` is about each tag, as for a dealer, and not about all together.

    Examples
    --------
    >>> import tempfile
    >>> from skfedcausal.secure import SumsAccount
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     account = SumsAccount(f"{folder}/sums.json")
    ...     [account.allows("may", "a"), account.allows("may", "a"), account.allows("may", "b"), account.allows("june")]
    [True, True, False, False]
    """

    def __init__(self, path, most=1, *, of_each=False):
        self.path, self.most, self.of_each = Path(path), most, of_each
        _take_over(self.path)
        self._chain = Chain(self.path)

    def allows(self, tag: str, asked: str | None = None) -> bool:
        """Whether this may be answered; it is noted before anything leaves.

        Parameters
        ----------
        tag : str
            Of the record, its lags and episodes.
        asked : str, default=None
            Digest of what the others sent; None before there is any.

        Returns
        -------
        bool

        Raises
        ------
        LedgerError
            If lines that were there are not any more.
        """
        lines = self._chain.entries()
        if self._chain.head not in (START, *(line["hash"] for line in lines)):
            raise LedgerError(f"{self.path}: its last line is no longer there; put the whole account back.")
        known = {(line["tag"], line["asked"]) for line in lines}
        tags = {one for one, _ in known}
        if (tag, asked) in known or (asked is None and tag in tags):
            return True
        answered = {entry for entry in known if entry[1] is not None}
        begun = tags - {one for one, _ in answered}
        counted = [one for one in (*(one for one, _ in answered), *begun) if one == tag or not self.of_each]
        if tag not in begun and len(counted) >= self.most:
            return False
        self._chain.append({"tag": tag, "asked": asked})
        return True


def _take_over(path):
    """Bring an account of an earlier version, a list, into the form of lines; nothing else begins like one."""
    if not path.exists() or path.read_bytes()[:1] != b"[":
        return
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise LedgerError(f"{path} is not whole; put the whole account back, for its answers count.") from None
    new = Chain(path.with_name(f"{path.name}.new"))
    for tag, asked in entries:
        new.append({"tag": tag, "asked": asked})
    os.replace(new.path, path) if new.path.exists() else path.unlink()


class SumsRefusedError(PolicyError, PacketError):
    """Sums that a unit does not answer: it has answered, or they would tell too much; the server is told the rule."""

    def __init__(self, text, rule="answers"):
        PacketError.__init__(self, text)  # other processes make it anew from its text
        self.rule = rule


class SumsWorker:
    """A unit that takes part in secure sums and answers nothing else.

    Parameters
    ----------
    worker : UnitWorker
        Of the unit; its messages stay here.
    key : bytes
        That the unit shares with the dealer, at least 16 bytes.
    most : float, default=0.5
        Largest number of equations about one of its series, as a share of the rows, that the server and all other
        units together could set up from the sums: ``(2 L + 1) P`` linear ones for lags up to L and P series of
        the others, ``(L + 1) p`` quadratic ones from its own p; with grades ``140 P`` and ``84 p`` more. Grades are
        left out where there would be too many, and other sums refused.
    account : SumsAccount, default=None
        None keeps what was answered in the state of the run only.

    See Also
    --------
    skfedcausal.secure.SecureSumsServer : What is learned from sums.

    Examples
    --------
    >>> from skfedcausal import KalmanClient
    >>> from skfedcausal.client.worker import UnitWorker
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.message.secure import MaskedSeries, SecureSumsRequest
    >>> from skfedcausal.secure import SumsWorker
    >>> X, _ = make_granger_plant(1, random_state=0)
    >>> worker = SumsWorker(UnitWorker("unit0", X["unit0"], None, (0,), None, KalmanClient()), b"0" * 32)
    >>> answer, state = worker.handle(SecureSumsRequest(13).to_packet(1), {})
    >>> MaskedSeries.from_packet(answer).masked.shape
    (2000, 2)
    """

    def __init__(self, worker, key, *, most=MOST, account=None):
        if len(key) < 16:
            raise ValueError(
                f"The key that unit {worker.name!r} shares with the dealer has {len(key)} bytes, under 16."
            )
        self._worker, self._key, self._most, self._account = worker, bytes(key), most, account

    @property
    def n_columns(self) -> int:
        """Measurements and inputs of a row."""
        return self._worker.n_columns

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
            If it is another question, or the unit does not answer it: it has answered, or the sums would tell too much.
        """
        if packet.op == SecureSumsRequest.OP:
            message, state = self._series(SecureSumsRequest.from_packet(packet), state, packet.round)
        elif packet.op == ProductsRequest.OP:
            message, state = self._products(ProductsRequest.from_packet(packet), state)
        else:
            raise self._error(
                f"takes part in secure sums only and does not answer {packet.op!r}. Its site would have to allow that."
            )
        return message.to_packet(packet.round), state

    def _series(self, request, state, round):
        """The unit's states (n_rows, n_states) under a mask, with what they are worth."""
        # as a fit of states asks: a unit whose sensors say all of its states sends them without noise
        own, inner = self._worker.handle(FitRequest(own_past=True, sharp=True).to_packet(round), {})
        series, message = self._scores(StateMessage.from_packet(own))
        lengths, n_states = message.lengths, series.shape[1]
        sums = self._answered_sums(Sums(request.lags, lengths, bool(request.graded)), n_states)
        scale = np.sqrt(np.square(series).mean(axis=0))
        if not (scale > 0).all():
            raise self._error("has a state that never changes, of which there are no sums; give it fewer states.")
        series = series / scale
        if sums.graded:
            series = np.concatenate([series, graded_series(message.z, message.patterns[0], self._worker.starts)])
        ring = to_ring(series, fraction_bits(len(series)))
        tag = record_tag(self._key, ring, request.lags, lengths)
        before = state.get("sums", {}).get("tag", tag)
        if tag != before or not (self._account is None or self._account.allows(tag.hex())):
            raise self._refusal("answers", "has answered secure sums about this record, and answers only once.")
        mask = series_mask(self._key, tag, lengths, n_states, len(ring))
        known = {"asked": None, **state.get("sums", {}), "tag": tag, "answered": sums, "n_states": n_states}
        own, shown = sums.products(ring, ring), np.frombuffer(tag, dtype=np.uint8)
        return MaskedSeries(ring - mask, own, scale, message.patterns[0], lengths, shown), {**inner, "sums": known}

    def _answered_sums(self, sums, n_states):
        """What is summed: grades only of records that are long enough for both."""
        n_rows = sum(sums.lengths)
        if not can_be_graded(n_rows) or sums.equations(n_states, 0) > self._most * n_rows:
            sums = replace(sums, graded=False)
        self._check_equations(sums, sums, n_states)
        return sums

    def _scores(self, message):
        """Faded scores (n_rows, n_states) of the unit's message and the message, of one information throughout."""
        if message.inputs is not None:
            raise self._error("has inputs, with which there are no secure sums; leave them out or fit openly.")
        if message.index is not None:
            raise self._error(
                "has missing measurements, with which sums over rows do not suffice; fill them or fit openly."
            )
        if not is_regular(message.patterns[0]):
            raise self._error("has sensors that do not determine its states; give it fewer states.")
        try:
            return faded_scores(message.z, message.patterns[0], self._worker.starts), message
        except ValueError as error:
            raise self._error(f"cannot take part. {error}") from None

    def _products(self, request, state):
        """Sums of products of the mask with what the others sent (n_rows, n_others), under masks of their own."""
        known = state.get("sums")
        if known is None:
            raise self._error(f"got {request.OP!r} before it was asked for its states.")
        tag, n_states = known["tag"], known["n_states"]
        sums = self._requested_sums(request, known)
        digest = request.digest
        asked = digest.tobytes().hex()
        again = known["asked"] in (None, asked)
        if not (again and (self._account is None or self._account.allows(tag.hex(), asked))):
            raise self._refusal("answers", "has multiplied with other series of the others before, and answers once.")
        mask = series_mask(self._key, tag, sums.lengths, n_states, sums.n_rows)
        slices, masks = Partition(request.sizes.tolist()).slices, []
        for other, other_tag, n_other in zip(request.names, request.tags, request.sizes.tolist(), strict=True):
            tags, sizes = (tag, other_tag.tobytes()), (sums.n_sums, n_states, n_other)
            masks.append(product_masks(self._key, tags, digest, other, sums.lengths, sizes))
        products = masked_products(mask, request.masked, slices, masks, sums.products)
        return MaskedProducts(*products), {**state, "sums": {**known, "asked": asked}}

    def _requested_sums(self, request, known):
        """What is summed with these series; refused if they do not fit, or sums with so many would tell too much."""
        of_own, (n_rows, n_others) = known["answered"], request.masked.shape
        sums = replace(of_own, graded=of_own.graded and n_rows == of_own.n_rows)
        if n_rows != sums.n_rows or self._worker.name in request.names:
            raise self._error(f"got {n_rows} rows of {list(request.names)} for its {sums.n_rows} rows.")
        self._check_equations(sums, of_own, known["n_states"], n_others)
        return sums

    def _check_equations(self, sums, of_own, n_states, n_others=0):
        """Refuse where sums with the others' series, and those told of its own, would say too much of each series."""
        n_rows, equations = sum(sums.lengths), sums.equations(0, n_others) + of_own.equations(n_states, 0)
        if equations > self._most * n_rows:
            raise self._refusal(
                "most",
                f"was asked for {equations} sums about each series of {n_rows} rows, over its limit of {self._most:g} "
                "of them: ask for fewer lags or fewer units, or give longer records. The site's `most` would allow it.",
            )

    def _refusal(self, rule, problem):
        return SumsRefusedError(str(self._error(problem)), rule)

    def _error(self, problem):
        return PacketError(f"Unit {self._worker.name!r} {problem}")


def with_dealer(sites, dealer):
    """Sites in this process that take part in secure sums from now on, with a dealer of their own beside them."""
    if dealer in sites:
        raise ValueError(f"A unit is called {dealer!r} like the dealer; give the server another name for it: dealer=.")
    masks = Dealer.with_new_keys(sites)
    for name, site in sites.items():
        site.worker = SumsWorker(site.worker, masks.keys[name])
    return {**sites, dealer: Site(masks)}
