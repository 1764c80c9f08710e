"""What a learned plant answers about its links; functions in this folder take the settings."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from ...statespace.geweke import geweke_measures
from ...statespace.matrices import few_threads
from ...statespace.partition import positions_of
from ..estimation.estimate import LARGE, screen_plant
from ..joint import JointRecord
from ..plant import ServerLearner
from ..prediction import PlantFilter
from ..validity.report import COLOURED, UNSETTLED, gated, report, with_joining, with_wandering
from .benefit import Benefit, split_messages
from .grades import grades_of, holds, with_grades
from .intervals import intervals_table, measure_intervals, pair_of, spectrum_table
from .resampling import bootstrap_table, stability_table
from .tables import links_table
from .tests import check_method, tests_table

_SETTLED = 0.5  # standard errors to the maximum, from which on nothing is said of links


class LinkQuestions(ServerLearner):
    """A server whose learned plant is asked about its links; estimators' methods say what the questions are."""

    correlations_: pd.DataFrame
    _grades: Any = None  # of the pairs of units, of a record whose rows came at once
    _ungraded: Any = None  # the table of links without them
    _gapless: Any = None  # record of a plant learned in blocks with its gaps filled, until it was looked at

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
        partition, self._blocks = self.partition_, estimate.blocks["state"]
        known = self._knowledge(self.names_)
        if known is not None:
            self._blocks = known.without_forbidden(self._blocks, partition)
        geweke = geweke_measures(self.unshrunk_transition_, self.process_cov_, self.information_, partition)
        levels = {"alpha": self.alpha, "margin": self.margin, "correction": self.correction_}
        self.links_ = links_table(self.names_, partition, self._blocks, geweke, **levels)
        if partition.n_inputs and len(partition.input_pairs.pairs):
            family, blocks = partition.input_pairs, estimate.blocks["input"]
            inputs = links_table(self.names_, family, blocks, **levels, kind="input")
            self.links_ = pd.concat([self.links_, inputs], ignore_index=True)
        self.links_ = self._told(self.links_)

    @property
    def _is_settled(self):
        """Whether the plant was learned to the end, or so near to it that verdicts are the same."""
        if self._lagged is not None:
            return self._lagged.converged
        # the gradient is a distance to the maximum, in standard errors of one row
        return self.converged_ or self.gradient_norm_ * np.sqrt(self.n_samples_) < _SETTLED

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
        if not self._is_settled:
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
        self.validity_ = with_wandering(self._reported(run, record), messages)
        # where innovations are white the past that helps is that of shapes of the sensors, which no test rests on
        own = self.links_["effect"].isin(self.validity_.attrs.get(COLOURED, self.alone_))
        self.links_.loc[own, ["verdict", "because"]] = "cannot tell", "its own past predicts the effect better"
        self.links_ = gated(self.links_, self.validity_)
        if self._grades is None and self._batches is None and not holds(self.links_):  # of many units
            self._grades = grades_of(record)
        self._grade_links()
        if self._large is None and len(self.correlations_):
            from .same_row import with_directions  # for units whose noise goes together

            self.correlations_ = with_directions(self.correlations_, run, record, self.process_cov_)
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

    def _reported(self, run, record):
        """The report on what the plant assumes; of a large one on its units and links alone."""
        if self._large is None:
            return report(self, run, record)
        from ..sparse.report import large_report

        told = run.told(positions_of(self.alone_, self.state_slices_), None)
        if self._gapless is not None:  # the record whose gaps were filled says more than one with gaps
            from ..sparse.filter import LargeFilter

            record, self._gapless = self._gapless, None
            run = LargeFilter(self._large, record)  # stretches between shifts are episodes of it, without their levels
        return large_report(self, run, record, lambda: told.heavy_tails)  # for the replies

    # -- questions ----------------------------------------------------------------------------------

    def link_intervals(self, level=0.95, *, geweke=False):
        """Intervals of the strength of each link between states, and the rows needed to decide it."""
        pairs = self.partition_.pairs if self._large is None else self._pairs
        levels = {"level": level, "alpha": self.alpha, "margin": self.margin}
        lagged = self._lagged
        if lagged is not None:
            from ..lagged.tables import lagged_intervals_table

            measure = self.links_.loc[self.links_["kind"] == "state", "geweke"].to_numpy() if geweke else None
            if geweke and not lagged.dynamics.is_small:
                effect, cause = pairs.T
                measure = lagged.dynamics.geweke(self.information_, self.partition_)[effect, cause]
            return lagged_intervals_table(self.names_, self.partition_, lagged, self.n_samples_, measure, **levels)
        if geweke:
            self._refuse_large("intervals of Geweke's measure")
        table = intervals_table(self.names_, pairs, self._blocks, self.n_samples_, **levels)
        if geweke:
            effect, cause = pairs.T
            found = measure_intervals(self._parameters, self.information_, self.partition_, level)
            for name, values in zip(("geweke", "geweke_low", "geweke_high"), found, strict=True):
                table[name] = values[effect, cause]
        return table

    def spectrum(self, cause, effect, **settings):
        """Geweke's measure of the influence of one unit on another over frequency."""
        plant = self.unshrunk_transition_, self.process_cov_, self.information_
        pair = pair_of(self.names_, cause, effect)
        if self._lagged is not None:
            if settings.get("level") is not None:
                raise ValueError(
                    "Intervals of a spectrum are computed for plants of one lag; this one has several. Ask "
                    "without a level."
                )
            dynamics = self._lagged.dynamics
            plant = dynamics.transition, dynamics.process_cov, dynamics.padded_matrix(self.information_)
        if settings.get("level") is not None:
            self._refuse_large("intervals of a spectrum")
        return spectrum_table(plant, self._parameters, self.partition_, pair, **settings)

    def benefit(self, messages, *, held_out=0.3):
        """Gain of each unit from the plant, on held-out rows, a `Benefit`."""
        if self.partition_.n_inputs:
            raise ValueError("The benefit of joining is computed for plants without inputs.")
        head, tail = split_messages(messages, held_out)

        def learn(known):
            return clone(self).set_params(held_out=None).fit(known)

        return Benefit(learn(head), lambda name: learn({name: head[name]}), tail)

    def _refuse_large(self, what):
        """Refuse what takes the information of all elements of a plant at once."""
        if self._large is not None:
            raise ValueError(
                f"Got a plant of {len(self.names_)} units for {what}, which take the information of all its elements "
                f"at once; plants of more than {LARGE} units are learned in blocks. Fit the units that you ask about, "
                "with what acts on them, as a plant of their own."
            )

    def _refuse_lags(self, question, instead):
        """Refuse what is known of plants of one lag only."""
        if self._lagged is not None:
            raise ValueError(
                f"{question} draws transitions of one row to the next, and this plant has {len(self.lag_transitions_)} "
                f"lags (see `misfit_`): the answer would be that of another plant. Instead, {instead}."
            )

    def test_links(self, messages, method="lr"):
        """Test each link between states given the others, by one of the three classical tests."""
        check_method(method, self.covariance)
        what = "classical tests of links in a record with gaps"
        has_gaps = not JointRecord.from_messages(messages).is_constant
        if has_gaps:  # before the work, if it was learned in blocks already
            self._refuse_large(what)
        plant = clone(self).set_params(held_out=None).fit(messages)
        if has_gaps:
            plant._refuse_large(what)
        if plant._lagged is not None:
            from ..lagged.tables import lagged_tests_table

            return lagged_tests_table(plant.names_, plant.partition_, plant._lagged, method)
        return tests_table(plant._record(messages), self._settings(plant.names_, messages), method)

    def changed_links(self, messages, alpha):
        """Which links and units of the plant have changed in a record; dates are its rows."""
        from ..changes.compared import changed_table  # for those who ask
        from ..changes.plant import LearnedPlant

        if self.n_absent_:
            self._refuse_large("changes of all links")
        record, lagged = self._record(messages), self._lagged
        A = self.unshrunk_transition_[None] if lagged is None else lagged.dynamics.A
        estimates = None if lagged is not None else self._blocks
        scale, known = self._parameters.state_scale, record.known_links
        plant = LearnedPlant(A, self.partition_, scale, self.n_samples_, estimates, known)
        filter_of = partial(self._filter_of_lags, record)
        with few_threads(record.partition.n_states):
            return changed_table(self.names_, plant, record, filter_of, alpha)

    def _filter_of_lags(self, record, A):
        """Filter over a record by a plant with other coefficients of states, (q, n, n)."""
        if self._lagged is None and len(A) == 1:
            return PlantFilter(A[0], self.process_cov_, record, self._drive(A[0], self.unshrunk_input_))
        from ..lagged.dynamics import LaggedDynamics

        B = self.unshrunk_input_
        B = np.stack([np.zeros_like(B), B]) if self._lagged is None else self._lagged.dynamics.B
        return LaggedDynamics(A, B, self.process_cov_).filter(record, self._operating_point)

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

        self._refuse_large("links over time")
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
