"""What parties who should not collude learn together, and what those learn who may."""

import numpy as np
import pytest

from skfedcausal import KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.message import StateMessage
from skfedcausal.message.packet import PacketError
from skfedcausal.message.requests import FitRequest
from skfedcausal.message.secure import CorrectionsRequest, MaskedProducts
from skfedcausal.secure.dealer import series_mask
from skfedcausal.secure.protocol import faded_scores
from skfedcausal.secure.server.sums import opened_sums, others_of
from skfedcausal.statespace.lag_products import fraction_bits, lagged_products, to_ring

from ._plant import LAGS, SUMS, asked_of_the_dealer, first_round, records, units


def ring_scores(name):
    """What the unit masks: its faded scores of unit mean square in fixed point."""
    Y = records()[name]
    answer, _ = UnitWorker(name, Y, None, (0,), None, KalmanClient(n_states=2)).handle(
        FitRequest(own_past=True, sharp=True).to_packet(1), {}
    )
    message = StateMessage.from_packet(answer)
    series = faded_scores(message.z, message.patterns[0], (0,))
    return to_ring(series / np.sqrt((series**2).mean(axis=0)), fraction_bits(len(Y)))


def products_of(workers, messages, states):
    requests = others_of(messages, SUMS)
    answers = {name: workers[name].handle(requests[name].to_packet(2), states[name]) for name in messages}
    return {name: MaskedProducts.from_packet(packet) for name, (packet, _) in answers.items()}


def test_server_and_dealer_together_have_the_rows():
    """The assumption is a real one: nothing else than the dealer's silence protects the rows."""
    workers, dealer = units(records())
    messages, _ = first_round(workers)
    for name, message in messages.items():
        mask = series_mask(dealer.keys[name], message.tag.tobytes(), message.lengths, 2)
        assert (message.masked + mask == ring_scores(name)).all()


def test_dealer_and_one_unit_together_have_the_rows_of_the_others():
    workers, dealer = units(records())
    messages, _ = first_round(workers)
    seen = others_of(messages, SUMS)["unit0"]
    mask = series_mask(dealer.keys["unit1"], seen.tags[0].tobytes(), messages["unit0"].lengths, 2)
    assert seen.names[0] == "unit1"
    assert (seen.masked[:, :2] + mask == ring_scores("unit1")).all()


def test_what_a_unit_sends_looks_uniform():
    """Bytes of masked series and products: chi-squared within five standard deviations, each bit fair."""
    workers, _ = units(records())
    messages, states = first_round(workers)
    told = products_of(workers, messages, states).values()
    sent = [m.masked for m in messages.values()] + [x for one in told for x in (one.behind, one.ahead)]
    octets = np.concatenate([part.ravel() for part in sent]).view(np.uint8)
    counts = np.bincount(octets, minlength=256)
    expected = len(octets) / 256
    assert abs(((counts - expected) ** 2 / expected).sum() - 255) < 5 * np.sqrt(2 * 255)
    assert abs(np.unpackbits(octets).mean() - 0.5) < 5 * 0.5 / np.sqrt(8 * len(octets))


def test_server_and_all_other_units_learn_as_many_projections_as_stated():
    """They know every regressor: what they know of the series left is its projection on the others' lags."""
    known = np.concatenate([ring_scores(name).view(np.int64) for name in ("unit1", "unit2")], axis=1).astype(float)
    own = ring_scores("unit0").view(np.int64).astype(float)
    n_rows, shifted = len(own), []
    for lag in range(-LAGS, LAGS + 1):
        rolled = np.zeros_like(known)
        rolled[max(lag, 0) : n_rows + min(lag, 0)] = known[max(-lag, 0) : n_rows - max(lag, 0)]
        shifted.append(rolled)
    directions = np.concatenate(shifted, axis=1)
    equations = (2 * LAGS + 1) * known.shape[1]
    assert directions.shape[1] == equations
    assert np.linalg.matrix_rank(directions / np.linalg.norm(directions, axis=0)) == equations
    guess = directions @ np.linalg.lstsq(directions, own, rcond=None)[0]  # the sums say nothing of the rest
    share = 1 - ((own - guess) ** 2).sum() / (own**2).sum()
    assert equations / n_rows / 2 < share < 0.5  # of a plant whose units are hardly linked


def test_units_refuse_where_sums_would_tell_too_much():
    workers, _ = units(records(), most=36 / 400 - 1e-9)
    messages, states = first_round(workers)
    with pytest.raises(PacketError, match=r"'unit0' was asked for 36 sums about each series of 400 rows.*`most`"):
        workers["unit0"].handle(others_of(messages, SUMS)["unit0"].to_packet(2), states["unit0"])
    workers, _ = units(records(), most=36 / 400)  # 7 x 4 with the others' series, 4 x 2 of its own
    messages, states = first_round(workers)
    workers["unit0"].handle(others_of(messages, SUMS)["unit0"].to_packet(2), states["unit0"])


