"""Covariances of block estimates that hold for the record at hand, in states of unit variance.

The estimate moves by ``I^-1 g`` with the gradient g of the log-likelihood. Gaussian noise of constant
variance makes the covariance of g the information I itself, so that the estimate's is ``I^-1``. Otherwise it
is ``I^-1 M I^-1``, the *sandwich*, with M estimated from what each time step contributes to g: their outer
products where they are uncorrelated [1]_, with Bartlett weights over lags where they are not [2]_.

The expected information of the search takes a gap for a thinner measurement of all rows. That is right for
cells that are missing at random and wrong for clocks: units that report in every third and in every seventh
row meet in one row of 21, and what they tell of each other hangs on that. There the information is the
covariance of the gradient [3]_ of records that are simulated from the fitted plant and seen through the very
information matrices of the record. It holds for any pattern; its own relative error is ``sqrt(8 / rows)`` or
so.

The variance of a unit's states over a record is that of its scores less their noise. In a complete record
that is as good as anything. Where measurements are missing scores differ in noise from row to row, rows
without enough sensors have none, and their plain mean is a poor estimate: it would add a tenth and more to
the scatter of a strength, which its standard error does not know of. There the variance is what the fitted
plant makes of all measurements: the mean square of the smoothed states plus their covariance, the
expectation of EM [4]_.

References
----------
.. [1] White (1982), Maximum likelihood estimation of misspecified models, Econometrica 50(1).
.. [2] Newey, West (1987), A simple, positive semi-definite, heteroskedasticity and autocorrelation
       consistent covariance matrix, Econometrica 55(3).
.. [3] Spall (2005), Monte Carlo computation of the Fisher information matrix in nonstandard settings, Journal
       of Computational and Graphical Statistics 14(4).
.. [4] Shumway, Stoffer (1982), An approach to time series smoothing and forecasting using the EM algorithm,
       Journal of Time Series Analysis 3(4).
"""

from itertools import chain

import numpy as np
from scipy import stats
from scipy.linalg import cho_solve

from ...statespace.matrices import symmetric_root
from .evidence import BlockEstimates, grouped_columns, inverse_of, link_estimates
from .scoring import positive_factor
from .tuning import TUNING

COVARIANCES = ("information", "sandwich", "hac")
_ROWS = 20_000  # that are simulated at least


def assessed_blocks(plant, scoring, blocks, covariance):
    """Estimates by kind with the covariances asked for, in states of unit variance, and where these are from.

    The source is None where the information of `scoring` holds.
    """
    source: Sandwich | ExactInformation | None = None
    if covariance != "information":
        n_lags = lags_of(covariance, plant.n_samples)
        source = Sandwich(scoring, plant.contributions(scoring.point), blocks, n_lags)
    elif not plant.has_all_lags and (n_records := simulated_records(plant, scoring)):
        source = ExactInformation(scoring, plant, blocks, n_records)
    if source is not None:
        blocks = {kind: source.blocks(kind, each) for kind, each in blocks.items()}
    roots = unit_state_roots(plant, scoring.point)
    turned = {}
    for kind, each in blocks.items():
        family, _ = scoring.structure.family(kind)
        turned[kind] = in_unit_states(each, family, roots, causes=kind == "state")
    return turned, source


def estimated_links(plant, scoring, covariance):
    """Estimates of the links at a maximum, with the covariances asked for, in states of unit variance."""
    return assessed_blocks(plant, scoring, {"state": link_estimates(scoring)}, covariance)[0]["state"]


def lags_of(covariance, n_samples):
    """Lags over which contributions may be correlated; for "hac" the rule of Newey and West (1994)."""
    return int(4 * (n_samples / 100) ** (2 / 9)) if covariance == "hac" else 0


class ScoreProducts:
    """Sums of products of the gradients of time steps: with one another, of free elements and of blocks.

    `blocks` are estimates by kind; with `weighed` also sums of squared lengths of the gradients of blocks in
    the metric of their covariances, and of the squares of these.
    """

    def __init__(self, structure, contributions, blocks, n_lags=0, weighed=False):
        free = structure.free
        self.inside = np.zeros((free.n_elements, free.n_elements))
        self.mixed = np.zeros((structure.partition.n_elements + 1, free.n_elements))
        elements = {kind: structure.family(kind)[0].pair_elements for kind in blocks}
        self.own = {kind: np.zeros((*at.shape, at.shape[1])) for kind, at in elements.items()}
        self.sizes = {kind: np.zeros((len(at), 2)) for kind, at in elements.items()}
        for grad_A, grad_Q in _summed(contributions, n_lags):
            flat = np.pad(grad_A.reshape(len(grad_A), -1), [(0, 0), (0, 1)])
            covariance = 2 * free.half_on_diagonal * grad_Q[:, free.first, free.second]
            inside = np.hstack([grad_A[:, free.rows, free.cols], covariance])
            self.inside += inside.T @ inside
            self.mixed += flat.T @ inside
            for kind, at in elements.items():
                own = np.moveaxis(flat[:, at], 1, 0)  # (pairs, rows, e)
                self.own[kind] += np.swapaxes(own, 1, 2) @ own
                if weighed:
                    squared = np.einsum("pti,pti->pt", own @ blocks[kind].covariance, own)
                    self.sizes[kind] += np.column_stack([squared.sum(axis=1), (squared**2).sum(axis=1)])


