"""Information of records in which units report in different rows, from simulated ones.

The expected information of the search takes a gap for a thinner measurement of all rows. That is right for
cells that are missing at random and wrong for clocks: units that report in every third and in every seventh
row meet in one row of 21, and what they tell of each other hangs on that. The information is the covariance
of the gradient [1]_, so it is taken from records that are simulated from the fitted plant and seen through
the very information matrices of the record: sums of products of the gradients of their time steps, which
are martingale differences. It holds for any pattern; its own relative error is ``sqrt(8 / rows)`` or so.

References
----------
.. [1] Spall (2005), Monte Carlo computation of the Fisher information matrix in nonstandard settings, Journal
       of Computational and Graphical Statistics 14(4).
"""

from itertools import chain

import numpy as np
from scipy.linalg import cho_solve

from .evidence import BlockEstimates
from .sandwich import ScoreProducts
from .scoring import positive_factor

_ROWS = 20_000  # that are simulated at least
_SEED = 0  # an integral over records has one value: the same at every call


class ExactInformation:
    """Information of the free elements and of every block, and what follows for estimates."""

    def __init__(self, scoring, plant, families):
        rng, point, structure = np.random.default_rng(_SEED), scoring.point, scoring.structure
        n_records = int(np.ceil(_ROWS / plant.n_samples))
        drawn = (plant.contributions(point, plant.simulated(point, rng)) for _ in range(n_records))
        products = ScoreProducts(structure, chain.from_iterable(drawn), families)
        steps = n_records * plant.n_samples
        self._scoring, self._families = scoring, families
        inside = products.inside / steps
        scoring.add_prior(inside)
        self._factor = positive_factor(inside)
        self._mixed = products.mixed / steps
        self._own = [own / steps for own in products.own]

    def covariance(self, curvature=None):
        """Covariance of the maximum-likelihood estimate of the free elements."""
        if curvature is not None and curvature is not self._scoring:
            return curvature.covariance
        eye = np.eye(len(self._factor[0]))
        return cho_solve(self._factor, eye, check_finite=False) / self._scoring.n_samples

    def blocks(self, family, inside, blocks):
        """Estimates of a family of blocks: Wald's in the model, the efficient score's outside."""
        scoring, all_own = self._scoring, self._own[self._families.index(family)]
        estimate, covariance = blocks.estimate.copy(), blocks.covariance.copy()
        gradient = scoring.point.evaluation.grad_A.ravel()
        of_free = self.covariance()
        for pair, at in enumerate(family.pair_elements):
            real = at < family.n_elements
            at, place = at[real], np.ix_([pair], np.flatnonzero(real), np.flatnonzero(real))
            if inside[pair]:
                position = scoring.structure.transition_positions[at]
                covariance[place] = of_free[np.ix_(position, position)]
                continue
            weights = cho_solve(self._factor, self._mixed[at].T, check_finite=False).T
            rest = all_own[pair][np.ix_(real, real)] - weights @ self._mixed[at].T
            inverse = np.linalg.inv((rest + rest.T) / 2)
            estimate[pair, real] = inverse @ (gradient[at] - weights @ scoring.gradient)
            covariance[place] = inverse / scoring.n_samples
        return BlockEstimates(estimate, covariance, blocks.dof)