def test_a_server_that_changes_a_series_gets_another_sum_and_no_second_one():
    workers, _ = units(records())
    messages, states = first_round(workers)
    request = others_of(messages, SUMS)["unit0"]
    answer, state = workers["unit0"].handle(request.to_packet(2), states["unit0"])
    again, _ = workers["unit0"].handle(request.to_packet(2), state)
    assert again.encode() == answer.encode()
    request.masked[7, 0] += np.uint64(1)
    with pytest.raises(PacketError, match="answers once"):
        workers["unit0"].handle(request.to_packet(3), state)


def answered_twice():
    """A unit that forgot that it had answered, and answers about two series of the server's choice under one tag."""
    workers, dealer = units(records())
    messages, states = first_round(workers)
    request, told = others_of(messages, SUMS)["unit0"], []
    columns = np.arange(request.masked.shape[1])
    rows = 50 + 20 * columns
    for value in (0, 1):
        request.masked[:] = 0
        request.masked[rows, columns] = value
        packet, _ = workers["unit0"].handle(request.to_packet(2), states["unit0"])
        told.append((MaskedProducts.from_packet(packet), request.digest.copy()))
    return messages, dealer, rows, told


def test_two_answers_to_one_unit_under_one_tag_differ_by_no_row_of_its_mask():
    messages, dealer, rows, ((first, _), (second, _)) = answered_twice()
    mask = series_mask(dealer.keys["unit0"], messages["unit0"].tag.tobytes(), messages["unit0"].lengths, 2)
    behind, ahead = second.behind - first.behind, second.ahead - first.ahead
    for lag in range(LAGS + 1):
        assert not (mask[rows - lag] == behind[lag]).any()
        assert not (mask[rows + lag] == ahead[lag].T).any()


def test_the_dealer_tells_masks_for_one_of_two_questions_to_a_unit():
    """With both, the difference of the two answers would be rows again."""
    messages, dealer, _, ((_, one), (_, other)) = answered_twice()
    request = asked_of_the_dealer(messages)
    request.asked[0] = one
    answer, state = dealer.handle(request.to_packet(3), {})
    assert dealer.handle(request.to_packet(3), state)[0].encode() == answer.encode()
    request.asked[0] = other
    with pytest.raises(PacketError, match="masks for 'unit0' for other series"):
        dealer.handle(request.to_packet(4), state)


def test_the_dealers_word_about_another_series_is_masked_anew():
    """A server with one unit cannot ask the dealer for products of a mask with series of its choice."""
    workers, dealer = units(records())
    messages, _ = first_round(workers)
    request = asked_of_the_dealer(messages, ("unit0", "unit1"))
    tags = request.tags.copy()
    tags[1] ^= 1  # unit1 helps: its mask for that tag is known
    other = CorrectionsRequest(request.sizes, tags, request.lengths, request.names, LAGS, request.asked)
    told = [dealer._corrections(one)[:, :2, 2:] for one in (request, other)]
    masks = [series_mask(dealer.keys["unit1"], tag.tobytes(), request.lengths, 2) for tag in (request.tags[1], tags[1])]
    own = series_mask(dealer.keys["unit0"], request.tags[0].tobytes(), request.lengths, 2)
    learned = lagged_products(own, masks[0], LAGS) - lagged_products(own, masks[1], LAGS)
    assert not (told[0] - told[1] == learned).any()


@pytest.mark.parametrize("change", ["lags", "lengths", "sizes"])
def test_the_dealer_says_nothing_about_other_sizes(change):
    workers, dealer = units(records())
    messages, _ = first_round(workers)
    request = asked_of_the_dealer(messages)
    changed = {
        "lags": (request.sizes, request.tags, request.lengths, request.names, LAGS - 1, request.asked),
        "lengths": (request.sizes, request.tags, (200, 200), request.names, LAGS, request.asked),
        "sizes": (np.array([2, 2, 1]), request.tags, request.lengths, request.names, LAGS, request.asked),
    }[change]
    true, other = dealer._corrections(request), dealer._corrections(CorrectionsRequest(*changed))
    first = (slice(0, 1), slice(0, 2), slice(4, 5)) if change == "sizes" else (slice(0, 1), slice(0, 2), slice(2, 4))
    assert not (true[first] == other[first]).any()


def test_one_unit_with_another_key_is_named():
    workers, dealer = units(records())
    messages, states = first_round(workers)
    dealer.keys["unit2"] = b"another" * 5
    products, corrections = (
        products_of(workers, messages, states),
        dealer._corrections(asked_of_the_dealer(messages)),
    )
    with pytest.raises(ValueError, match=r"\['unit2'\] with others cannot be unmasked.*different keys"):
        opened_sums(messages, products, corrections, SUMS)