class Sandwich:
    """Covariance of the gradient from the contributions of time steps, and what follows for estimates.

    The middle of the sandwich is a sum of few large squares where noise comes in bursts. Like the covariance
    of so many normal vectors as have squares as uneven (:func:`effective_rows`), it makes the statistic
    Hotelling's instead of chi-squared. Covariances of blocks are larger by the ratio of these two's quantiles
    at the level of a family-wise verdict.
    """

    def __init__(self, scoring, contributions, blocks, n_lags=0):
        self._scoring, self._n_lags = scoring, n_lags
        self._products = ScoreProducts(scoring.structure, contributions, blocks, n_lags, weighed=True)

    def covariance(self, scoring=None):
        """Covariance of the free elements."""
        scoring = self._scoring if scoring is None else scoring
        both = scoring.solved(scoring.solved(self._products.inside).T)
        return (both + both.T) / (2 * scoring.n_samples**2)

    def blocks(self, kind, blocks):
        """The same estimates of a kind of blocks with their covariances by the sandwich."""
        scoring, products = self._scoring, self._products
        family, inside = scoring.structure.family(kind)
        elements = family.pair_elements
        covariance = blocks.covariance.copy()
        if inside.any():
            position = scoring.structure.free.positions(scoring.point.A.shape)[0][elements[inside]]
            covariance[inside] = self.covariance()[position[:, :, None], position[:, None, :]]
        for pairs, half in grouped_columns(scoring, family, np.flatnonzero(~inside), "transition"):
            weights = scoring.solved(half).T
            weights = weights.reshape(*elements[pairs].shape, -1)  # (pairs, e, free)
            crossed = products.mixed[elements[pairs]] @ np.swapaxes(weights, 1, 2)
            meat = products.own[kind][pairs] - crossed - np.swapaxes(crossed, 1, 2)
            meat += weights @ products.inside @ np.swapaxes(weights, 1, 2)
            model = blocks.covariance[pairs]
            covariance[pairs] = model @ meat @ model
        scoring.forget()
        rows = effective_rows(products.sizes[kind], family.pair_dof, self._n_lags)
        covariance *= _hotelling(rows, family.pair_dof, TUNING.covariance_level / max(len(rows), 1))[:, None, None]
        covariance = (covariance + np.swapaxes(covariance, 1, 2)) / 2
        return BlockEstimates.padded(blocks.estimate.copy(), covariance, family)


def effective_rows(sizes, dof, n_lags=0):
    """Number of normal vectors whose squared lengths q are as uneven: ``(d + 2) / d (sum q)^2 / sum q^2``.

    Sums over lags leave fewer of them.
    """
    rows = (dof + 2) / dof * sizes[:, 0] ** 2 / np.maximum(sizes[:, 1], np.finfo(float).tiny)
    return rows * min(1.5 / (n_lags + 1), 1.0)


def _hotelling(rows, dof, level):
    """Quantile of Hotelling's statistic over that of chi-squared."""
    left = np.maximum(rows - dof + 1, 1.0)
    hotelling = rows * dof / left * stats.f.isf(level, dof, left)
    return hotelling / stats.chi2.isf(level, dof)


def _summed(contributions, n_lags):
    """Contributions so weighted that their outer products have Bartlett's weights at lags up to `n_lags`.

    Outer products of sums over `n_lags` + 1 consecutive rows, divided by that number, hold those of rows l
    apart ``1 - l / (n_lags + 1)`` times.
    """
    width = n_lags + 1
    tail = None
    for part in contributions:
        whole = [part.grad_A, part.grad_Q]
        if n_lags:
            before = [np.zeros((n_lags, *x.shape[1:])) for x in whole] if tail is None else tail
            whole = [np.concatenate(two) for two in zip(before, whole, strict=True)]
            tail = [x[-n_lags:] for x in whole]
            whole = [_moving_sums(x, width) for x in whole]
        yield [x / np.sqrt(width) for x in whole]
    if tail is not None:
        ends = [np.concatenate([x, np.zeros_like(x)]) for x in tail]
        yield [_moving_sums(x, width) / np.sqrt(width) for x in ends]


