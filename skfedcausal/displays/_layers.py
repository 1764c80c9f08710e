"""Places of the units of a plant from left to right, as influence flows, after Sugiyama.

Links against the flow are few: units are ordered by Eades's greedy rule, layers are longest paths along the links
that follow the order, and units of a layer stand near the mean of their neighbours. Links over several layers
have a place in each of them, so that they pass beside the units there.

References
----------
.. [1] Sugiyama, Tagawa, Toda (1981), Methods for visual understanding of hierarchical system structures, IEEE
       Transactions on Systems, Man, and Cybernetics 11(2).
.. [2] Eades, Lin, Smyth (1993), A fast and effective heuristic for the feedback arc set problem, Information
       Processing Letters 47(6).
"""

from collections import defaultdict

import numpy as np

_SWEEPS = 12


def flow_places(names, links):
    """Layer and height of every unit that has links, and the height of each link half-way.

    `links` maps (cause, effect) to strength. Heights are in rows, around zero.
    """
    units = [name for name in names if any(name in pair for pair in links)]
    layer = _layers(_flow_order(units, links), links)
    columns, chains = _with_passages(units, layer, links)
    height = _heights(columns, chains)
    halfway = {pair: float(np.mean([height[one] for one in chain[1:-1] or chain])) for pair, chain in chains.items()}
    return {name: (layer[name], height[name]) for name in units}, halfway


def _flow_order(units, links):
    """Units in an order that few and weak links go against."""
    left: list[str] = list(units)
    first: list[str] = []
    last: list[str] = []
    while left:
        out, into = dict.fromkeys(left, 0.0), dict.fromkeys(left, 0.0)
        for (cause, effect), strength in links.items():
            if cause in out and effect in into:
                out[cause] += strength
                into[effect] += strength
        sinks = [name for name in left if not out[name]]
        sources = [name for name in left if not into[name]]
        if sinks:
            last[:0] = sinks
        elif sources:
            first += sources
        else:
            first.append(max(left, key=lambda name: out[name] - into[name]))
        placed = {*first, *last}
        left = [name for name in left if name not in placed]
    return first + last


def _layers(order, links):
    """Layer of every unit: the longest way along the order, sources beside what they drive first."""
    position = {name: k for k, name in enumerate(order)}
    along = [pair for pair in links if position[pair[0]] < position[pair[1]]]
    layer = dict.fromkeys(order, 0)
    for name in order:
        layer[name] = max((layer[cause] + 1 for cause, effect in along if effect == name), default=0)
    for name in reversed(order):
        if not any(effect == name for _, effect in along):
            layer[name] = min((layer[effect] - 1 for cause, effect in along if cause == name), default=layer[name])
    return layer


def _with_passages(units, layer, links):
    """Members of every layer, and the members that each link goes along, from the lower layer to the higher."""
    columns, chains = defaultdict(list), {}
    for name in units:
        columns[layer[name]].append(name)
    for pair in links:
        low, high = sorted(pair, key=layer.__getitem__)
        between = [(pair, k) for k in range(layer[low] + 1, layer[high])]
        for one in between:
            columns[one[1]].append(one)
        chains[pair] = [low, *between, high]
    return [columns[k] for k in sorted(columns)], chains


def _heights(columns, chains):
    """Height of every member of a layer: sweeps that put it near the mean of its neighbours."""
    beside = defaultdict(set)
    for chain in chains.values():
        for one, other in zip(chain, chain[1:], strict=False):
            beside[one].add(other)
            beside[other].add(one)
    height: dict = {}
    for column in columns:
        _stack(column, height)
    for sweep in range(_SWEEPS):
        for column in columns if sweep % 2 else reversed(columns):
            wanted = {one: np.mean([height[other] for other in beside[one]]) for one in column}
            column.sort(key=wanted.__getitem__, reverse=True)
            _stack(column, height)
    return height


def _stack(column, height):
    """Give the members of a layer heights one row apart, from the top."""
    height.update({one: (len(column) - 1) / 2 - k for k, one in enumerate(column)})
