"""What a learned plant answers about its links; functions in this folder take the settings."""

from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import clone

from ...statespace.matrices import few_threads
from ..dynamics import Plant
from ..estimation.estimate import LARGE, screen_plant
from ..estimation.scoring import Budget
from ..fitting import correction_of, knowledge_of, settings_of, with_knowledge
from ..joint import JointRecord
from ..plant import ServerLearner
from ..validity.report import COLOURED, UNSETTLED, gated, with_joining, with_wandering
from .benefit import Benefit, split_messages
from .grades import grades_of, holds, with_grades
from .intervals import check_level, pair_of, spectrum_table
from .resampling import check_bootstrap, check_stability, stability_table
from .tables import links_table
from .tests import check_method


class Verdicts(NamedTuple):
    """What is said of the links of a plant."""

    links: pd.DataFrame
    by_likelihood: pd.DataFrame  # without held-out gains
    validity: pd.DataFrame | None  # None where there were no rows to check
    correlations: pd.DataFrame
    grades: Any


class LinkQuestions(ServerLearner):
    """A server whose learned plant is asked about its links; estimators' methods say what the questions are."""

    correlated_pairs_: pd.DataFrame  # without what a record says of their directions
    held_out: float | None = None
    benefit_: pd.DataFrame | None = None
    max_time: float = 25.0  # seconds of a processor that checks may take
    clock: Any = None  # the `Budget` of the checks while they go on
    _verdicts: Any = None  # `Verdicts`, once they were asked for
    _evidence: Any = None  # what they are made from until then
    batches_: Any = None  # what was learned from, batch by batch
    drifting_units_: tuple = ()  # that cannot be told from random walks
    doubtful_pairs_: Any = None  # that a shift of levels explains as well

    def __getstate__(self):
        if self._evidence is not None:
            _ = self._concluded  # from series of the record it was fitted to, which stay here
        return {**super().__getstate__(), "_run": None, "clock": None}

    plant_: Any = None  # the `Plant` that was learned
    engine_: Any = None  # what is left of the engine that learned it, an `Engine`

    @property
    def transition_(self):
        """Transition matrix of the first lag, (n, n)."""
        return self.plant_.A[0]

    @property
    def process_cov_(self):
        """Covariance of the process noise, (n, n)."""
        return self.plant_.Q

    @property
    def input_(self):
        """What inputs of the row before do, (n, k)."""
        return self.plant_.B[1]

    @property
    def lag_transitions_(self):
        """Transition matrices of all lags, (p, n, n)."""
        return self.plant_.A

    @property
    def lag_inputs_(self):
        """Input matrices of lags 1 to q, (q, n, k)."""
        return self.plant_.B[1:]

    @property
    def input_at_once_(self):
        """What inputs do in the row they are recorded in, (n, k)."""
        return self.plant_.B[0]

    @property
    def acts_at_once(self):
        """Whether some input acts in the row it is recorded in."""
        return self.plant_.acts_at_once

    def _processes(self, n_units):
        """Processes in which tables of so many units are made."""
        return nullcontext()

    def _is_small(self, names):
        """Whether all pairs of these units are graded, whatever the likelihood says of them."""
        return len(names) <= LARGE

    def _told(self, links):
        """The table of links with the verdicts that are known."""
        known = knowledge_of(self, self.names_)
        return links if known is None else known.told(links, self.names_)

    # -- tables, which are made when they are asked for ---------------------------------------------

    @property
    def links_(self):
        """Every ordered pair of units with what is said of it."""
        return self._concluded.links

    @property
    def validity_(self):
        """Checks of what the plant assumes."""
        if self._concluded.validity is None:
            raise AttributeError("Nothing was checked: there were sums alone, and no rows.")
        return self._concluded.validity

    @property
    def correlations_(self):
        """Pairs of units whose process noise is correlated."""
        return self._concluded.correlations

    @property
    def carried_(self):
        """Coefficients (lags, n, n) that held-out gains rest on: what states add to those of other units."""
        return self._concluded.grades.carried

    def without_grades(self):
        """Verdicts of the likelihood alone, which is all there is where noise was added that would hide gains.

        Returns
        -------
        DataFrame
            `links_` with no held-out gains; `because` is why a check withholds a verdict.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
        >>> table = FederatedGrangerEstimator().fit(X).server_.without_grades()
        >>> table["basis"].unique().tolist()
        ['likelihood']
        """
        return self._concluded.by_likelihood

    def _judge_later(self, messages, grades=None, withhold=None):
        """What verdicts will be made from: messages, or what sums say of grades and of verdicts to withhold."""
        self._verdicts, self._evidence = None, (messages, grades, withhold)

    @property
    def _concluded(self):
        """The `Verdicts`, once."""
        if self._verdicts is None:
            messages, grades, withhold = self._evidence
            with self._processes(len(self.names_)), few_threads(self.partition_.n_states):
                self._verdicts = self._judged(messages, grades, withhold)
            self._evidence, self.engine_ = None, self.engine_.without_rows()
        return self._verdicts

    def _judged(self, messages, grades, withhold):
        """The verdicts of the likelihood, without those that rest on what does not hold, and held-out gains."""
        links, correlations, validity = self._qualified(self.engine_.table(self)), self.correlated_pairs_, None
        if withhold is not None:
            links = withhold(links)
        if messages is not None:
            record = self._record(messages)
            run = self._run = self._filter(record)  # the replies may need it again
            self.clock = Budget(self.max_time)
            validity = with_wandering(self.engine_.report(self, run, record, links), messages)
            if self.benefit_ is not None:
                validity = with_joining(validity, self.benefit_)
            # where innovations are white the past that helps is that of shapes of the sensors, which no test rests on
            own = links["effect"].isin(validity.attrs.get(COLOURED, self.alone_))
            links.loc[own, ["verdict", "because"]] = "cannot tell", "its own past predicts the effect better"
            links = gated(links, validity)
            if self.batches_ is None and self._is_small(self.names_):
                grades = grades_of(JointRecord.from_messages(messages))
            elif self.batches_ is None and not holds(links):
                grades = grades_of(record)
            correlations = self.engine_.with_directions(correlations, run, record, self.process_cov_)
        by_likelihood = self._told(with_grades(links, None, self.names_))
        links = self._told(with_grades(links, grades, self.names_))
        return Verdicts(links, by_likelihood, validity, correlations, grades)

    def _qualified(self, links):
        """Leave open what rests on a plant that was not reached, and links of units that drift or may shift."""
        links, of_states = self._told(links), links["kind"] == "state"
        if self.drifting_units_:
            both = links["cause"].isin(self.drifting_units_) & links["effect"].isin(self.drifting_units_) & of_states
            links.loc[both, ["verdict", "because"]] = "cannot tell", "both units drift like random walks"
        if self.doubtful_pairs_ is not None:
            effect, cause = self.partition_.pairs[self.doubtful_pairs_].T
            pairs = pd.MultiIndex.from_arrays([np.array(self.names_)[cause], np.array(self.names_)[effect]])
            unsure = pd.MultiIndex.from_frame(links[["cause", "effect"]]).isin(pairs) & of_states
            links.loc[unsure, ["verdict", "because"]] = "cannot tell", "a shift of levels explains it as well"
        if not self.is_settled_:
            links.loc[of_states, ["verdict", "because"]] = "cannot tell", UNSETTLED
        return links

    def _leave_alone(self, messages):
        """Leave units to themselves whose own past predicts their measurements better than the plant does."""
        self.alone_: tuple[str, ...] = ()
        self._tails = None
        gains = {name: message.gain_alone for name, message in messages.items() if message.gain_alone is not None}
        if not gains:
            return
        run = self._run = self._filter(self._record(messages))
        found = dict(zip(self.names_, run.unit_log_densities().mean(axis=0), strict=True))
        self.alone_ = tuple(name for name in self.names_ if name in gains and gains[name] > found[name])

    # -- questions ----------------------------------------------------------------------------------

    def link_intervals(self, level=0.95, *, geweke=False):
        """Intervals of the strength of each link between states, and the rows needed to decide it."""
        check_level(level)
        return self.engine_.intervals(self, level, geweke)

    def spectrum(self, cause, effect, *, level=None, **settings):
        """Geweke's measure of the influence of one unit on another over frequency."""
        pair = pair_of(self.names_, cause, effect)
        if level is not None:
            check_level(level)
        table, found = spectrum_table(self.unshrunk_plant_, self.information_, self.partition_, pair, **settings)
        if level is not None:
            conditional = settings.get("conditional", True)
            table["low"], table["high"] = self.engine_.spectrum_ends(self, pair, found, conditional, level)
        return table

    def benefit(self, messages, *, held_out=0.3):
        """Gain of each unit from the plant, on held-out rows, a `Benefit`."""
        if self.partition_.n_inputs:
            raise ValueError("The benefit of joining is computed for plants without inputs.")
        head, tail = split_messages(messages, held_out)

        return Benefit(self._anew(head), lambda name: self._anew({name: head[name]}), tail)

    def test_links(self, messages, method="lr"):
        """Test each link between states given the others, by one of the three classical tests."""
        check_method(method, self.covariance)
        if self.engine_ is not None:  # before the work
            self.engine_.check_tests(JointRecord.from_messages(messages), method)
        return self._anew(messages)._tested(messages, method)

    def _anew(self, messages):
        """Another server like this one that learned from other messages, and measured no benefit."""
        other = clone(self)
        other.held_out = None
        return other.fit(messages)

    def _tested(self, messages, method):
        """The table of classical tests of the record that was learned from."""
        record = self._record(messages)
        self.engine_.check_tests(record, method)
        settings = settings_of(self, self.names_, messages)
        return self.engine_.tests(self, record, settings, method)

    def changed_links(self, messages, alpha):
        """Which links and units of the plant have changed in a record; dates are its rows."""
        from ..changes.compared import changed_table  # for those who ask
        from ..changes.plant import LearnedPlant

        record, learned = self._record(messages), self.unshrunk_plant_
        estimates = self.engine_.blocks if learned.n_lags == 1 else None
        pairs = self.engine_.pairs if self.n_absent_ else None
        settings = learned.scale, self.n_samples_, estimates, record.known_links, pairs
        plant = LearnedPlant(learned.A, self.partition_, *settings)

        def filter_of(A):
            return Plant(A, learned.B, learned.Q, learned.point).run(record)

        with few_threads(record.partition.n_states):
            return changed_table(self.names_, plant, record, filter_of, alpha)

    def bootstrap_links(
        self,
        messages,
        *,
        n_resamples=200,
        method="blocks",
        block_length=None,
        level=0.95,
        random_state=None,
        n_jobs=None,
    ):
        """Scatter of the estimates of links over resampled records, to check their standard errors."""
        check_bootstrap(n_resamples, method, level)
        how = {"n_resamples": n_resamples, "method": method, "block_length": block_length, "level": level}
        how |= {"random_state": random_state, "n_jobs": n_jobs}
        settings = settings_of(self, self.names_, messages)
        return self.engine_.bootstrap(self, self._record(messages), settings, **how)

    def stable_links(
        self, messages, *, n_resamples=50, threshold=0.75, block_length=None, random_state=None, n_jobs=None
    ):
        """Links that the search finds in most halves of a record: stability selection."""
        check_stability(n_resamples, threshold)
        record = self._record(messages)
        how = {"threshold": threshold, "random_state": random_state, "n_jobs": n_jobs}
        return stability_table(record, self.engine_.halves(self, record, block_length), n_resamples=n_resamples, **how)

    def links_over_time(self, messages, piece):
        """Links by the rows between which they stay the same."""
        from .over_time import links_over_time  # for those who ask

        record, settings = self._record(messages), settings_of(self, self.names_, messages)
        estimates = partial(self.engine_.pieces, self, record, settings)
        return links_over_time(record, estimates, piece, alpha=self.alpha, margin=self.margin)

    def screen(self, messages):
        """Test every pair once at the uncoupled plant of one lag, the fast first step of :meth:`fit`.

        Score tests that take no other links into account, so an indirect influence may show. Geweke's
        measure, which needs the whole plant, is missing (NaN).

        Parameters
        ----------
        messages : dict of str to StateMessage

        Returns
        -------
        DataFrame
            With the columns of `links_`.

        Examples
        --------
        >>> from skfedcausal import KalmanClient, LikelihoodServer
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
        >>> messages = {name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()}
        >>> table = LikelihoodServer().screen(messages)
        >>> table.loc[table["p_value"].idxmin(), ["cause", "effect"]].tolist()
        ['unit0', 'unit2']
        """
        self._validate_params()
        record = with_knowledge(self, JointRecord.from_messages(messages))
        if len(record.names) > LARGE:
            from ..sparse.server import asks_for_the_whole, screened_table  # for plants of many units

            if not asks_for_the_whole(record, self):
                with few_threads(record.partition.n_states):
                    return screened_table(self, record)
        return self._screened(record)

    def _screened(self, record):
        """Table of the tests of a joint record at the uncoupled plant."""
        blocks = screen_plant(record)
        how = {"alpha": self.alpha, "margin": self.margin, "correction": correction_of(self, record.names)}
        table = links_table(record.names, record.partition, blocks, **how)
        known = record.known_links
        return table if known is None else known.told(table, record.names)
