"""Which units are fitted together: small groups of linked units, each with the neighbours that act on them."""

import numpy as np

CORE = 6  # units whose rows a block estimates
MOST = 14  # units of a block, unless more act on its core


def neighbours(n_units, links, strengths, correlated):
    """Neighbours of every unit with the strength of what joins them: dicts by unit."""
    found: list[dict] = [{} for _ in range(n_units)]
    for (effect, cause), strength in zip(links, strengths, strict=True):
        for a, b in ((effect, cause), (cause, effect)):
            found[a][b] = max(found[a].get(b, 0.0), float(strength))
    for a, b in correlated:
        found[a][b] = found[b][a] = np.inf
    return found


def cores(near, size=CORE):
    """Units in groups of linked ones, every unit in one group."""
    left, groups = dict.fromkeys(range(len(near))), []
    while left:
        group: list[int] = []
        edge: dict[int, float] = {}
        while left and len(group) < size:
            joined = {unit: weight for unit, weight in edge.items() if unit in left}
            unit = max(joined, key=lambda u: (joined[u], -u)) if joined else next(iter(left))
            del left[unit]
            group.append(unit)
            for other, weight in near[unit].items():
                edge[other] = edge.get(other, 0.0) + weight
        groups.append(sorted(group))
    return groups


def with_halo(core, near, causes, most=MOST):
    """A group with all that acts on it, and the strongest other neighbours, first those of the first kind."""
    members = dict.fromkeys(core)
    for unit in core:
        members.update(dict.fromkeys(sorted(causes[unit])))
    for _ in range(2):
        around: dict = {}
        for unit in members:
            for other, weight in near[unit].items():
                if other not in members:
                    around[other] = max(around.get(other, 0.0), weight)
        for other in sorted(around, key=lambda u: (-around[u], u)):
            if len(members) >= most:
                return list(members)
            members[other] = None
    return list(members)
