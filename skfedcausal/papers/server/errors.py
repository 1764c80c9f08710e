"""How sure the blocks that training ends at are: errors from stretches of the record, tests, intervals.

These are about the limit of training. That is the link only where no other unit and no level that moves acts on the
effect, the limit then being zero; the verdicts of the table therefore rest on held-out gains of the same states.
"""

from dataclasses import dataclass

import numpy as np
from scipy.stats import chi2, f

from ...server.estimation.evidence import PADDED_VARIANCE, BlockEstimates, holm
from ...server.links.grades import TOLD, are_gradable, grades, with_grades
from ...server.links.intervals import intervals_table
from ...statespace.partition import Partition
from ..numerics.errors import covariance

ALPHA, MARGIN = 0.05, 0.1  # of tests by default, as a LikelihoodServer has them
_MOST_ELEMENTS = 0.5  # of a block, as a share of the stretches its covariance is estimated from
_BIASED = (
    "other units or levels that move act on the effect: p_value, stderr and intervals are about what training ends at, "
    "which is not this link"
)
_SHORT = "what training ends at may be zero whatever the link, and rows are too few for held-out gains"


@dataclass(frozen=True)
class Spread:
    """What stretches of a record add to ``[A, B]``, (n_stretches, n, n + k), NaN in rows of units that do not tell."""

    of_blocks: np.ndarray

    @classmethod
    def of(cls, plant, told):
        """From the units' influences by name; None if no unit tells any."""
        told = {name: each for name, each in told.items() if each is not None}
        if not told:
            return None
        spread = np.full((len(next(iter(told.values()))), *plant.free.shape), np.nan)
        spread[:, ~plant.free] = 0.0
        for name, rows, columns in zip(plant.names, plant.states.slices, plant.drivers, strict=True):
            if name in told:
                shape = (len(spread), len(columns), rows.stop - rows.start)
                spread[:, rows, columns] = np.swapaxes(told[name].reshape(shape), 1, 2)
        return cls(spread)

    @property
    def stderr(self):
        """Standard error of every element of ``[A, B]``, (n, n + k), zero for the units' own ones."""
        n_stretches = len(self.of_blocks)
        return np.sqrt((self.of_blocks**2).sum(axis=0) * n_stretches / (n_stretches - 1))

    def estimates(self, learned, left, right, family):
        """Blocks of `learned` (n, n + k) in other units, ``left X right``, as :class:`Tested` of a family of pairs."""
        spread = np.pad((left @ self.of_blocks @ right).reshape(len(self.of_blocks), -1), [(0, 0), (0, 1)])
        own = spread[:, family.pair_elements]
        V, dof = covariance(own), family.pair_dof
        is_known = (np.diagonal(V, axis1=1, axis2=2) > 0).sum(axis=1) == dof
        is_known &= dof <= _MOST_ELEMENTS * len(spread)
        V[~is_known] = PADDED_VARIANCE * np.eye(V.shape[1])
        flat = np.append((left @ learned @ right).ravel(), 0.0)
        return Tested(BlockEstimates.padded(flat[family.pair_elements], V, family), is_known, len(spread))


@dataclass(frozen=True)
class Tested:
    """Estimates of blocks, of which pairs their covariance is known, and from how many stretches."""

    blocks: BlockEstimates
    is_known: np.ndarray
    n_stretches: int

    @property
    def columns(self):
        """Columns of a table of links: Hotelling's test of every block, adjusted by Holm's rule."""
        blocks, known = self.blocks, self.is_known
        left = np.maximum(self.n_stretches - blocks.dof, 1)
        p_value = f.sf(blocks.statistic * left / (blocks.dof * (self.n_stretches - 1)), blocks.dof, left)
        p_value = np.where(known, p_value, 1.0)
        p_adjusted = np.ones(len(known))
        p_adjusted[known] = holm(p_value[known])
        return {
            "stderr": np.where(known, blocks.stderr, np.inf),
            "statistic": np.where(known, blocks.statistic, 0.0),
            "p_value": p_value,
            "p_adjusted": p_adjusted,
        }

    def widened(self):
        """The blocks with covariances with which chi-squared gives the ends that Hotelling's statistic does."""
        dof, left = self.blocks.dof, np.maximum(self.n_stretches - self.blocks.dof, 1)
        hotelling = (self.n_stretches - 1) * dof / left * f.isf(ALPHA, dof, left)
        wider = self.blocks.covariance * (hotelling / chi2.isf(ALPHA, dof))[:, None, None]
        return BlockEstimates(self.blocks.estimate, wider, dof)

    def intervals(self, names, pairs, n_rows, confidence):
        """The table of intervals of the strengths of all pairs."""
        levels = {"confidence": confidence, "alpha": ALPHA, "margin": MARGIN}
        return intervals_table(names, pairs, self.widened(), n_rows, **levels)


def families(plant):
    """Pairs of units by kind of link."""
    partition = Partition(plant.states.sizes, [model.n_inputs for model in plant.models])
    return {"state": partition} | ({"input": partition.input_pairs} if plant.n_inputs else {})


def tested(table, tests, plant):
    """A table of untested links with tests by kind, and verdicts by held-out gains of the states that were relayed."""
    for kind, test in tests.items():
        rows = table.index[table["kind"] == kind][test.is_known]
        for name, values in test.columns.items():
            table.loc[rows, name] = values[test.is_known]
        table.loc[rows, "because"] = _SHORT
    n, slices, found = plant.states.n_states, plant.states.slices, None
    if are_gradable(slices, plant.n_samples):
        known = plant.relayed[:, n:] if plant.n_inputs else None
        found = grades(plant.relayed[:, :n], slices, plant.starts, known)
    table = with_grades(table, found, plant.names)
    is_told = table["verdict"].isin(TOLD) | (table["p_adjusted"] <= ALPHA)
    moved = table["effect"].isin(table.loc[is_told, "effect"]) & np.isfinite(table["stderr"])
    reasons = table["because"].where(table["because"] != _SHORT, "")
    table.loc[moved, "because"] = (reasons + "; ").where(reasons != "", "")[moved] + _BIASED
    return table
