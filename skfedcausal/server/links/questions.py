"""What a learned plant answers about its links, from what it kept or from its messages."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import csgraph
from sklearn.base import clone

from ...arguments import check_confidence
from ...statespace.episodes import mean_with_error
from ...statespace.matrices import few_threads, positions_of
from ...statespace.observation import Information
from ..dynamics import Plant
from ..estimation.estimate import LARGE, screen_plant
from ..estimation.scoring import Budget
from ..fitting import correction_of, knowledge_of, settings_of, with_knowledge
from ..joint import JointRecord
from ..plant import ServerLearner
from ..validity.report import COLOURED, UNSETTLED, gated, with_joining, with_wandering
from .curves import LinkShapes, slopes_table, with_curves
from .grades import grades_of, holds, with_grades
from .resampling import check_bootstrap, check_stability, stability_table
from .tables import check_method, links_table, pair_of, spectrum_table
from .tuning import TUNING

# What a unit gains from the plant: held-out log-likelihood of its own measurements.
#
# Everything is computed from the units' messages: the term of a log-density that only the unit knows is the
# same whoever predicts, and drops out of every difference.


def split_messages(messages, held_out):
    """Messages about the first part of every episode, and about the last one."""
    if not 0 < held_out < 1:
        raise ValueError(f"Got held_out={held_out}; give a share between 0 and 1.")
    lengths = next(iter(messages.values())).lengths
    cuts = [length - round(held_out * length) for length in lengths]
    if any(cut in (0, length) for cut, length in zip(cuts, lengths, strict=True)):
        raise ValueError(f"Episodes of {lengths} time steps cannot be split with held_out={held_out}.")
    ends = np.cumsum(lengths).tolist()
    is_tail = np.arange(ends[-1]) >= np.repeat(np.array(ends) - lengths + cuts, lengths)
    rest = [length - cut for length, cut in zip(lengths, cuts, strict=True)]
    parts = (np.flatnonzero(~is_tail), tuple(cuts)), (np.flatnonzero(is_tail), tuple(rest))
    return tuple({name: message.at(*part) for name, message in messages.items()} for part in parts)


def without_unit(record, unit):
    """The record as it would be had a unit sent nothing."""
    part = record.parts[unit]
    nothing = Information(np.zeros_like(part.z), np.zeros_like(part.patterns[:1]))
    return replace(record, parts=(*record.parts[:unit], nothing, *record.parts[unit + 1 :]))


def connected(A, Q, partition):
    """Which units lie in the same connected part of the plant, ndarray of bool (n_units, n_units).

    Units in different parts are independent of each other.
    """
    touched = (A != 0) | (Q != 0)
    graph = np.array([[touched[m, n].any() for n in partition.slices] for m in partition.slices])
    label = csgraph.connected_components(graph, directed=False)[1]
    return label[:, None] == label


class Benefit:
    """Held-out gains of every unit from all others and from each of them."""

    def __init__(self, plant, alone, tail):
        self.names = plant.names_
        run = plant.filter(tail)
        record = run.record
        self._present = [part.patterns.any(axis=(1, 2))[part.pattern_of] for part in record.parts]
        acts = np.abs(plant.lag_transitions_).sum(axis=0)
        if len(plant.lag_transitions_) == 1:
            acts = plant.unshrunk_transition_
        self._together = connected(acts, plant.process_cov_, plant.partition_)
        everything = run.unit_log_densities()
        n_samples, n_units = everything.shape
        self._from_all = np.zeros((n_samples, n_units))
        self._from_unit = np.zeros((n_units, n_samples, n_units))
        for n, name in enumerate(self.names):
            others = self._together[n] & (np.arange(n_units) != n)
            if not others.any():
                continue  # its part of the plant is its own model
            own = alone(name).filter({name: tail[name]}).unit_log_densities()[:, 0]
            self._from_all[:, n] = everything[:, n] - own
            withheld = plant.plant_.run(without_unit(record, n)).unit_log_densities()
            self._from_unit[n][:, others] = (everything - withheld)[:, others]

    def by_unit(self):
        """One row per unit."""
        pairs = self.by_pair()
        rows = []
        for m, name in enumerate(self.names):
            gain, stderr = mean_with_error(self._from_all[self._present[m], m])
            row = {"unit": name, "gain": gain, "stderr": stderr, "rows": int(self._present[m].sum())}
            found = pairs[(pairs["effect"] == name) & (pairs["gain"] > TUNING.benefit_significant * pairs["stderr"])]
            best = {"neighbour": "", "neighbour_gain": 0.0, "neighbour_stderr": 0.0}
            if len(found):
                top = found.loc[found["gain"].idxmax()]
                best = dict(zip(best, (top["cause"], top["gain"], top["stderr"]), strict=True))
            rows.append(row | best)
        return pd.DataFrame(rows).set_index("unit")

    def by_pair(self):
        """One row per ordered pair of units."""
        rows = []
        for m, n in permutations(range(len(self.names)), 2):
            gain, stderr = mean_with_error(self._from_unit[n][self._present[m], m])
            rows.append({"cause": self.names[n], "effect": self.names[m], "gain": gain, "stderr": stderr})
        return pd.DataFrame(rows, columns=["cause", "effect", "gain", "stderr"])


# What is asked of a server that learned links and needs its messages again: functions of the server.


def benefit(server, messages, *, held_out=0.3):
    """Gain of each unit from the plant, on held-out rows, a `Benefit`."""
    if server.partition_.n_inputs:
        raise ValueError("The benefit of joining is computed for plants without inputs.")
    head, tail = split_messages(messages, held_out)
    return Benefit(anew(server, head), lambda name: anew(server, {name: head[name]}), tail)


def anew(server, messages):
    """Another server like this one that learned from other messages, and measured no benefit."""
    other = clone(server)
    other.measures_benefit = False
    return other.fit(messages)


def classical_tests(server, messages, method):
    """The table of classical tests of the record that a server learned from."""
    server.engine_.check_tests(method)
    settings = settings_of(server, server.names_, messages)
    return server.engine_.tests(server, server.joint_record(messages), settings, method)


def changed_links(server, messages, alpha):
    """Which links and units of the plant have changed in a record; dates are its rows."""
    from ..changes.compared import changed_table  # for those who ask
    from ..changes.hypotheses import LearnedPlant

    record, learned = server.joint_record(messages), server.unshrunk_plant_
    estimates = server.engine_.blocks if learned.n_lags == 1 else None
    pairs = server.engine_.pairs if server.n_absent_ else None
    settings = learned.scale, server.n_samples_, estimates, record.known_links, pairs
    plant = LearnedPlant(learned.A, server.partition_, *settings)

    def filter_of(A):
        return Plant(A, learned.B, learned.Q, learned.point).run(record)

    with few_threads(record.partition.n_states):
        return changed_table(server.names_, plant, record, filter_of, alpha)


def bootstrap_links(server, messages, *, n_resamples, method, confidence, **how):
    """Scatter of the estimates of links over resampled records, to check their standard errors."""
    check_bootstrap(n_resamples, method, confidence)
    settings, how = settings_of(server, server.names_, messages), how | {"method": method, "confidence": confidence}
    return server.engine_.bootstrap(server, server.joint_record(messages), settings, n_resamples=n_resamples, **how)


def stable_links(server, messages, *, n_resamples, threshold, block_length, **how):
    """Links that the search finds in most halves of a record: stability selection."""
    check_stability(n_resamples, threshold)
    record, how = server.joint_record(messages), how | {"threshold": threshold}
    return stability_table(record, server.engine_.halves(server, record, block_length), n_resamples=n_resamples, **how)


def links_over_time(server, messages, piece):
    """Links by the rows between which they stay the same."""
    from . import resampling  # for those who ask

    record, settings = server.joint_record(messages), settings_of(server, server.names_, messages)
    estimates = partial(server.engine_.pieces, server, record, settings)
    return resampling.links_over_time(record, estimates, piece, alpha=server.alpha, margin=server.margin)


def screen(server, messages):
    """Test every pair once at the uncoupled plant of one lag, the fast first step of `fit`.

    Score tests that take no other links into account, so an indirect influence may show. Geweke's
    measure, which needs the whole plant, is missing (NaN).

    Parameters
    ----------
    server : LikelihoodServer
        Its settings.
    messages : dict of str to StateMessage

    Returns
    -------
    DataFrame
        With the columns of `links_`.

    Examples
    --------
    >>> from skfedcausal import KalmanClient, LikelihoodServer
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.server.links.questions import screen
    >>> X, truth = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    >>> messages = {name: KalmanClient().fit(Y).message(Y) for name, Y in X.items()}
    >>> table = screen(LikelihoodServer(), messages)
    >>> table.loc[table["p_value"].idxmin(), ["cause", "effect"]].tolist()
    ['unit0', 'unit2']
    """
    server._validate_params()
    record = with_knowledge(server, JointRecord.from_messages(messages))
    if len(record.names) > LARGE:
        from ..sparse.server import asks_for_the_whole, screened_table  # for plants of many units

        if not asks_for_the_whole(record, server):
            with few_threads(record.partition.n_states):
                return screened_table(server, record)
    return screened(server, record)


def screened(server, record):
    """Table of the tests of a joint record at the uncoupled plant."""
    blocks = screen_plant(record)
    how = {"alpha": server.alpha, "margin": server.margin, "correction": correction_of(server, record.names)}
    table = links_table(record.names, record.partition, blocks, **how)
    known = record.known_links
    return table if known is None else known.told(table, record.names)


# What a learned plant answers about its links; functions in this folder take the settings.


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

    tells_slopes = True

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
    def slopes_(self) -> pd.DataFrame:
        """Slopes of all links over the states of the cause, straight or not."""
        return slopes_table(self.links_, self.lag_transitions_, self.state_slices_, self._concluded.shapes)

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
        """Leave units to themselves whose own past predicts their measurements better than the plant does.

        All of them together: what they have in common in a row, of which no past knows, is lost with the plant.
        """
        self.alone_: tuple[str, ...] = ()
        self._tails = None
        gains = {name: message.gain_alone for name, message in messages.items() if message.gain_alone is not None}
        if not gains:
            return
        run = self._run = self._filter(self.joint_record(messages))
        densities = run.unit_log_densities().mean(axis=0)
        ahead = {name: gains[name] - found for name, found in zip(self.names_, densities, strict=True) if name in gains}
        alone, value = list[str](), 0.0
        for name in sorted((name for name in ahead if ahead[name] > 0), key=ahead.__getitem__, reverse=True):
            together = [*alone, name]
            density = run.joint_log_density(positions_of(together, self.state_slices_))
            if (trial := sum(gains[m] for m in together) - density) > value:
                alone, value = together, trial
        self.alone_ = tuple(name for name in self.names_ if name in alone)

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
