"""The server of a plant that an engine learned: tables, tests, intervals, forecasts, changes and effects come of it."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ..message.states import EffectReply, StateMessage
from ..statespace.matrices import positions_of
from .dynamics import OperatingPoint, Plant, PlantFilter
from .effects import gains_of, with_curvature
from .estimation.estimate import Climb
from .estimation.evidence import BlockEstimates
from .fitting import Learned, keep, look_at_inputs, with_knowledge
from .joint import JointRecord
from .lagged.misfit import misfit_table
from .links.engines import Engine
from .links.questions import LinkQuestions

__all__ = [
    "BlockEstimates",
    "Climb",
    "Engine",
    "EngineServer",
    "JointRecord",
    "Learned",
    "OperatingPoint",
    "Plant",
    "PlantServer",
]


class PlantServer(LinkQuestions):
    """Base of servers whose engine learns a plant, from which everything else comes.

    A subclass says in ``_fit(messages)`` how the plant is learned: :class:`EngineServer` for engines of your own.

    Tables of links and checks are made when they are first asked for. Until then the messages of the fit are kept in
    memory, never in a pickle.

    Attributes
    ----------
    plant_ : Plant
        What was learned: ``A`` (p, n, n), ``B`` (q + 1, n, k), ``Q`` (n, n), and the operating point.
    engine_ : Engine
        Pairs of units and the estimates of their blocks.
    names_ : tuple of str
        Units in the order of the matrices.
    n_samples_ : int
        Time steps of the record.
    state_slices_ : dict of str to slice
        States of each unit.
    alone_ : tuple of str
        Units whose measurements an autoregression of their own predicts better, by BIC, than the plant does.
        They are predicted by it, and no verdict is given about links to them.
    transition_ : ndarray of shape (n, n)
        Transition matrix, off-diagonal blocks shrunk if asked.
    unshrunk_transition_ : ndarray of shape (n, n)
        Maximum-likelihood estimate on the selected links.
    process_cov_ : ndarray of shape (n, n)
        Process covariance, block-diagonal but for the pairs in `correlations_`, which are all without a search.
    input_, unshrunk_input_ : ndarray of shape (n, k)
        Input matrix, like the transition matrices; no columns for a plant without inputs.
    lag_transitions_ : ndarray of shape (p, n, n)
        Transition matrices of lags 1 to p, the first of which is `transition_`; of one lag where that is
        enough.
    lag_inputs_ : ndarray of shape (q, n, k)
        Input matrices of lags 1 to q, the first of which is `input_`.
    input_at_once_ : ndarray of shape (n, k)
        What inputs do in the row they are recorded in, zero for a plant of one lag.
    misfit_ : DataFrame
        Score tests of later lags of every channel given its first: ``cause, effect, kind, p_value,
        p_adjusted`` (Bonferroni over all of them). Empty where one lag is kept without a test: records of
        less than 250 rows in a row, units seen in too few rows, `covariance` or `likelihood` other than the
        default ones, `fix_local`.
    input_slices_ : dict of str to slice
        Inputs of each unit among the columns of `input_`.
    input_level_ : ndarray of shape (k,)
        Mean of each input.
    controlled_units_ : tuple of str
        Units whose inputs depend on measurements.
    coefficients_ : Coefficients or None
        ``[A | B]`` in standardised states with the covariance of its free elements; None for a plant without
        inputs or of several lags.
    excitation_ : DataFrame or None
        One row per input: its standard deviation, order of persistent excitation and the share of its
        variance that is its own; None for a plant without inputs.
    feedback_ : DataFrame or None
        Tests of feedback from measurements to inputs; None for a plant without inputs.
    hidden_causes_ : DataFrame or None
        Tests whether inputs move with measurements of other units that they cannot have caused.
    has_feedback_ : bool
        Whether one of these tests rejects at level 0.001.
    laws_ : dict of str to FeedbackLaw
        Laws of the controllers of units whose inputs depend on measurements.
    likelihood_ : {"whittle", "time-domain"}
        The likelihood that was maximised.
    links_ : DataFrame
        One row per ordered pair of units, of kind "state" and, where the cause has inputs, "input". ``basis`` is what
        the verdict rests on: the "likelihood" of the plant, where its assumptions hold, else a "held-out gain", for
        which noise need not be white: on twenty stretches, each predicted from the others, ``strength``, with ``low``
        and ``high``, is the share of the effect's unpredicted variation that the past of the cause tells beyond its own
        and that of other units, ``total`` beyond its own alone (summed over directions of its states), ``same_row``
        what the two share in the same row, ``driver_needed`` the share of both that a driver nobody measures must
        explain to make ``low`` zero, ``lag`` the row after which most of it acts, and ``evidence`` ranks pairs.
        ``verdict`` is "influence", "coupled" (linked, but a driver of both or a link both ways cannot be told apart),
        "no influence", "negligible" (nothing to add to the row itself) or "cannot tell"; ``because`` is what speaks
        most against it. Where lines say less than "influence", and curves of the cause's states (bends of one, products
        of two) surely tell more, ``basis`` is "curves": ``p_value``, ``p_adjusted`` (Holm), ``low`` and ``high`` are
        then about what they tell beyond the line, ``strength`` about both.
        These columns are NaN for batches, secure sums, inputs, records too short for the stretches, more than 64
        units, and more than 32 whose pairs nearly all meet its assumptions. ``norm`` is the Frobenius norm of the
        block in standardised states. ``delay`` is the first lag in rows that acts, the most probable one,
        ``delay_low`` and ``delay_high`` are the ends of a set of 90 % of the
        probability; NaN where there is no link. With several lags
        ``norm`` is that of the blocks of all lags, ``statistic`` twice the log evidence,
        ``p_adjusted`` Holm's where it is family-wise. Of more than 200 units
        there are rows for links and pairs with p-values of up to 0.001 only.
    correction_ : {"family-wise", "fdr"}
        What ``p_adjusted`` is about, see `correction`.
    n_absent_ : int
        Pairs of units that were tested and have no row in `links_`.
    correlations_ : DataFrame
        Pairs of units whose process noise is correlated: a cause they share, or influence within one
        sampling period. ``p_first_acts`` and ``p_second_acts`` are p-values of the hypothesis that one acts on the
        other there and nothing else does, ``direction`` is the one that alone is left ("first -> second"), or
        "cannot tell", as for all noise that is Gaussian. With ``sparsity=None`` all pairs.
    level_shifts_ : DataFrame
        One row per shift that was found: ``unit``, row ``start`` at which it began, ``size`` of what it adds
        to the state equation in standard deviations of the process noise, ``statistic`` and ``p_value`` of
        its Wald test given the plant. Empty without shifts.
    benefit_ : DataFrame or None
        One row per unit: ``gain, stderr, rows, neighbour, neighbour_gain, neighbour_stderr`` on held-out
        rows, see :func:`skfedcausal.inspection.benefit`. None unless `held_out` is given.
    n_iter_ : int
    converged_ : bool
    gradient_norm_ : float
        Length of the gradient at the end, as in `tol`.
    has_prior_ : bool
        Whether the plant was nearly degenerate (units that move almost together, unit roots) and its
        likelihood was backed by a few pseudo-observations.
    prior_weight_ : float
        Time steps that these are worth: 5, 0.5 or 0.05, with which the plant is best on rows that are left out; 0
        without them.

    See Also
    --------
    skfedcausal.LikelihoodServer : The engines that come with the library.

    Examples
    --------
    >>> from skfedcausal import FederatedGrangerEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> X, _ = make_granger_plant(2, n_states=2, n_samples=500, random_state=0)
    >>> server = FederatedGrangerEstimator().fit(X).server_
    >>> isinstance(server, PlantServer), server.names_, server.transition_.shape
    (True, ('unit0', 'unit1'), (4, 4))
    """

    unshrunk_transition_: np.ndarray
    unshrunk_input_: np.ndarray
    _fit: Any
    alpha: float = 0.05
    margin: float = 0.1
    correction = "auto"
    covariance = "information"
    forbidden = required = delays = None
    likelihood = "whittle"
    fix_local = shares_sensors = False
    tests_links = True
    filter_noise_share_: float | None = None
    curved_: Any = None  # a `CurvedPlant` where inputs act along curves of states that rows left out confirm
    _run: Any = None  # the filter that went through the record of the fit, until it is asked for
    _tails: Any = None  # of its innovations

    def fit(self, messages: Mapping[str, StateMessage]) -> Self:
        """Learn the plant.

        Parameters
        ----------
        messages : dict of str to StateMessage
            One of each unit, all over the same rows.

        Returns
        -------
        self : PlantServer

        Raises
        ------
        ValueError
            If the messages cover different episodes, or the sensors of a unit do not determine its states and
            it sent no model of its own; for plants with inputs or gaps where the engine is not made for them.
        MemoryError
            If the information of the free elements, or a plant of many units, does not fit into memory.

        Warns
        -----
        ConvergenceWarning
            If a climb ended before the gradient was as short as asked for.
        UserWarning
            If units drift like random walks.
        """
        return self._fit(messages, **self._how)

    # -- the plant over a record -----------------------------------------------------------------

    def filter(self, messages: Mapping[str, StateMessage]) -> PlantFilter:
        """Filter of the whole plant over a record; units that say so are predicted on their own.

        Parameters
        ----------
        messages : dict of str to StateMessage
            By unit.

        Returns
        -------
        PlantFilter
        """
        run = super().filter(messages)
        alone = tuple(name for name in self.names_ if messages[name].alone)
        tails = self._tails if alone == self.alone_ else None  # those given the units on their own
        return run.told(positions_of(alone, self.state_slices_), tails)

    def joint_record(self, messages):
        """Record of the units of `fit`, with their inputs and shifts."""
        record = with_knowledge(self, super().joint_record(messages))
        if self.filter_noise_share_:
            record = record.with_noise_share(self.filter_noise_share_)
        return self.plant_.point.placed(record)

    @property
    def unshrunk_plant_(self) -> Any:
        return self.plant_.with_first_lag(self.unshrunk_transition_, self.unshrunk_input_)

    def _filter(self, record):
        """Filter over a record, for the record of `fit` the one that it has been through, once."""
        run, self._run = self._run, None
        return run if run is not None and run.is_about(record) else super()._filter(record)

    def replies(self, messages):
        """Reply to each unit: its own part of the plant and the other units' influence on its states."""
        record = self.joint_record(messages)
        run = self._filter(record)
        self._tails = run.told(positions_of(self.alone_, self.state_slices_), None).heavy_tails
        replies = dict(zip(self.names_, self.plant_.replies(record, run), strict=True))
        for name in self.alone_:
            replies[name] = replace(replies[name], alone=True)
        if self.filter_noise_share_ is None:
            return replies
        share = np.array([self.filter_noise_share_])
        return {
            name: reply if messages[name].unpredicted is None else replace(reply, noise_share=share)
            for name, reply in replies.items()
        }

    # -- inputs, on states; every unit maps the answers through its own sensors ------------------

    def effects(
        self, change: np.ndarray, *, held: np.ndarray | None = None, before: np.ndarray | None = None
    ) -> dict[str, EffectReply]:
        """Effect of a change of inputs on the states of every unit.

        Parameters
        ----------
        change : ndarray of shape (n_steps, k)
            Change of all inputs at each step.
        held : ndarray of bool, shape (k,), default=None
            Inputs that no controller moves; the known controllers of the others respond. None holds all.
        before : ndarray of shape (n_before + n_steps, k), default=None
            Inputs less `input_level_` to which the change is made, rows before it first. None: their level.

        Returns
        -------
        dict of str to EffectReply
            Row j is the effect one step after row j of `change`. The effect uses `transition_` and `input_`;
            its covariance is that of the estimate before shrinkage, given the selected links and laws. What
            links that were not selected add to the effect is added as a standard error too: the data speak
            for their absence, and a band must not contradict that. Where a run of the record under its
            inputs misses what quadratic forms of states and inputs explain, these move the effect, and the
            error that they leave is part of the covariance.
        """
        gains = None if held is None else gains_of(self.laws_, self.state_slices_, self.input_slices_, held)
        if self.curved_ is not None and gains is None:
            return self.curved_.effects(change, self.state_slices_, before)
        replies = self.errors_.effects(self, change, gains)
        if self.curvature_ is None:
            return replies
        return with_curvature(replies, self.curvature_, self.state_slices_, change, before)


