"""Choosing which units of a plant act on which."""

from collections.abc import Iterable

import numpy as np

from ._validation import check_count, check_share, unit_position


def choose_pairs(rng, names, causes, *, links=None, n_links=None, density=None, prefix=""):
    """Ordered pairs (cause, effect): those the user gave, or a random choice.

    Parameters
    ----------
    rng : Generator
    names : list of str
        Units.
    causes : list of int
        Units that can be a cause.
    links : sequence of pairs or boolean ndarray, default=None
    n_links : int, default=None
    density : float, default=None
        Share of all possible pairs.
    prefix : str, default=""
        Of the argument names in error messages.

    Returns
    -------
    pairs : list of tuple of int
    """
    if sum(given is not None for given in (links, n_links, density)) > 1:
        ways = [f"{prefix}links", f"n_{prefix}links"] + ([] if prefix else ["link_density"])
        raise ValueError(f"Give at most one of {', '.join(ways)}.")
    possible = [(c, e) for c in causes for e in range(len(names)) if c != e]
    if links is not None:
        return _given_pairs(links, names, possible, prefix)
    count = _count(n_links, density, len(names), len(possible), prefix)
    chosen = rng.choice(len(possible), count, replace=False) if count else []
    return [possible[k] for k in sorted(chosen)]


def _count(n_links, density, n_units, n_possible, prefix):
    """Number of pairs to choose."""
    if density is not None:
        return round(check_share(density, "link_density") * n_possible)
    if n_links is None:
        default = round(1.5 * n_units) if n_units > 2 else n_units - 1
        return min(default, n_possible)
    if check_count(n_links, f"n_{prefix}links", 0) > n_possible:
        raise ValueError(
            f"n_{prefix}links is {n_links}, but there are only {n_possible} ordered pairs of units to link."
        )
    return n_links


def _given_pairs(links, names, possible, prefix):
    if isinstance(links, np.ndarray) and links.dtype == bool:
        if links.shape != (len(names), len(names)):
            raise ValueError(
                f"{prefix}links as a boolean matrix must have shape ({len(names)}, {len(names)}), "
                f"[effect, cause]. Got {links.shape}."
            )
        pairs = [(int(c), int(e)) for c, e in np.argwhere(links.T)]
    else:
        pairs = [_given_pair(pair, names, prefix) for pair in links]
    for pair in pairs:
        if pair not in possible:
            cause, effect = (names[k] for k in pair)
            raise ValueError(
                f"{prefix}links cannot hold ({cause!r}, {effect!r}): cause and effect must be "
                "different units, and the cause of an input link needs inputs."
            )
    return list(dict.fromkeys(pairs))


def _given_pair(pair, names, prefix):
    if not isinstance(pair, Iterable) or isinstance(pair, str) or len(pair) != 2:
        raise ValueError(
            f"{prefix}links must hold pairs (cause, effect) or be a boolean matrix "
            f"[effect, cause]. Got the entry {pair!r}."
        )
    return tuple(unit_position(unit, names) for unit in pair)
