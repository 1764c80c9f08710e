"""What a unit gains from the plant: held-out log-likelihood of its own measurements.

Everything is computed from the units' messages: the term of a log-density that only the unit knows is the
same whoever predicts, and drops out of every difference.
"""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pandas as pd
from scipy.sparse import csgraph

from ...statespace.episodes import mean_with_error
from ...statespace.observation import Information
from .tuning import TUNING


def split_messages(messages, held_out):
    """Messages about the first part of every episode, and about the last one."""
    if not 0 < held_out < 1:
        raise ValueError(f"Got held_out={held_out}; give a share between 0 and 1.")
    lengths = next(iter(messages.values())).lengths
    cuts = [length - round(held_out * length) for length in lengths]
    if any(cut in (0, length) for cut, length in zip(cuts, lengths, strict=True)):
        raise ValueError(f"Episodes of {lengths} time steps cannot be split with held_out={held_out}.")
    ends = np.cumsum(lengths).tolist()
    is_tail = np.arange(ends[-1]) >= np.repeat(np.array(ends) - lengths + cuts, lengths)
    rest = [length - cut for length, cut in zip(lengths, cuts, strict=True)]
    parts = (np.flatnonzero(~is_tail), tuple(cuts)), (np.flatnonzero(is_tail), tuple(rest))
    return tuple({name: message.at(*part) for name, message in messages.items()} for part in parts)


def without_unit(record, unit):
    """The record as it would be had a unit sent nothing."""
    part = record.parts[unit]
    nothing = Information(np.zeros_like(part.z), np.zeros_like(part.patterns[:1]))
    return replace(record, parts=(*record.parts[:unit], nothing, *record.parts[unit + 1 :]))


def connected(A, Q, partition):
    """Which units lie in the same connected part of the plant, ndarray of bool (n_units, n_units).

    Units in different parts are independent of each other.
    """
    touched = (A != 0) | (Q != 0)
    graph = np.array([[touched[m, n].any() for n in partition.slices] for m in partition.slices])
    label = csgraph.connected_components(graph, directed=False)[1]
    return label[:, None] == label


class Benefit:
    """Held-out gains of every unit from all others and from each of them."""

    def __init__(self, plant, alone, tail):
        self.names = plant.names_
        run = plant.filter(tail)
        record = run.record
        self._present = [part.patterns.any(axis=(1, 2))[part.pattern_of] for part in record.parts]
        acts = np.abs(plant.lag_transitions_).sum(axis=0)
        if len(plant.lag_transitions_) == 1:
            acts = plant.unshrunk_transition_
        self._together = connected(acts, plant.process_cov_, plant.partition_)
        everything = run.unit_log_densities()
        n_samples, n_units = everything.shape
        self._from_all = np.zeros((n_samples, n_units))
        self._from_unit = np.zeros((n_units, n_samples, n_units))
        for n, name in enumerate(self.names):
            others = self._together[n] & (np.arange(n_units) != n)
            if not others.any():
                continue  # its part of the plant is its own model
            own = alone(name).filter({name: tail[name]}).unit_log_densities()[:, 0]
            self._from_all[:, n] = everything[:, n] - own
            withheld = plant.plant_.run(without_unit(record, n)).unit_log_densities()
            self._from_unit[n][:, others] = (everything - withheld)[:, others]

    def by_unit(self):
        """One row per unit."""
        pairs = self.by_pair()
        rows = []
        for m, name in enumerate(self.names):
            gain, stderr = mean_with_error(self._from_all[self._present[m], m])
            row = {"unit": name, "gain": gain, "stderr": stderr, "rows": int(self._present[m].sum())}
            found = pairs[(pairs["effect"] == name) & (pairs["gain"] > TUNING.benefit_significant * pairs["stderr"])]
            best = {"neighbour": "", "neighbour_gain": 0.0, "neighbour_stderr": 0.0}
            if len(found):
                top = found.loc[found["gain"].idxmax()]
                best = dict(zip(best, (top["cause"], top["gain"], top["stderr"]), strict=True))
            rows.append(row | best)
        return pd.DataFrame(rows).set_index("unit")

    def by_pair(self):
        """One row per ordered pair of units."""
        rows = []
        for m, n in permutations(range(len(self.names)), 2):
            gain, stderr = mean_with_error(self._from_unit[n][self._present[m], m])
            rows.append({"cause": self.names[n], "effect": self.names[m], "gain": gain, "stderr": stderr})
        return pd.DataFrame(rows, columns=["cause", "effect", "gain", "stderr"])
