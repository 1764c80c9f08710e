"""The protocol of secure sums with masks that are given: what a unit, the dealer and the server compute.

Series lie side by side, ``slices`` say which columns are whose. A pair of masks ``(behind, ahead)`` covers what
one unit says about one other: products of the other's later rows with its own mask, and of its own mask's later
rows with the other's.
"""


def masked_products(mask, others, slices, masks, products):
    """A unit's products of its mask (T, p) with the masked series of all others (T, o), a pair of masks over each."""
    behind, ahead = products(others, mask), products(mask, others)
    for rows, (over_behind, over_ahead) in zip(slices, masks, strict=True):
        behind[:, rows] += over_behind
        ahead[:, :, rows] += over_ahead
    return behind, ahead


def mask_corrections(series_masks, slices, masks, products):
    """The dealer's products of all masks (T, n), less the masks of the units' products by (unit, other), (k, n, n)."""
    corrections = products(series_masks, series_masks)
    for own in slices:
        corrections[:, own, own] = 0
    for (unit, other), (behind, ahead) in masks.items():
        corrections[:, slices[other], slices[unit]] -= behind
        corrections[:, slices[unit], slices[other]] -= ahead
    return corrections


def opened_products(masked, slices, replies, corrections, products):
    """The server's sums of products of all series, (k, n, n); `replies` are (behind, ahead) by (unit, other)."""
    total = products(masked, masked) + corrections
    for (unit, other), (behind, ahead) in replies.items():
        total[:, slices[other], slices[unit]] += behind
        total[:, slices[unit], slices[other]] += ahead
    return total
