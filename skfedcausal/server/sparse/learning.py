"""A large plant learned block by block: screening of all pairs, then a search for links that refits what changed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse import csr_array
from scipy.special import chdtrc

from ...parallel import run, started
from ...statespace.matrices import positions_of
from ..estimation.estimate import is_degenerate, is_singular
from ..estimation.evidence import PADDED_VARIANCE, benjamini_hochberg
from ..estimation.scoring import Budget, Point
from .blocks import BlockTask, LargePlant, fitted_block, measured_block
from .filter import are_stable_alone, assembled, cores, n_fillings, neighbours, stable, stationary_gain, with_halo
from .screening import (
    PairRows,
    capped,
    given_others,
    p_values,
    padded_spectra,
    pairs_of,
    products,
    regressors,
    screened,
    significant_of,
    statistics,
    tested,
    tested_inputs,
    work_of_tests,
)
from .tuning import TUNING

_FAST = 3.0  # times that operations of large products are faster than those of many small ones
_SETTLED = 0.002  # share of the links that a search which has settled may still be changing


class AsAWhole(Exception):
    """A plant that turns out to be learned as a whole, and what it has that asks for it, in words."""


class PairTests(NamedTuple):
    """Tests of some pairs (effect, cause), the others having the p-values of the plant without links."""

    pairs: np.ndarray
    estimate: np.ndarray
    covariance: np.ndarray
    p_value: np.ndarray


class LargeEstimate(NamedTuple):
    """A learned large plant, in standardised states."""

    plant: LargePlant
    A: Any  # sparse
    Q: Any
    linked: np.ndarray  # (n_units, n_units), effect by cause
    correlated: np.ndarray
    noise_tests: dict
    tests: PairTests
    p_value: np.ndarray  # of all pairs
    fits: list
    measured: Callable  # that waits for the `BlockMeasures` of the blocks
    members: list
    cores: list
    has_prior: bool
    settled: bool
    was_stopped: bool
    B: np.ndarray  # (n, n_inputs)
    driven: np.ndarray  # (n_units, n_units)
    input_tests: PairTests | None  # of inputs and units of others, None where there are none
    input_p_value: np.ndarray  # of all inputs and units of others


def block_work(n, n_lags):
    """Operations of the fit of a block of n states, about."""
    return TUNING.learning_evaluations * 6 * n_lags * n**3


def estimate_large(plant, settings, parallel=None, budget=None, input_p_value=None):
    """Learn a large plant, a `LargeEstimate`; `AsAWhole` for one that cannot be learned in blocks.

    `input_p_value` is what units on their own say of inputs of others, (n_units, n_units).
    """
    return _Search(plant, settings, parallel, budget, input_p_value).run()


def tests_given(plant, settings, linked, correlated):
    """Tests of all pairs at the plant with these links (n_units, n_units) and correlations: no search."""
    search = _Search(plant, settings, None, None)
    search.screen = screened(plant)
    search.linked, search.correlated = linked, correlated
    search.has_prior = bool(correlated.any()) or _is_degenerate(plant)
    search.group()
    search.fit(plant.n_samples * settings.tol**2)
    return search.tests()


class _Search:
    """The search for links of a large plant and what it has found so far."""

    def __init__(self, plant, settings, parallel, budget, input_p_value=None):
        self.plant, self.settings, self.alpha = plant, settings, settings.alpha
        self.parallel = parallel
        self.budget = Budget(np.inf) if budget is None else budget
        m = plant.partition.n_units
        self.linked, self.correlated = np.zeros((2, m, m), dtype=bool)
        self.left = np.zeros((m, m), dtype=bool)  # what was dropped once, which does not come back
        self.strength = np.zeros((m, m))
        self.A, self.Q = (plant.sparse(x).tolil() for x in (plant.A, plant.Q))
        self.filled_with = np.zeros((m, m), dtype=bool)  # links of the plant that filled the gaps of the record
        self.filled_by = np.diag(np.asarray(plant.partition.input_sizes) > 0)  # inputs of others as well
        self.known: dict = {}  # fitted blocks by what they are of
        self.pushes = np.empty_like(plant.series)  # of the cores of all of them
        self.sums: dict = {}  # of products of the series of blocks at all lags, by their units
        self.cores: list = []
        self.members: list = []  # units of every block, core first
        self.noise_tests: dict = {}
        self.driven, self.B = plant.driven, plant.B
        self.pairs, self.input_pairs = plant.partition.pairs, pairs_of(plant.partition)
        self.input_p_value = np.ones((m, m)) if input_p_value is None else input_p_value.copy()
        self.promising_inputs = self.input_p_value <= TUNING.learning_promising
        if m <= ALL_PAIRS or input_p_value is None:
            self.promising_inputs[:] = True
        self.not_driven = np.zeros((m, m), dtype=bool)  # what was dropped once

    def run(self):
        """The whole search."""
        self.screen = screen = screened(self.plant, parallel=self.parallel)
        self.p_value = screen.p_value.copy()
        self.linked = capped(screen.p_value, significant_of(screen.p_value, self.pairs, self.alpha))
        half = np.tril_indices(len(self.linked), -1)
        found = np.zeros_like(self.linked)
        found[half] = benjamini_hochberg(screen.noise_p_value[half], self.alpha)
        self.correlated = found | found.T
        self.has_prior = bool(self.correlated.any()) or _is_degenerate(self.plant)
        self.group()
        if self._is_one_block():
            raise AsAWhole("links between nearly all of them")
        for _ in range(n_fillings(self.plant.gapped)):
            self._search_links()
            if self.budget.is_spent:
                break
            if not are_stable_alone(self.A, self.plant.partition):
                raise AsAWhole("gaps and units that are stable by others alone")
            self._fill()
        return self._climbed()

    def _is_one_block(self):
        """Whether so much is linked that blocks are as much work as a plant that can be learned as a whole."""
        n_states = np.array([len(self._states(members)) for members in self.members])
        whole = self.plant.partition.n_states
        return len(self.linked) <= ALL_PAIRS and np.sum(n_states.astype(float) ** 3) >= whole**3

    def _climbed(self):
        ended = self._search_links()
        self.has_prior |= self._is_singular()
        self.known, self.members = {}, []
        self.group()
        self.fit(self.plant.n_samples * self.settings.tol**2, with_elements=self.plant.partition.n_inputs > 0)
        measured = self._started_measures()
        return self._estimate(self.tests(), measured, *ended)

    def _search_links(self):
        """Add and drop links until next to nothing changes; whether that was reached, and whether time ended it."""
        with_far = True
        for _ in range(TUNING.learning_max_rounds):
            self.fit(TUNING.learning_near_gain)
            proposed = self._proposal(self.tests(with_far))
            if not with_far and self._is_near(*proposed):  # neighbours have settled: what of the others?
                with_far = True
                proposed = self._proposal(self.tests(with_far))
            if self._is_near(*proposed):
                return True, False
            if self.budget.is_spent:
                return False, True
            self.left |= self.linked & ~proposed[0]
            self.not_driven |= self.driven & ~proposed[2]
            (self.linked, self.correlated, self.driven), with_far = proposed, False
            self.group()
        return False, False

    def _fill(self):
        """Fill the gaps of the record anew, by the plant so far."""
        A, Q = stable(csr_array(self.A), self.plant.partition)[0], csr_array(self.Q)
        between = self.linked, self.correlated, np.square(self.strength)
        self.plant.fill(stationary_gain(self.plant, A, Q, self.cores, *between), self.B)
        self.known, self.sums, self.left = {}, {}, np.zeros_like(self.left)
        self.filled_with, self.filled_by = self.linked.copy(), self.driven.copy()

    def _is_near(self, linked, correlated, driven):
        """Whether a proposal changes next to nothing."""
        pairs = (linked, self.linked), (correlated, self.correlated), (driven, self.driven)
        n_changes = sum(np.count_nonzero(proposed != now) for proposed, now in pairs)
        return n_changes <= _SETTLED * np.count_nonzero(self.linked)

    def _is_singular(self):
        Q = self.Q.toarray()
        return any(is_singular(Q[own, own]) for own in self.plant.partition.slices)

    # -- blocks ----------------------------------------------------------------------------------

    def group(self):
        """Cores of units, found once, and around each the units that what is linked now asks for."""
        links, pairs = np.argwhere(self.linked), np.argwhere(np.tril(self.correlated))
        near = neighbours(len(self.linked), links, self.strength[tuple(links.T)], pairs)
        # what was dropped stays in the block, whose tests of it are exact
        there = self.linked | self.correlated | self.left | self.driven | self.not_driven
        np.fill_diagonal(there, False)
        causes = [np.flatnonzero(row).tolist() for row in there]
        self.cores = self.cores or cores(near)
        before = self.members or [[]] * len(self.cores)
        self.members = [
            members if _holds(members, core, causes) else with_halo(core, near, causes)
            for core, members in zip(self.cores, before, strict=True)
        ]

    def _started_measures(self):
        """A function that waits for what is measured of the blocks."""
        tasks = [
            (self._columns(members), replace(self._task(k, 0.0), A=fit.A, Q=fit.Q))
            for k, (members, fit) in enumerate(zip(self.members, self.fits, strict=True))
        ]
        return started(measured_block, tasks, self.parallel, (self.plant.regressors,))

    def fit(self, gain_tol, with_elements=False):
        """Fit the blocks that changed, and take over their rows."""
        self._dense = np.hstack([self.A.toarray(), self.B]), self.Q.toarray()
        keys = [self._block_key(core, members) for core, members in zip(self.cores, self.members, strict=True)]
        new = [k for k, key in enumerate(keys) if key not in self.known]
        tasks = ((self._columns(self.members[k]), self._task(k, gain_tol, with_elements)) for k in new)
        fits = run(fitted_block, tasks, self.parallel, (self.plant.regressors,))
        for k, fit in zip(new, fits, strict=True):
            steep = max(1.0, 2 * fit.n_iter / TUNING.learning_evaluations)  # two evaluations an iteration, about
            self.budget.spend(steep * block_work(len(self._states(self.members[k])), self.plant.n_lags))
            if fit.sums is not None:
                self.sums[tuple(self.members[k])] = fit.sums
            self.pushes[:, self._states(self.cores[k])] = fit.pushes
            self.known[keys[k]] = replace(fit, sums=None, pushes=None)
        self.sums = {units: self.sums[units] for units in map(tuple, self.members)}
        self.known = {key: self.known[key] for key in keys}
        self.fits = [self.known[key] for key in keys]
        self._take_over()

    def _block_key(self, core, members):
        """What a block is fitted anew for: other units, or others that act on its core."""
        at = np.ix_(core, members)
        return tuple(members), *(each[at].tobytes() for each in (self.linked, self.correlated, self.driven))

    def _task(self, k, gain_tol, with_elements=False):
        plant, members, core = self.plant, self.members[k], self.cores[k]
        known = self.sums.get(tuple(members))
        states, at = self._states(members), np.ix_(members, members)
        A, Q = self._dense
        A, Q = A[np.ix_(states, self._columns(members))], Q[np.ix_(states, states)]
        noise, own_A, own_Q = (block_diag(*(each[m] for m in members)) for each in (plant.noise, plant.A, plant.Q))
        alone = np.hstack([own_A, plant.B[np.ix_(states, self._inputs(members))]])
        return BlockTask(
            None,
            plant.starts,
            noise,
            tuple(len(plant.A[m]) for m in members),
            len(core),
            A,
            Q,
            (alone, own_Q),
            self.linked[at],
            self.correlated[at],
            plant.n_lags,
            plant.n_frequencies,
            self.has_prior,
            gain_tol,
            self.settings.max_iter,
            known,
            tuple(plant.partition.input_sizes[m] for m in members),
            self.driven[at] if plant.partition.n_inputs else None,
            with_elements,
        )

    def _states(self, units):
        return positions_of(units, self.plant.partition.slices)

    def _inputs(self, units):
        """Positions of the inputs of units, one unit after the other."""
        return positions_of(units, self.plant.partition.input_slices)

    def _columns(self, units):
        """Columns of units' states, then of their inputs, among the regressors of the plant."""
        return np.concatenate([self._states(units), self.plant.partition.n_states + self._inputs(units)])

    def _take_over(self):
        """The plant with the rows of the cores of all blocks."""
        n, parts = self.plant.partition.n_states, []
        self.B, self._known_products = np.zeros_like(self.plant.B), None
        spectra = [None] * len(self.linked)
        for core, members, fit in zip(self.cores, self.members, self.fits, strict=True):
            rows, cols = self._states(core), self._states(members)
            A, Q = fit.A[: len(rows)], fit.Q[: len(rows)]
            parts.append((rows, cols, A[:, : len(cols)], Q))
            self.B[np.ix_(rows, self._inputs(members))] = A[:, len(cols) :]
            for k, unit in enumerate(core):
                spectra[unit] = tuple(each[k : k + 1] for each in fit.spectra)
        self.A = assembled([(rows, cols, A) for rows, cols, A, _ in parts], n)
        Q = assembled([(rows, cols, Q) for rows, cols, _, Q in parts], n)
        self.Q = (Q + Q.T) / 2
        self.spectra = padded_spectra(spectra, self.plant.partition)

    # -- tests -----------------------------------------------------------------------------------

    def tests(self, with_far=True):
        """Tests of all pairs that may be links, given the plant so far; of those within blocks or of all."""
        plant, partition = self.plant, self.plant.partition
        inside, parts = np.zeros_like(self.linked), []
        for members, fit in zip(self.members, self.fits, strict=True):
            at = np.asarray(members)[fit.pairs]
            inside[at[:, 0], at[:, 1]] = True
            sizes = [max(partition.sizes[m] for m in members)] * 2
            parts.append((at, *_padded(fit.estimate, fit.covariance, sizes, [partition.padded.shape[1]] * 2)))
            for (a, b), statistic, p in zip(
                np.asarray(members)[fit.noise_pairs].reshape(-1, 2), fit.noise_statistic, fit.noise_p_value, strict=True
            ):
                self.noise_tests[int(a), int(b)] = float(statistic), float(p)
        self.input_tests = self._tested_inputs(with_far)
        far = self._far_pairs(inside)[: None if with_far else 0]
        if len(far):
            parts.append((far, *self._tested_far(far)))
        pairs, estimate, covariance = (np.concatenate(each) for each in zip(*parts, strict=True))
        if plant.there is not None:
            there, known = plant.there[pairs].prod(axis=1), self.filled_with[tuple(pairs.T)]
            estimate, covariance = _of_gaps(there, known, estimate, covariance)
        self._known_products = None
        dof = np.asarray(partition.sizes)[pairs].prod(axis=1)
        return PairTests(pairs, estimate, covariance, chdtrc(dof, statistics(estimate, covariance)))

    def _far_pairs(self, inside):
        """Pairs outside of the blocks that are looked at again, by effect."""
        promising = (self.screen.p_value <= TUNING.learning_promising) & ~inside
        if len(promising) <= ALL_PAIRS:
            promising = ~inside
        np.fill_diagonal(promising, False)
        return np.argwhere(promising)

    def _tested_far(self, far):
        """Estimates and covariances of pairs of units that are no near neighbours."""
        partition, found = self.plant.partition, self._found()
        rows = PairRows.of(far, found, partition)
        estimate, covariance, _ = tested(far, self.spectra, rows, partition.sizes, self.plant.n_samples)
        return given_others(estimate, covariance, found.states, far, self._regressors(), partition)

    def _found(self):
        """`Products` at the plant so far, formed once."""
        if self._known_products is None:
            plant, n = self.plant, self.plant.partition.n_states
            self.budget.spend(plant.n_samples * n * plant.regressors.shape[1] / _FAST)
            where = csr_array(self.A), plant.sparse(plant.noise), plant.starts, plant.n_transitions
            self._known_products = products(
                self.pushes, plant.series, *where, parallel=self.parallel, known=plant.known, with_states=True
            )
        return self._known_products

    def _regressors(self):
        own = np.eye(len(self.linked), dtype=bool)
        return regressors(self.linked | own, self.driven, self.plant.partition)

    def _tested_inputs(self, with_far):
        """Tests of inputs of units in the blocks of others, or of all that may act; None where there are none."""
        if not len(self.input_pairs):
            return None
        inside, parts = np.zeros_like(self.linked), []
        partition = self.plant.partition
        p, q = partition.padded.shape[1], max(partition.input_sizes)
        for members, fit in zip(self.members, self.fits, strict=True):
            if fit.inputs is not None:
                at = np.asarray(members)[fit.inputs.pairs]
                inside[tuple(at.T)] = True
                sizes = [max(each[m] for m in members) for each in (partition.sizes, partition.input_sizes)]
                parts.append((at, *_padded(fit.inputs.estimate, fit.inputs.covariance, sizes, (p, q))))
        far = self.input_pairs[(self.promising_inputs & ~inside)[tuple(self.input_pairs.T)]]
        if with_far and len(far):
            self.budget.spend(work_of_tests(len(far), partition, self.plant.n_frequencies) / _FAST)
            estimates = tested_inputs(far, self.spectra.U, self._found(), self._regressors(), self.plant)
            parts.append((far, *estimates))
        if not parts:
            return None
        pairs, estimate, covariance = (np.concatenate(each) for each in zip(*parts, strict=True))
        if self.plant.there is not None:  # inputs have no gaps
            there, known = self.plant.there[pairs[:, 0]], self.filled_by[tuple(pairs.T)]
            estimate, covariance = _of_gaps(there, known, estimate, covariance)
        p_value = p_values(pairs, estimate, covariance, partition)
        self.input_p_value[tuple(pairs.T)] = p_value
        return PairTests(pairs, estimate, covariance, p_value)

    # -- structure -------------------------------------------------------------------------------

    def _proposal(self, tests):
        """Links, correlations and inputs of others that the tests suggest."""
        effect, cause = tests.pairs.T
        p_value = self.p_value
        p_value[effect, cause] = tests.p_value
        self.strength[effect, cause] = np.linalg.norm(tests.estimate, axis=1)
        significant = significant_of(p_value, self.pairs, self.alpha)
        linked = self.linked & significant | capped(p_value, significant & ~self.linked & ~self.left)
        correlated = self.correlated.copy()
        for a, b in np.argwhere(np.tril(self.correlated)):
            found = self.noise_tests.get((int(a), int(b)), self.noise_tests.get((int(b), int(a))))
            if found is not None and found[1] > self.alpha:
                correlated[a, b] = correlated[b, a] = False
        return linked, correlated, self._proposed_inputs()

    def _proposed_inputs(self):
        """Inputs of others that the tests suggest, beside those of every unit's own."""
        if not len(self.input_pairs):
            return self.driven
        significant = significant_of(self.input_p_value, self.input_pairs, self.alpha)
        own = self.driven & np.eye(len(self.driven), dtype=bool)
        more = capped(self.input_p_value, significant & ~self.driven & ~self.not_driven)
        return own | self.driven & significant | more

    def _estimate(self, tests, measured, settled, was_stopped):
        self._proposal(tests)
        return LargeEstimate(
            self.plant, csr_array(self.A), csr_array(self.Q), self.linked, self.correlated, self.noise_tests, tests,
            self.p_value, self.fits, measured, self.members, self.cores, self.has_prior, settled, was_stopped,
            self.B, self.driven, self.input_tests, self.input_p_value,
        )  # fmt: skip