def _moving_sums(x, width):
    sums = np.cumsum(x, axis=0)
    sums[width:] -= sums[:-width].copy()
    return sums[width - 1 :]


class ExactInformation:
    """Information of the free elements and of every block from simulated records.

    Sums are of products of the gradients of time steps, which are martingale differences.
    """

    def __init__(self, scoring, plant, blocks, n_records):
        rng, point = np.random.default_rng(TUNING.covariance_seed), scoring.point
        drawn = (plant.contributions(point, plant.simulated(point, rng)) for _ in range(n_records))
        self._scoring, self._steps = scoring, n_records * plant.n_samples
        self._products = ScoreProducts(scoring.structure, chain.from_iterable(drawn), blocks)
        inside = self._products.inside / self._steps
        scoring.add_prior(inside)
        self._factor = positive_factor(inside)

    def covariance(self, curvature=None):
        """Covariance of the maximum-likelihood estimate of the free elements."""
        if curvature is not None and curvature is not self._scoring:
            return curvature.covariance
        eye = np.eye(len(self._factor[0]))
        return cho_solve(self._factor, eye, check_finite=False) / self._scoring.n_samples

    def blocks(self, kind, blocks):
        """Estimates of a kind of blocks: Wald's in the model, the efficient score's outside."""
        scoring, own = self._scoring, self._products.own[kind] / self._steps
        family, inside = scoring.structure.family(kind)
        estimate, covariance = blocks.estimate.copy(), blocks.covariance.copy()
        gradient, mixed = scoring.point.evaluation.grad_A.ravel(), self._products.mixed / self._steps
        positions, _ = scoring.structure.free.positions(scoring.point.A.shape)
        of_free = self.covariance()
        for pair, at in enumerate(family.pair_elements):
            real = np.flatnonzero(at < family.n_elements)
            at, place = at[real], (pair, real[:, None], real)
            if inside[pair]:
                covariance[place] = of_free[np.ix_(positions[at], positions[at])]
                continue
            weights = cho_solve(self._factor, mixed[at].T, check_finite=False).T
            rest = own[pair][np.ix_(real, real)] - weights @ mixed[at].T
            inverse, known = inverse_of((rest + rest.T) / 2)
            estimate[pair, real] = known @ (gradient[at] - weights @ scoring.gradient)
            covariance[place] = inverse / scoring.n_samples
        return BlockEstimates(estimate, covariance, blocks.dof)


def simulated_records(plant, scoring):
    """How many records are simulated for the information; none if those that can be afforded are too few for it."""
    wanted, n_free = int(np.ceil(_ROWS / plant.n_samples)), scoring.structure.free.n_elements
    if plant.budget is None:
        return wanted
    long = max(plant.steps_remembered(scoring.point) / TUNING.covariance_usual_memory, 1.0)
    work = TUNING.covariance_row_work + 16 * long * scoring.structure.partition.n_states**3 + 0.15 * n_free**2
    number = plant.budget.times(plant.n_samples * work, wanted)
    return number if number == wanted or number * plant.n_samples > 4 * n_free else 0


def unit_state_roots(plant, point):
    """Roots of the covariance that the states of every unit have over the record, in standardised states.

    The blocks ``R_effect^-1 A R_cause`` are then those of states of unit variance. None for complete records.
    """
    if plant.has_constant_information or plant.scores_suffice:
        return None
    covariances = plant.state_covariances(point)
    # a model that was given says itself what unit variance is
    return [
        symmetric_root(covariance) if determined else np.eye(len(covariance))
        for covariance, determined in zip(covariances, plant.determined, strict=True)
    ]


def in_unit_states(blocks, family, roots, causes=True):
    """The same estimates in states of unit variance; `causes` tells links between states from inputs."""
    if roots is None or not len(family.pairs):
        return blocks
    turn = unit_state_turns(family, roots, causes)
    estimate = np.einsum("xij,xj->xi", turn, blocks.estimate)
    covariance = turn @ blocks.covariance @ np.swapaxes(turn, 1, 2)
    return BlockEstimates.padded(estimate, covariance, family)


def unit_state_turns(family, roots, causes=True):
    """Matrices that turn the elements of each block into those in states of unit variance."""
    e, p = family.pair_elements.shape[1], max(len(root) for root in roots)
    padded = np.tile(np.eye(p), (len(roots), 1, 1))
    for whole, root in zip(padded, roots, strict=True):
        whole[: len(root), : len(root)] = root
    effect, cause = family.pairs.T
    left = np.linalg.inv(padded)[effect]
    width = p if causes else e // p
    right = padded[cause] if causes else np.broadcast_to(np.eye(width), (len(cause), width, width))
    return np.einsum("xij,xlk->xikjl", left, right).reshape(len(cause), e, e)
