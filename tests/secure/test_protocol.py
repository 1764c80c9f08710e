"""What everybody sees in secure sums, by enumerating all masks of a small ring: it depends on the sums alone.

Taking whole numbers modulo 2^64 to those modulo 2^k is a homomorphism: the library's own functions, run on small
masks and reduced, are the protocol in the small ring.
"""

from collections import Counter
from functools import partial
from itertools import product

import numpy as np
import pytest

from skfedcausal.secure.protocol import mask_corrections, masked_products, opened_products
from skfedcausal.statespace.lag_products import lagged_products

ROWS, MODULUS = 2, 2


class Masks:
    """Masks of units of one state from one vector of numbers, in the order in which it is cut."""

    def __init__(self, numbers, n_units, lags):
        numbers, place = np.asarray(numbers, dtype=np.uint64), 0
        self.series, self.pairs = [], {}
        for unit in range(n_units):
            self.series.append(numbers[place : place + ROWS, None])
            place += ROWS
            for other in set(range(n_units)) - {unit}:
                pair = numbers[place : place + 2 * lags + 2].reshape(2, lags + 1, 1, 1)
                self.pairs[unit, other] = pair[0], pair[1]
                place += 2 * lags + 2

    @staticmethod
    def needed(n_units, lags):
        return n_units * (ROWS + (n_units - 1) * 2 * (lags + 1))


def one(late, early, lags):
    return lagged_products(late, early, lags)[:, 0, 0]


def transcript(series, masks, lags, viewer=()):
    """What the server sees, and series and masks of the units `viewer` that it colludes with, modulo 2^k."""
    n_units, summed = len(series), partial(lagged_products, lags=lags)
    slices = [slice(k, k + 1) for k in range(n_units)]
    masked = np.concatenate([series[k] - masks.series[k] for k in range(n_units)], axis=1)
    corrections = mask_corrections(np.concatenate(masks.series, axis=1), slices, masks.pairs, summed)
    seen, products = [masked, corrections], {}
    for k in range(n_units):
        others = [j for j in range(n_units) if j != k]
        behind, ahead = masked_products(
            masks.series[k], masked[:, others], slices[:-1], [masks.pairs[k, j] for j in others], summed
        )
        seen += [behind, ahead]
        products |= {(k, j): (behind[:, i : i + 1], ahead[:, :, i : i + 1]) for i, j in enumerate(others)}
    opened = opened_products(masked, slices, products, corrections, summed)
    for m, n in products:
        assert ((opened[:, m, n] - one(series[m], series[n], lags)) % np.uint64(MODULUS) == 0).all()
    for unit in viewer:
        seen += [masks.series[unit], series[unit]]
        seen += [mask for (m, _), pair in masks.pairs.items() if m == unit for mask in pair]
    return tuple((np.concatenate([part.ravel() for part in seen]) % np.uint64(MODULUS)).tolist())


def records(n_units):
    """All records of the small ring: series of each unit."""
    for numbers in product(range(MODULUS), repeat=n_units * ROWS):
        yield {k: np.array(numbers[k * ROWS : (k + 1) * ROWS], dtype=np.uint64)[:, None] for k in range(n_units)}


def sums(series, lags, known=()):
    """The products of all pairs, and the series of units that are known."""
    told = [one(series[m], series[n], lags) for m in series for n in series if m != n]
    told += [series[unit].ravel() for unit in known]
    return tuple((np.concatenate(told) % np.uint64(MODULUS)).tolist())


def pairs_of_equal_sums(n_units, lags, known=(), most=3):
    """Different records that tell the same sums."""
    by_sums, found = {}, []
    for series in records(n_units):
        by_sums.setdefault(sums(series, lags, known), []).append(series)
    for group in by_sums.values():
        if len(group) > 1 and any(group[0][k].any() for k in group[0]):
            found.append((group[0], group[-1]))
    assert found
    return found[:most]


def views(series, n_units, lags, viewer=(), drawn=None):
    """How often each transcript comes over all masks, or over some of them that everybody else drew."""
    needed = Masks.needed(n_units, lags)
    choices = product(range(MODULUS), repeat=needed) if drawn is None else drawn
    return Counter(transcript(series, Masks(numbers, n_units, lags), lags, viewer) for numbers in choices)


@pytest.mark.parametrize("lags", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_server_alone_sees_the_sums_and_noise(lags):
    for first, second in pairs_of_equal_sums(2, lags, most=2):
        assert views(first, 2, lags) == views(second, 2, lags)


def test_server_sees_different_things_of_different_sums():
    series = list(records(2))
    ones, zero = series[-1], series[0]
    assert sums(ones, 1) != sums(zero, 1)
    assert not views(ones, 2, 0).keys() & views(ones | {0: np.array([[1], [0]], dtype=np.uint64)}, 2, 0).keys()


@pytest.mark.slow
def test_server_with_another_unit_sees_the_sums_with_its_series():
    """Unit 2 of three tells all it has; of units 0 and 1 the sums are left."""
    fixed = {2: np.array([[1], [1]], dtype=np.uint64)}
    rng, free = np.random.default_rng(0), 2 * (ROWS + 4)
    own = rng.integers(0, MODULUS, Masks.needed(3, 0) - free).tolist()
    drawn = [(*numbers, *own) for numbers in product(range(MODULUS), repeat=free)]
    for first, second in pairs_of_equal_sums(3, 0, known=(2,), most=40):
        if (first[2] == fixed[2]).all() and not all((first[k] == second[k]).all() for k in first):
            assert views(first, 3, 0, (2,), drawn) == views(second, 3, 0, (2,), drawn)
            break
    else:
        pytest.fail("no two records of equal sums with this series of unit 2")


def test_a_unit_sees_uniform_series_of_the_others():
    for series in list(records(2))[5:8]:
        seen = Counter()
        for numbers in product(range(MODULUS), repeat=Masks.needed(2, 0)):
            d = (series[0] - Masks(numbers, 2, 0).series[0]) % np.uint64(MODULUS)
            seen[tuple(d.ravel().tolist())] += 1
        assert len(seen) == MODULUS**ROWS
        assert len(set(seen.values())) == 1


def test_without_masks_of_the_products_the_server_would_see_more():
    """The comparison has power: leave out one kind of mask, and records of equal sums differ."""

    def bare(series):
        seen = Counter()
        for numbers in product(range(MODULUS), repeat=2 * ROWS):
            masks = Masks(np.zeros(Masks.needed(2, 0)), 2, 0)
            masks.series = [
                np.array(numbers[:ROWS], dtype=np.uint64)[:, None],
                np.array(numbers[ROWS:], np.uint64)[:, None],
            ]
            seen[transcript(series, masks, 0)] += 1
        return seen

    assert any(bare(first) != bare(second) for first, second in pairs_of_equal_sums(2, 0, most=40))