ALL_PAIRS = 200  # units, up to which every pair is tested at the end and has a row in tables


def _is_degenerate(plant):
    """Whether some unit's own noise is nearly singular, or it is close to a unit root."""
    return any(is_degenerate(Point(A, Q, None), None, None, None) for A, Q in zip(plant.A, plant.Q, strict=True))


def _holds(members, core, causes):
    """Whether a block has all that acts on its core."""
    return bool(members) and all(set(causes[unit]) <= set(members) for unit in core)


def _padded(estimate, covariance, before, after):
    """Estimates of blocks of so many rows and columns with as many elements as larger ones have."""
    if tuple(before) == tuple(after):
        return estimate, covariance
    k, e, width = len(estimate), after[0] * after[1], after[1]
    at = (np.arange(before[0])[:, None] * width + np.arange(before[1])).ravel()
    wider, whole = np.zeros((k, e)), np.tile(PADDED_VARIANCE * np.eye(e), (k, 1, 1))
    wider[:, at] = estimate
    whole[:, at[:, None], at] = covariance
    return wider, whole


def _of_gaps(there, known, estimate, covariance):
    """What pairs are worth where a share of the record was filled, `there` being what is left of it for each.

    Fillings without a link leave as much of it as there are rows that both units measured, in the noise of a
    complete record; those that know it leave all, of as many rows.
    """
    estimate = estimate / np.where(known, 1.0, there)[:, None]
    return estimate, covariance / np.where(known, there, there**2)[:, None, None]
