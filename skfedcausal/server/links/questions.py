"""What a learned plant answers about its links; functions in this folder take the settings."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from ...statespace.geweke import geweke_measures
from ...statespace.matrices import few_threads
from ..estimation.estimate import LARGE, screen_plant
from ..joint import JointRecord
from ..plant import ServerLearner
from ..dynamics import Plant
from ..validity.report import COLOURED, UNSETTLED, gated, with_joining, with_wandering
from .engines import Engine, OneLag, refuse_large
from .benefit import Benefit, split_messages
from .grades import grades_of, holds, with_grades
from .intervals import check_level, pair_of, spectrum_table
from .resampling import bootstrap_table, stability_table
from .tables import links_table
from .tests import check_method

SETTLED = 0.5  # standard errors to the maximum, from which on nothing is said of links


class LinkQuestions(ServerLearner):
    """A server whose learned plant is asked about its links; estimators' methods say what the questions are."""

    correlations_: pd.DataFrame
    _grades: Any = None  # of the pairs of units, of a record whose rows came at once
    _ungraded: Any = None  # the table of links without them
    plant_: Any = None  # the `Plant` that was learned
    engine_: Any = Engine(np.zeros((0, 2), dtype=int), None)  # before a fit

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

    # -- verdicts of `fit` --------------------------------------------------------------------------

    def _correction_of(self, names):
        """What p-values of a plant of these units are adjusted for."""
        if self.correction != "auto":
            return self.correction
        return "fdr" if len(names) > LARGE else "family-wise"

    def _knowledge(self, names):
        """What is known of links beforehand, a `LinkKnowledge` or None."""
        if self.forbidden is None and self.required is None and self.delays is None:
            return None
        from ..knowledge import read_knowledge  # for those who know something

        return read_knowledge(names, self.forbidden, self.required, self.delays)

    def _with_knowledge(self, record):
        """The record with what is known of its plant."""
        known = self._knowledge(record.names)
        return record if known is None else replace(record, known_links=known)

    def _told(self, links):
        """The table of links with the verdicts that are known."""
        known = self._knowledge(self.names_)
        return links if known is None else known.told(links, self.names_)

    def _keep_links(self, estimate):
        partition, blocks, known = self.partition_, estimate.blocks["state"], self._knowledge(self.names_)
        if known is not None:
            blocks = known.without_forbidden(blocks, partition)
        self.engine_ = OneLag(partition.pairs, blocks, estimate.parameters)
        geweke = geweke_measures(self.unshrunk_transition_, self.process_cov_, self.information_, partition)
        levels = {"alpha": self.alpha, "margin": self.margin, "correction": self.correction_}
        self.links_ = links_table(self.names_, partition, blocks, geweke, **levels)
        if partition.n_inputs and len(partition.input_pairs.pairs):
            family, blocks = partition.input_pairs, estimate.blocks["input"]
            inputs = links_table(self.names_, family, blocks, **levels, kind="input")
            self.links_ = pd.concat([self.links_, inputs], ignore_index=True)
        self.links_ = self._told(self.links_)

    def _qualify_links(self, doubtful):
        """Leave open what rests on a plant that was not reached, and links of units that drift or may shift."""
        links = self.links_["kind"] == "state"
        if self._drifting:
            both = self.links_["cause"].isin(self._drifting) & self.links_["effect"].isin(self._drifting) & links
            self.links_.loc[both, ["verdict", "because"]] = "cannot tell", "both units drift like random walks"
        if doubtful is not None:
            effect, cause = self.partition_.pairs[doubtful].T
            pairs = pd.MultiIndex.from_arrays([np.array(self.names_)[cause], np.array(self.names_)[effect]])
            unsure = pd.MultiIndex.from_frame(self.links_[["cause", "effect"]]).isin(pairs) & links
            self.links_.loc[unsure, ["verdict", "because"]] = "cannot tell", "a shift of levels explains it as well"
        if not self.is_settled_:
            self.links_.loc[links, ["verdict", "because"]] = "cannot tell", UNSETTLED

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

    def _check_assumptions(self, messages):
        """Check what the plant assumes, and withhold verdicts that rest on what does not hold."""
        record = self._record(messages)
        run = self._filter(record)
        self.validity_ = with_wandering(self.engine_.report(self, run, record), messages)
        self.engine_ = self.engine_.without_rows()
        # where innovations are white the past that helps is that of shapes of the sensors, which no test rests on
        own = self.links_["effect"].isin(self.validity_.attrs.get(COLOURED, self.alone_))
        self.links_.loc[own, ["verdict", "because"]] = "cannot tell", "its own past predicts the effect better"
        self.links_ = gated(self.links_, self.validity_)
        if self._grades is None and self._batches is None and not holds(self.links_):  # of many units
            self._grades = grades_of(record)
        self._grade_links()
        self.correlations_ = self.engine_.with_directions(self.correlations_, run, record, self.process_cov_)
        self._run = run  # the replies need it again

    def _grade_links(self, grades=None):
        """Say of held-out gains what the likelihood leaves open, and what is known of both."""
        self._grades = self._grades if grades is None else grades
        self._ungraded = with_grades(self.links_, None, self.names_)
        self.links_ = self._told(with_grades(self.links_, self._grades, self.names_))

    @property
    def carried_(self):
        """Coefficients (lags, n, n) that held-out gains rest on: what states add to those of other units."""
        return self._grades.carried

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
        >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
        >>> table = FederatedGrangerEstimator().fit(X).server_.without_grades()
        >>> table["basis"].unique().tolist()
        ['likelihood']
        """
        return self._told(self._ungraded)

    def _measure_benefit(self, messages):
        """Measure what joining gains, of which the report speaks too."""
        self.benefit_ = self.benefit(messages, held_out=self.held_out).by_unit()
        self.validity_ = with_joining(self.validity_, self.benefit_)

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
        table, found = spectrum_table(self._unshrunk_plant, self.information_, self.partition_, pair, **settings)
        if level is not None:
            conditional = settings.get("conditional", True)
            table["low"], table["high"] = self.engine_.spectrum_ends(self, pair, found, conditional, level)
        return table

    def benefit(self, messages, *, held_out=0.3):
        """Gain of each unit from the plant, on held-out rows, a `Benefit`."""
        if self.partition_.n_inputs:
            raise ValueError("The benefit of joining is computed for plants without inputs.")
        head, tail = split_messages(messages, held_out)

        def learn(known):
            return clone(self).set_params(held_out=None).fit(known)

        return Benefit(learn(head), lambda name: learn({name: head[name]}), tail)

    def _refuse_lags(self, question, instead):
        """Refuse what is known of plants of one lag only."""
        if self.plant_.n_lags > 1:
            raise ValueError(
                f"{question} draws transitions of one row to the next, and this plant has {len(self.lag_transitions_)} "
                f"lags (see `misfit_`): the answer would be that of another plant. Instead, {instead}."
            )

    def test_links(self, messages, method="lr"):
        """Test each link between states given the others, by one of the three classical tests."""
        check_method(method, self.covariance)
        self.engine_.check_tests(JointRecord.from_messages(messages))  # before the work, if that is known already
        return clone(self).set_params(held_out=None).fit(messages)._tested(messages, method)

    def _tested(self, messages, method):
        """The table of classical tests of the record that was learned from."""
        record = self._record(messages)
        self.engine_.check_tests(record)
        return self.engine_.tests(self, record, self._settings(self.names_, messages), method)

    def changed_links(self, messages, alpha):
        """Which links and units of the plant have changed in a record; dates are its rows."""
        from ..changes.compared import changed_table  # for those who ask
        from ..changes.plant import LearnedPlant

        if self.n_absent_:
            refuse_large(self.names_, "changes of all links")
        record, learned = self._record(messages), self._unshrunk_plant
        estimates = self.engine_.blocks if learned.n_lags == 1 else None
        settings = learned.scale, self.n_samples_, estimates, record.known_links
        plant = LearnedPlant(learned.A, self.partition_, *settings)

        def filter_of(A):
            return Plant(A, learned.B, learned.Q, learned.point).run(record)

        with few_threads(record.partition.n_states):
            return changed_table(self.names_, plant, record, filter_of, alpha)

    def bootstrap_links(self, messages, **settings):
        """Scatter of the estimates of links over resampled records, to check their standard errors."""
        self._refuse_lags("bootstrap_links", "link_intervals() has the intervals of all lags")
        record = self._record(messages)
        return bootstrap_table(record, self._settings(self.names_, messages), **settings)

    def stable_links(self, messages, **settings):
        """Links that the search finds in most halves of a record: stability selection."""
        self._refuse_lags("stable_links", "fit parts of the record and compare their links")
        return stability_table(self._record(messages), self.alpha, **settings)

    def links_over_time(self, messages, piece):
        """Links by the rows between which they stay the same."""
        from .over_time import links_over_time  # for those who ask

        self.engine_.check_pieces(self.names_)
        record = self._record(messages)
        settings = self._settings(self.names_, messages)
        return links_over_time(record, settings, piece, alpha=self.alpha, margin=self.margin)

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
        record = self._with_knowledge(JointRecord.from_messages(messages))
        if len(record.names) > LARGE:
            from ..sparse.server import asks_for_the_whole, screened_table  # for plants of many units

            if not asks_for_the_whole(record, self):
                with few_threads(record.partition.n_states):
                    return screened_table(self, record)
        return self._screened(record)

    def _screened(self, record):
        """Table of the tests of a joint record at the uncoupled plant."""
        blocks = screen_plant(record)
        how = {"alpha": self.alpha, "margin": self.margin, "correction": self._correction_of(record.names)}
        table = links_table(record.names, record.partition, blocks, **how)
        known = record.known_links
        return table if known is None else known.told(table, record.names)
