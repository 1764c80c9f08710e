"""What a round of gradient training takes off the server's blocks, explicit or implicit in the constraint."""

import numpy as np

from ...statespace.training.lagrangian import block_divisor


class BlockSteps:
    """Steps of all block rows.

    Parameters
    ----------
    plant : Plant
    sizes : StepSizes
    S : ndarray of shape (n + k, n + k), default=None
        Second moments of all states and inputs; needed for rounds by the augmented Lagrangian.
    """

    def __init__(self, plant, sizes, S=None):
        self.sizes, self._free = sizes, plant.free
        self._rates = sizes.of_blocks(plant)
        self._warm_rates, self._divide = None, []
        if sizes.warm is not None:
            n = plant.states.n_states
            self._warm_rates = sizes.warm.of_blocks(plant)
            for m, (rows, columns) in enumerate(zip(plant.states.slices, plant.drivers, strict=True)):
                others = columns[columns < n]
                if len(others):
                    moments, rate = S[np.ix_(others, others)], sizes.warm.blocks[m, 0]
                    divide = block_divisor(moments, rate, sizes.xi, rows.stop - rows.start)
                    self._divide.append((np.ix_(np.arange(rows.start, rows.stop), others), divide))

    @property
    def xi(self):
        """Weight of the penalty, rho / 2 of the augmented Lagrangian."""
        return self.sizes.xi

    def is_warm(self, k):
        """Whether the augmented Lagrangian leads round k."""
        return k < self.sizes.warm_up

    def is_last_phase(self, k, max_iter):
        """Whether nothing but rounds of the same kind can follow round k."""
        return not self.is_warm(k) or self.sizes.warm_up >= max_iter

    def turn(self, k, slope, blocks):
        """What round k takes off the blocks, given the derivative of the server's objective in them."""
        rates = self._warm_rates if self.is_warm(k) else self._rates
        turn = rates * (slope + 2 * self.sizes.ridge * blocks)
        if self.is_warm(k):
            for place, divide in self._divide:
                turn[place] = divide(turn[place])
        return turn
