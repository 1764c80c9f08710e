"""A nonlinear model of the whole plant by any scikit-learn regressor, and links by leaving a cause out."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.special import stdtr
from sklearn.base import clone
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.utils import get_tags
from sklearn.utils._param_validation import HasMethods, StrOptions

from ...bases import AT_LEAST_ONE, FROM_ZERO
from ...message.states import StateMessage
from ...message.training import GradientReply, NetworkPlan, NetworksTrained, NoGradient, PredictedStates
from ...seeding import seeded
from ...server.estimation.evidence import holm
from ...server.joint import JointRecord
from ...server.links.curves import SLOPES
from ...server.links.grades import (
    N_BLOCKS,
    NEGLIGIBLE,
    SURE,
    TRIMMED_DOF,
    VALUES,
    Gains,
    can_be_graded,
    driver_needed,
    exceeds_what_is_shared,
    in_order,
    percent,
    rows_of,
    standardised,
    trimmed,
    unless_driven,
)
from ...server.links.tables import COLUMNS, named_pairs
from ...server.moments import MomentServer
from ...server.plant import Acknowledgement, Ask, FitRequest
from ...statespace.detection.shift import ScaledMap
from ...statespace.held_out import N_LAGS, LaggedRows, same_row_shares
from .rounds import arrays_of

# Links by any regressor: what it loses on stretches it did not see when the past of a cause is left out.
#
# A regressor that is fitted anew without a cause predicts as well where the cause tells nothing that others do not, and
# better by what a useless column costs: the difference of the losses is an honest test whatever the regressor is, which
# the change of one fitted regressor under a permuted column is not. How much the cause moves the effect is read from
# differences of the fitted regressor's predictions, its Jacobian, on the same stretches.
#
# A regressor that misses what a unit does may find part of it again in another one that follows the same cause: the
# test says what helps this regressor, which is the link where it predicts about as well as can be.

_FOLDS = 10  # in each of which two stretches are left out
_REACH = 0.5  # standard deviations by which a column is moved either way for the Jacobian
_TOO_FEW = "too few rows, or too many units, to leave stretches out"


@dataclass(frozen=True)
class LeftOut:
    """What regressors lose without a cause, arrays [effect, cause, stretch], and what they say it does.

    `gains` are shares of the news of the effect, `same_row` [effect, cause] what both have in common in the same row,
    `jacobian` (n_stretches, N_LAGS, n, n) mean derivatives of standardised states and `squares` those of their squares,
    `scale` (n,) the standard deviations of the states. `at` (10, n) are means of these in tenths of some rows by
    each, and `slopes` (10, n, n) those of the derivatives there.
    """

    gains: np.ndarray
    same_row: np.ndarray
    jacobian: np.ndarray
    squares: np.ndarray
    scale: np.ndarray
    at: np.ndarray
    slopes: np.ndarray


def left_out(series, slices, starts, template, known=None):
    """Losses without each cause, cross-fitted.

    Parameters
    ----------
    series : ndarray of shape (n_samples, n)
        States of all units, gaps filled.
    slices : sequence of slice
        Columns of each unit.
    starts : sequence of int
        First rows of the episodes.
    template : scikit-learn regressor
        Of several outputs.
    known : ndarray of shape (n_samples, k), default=None
        Inputs: what they tell along lines is no news.

    Returns
    -------
    LeftOut
    """
    standard, scale = standardised(series, slices, starts)
    rows = LaggedRows.of(standard, slices, starts, N_LAGS)
    if known is not None:
        rows = rows.less(known, N_LAGS)
    n_units, first = len(slices), rows.now[0].start
    past, now = rows.values[:, :first], rows.values[:, first:]
    ends = np.linspace(0, len(now), N_BLOCKS + 1).astype(int)
    missed = np.empty((n_units + 1, *now.shape))  # without each cause, and with all
    jacobian, squares = np.zeros((2, N_BLOCKS, *now.shape[1:], first))
    newest = [of.start + k for of, own in zip(rows.past, slices, strict=True) for k in range(own.stop - own.start)]
    shown = past[:: -(-len(past) // 400)]  # rows at which slopes are told
    place = shown[:, newest].argsort(axis=0).argsort(axis=0) * 10 // len(shown)
    at = np.column_stack([_by_tenths(shown[:, own], bins) for own, bins in zip(newest, place.T, strict=True)])
    local = np.zeros((10, *now.shape[1:], len(newest)))
    kept = [np.delete(np.arange(first), np.r_[own]) for own in rows.past] + [np.arange(first)]
    for stretches in np.array_split(np.arange(N_BLOCKS), _FOLDS):
        test = np.arange(ends[stretches[0]], ends[stretches[-1] + 1])
        train = np.delete(np.arange(len(now)), test)
        for k, columns in enumerate(kept):
            fitted = clone(template).fit(past[train][:, columns], now[train])
            missed[k, test] = now[test] - _predicted(fitted, past[test][:, columns])
        for b in stretches:
            slopes = _slopes(fitted, past[ends[b] : ends[b + 1]])
            jacobian[b], squares[b] = slopes.mean(axis=0), np.square(slopes).mean(axis=0)
        slopes = _slopes(fitted, shown)
        for cause, column in enumerate(newest):
            local[:, :, cause] += _by_tenths(slopes[:, :, column], place[:, cause]) / _FOLDS
    news = [missed[-1][:, own] for own in slices]
    losses = np.array([_whitened(missed[:, :, own], of_own, ends) for own, of_own in zip(slices, news, strict=True)])
    gains = losses[:, :-1] - losses[:, -1:]
    by_lag = [
        np.concatenate([each[..., of.start : of.stop].reshape(*each.shape[:2], N_LAGS, -1) for of in rows.past], axis=3)
        for each in (jacobian, squares)
    ]
    same_row = same_row_shares(news, [np.ones(len(now))] * n_units)
    means, of_squares = (np.swapaxes(each, 1, 2) for each in by_lag)
    return LeftOut(gains, same_row, means, of_squares, scale, at, local)


def _predicted(fitted, X):
    """Predictions (n_rows, n) of a regressor, which gives those of one state without a second axis."""
    return np.reshape(fitted.predict(X), (len(X), -1))


def _by_tenths(values, place):
    """Means of rows by their places, (10, ...)."""
    return pd.DataFrame(values).groupby(place).mean().to_numpy()


def _whitened(missed, news, ends):
    """Mean squares (k, n_stretches) of what k fits miss of a unit, (k, n_rows, p), in units of its news."""
    white = np.linalg.pinv(news.T @ news / len(news), rcond=1e-10, hermitian=True)
    size = np.einsum("kti,ij,ktj->kt", missed, white, missed)
    return np.add.reduceat(size, ends[:-1], axis=1) / np.diff(ends)


def _slopes(fitted, X):
    """Differences of predictions over the moves of every column, (n_rows, n, n_columns)."""
    moves = _REACH * np.eye(X.shape[1])
    slopes = [(_predicted(fitted, X + move) - _predicted(fitted, X - move)) / (2 * _REACH) for move in moves]
    return np.stack(slopes, axis=2)


def left_out_links(record, names, template, alpha):
    """The table of links of a :class:`JointRecord`, the mean Jacobian (N_LAGS, n, n) of the states or None, and slopes.

    `norm` is the root mean square of the Jacobian of standardised states, `stderr` its error over stretches;
    `statistic` and `p_value` are of the loss without the cause, one-sided, and adjusted by Holm's rule.
    """
    pairs = record.partition.pairs
    of_pairs = tuple(pairs.T)
    columns: dict[str, Any] = dict.fromkeys((*VALUES, *COLUMNS[3:]), np.nan)
    columns |= {"stderr": np.inf, "p_value": 1.0, "p_adjusted": 1.0}
    columns |= {"verdict": "cannot tell", "because": _TOO_FEW, "statistic": 0.0}
    jacobian, slopes = None, pd.DataFrame(columns=SLOPES)
    if can_be_graded(record):
        series, slices, starts, known = rows_of(record)
        found = left_out(series, slices, starts, template, known)
        columns |= {name: value[of_pairs] for name, value in _judged(found, slices, alpha).items()}
        jacobian = found.scale[:, None] * found.jacobian.mean(axis=0) / found.scale
        slopes = pd.concat([_slopes_of(found, names, slices, *pair) for pair in pairs], ignore_index=True)
    table = pd.DataFrame(named_pairs(names, pairs) | {"kind": "state", "basis": "held-out gain"} | columns)
    return in_order(table), jacobian, slopes


def _slopes_of(found, names, slices, effect, cause):
    """Slopes of the pair of states of two units with the largest Jacobian, whose errors nobody knows."""
    block = found.squares[:, 0, slices[effect], slices[cause]].mean(axis=0)
    i, j = np.add(np.unravel_index(block.argmax(), block.shape), (slices[effect].start, slices[cause].start))
    columns = {"cause": names[cause], "effect": names[effect], "state": found.at[:, j], "other": "", "level": 0.0}
    columns |= {"slope": found.slopes[:, i, j], "slope_error": np.nan, "line": found.jacobian[:, 0, i, j].mean()}
    return pd.DataFrame(columns)[SLOPES]


def _judged(found, slices, alpha):
    """Columns of a table of links, arrays [effect, cause]."""
    gain, error = trimmed(found.gains)
    off = ~np.eye(len(slices), dtype=bool)
    p_value, p_adjusted = stdtr(TRIMMED_DOF, -gain / error), np.ones_like(gain)
    p_adjusted[off] = holm(p_value[off])
    gains = Gains(gain, error, same_row=found.same_row)
    low, high = gains.low(SURE), gains.up(SURE)
    is_told = p_adjusted <= alpha
    is_influence = (low > NEGLIGIBLE) & exceeds_what_is_shared((gains,), SURE)
    verdict = np.where(is_told, np.where(is_influence, "influence", "coupled"), "cannot tell").astype(object)
    squares = np.array([[found.squares[..., e, c].sum(axis=(-2, -1)) for c in slices] for e in slices])  # by lag
    size = np.sqrt(squares.sum(axis=3))
    return {
        "verdict": verdict,
        "because": np.vectorize(_reason, otypes=[object])(verdict, low, high, found.same_row),
        "strength": gain,
        "low": low,
        "high": high,
        "same_row": found.same_row,
        "driver_needed": driver_needed(low),
        "evidence": 2 * np.arcsinh(gain / error),
        "lag": 1.0 + squares.mean(axis=2).argmax(axis=2),
        "norm": size.mean(axis=2),
        "stderr": size.std(axis=2, ddof=1) / np.sqrt(size.shape[2]),
        "statistic": gain / error,
        "p_value": p_value,
        "p_adjusted": p_adjusted,
    }


def _reason(verdict, low, high, same_row):
    """What speaks most against a verdict."""
    if verdict == "influence":
        return unless_driven(driver_needed(low))
    if verdict == "coupled":
        return f"{percent(same_row)} of their unpredicted variation is common in the same row, or the gain is small"
    least, most = (percent(max(share, 0)) for share in (low, high))
    return f"without the cause the regressor loses between {least} and {most}"


# A nonlinear model of the whole plant: any scikit-learn regressor from all states to all next states.


@dataclass(repr=False, eq=False)
class RegressorServer(MomentServer):
    """Plant learned as ``x_s[t] = f_s(x[t-1])`` with any scikit-learn regressor: equation 5 of [1]_.

    By default the labels are the units' next states, which is what tells a local fault from a propagated
    one. The paper's labels, the augmented predictions of the units, let the server learn what the units can
    predict themselves and little of the coupling; with ``labels="augmented"`` units and server are trained
    together by Algorithm 1 of [1]_, for ``evidence="flags"``. A linear model of the same plant is learned
    beside it for everything that needs one: filter and coherent shifts, and with ``labels="augmented"`` all
    innovations.

    Parameters
    ----------
    estimator : scikit-learn regressor, default=None
        Predicts standardised states; one with a single output is fitted once per state. None stands for a
        multilayer perceptron with 64 tanh units. ``labels="augmented"`` needs one with ``partial_fit``, such
        as :class:`~skfedcausal.papers.LSTMRegressor`, the paper's.
    labels : {"next", "augmented"}, default="next"
    batch_size : int, default=64
        Algorithm 1: time steps between two updates; 1 is the algorithm as printed.
    n_epochs : int, default=25
        Algorithm 1: passes over the record.
    client_weight : float, default=1.0
        Algorithm 1: weight of the units' loss beside the server's, ``eta_1 / eta_2``. Losses are in standard
        deviations of sensors and states.
    feedback : bool, default=True
        Algorithm 1: whether the units get the server's gradients. Without them the units are pre-trained and
        the server learns from what they send, a baseline of the paper.
    n_steps : int, default=20
    alpha : float, default=0.05
        Of the linear model, see :class:`~skfedcausal.MomentServer`.
    random_state : int, RandomState instance or None, default=None
        Of the networks that were given none; None takes that of the estimator the server belongs to.

    Attributes
    ----------
    transition_, process_cov_, state_slices_, names_
        Of the linear model, see :class:`~skfedcausal.MomentServer`.
    links_ : DataFrame
        With ``labels="next"`` one row per ordered pair, made when it is first asked for: `p_value` of what the
        regressor loses on stretches left out when it is fitted anew without the past of the cause, one-sided and
        adjusted by Holm's rule; `norm`, the root mean square of its Jacobian in standardised states. Takes as many fits
        as ten times the units and one.
    carried_ : ndarray of shape (n_lags, n, n) or None
        Mean Jacobian of the states by lag; None where rows are too few.
    network_ : object
        With ``labels="augmented"`` the trained f_s: ``predict`` takes all filtered states to all next ones.
    loss_history_ : DataFrame
        With ``labels="augmented"`` one row per epoch, columns ("client", unit) and ("server", unit): means of
        the losses at which the epoch's batches began.

    References
    ----------
    .. [1] Mohanty, Ramanan, Gebraeel, Learning Unknown Interdependencies for Decentralized Root Cause
           Analysis in Nonlinear Dynamical Systems.

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector, RegressorServer
    >>> from skfedcausal.datasets import make_nonlinear_plant
    >>> nominal = make_nonlinear_plant(n_samples=2500, size=0, random_state=0).data
    >>> detector = FederatedRCADetector(server=RegressorServer(random_state=0)).fit(nominal)
    >>> faulty = make_nonlinear_plant(n_samples=150, roots=[0], random_state=1)
    >>> detector.attribute(faulty.data, start=100, end=110).client[0]
    'unit0'
    """

    tells_slopes = True

    estimator: Any = None
    _: KW_ONLY
    labels: str = "next"
    batch_size: int = 64
    n_epochs: int = 25
    client_weight: float = 1.0
    feedback: bool = True
    random_state: Any = None

    _parameter_constraints = {
        **MomentServer._parameter_constraints,
        "estimator": [HasMethods(["fit", "predict"]), None],
        "labels": [StrOptions({"next", "augmented"})],
        "batch_size": [AT_LEAST_ONE],
        "n_epochs": [AT_LEAST_ONE],
        "client_weight": [FROM_ZERO],
        "feedback": ["boolean"],
        "random_state": ["random_state"],
    }

    is_asked_for_links = False  # set by estimators of links, whose copies elsewhere take the table along
    answers_effects = False

    @property
    def regressor(self) -> Any:
        """Template of the regressor for the next states; None if Algorithm 1 trains it."""
        return None if self.trains_corrections else self._template

    @property
    def _template(self):
        if self.estimator is not None:
            chosen = seeded(self.estimator, self.random_state)
            return chosen if _takes_all_states(chosen) else MultiOutputRegressor(chosen)
        return MLPRegressor(
            hidden_layer_sizes=(64,),
            activation="tanh",
            alpha=1e-4,
            learning_rate_init=3e-3,
            batch_size=128,
            early_stopping=True,
            n_iter_no_change=10,
            tol=1e-3,
            max_iter=150,
            random_state=0 if self.random_state is None else self.random_state,
        )

    @property
    def trains_corrections(self) -> bool:
        """Whether units and server are trained together."""
        return isinstance(self.labels, str) and self.labels == "augmented"

    @property
    def n_rounds_at_most(self) -> int:
        """How often Algorithm 1 sends the gradient about a time step."""
        return self.n_epochs

    @property
    def needs_replies(self) -> bool:
        """Whether a fit needs more than the first message of every unit."""
        return self.trains_corrections

    @property
    def tests_links(self) -> bool:  # type: ignore[override]
        """Whether it answers which unit acts on which."""
        return not self.trains_corrections

    def fit(self, messages: Mapping[str, StateMessage]) -> Self:
        """Learn the linear plant from one message per unit, and keep the rows until links are asked for.

        Parameters
        ----------
        messages : dict of str to StateMessage

        Returns
        -------
        self : RegressorServer
        """
        super().fit(messages)
        self._found: Any = None  # the table, the Jacobian, and slopes
        self._record: Any = JointRecord.from_messages(messages) if self.tests_links else None
        return self

    def __getstate__(self):
        if "_record" not in vars(self):
            return super().__getstate__()
        if self.is_asked_for_links and self._record is not None:
            _ = self._of_links  # from rows of the record it was fitted to, which stay here
        return {**super().__getstate__(), "_record": None}

    @property
    def links_(self) -> pd.DataFrame:
        """Every ordered pair of units with what leaving out the cause costs the regressor."""
        return self._of_links[0]

    @property
    def carried_(self) -> Any:
        """Mean Jacobian (n_lags, n, n) of the regressor in the states."""
        return self._of_links[1]

    @property
    def slopes_(self) -> pd.DataFrame:
        """Slopes of the regressor over the states of every cause, see :func:`~skfedcausal.inspection.link_slopes`."""
        return self._of_links[2]

    @property
    def _of_links(self):
        if self._found is None:
            if self._record is None:
                raise AttributeError("Nothing is known of links: fit a FederatedGrangerEstimator with labels='next'.")
            self._found = left_out_links(self._record, self.names_, self._template, self.alpha)
            self._record = None
        return self._found

    def dialogue(self, names: Sequence[str], inputs: bool = False) -> Generator[Any, Any, None]:
        """All rounds of a fit; with ``labels="augmented"`` those of Algorithm 1 follow the first message.

        Parameters
        ----------
        names : sequence of str
            Units of the plant, in the order of its matrices.
        inputs : bool, default=False
            Whether the plant has inputs.

        Yields
        ------
        Ask
            One message to each unit; in training every unit has to answer.
        """
        if not self.trains_corrections:
            yield from super().dialogue(names, inputs)
            return
        came = yield Ask(dict.fromkeys(names, FitRequest()), StateMessage)
        messages = self._learned_from(dict(came), came)
        yield from self.corrections(messages)
        yield Ask(dict.fromkeys(messages, NetworksTrained()), Acknowledgement, needed=len(messages))

    def corrections(self, messages: Mapping[str, StateMessage]) -> Generator[Any, Any, None]:
        """Algorithm 1 as a generator that yields requests to the units and receives their predicted states.

        Parameters
        ----------
        messages : dict of str to StateMessage

        Raises
        ------
        TypeError
            If the regressor has no ``partial_fit``.
        """
        network = clone(self._template)
        if self.estimator is None:
            network.set_params(early_stopping=False, learning_rate_init=1e-3)
        if not hasattr(network, "partial_fit"):
            raise TypeError(
                f"labels='augmented' trains step by step, which a {type(network).__name__} cannot: it has no "
                "`partial_fit`. Use MLPRegressor or LSTMRegressor, or labels='next'."
            )
        lengths = next(iter(messages.values())).lengths
        n_pairs = sum(lengths) - len(lengths)
        n_batches = -(-n_pairs // self.batch_size)
        plan = NetworkPlan(self.batch_size, float(self.client_weight))
        requests: dict = dict.fromkeys(self.names_, plan)
        answers = yield Ask(requests, PredictedStates, needed=len(requests))
        level, unit = np.hstack([answers[name].spread for name in self.names_])
        filtered, history = [], []
        for k in range(self.n_epochs * n_batches):
            if k < n_batches:
                filtered.append((self._joined(answers, "filtered") - level) / unit)
            past = filtered[k % n_batches]
            labels = (self._joined(answers, "predicted") - level) / unit
            network.partial_fit(past, labels)
            gap = labels - network.predict(past)
            by_unit = np.add.reduceat(gap**2, [rows.start for rows in self.partition_.slices], axis=1)
            history.append([*(answers[name].loss for name in self.names_), *by_unit.mean(axis=0)])
            pull = 2 * gap / unit
            if self.feedback:
                requests = {name: GradientReply(pull[:, at]) for name, at in self.state_slices_.items()}
            else:
                requests = dict.fromkeys(self.names_, NoGradient())
            answers = yield Ask(requests, PredictedStates, needed=len(requests))
        self.network_ = ScaledMap(network, level, unit)
        means = np.array(history).reshape(-1, n_batches, 2 * len(self.names_)).mean(axis=1)
        columns = pd.MultiIndex.from_product([["client", "server"], self.names_], names=["loss", "unit"])
        self.loss_history_ = pd.DataFrame(means, columns=columns).rename_axis("epoch")

    def _joined(self, answers, series):
        """Series of all units side by side."""
        n_rows = len(getattr(answers[self.names_[0]], series))
        shapes = {name: (n_rows, rows.stop - rows.start) for name, rows in self.state_slices_.items()}
        return np.hstack(arrays_of(answers, series, shapes))


def _takes_all_states(estimator):
    """Whether one regressor gives all states; scikit-learn's perceptron does, though its tags deny it."""
    last = getattr(estimator, "steps", [("", estimator)])[-1][1]
    return isinstance(last, MLPRegressor) or get_tags(estimator).target_tags.multi_output