class EngineServer(PlantServer):
    """Base of servers with an engine of your own, for plants without inputs and records without gaps.

    A subclass defines :meth:`learned`; tables, tests, intervals, forecasts, changes and checks come from what it
    returns.

    See Also
    --------
    PlantServer : What a fit leaves behind.
    skfedcausal.LikelihoodServer : The engines that come with the library.

    Examples
    --------
    Least squares on the states, for units of one state:

    >>> import numpy as np
    >>> from skfedcausal import FederatedGrangerEstimator, KalmanClient
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.server.engines import BlockEstimates, Climb, Engine, Learned, OperatingPoint, Plant
    >>> class LeastSquares(EngineServer):
    ...     def learned(self, record):
    ...         states, pairs = record.scores.series, record.partition.pairs
    ...         late = np.setdiff1d(np.arange(len(states)), record.starts)
    ...         before, now = states[late - 1], states[late]
    ...         A = np.linalg.lstsq(before, now, rcond=None)[0].T
    ...         Q, G = np.cov(now - before @ A.T, rowvar=False), np.linalg.inv(before.T @ before)
    ...         s, none = states.std(axis=0), np.zeros((len(A), 0))
    ...         links = np.array([[A[m, n] * s[n] / s[m]] for m, n in pairs])
    ...         covs = np.array([[[Q[m, m] * G[n, n] * (s[n] / s[m]) ** 2]] for m, n in pairs])
    ...         point = OperatingPoint.of(record, A, (), none, np.diag(s))
    ...         plant = Plant.of_one_lag(A, none, Q, point=point, scale=np.diag(s))
    ...         learned = Learned(plant, (A, none), Climb(1, True, 0.0, False))
    ...         return learned, Engine(pairs, BlockEstimates.padded(links, covs, record.partition))
    >>> X, _ = make_granger_plant(3, n_states=1, links=[("unit0", "unit2")], link_strength=0.4, random_state=0)
    >>> est = FederatedGrangerEstimator(KalmanClient(n_states=1), server=LeastSquares()).fit(X)
    >>> est.links_.query("verdict == 'influence'")[["cause", "effect"]].values.tolist()
    [['unit0', 'unit2']]
    """

    def learned(self, record):
        """Learn the plant of a record.

        Parameters
        ----------
        record : JointRecord
            Of all units: ``record.scores.series`` (n_samples, n) are their centred states as each row measures them,
            ``record.scores.noise`` the covariances of the errors of these by unit, ``record.starts`` first rows of
            episodes, ``record.partition`` who has which states.

        Returns
        -------
        learned : Learned
        engine : Engine
        """
        raise NotImplementedError(f"{type(self).__name__} has no `learned(record)`, which says how it learns a plant.")

    def _fit(self, messages):
        """Learn the plant by the engine of a subclass, whose `learned` says how."""
        record = with_knowledge(self, JointRecord.from_messages(messages))
        if record.u is not None or not record.is_constant:
            what = "inputs" if record.u is not None else "gaps"
            raise ValueError(
                f"{type(self).__name__} learns plants without inputs from complete records, and this one has {what}. "
                "Take a LikelihoodServer."
            )
        learned, self.engine_ = self.learned(record)
        keep(self, record, learned)
        look_at_inputs(self, record)
        self.misfit_, self.alone_, self.benefit_ = misfit_table(record.names, None), (), None
        self._judge_later(messages)
        return self
