"""Records with gaps, drawn anew with the information of their rows."""

from dataclasses import replace

import numpy as np


class GappyRecord:
    """Exact likelihoods of records drawn from one whose information changes with time.

    A block keeps its rows, the information matrices of each and its inputs, and becomes an episode of its
    own, started from the stationary distribution: what its first rows have from the row before is given up.
    Levels are taken off before.
    """

    def __init__(self, plant, point, blocks):
        self._plant, self._point, self._blocks = plant, point, blocks
        self._record = plant.standard_record.centred()

    def weighted(self, counts):
        """Likelihood of the blocks, each as many times as `counts` says."""
        drawn = [block for block, n in zip(self._blocks, counts, strict=True) for _ in range(int(n))]
        rows = np.concatenate([np.arange(block.start, block.stop) for block in drawn])
        lengths = [block.stop - block.start for block in drawn]
        parts = tuple(
            replace(
                part,
                z=part.z[rows],
                index=None if part.is_constant else part.index[rows],
                const=None,
            )
            for part in self._record.parts
        )
        starts = (0, *np.cumsum(lengths)[:-1].tolist())
        record = replace(self._record, parts=parts, starts=starts)
        return self._plant.time_domain(record, rows=rows, levels=False)

    def simulated(self, rng):
        """Likelihood of a record simulated from the plant, with the gaps and inputs of this one."""
        return self._plant.time_domain(self._plant.simulated(self._point, rng))
