"""Masks that a unit and the dealer draw alike from the key that they share: SHAKE-256 of the key and a label.

Every mask depends on a tag of what is masked, so that nothing is ever masked twice with the same numbers unless
it is the same: the same series, lags and episodes, and for products the same series of the others. A tag says nothing
without the key.
"""

import hashlib
import math

import numpy as np

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
