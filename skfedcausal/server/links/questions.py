"""What a learned plant answers about its links; functions in this folder take the settings."""

from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...arguments import check_confidence
from ...statespace.matrices import few_threads
from ..estimation.estimate import LARGE
from ..estimation.scoring import Budget
from ..fitting import knowledge_of
from ..joint import JointRecord
from ..plant import ServerLearner
from ..validity.report import COLOURED, UNSETTLED, gated, with_joining, with_wandering
from .answers import anew, classical_tests
from .curves import with_curves
from .grades import grades_of, holds, with_grades
from .intervals import pair_of, spectrum_table
from .shapes import LinkShapes
from .tests import check_method


class Verdicts(NamedTuple):
    """What is said of the links of a plant."""

    links: pd.DataFrame
    by_likelihood: pd.DataFrame  # without held-out gains
    validity: pd.DataFrame | None  # None where there were no rows to check
    correlations: pd.DataFrame
    grades: Any
    shapes: pd.DataFrame | None = None  # of links that are not straight; None where it was not asked


class LinkQuestions(ServerLearner):
    """A server whose learned plant is asked about its links; estimators' methods say what the questions are."""

    partition_: Any  # states, inputs and pairs of units, a `Partition`
    information_: Any
    n_samples_: int
    n_absent_: int
    is_settled_: bool
    errors_: Any
    curvature_: Any
    unshrunk_plant_: Any
    input_slices_: dict[str, slice]
    alpha: float
    margin: float
    covariance: str
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
    plant_: Any = None  # the `Plant` that was learned
    engine_: Any = None  # what is left of the engine that learned it, an `Engine`

    def __getstate__(self):
        if self._evidence is not None:
            _ = self._concluded  # from series of the record it was fitted to, which stay here
        return {**super().__getstate__(), "_run": None, "clock": None}

    @property
    def transition_(self) -> np.ndarray:  # type: ignore[override]
        """Transition matrix of the first lag, (n, n)."""
        return self.plant_.A[0]

    @property
    def process_cov_(self) -> np.ndarray:  # type: ignore[override]
        """Covariance of the process noise, (n, n)."""
        return self.plant_.Q

    @property
    def input_(self) -> np.ndarray:
        """What inputs of the row before do, (n, k)."""
        return self.plant_.B[1]

    @property
    def lag_transitions_(self) -> np.ndarray:
        """Transition matrices of all lags, (p, n, n)."""
        return self.plant_.A

    @property
    def lag_inputs_(self) -> np.ndarray:
        """Input matrices of lags 1 to q, (q, n, k)."""
        return self.plant_.B[1:]

    @property
    def input_at_once_(self) -> np.ndarray:
        """What inputs do in the row they are recorded in, (n, k)."""
        return self.plant_.B[0]

    @property
    def acts_at_once(self) -> bool:
        """Whether some input acts in the row it is recorded in."""
        return self.plant_.acts_at_once

    def _processes(self, n_units):
        """Processes in which tables of so many units are made."""
        return nullcontext()

    def _told(self, links):
        """The table of links with the verdicts that are known."""
        known = knowledge_of(self, self.names_)
        return links if known is None else known.told(links, self.names_)

    # -- tables, which are made when they are asked for ---------------------------------------------

    @property
    def links_(self) -> pd.DataFrame:
        """Every ordered pair of units with what is said of it."""
        return self._concluded.links

    @property
    def validity_(self) -> Any:
        """Checks of what the plant assumes."""
        if self._concluded.validity is None:
            raise AttributeError("Nothing was checked: there were sums alone, and no rows.")
        return self._concluded.validity

    @property
    def correlations_(self) -> pd.DataFrame:
        """Pairs of units whose process noise is correlated."""
        return self._concluded.correlations

    @property
    def carried_(self) -> Any:
        """Coefficients (lags, n, n) that held-out gains rest on: what states add to those of other units."""
        return self._concluded.grades.carried

    @property
    def shapes_(self) -> LinkShapes:
        """Shapes of the links that are not straight."""
        return LinkShapes(self._concluded.shapes, self.names_)

    @property
    def likelihood_links_(self):
        """`links_` with no held-out gains: all that there is where noise was added that would hide them."""
        return self._concluded.by_likelihood

    def _judge_later(self, messages, grades=None, withhold=None):
        """What verdicts will be made from: messages, or what sums say of grades and of verdicts to withhold."""
        self._verdicts, self._evidence = None, (messages, grades, withhold)

    @property
    def _concluded(self):
        """The `Verdicts`, once."""
        if self._verdicts is None:
            if self._evidence is None:
                raise AttributeError(f"{type(self).__name__} says nothing of links before a fit.")
            messages, grades, withhold = self._evidence
            with self._processes(len(self.names_)), few_threads(self.partition_.n_states):
                self._verdicts = self._judged(messages, grades, withhold)
            self._evidence, self.engine_ = None, self.engine_.without_rows()
        return self._verdicts

    def _judged(self, messages, grades, withhold):
        """The verdicts of the likelihood, without those that rest on what does not hold, and held-out gains."""
        links, correlations, validity = self._qualified(self.engine_.table(self)), self.correlated_pairs_, None
        plain = None
        if withhold is not None:
            links = withhold(links)
        if messages is not None:
            record = self.joint_record(messages)
            run = self._filter(record)
            self.clock = Budget(self.max_time)
            validity = with_wandering(self.engine_.report(self, run, record, links), messages)
            if self.benefit_ is not None:
                validity = with_joining(validity, self.benefit_)
            # where innovations are white the past that helps is that of shapes of the sensors, which no test rests on
            own = links["effect"].isin(validity.attrs.get(COLOURED, self.alone_))
            links.loc[own, ["verdict", "because"]] = "cannot tell", "its own past predicts the effect better"
            links = gated(links, validity)
            if self.batches_ is None and len(self.names_) <= LARGE:
                plain = JointRecord.from_messages(messages)
                grades = grades_of(plain)
            elif self.batches_ is None and not holds(links):
                grades = grades_of(record)
            correlations = self.engine_.with_directions(correlations, run, record, self.process_cov_)
        by_likelihood = self._told(with_grades(links, None, self.names_))
        links, shapes = with_grades(links, grades, self.names_), None
        if plain is not None:
            links, shapes = with_curves(links, plain, self.alpha, self.process_cov_, record.steps)
        return Verdicts(self._told(links), by_likelihood, validity, correlations, grades, shapes)

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
        run = self._run = self._filter(self.joint_record(messages))
        found = dict(zip(self.names_, run.unit_log_densities().mean(axis=0), strict=True))
        self.alone_ = tuple(name for name in self.names_ if name in gains and gains[name] > found[name])

    # -- questions ----------------------------------------------------------------------------------

    def link_intervals(self, confidence=0.95, *, geweke=False) -> pd.DataFrame:
        """Intervals of the strength of each link between states, and the rows needed to decide it."""
        check_confidence(confidence)
        return self.engine_.intervals(self, confidence, geweke)

    def spectrum(self, cause, effect, *, confidence=None, **settings) -> pd.DataFrame:
        """Geweke's measure of the influence of one unit on another over frequency."""
        pair = pair_of(self.names_, cause, effect)
        if confidence is not None:
            check_confidence(confidence)
        table, found = spectrum_table(self.unshrunk_plant_, self.information_, self.partition_, pair, **settings)
        if confidence is not None:
            conditional = settings.get("conditional", True)
            table["low"], table["high"] = self.engine_.spectrum_ends(self, pair, found, conditional, confidence)
        return table

    def test_links(self, messages, method="lr") -> pd.DataFrame:
        """Test each link between states given the others, by one of the three classical tests."""
        check_method(method, self.covariance)
        if self.engine_ is not None:  # before the work
            self.engine_.check_tests(method)
        return classical_tests(anew(self, messages), messages, method)
