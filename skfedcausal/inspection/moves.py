"""Moves of inputs: schedules that bring sensors to targets, and experiments that decide links."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats
from scipy.optimize import Bounds, lsq_linear, minimize

from ..arguments import Inputs, Lengths, Record, check_choice, check_confidence, check_number, warn
from ..containers.arrays import as_names, listed, refuse_unknown
from ..estimators._interventions import long_table, recorded_inputs, two_sided
from ..estimators._parts import AskedInputs
from ..server.forecasts import forecast_covariances
from ..server.planning import (
    LinkDesign,
    best_moves,
    held_run,
    impulses,
    random_rows_needed,
    settled_covariance,
    spread_of,
    state_responses,
)
from ._asked import fitted
from .tuning import TUNING

if TYPE_CHECKING:
    from ..estimators.counterfactual import FederatedCounterfactualEstimator


# A schedule of inputs that brings sensors to targets: bounded least squares on what the plant is known to do.

_RIDGE = 1e-3  # weight of moves in shares of the bounds beside a miss in standard deviations
_PENALTIES = (1e2, 1e3, 1e4)  # of rates that are broken, in shares of the bounds


@dataclass(frozen=True, eq=False)
class Reach:
    """A plan, the answer of :func:`~skfedcausal.inspection.reach`.

    Attributes
    ----------
    verdict : {"reachable", "not reachable", "cannot tell"}
    schedule : DataFrame
        One row per row from now, 1 for the next one, and one column per input that may move.
    trajectory : DataFrame
        One row per row from now and column: ``time, column, value, low, high``: what is promised under the
        schedule while all other inputs stay as they are, and the band that a measurement falls in.
    miss : dict of str to float
        By target: root of the mean squared distance of the promise from the target in the rows where it has to
        be there, in standard deviations of the sensor in `fit`.
    notes : tuple of str
        What stands behind the verdict.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import reach
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> plan = reach(est, {"unit0__x0": 2.0}, inputs=["unit0__u0"], bounds={"unit0__u0": (-3, 3)}, by=10,
    ...     X=X, record_inputs=truth.inputs)
    >>> plan.schedule.shape
    (15, 1)
    """

    verdict: str
    schedule: pd.DataFrame
    trajectory: pd.DataFrame
    miss: dict
    notes: tuple


@dataclass(frozen=True, eq=False)
class AllowedInputs:
    """Inputs that may move: names, positions, ends of their bounds, most that they may change from row to row."""

    inputs: tuple
    at: list
    low: np.ndarray  # (m,), as the next two
    high: np.ndarray
    rates: np.ndarray  # infinite where there is none


@dataclass(frozen=True, eq=False)
class Wish(AllowedInputs):
    """What was asked for, checked: targets, inputs that may move, rows until they are reached and that they hold."""

    target: dict
    by: int
    hold: int

    @property
    def n_steps(self):
        return self.by + self.hold

    @property
    def rows(self):
        """Rows from now, counted from zero, in which targets have to be reached."""
        return slice(self.by - 1, self.n_steps)


def wished(spec, target, inputs, bounds, by, rates, hold):
    """The arguments of `reach`, or an error that says what is wrong with them."""
    if not isinstance(target, Mapping) or not target:
        raise ValueError(f"Got target={target!r}; give a dict from the name of a sensor, 'unit__sensor', to its value.")
    allowed = allowed_inputs(spec, inputs, bounds, rates)
    hold = TUNING.schedules_hold if hold is None else hold
    check_number(by, "by")
    check_number(hold, "hold", 0)
    for name, value in target.items():
        finite(value, f"The target of {name!r}")
    return Wish(**vars(allowed), target=dict(target), by=int(by), hold=int(hold))


def allowed_inputs(spec, inputs, bounds, rates):
    """The :class:`AllowedInputs` that the user describes, or an error that says what is wrong with them."""
    known = spec.written
    inputs = tuple(as_names(inputs, "inputs"))
    if not inputs or len(set(inputs)) < len(inputs):
        raise ValueError(f"Got inputs {listed(inputs)}; name one or more inputs, each once.")
    at = [spec.position_to_move(name) for name in inputs]
    still = [name for name, k in zip(inputs, at, strict=True) if not known.active[k]]
    if still:
        raise ValueError(f"Inputs {listed(still)} never moved in `fit`: what they do is not known. Leave them out.")
    words = [name for name in inputs if name in spec.levels]
    if words:
        raise ValueError(f"Inputs {listed(words)} have levels, between which there is nothing to plan. Leave them out.")
    low, high = (np.array([_pair(bounds, name)[k] for name in inputs]) for k in (0, 1))
    rates = dict.fromkeys(inputs) if rates is None else rates
    if not isinstance(rates, Mapping):
        raise ValueError(f"Got rates={rates!r}; give a dict by input, or None for any change.")
    refuse_unknown([*rates, *bounds], inputs, "Bounds or rates name", "`inputs` are")
    limits = np.array([np.inf if rates.get(name) is None else finite(rates[name], "A rate") for name in inputs])
    if not (limits > 0).all():
        raise ValueError("Got a rate that is not above zero; give the most that an input may change a row, or None.")
    return AllowedInputs(inputs, at, low, high, limits)


def check_now(allowed, now):
    """Refuse bounds that leave out where an input stands; NaN for one of which that is not known."""
    low, high = allowed.low, allowed.high
    slack = TUNING.schedules_rounding * (high - low)
    outside = (now < low - slack) | (now > high + slack)
    if outside.any():
        k = int(np.flatnonzero(outside)[0])
        raise ValueError(
            f"Input {allowed.inputs[k]!r} stands at {now[k]:.6g} now, outside its bounds {low[k]:.6g} to {high[k]:.6g}."
            " Give bounds that hold the present value, or leave the input out."
        )


def finite(value, what):
    """A finite number, or an error that says what is none."""
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
        raise ValueError(f"{what} is {value!r}; give a finite number.")
    return float(value)


def _pair(bounds, name):
    if not isinstance(bounds, Mapping) or name not in bounds:
        raise ValueError(f"There are no bounds for input {name!r}; give bounds={{input: (low, high)}} for every one.")
    try:
        edges = (float(edge) if isinstance(edge, bool | np.bool_) else edge for edge in bounds[name])  # of a switch
        low, high = (finite(edge, f"A bound of {name!r}") for edge in edges)
    except TypeError:
        raise ValueError(f"Got bounds {bounds[name]!r} for input {name!r}; give (low, high).") from None
    if not low < high:
        raise ValueError(
            f"Got bounds {low:.6g} to {high:.6g} for input {name!r}; the low one has to be below the high one. "
            "Leave an input out that is to stay as it is."
        )
    return low, high


class FreeRun(NamedTuple):
    """Forecast of all sensors with inputs as they are, its variance, (n_steps, d) each, and their levels, (d,)."""

    values: np.ndarray
    variance: np.ndarray
    level: np.ndarray
    columns: list


class Solution(NamedTuple):
    """A schedule (n_steps, m), what it promises of all sensors and the variance of its effect, (n_steps, d) each.

    And what of the effect on the targets is not linear in the moves, (n_rows, n_targets).
    """

    plan: np.ndarray
    promise: np.ndarray
    variance: np.ndarray
    bent: np.ndarray


class Situation:
    """Where the plant stands, where it goes by itself, and what the inputs can do about it."""

    def __init__(self, effects, units, wish, confidence):
        self._effects, self._units, self._wish, self._confidence = effects, units, wish, confidence
        spec = effects.spec
        messages = units.messages()
        self._recorded = recorded_inputs(units, messages)
        self._now = self._recorded[-1, wish.at]
        check_now(wish, self._now)
        self._free = self._by_itself(messages)
        self._targets = [self._place(name) for name in wish.target]
        loadings, spread = self._loadings()
        self._sd = np.sqrt(np.maximum(np.einsum("di,ij,dj->d", loadings, spread, loadings), np.finfo(float).tiny))
        self._wanted = np.array(list(wish.target.values()), dtype=float)
        n_moves = wish.n_steps * len(wish.inputs)
        early = spec.early[spec.active]
        n_draws = TUNING.schedules_few_draws if n_moves > TUNING.schedules_many_moves else TUNING.schedules_draws
        if (own := effects.engine.responses) is not None:
            self._impulses = own.impulses(loadings, wish.n_steps, early)
        else:
            self._impulses = impulses(effects.server, loadings, wish.n_steps, early, n_draws)

    def _place(self, name):
        columns = list(self._free.columns)
        refuse_unknown([name], columns, "`target` names", "known sensors are")
        return columns.index(name)

    def _by_itself(self, messages):
        """The :class:`FreeRun` from the last row of a record on."""
        n_steps, units = self._wish.n_steps, self._units
        run, states = held_run(self._effects.server, messages, n_steps)
        covariances = forecast_covariances(run, units.n_samples, n_steps, self._confidence)
        states = np.vstack([states, np.zeros_like(states[:1])])
        answers = units.mapped(states, [np.concatenate([V, V[-1:]]) for V in covariances])
        values, variance, columns = units.with_variance(answers)
        return FreeRun(values[:-1], variance[:-1], values[-1], columns)

    def _loadings(self):
        """Rows of C of sensors with a target, (n_targets, n), and the covariance of states, (n, n)."""
        C, _ = self._units.loadings()
        return C[self._targets], spread_of(self._effects.server)

    # -- solving ---------------------------------------------------------------------------------

    def _slopes(self, plan):
        """How far columns that are sent move for a move of each input, (n_steps, k, m), from now to a plan."""
        spec, wish, active = self._effects.spec, self._wish, self._effects.spec.active
        if spec.map.is_linear:
            chosen = np.zeros((int(active.sum()), len(wish.at)))
            chosen[np.cumsum(active)[wish.at] - 1, np.arange(len(wish.at))] = 1.0
            return np.broadcast_to(chosen, (wish.n_steps, *chosen.shape))
        held = np.repeat(self._recorded[-1:], wish.n_steps, axis=0)
        slopes = np.zeros((wish.n_steps, int(active.sum()), len(wish.at)))
        for j, k in enumerate(wish.at):
            other, least = held.copy(), 1e-6 * (wish.high[j] - wish.low[j])
            move = plan[:, j] - self._now[j]
            move = np.where(np.abs(move) < least, least if self._now[j] + least <= wish.high[j] else -least, move)
            other[:, k] = self._now[j] + move
            change = spec.change(held, other)[:, active]
            own = (spec.owners == k)[active]
            slopes[:, own, j] = change[:, own] / move[:, None]
        return slopes

    def _matrix(self, responses, slopes):
        """What moves do to targets in the rows that count, (n_targets, n_rows, n_steps, m)."""
        wish = self._wish
        rows, steps = np.arange(wish.n_steps)[wish.rows], np.arange(wish.n_steps)
        lag = rows[:, None] - steps
        found = responses[:, lag.clip(0)] * (lag >= 0)[:, :, None]
        return np.einsum("irsk,skj->irsj", found, slopes, optimize=True)

    def _solved(self):
        """The best :class:`Solution`.

        Within the range of inputs that was seen, and beyond it only where that is not enough.
        """
        wish, known = self._wish, self._effects.spec.written
        low = np.minimum(np.maximum(wish.low, known.low[wish.at]), self._now)
        high = np.maximum(np.minimum(wish.high, known.high[wish.at]), self._now)
        leaves_it = (low > wish.low).any() or (high < wish.high).any()
        if leaves_it and (low < high).all():
            found = self._best(replace(wish, low=low, high=high))
            if (self._miss(found.promise) <= TUNING.schedules_close).all():
                return found
        return self._best(wish)

    def _best(self, wish):
        """The same within the bounds of a wish."""
        is_bent = not self._effects.spec.map.is_linear
        is_bent |= bool(getattr(self._effects.server, "knows_curvature", False))  # or shrunk by what is asked
        gap = (self._wanted - self._free.values[wish.rows][:, self._targets]).T  # (n_targets, n_rows)
        ahead = np.where(np.arange(2)[:, None] == 0, wish.low, wish.high)
        plan = np.repeat(ahead[[1]], wish.n_steps, axis=0)
        best, least = None, np.inf
        correction = np.zeros_like(gap)
        for _ in range(TUNING.schedules_passes if is_bent else 1):
            slopes = self._slopes(plan)
            G = self._matrix(self._impulses.mean, slopes)
            errors = [self._matrix(draw, slopes) for draw in self._impulses.draws]
            moves = least_moves(G, gap - correction, errors, self._sd, self._now, wish)
            plan = self._now + moves
            effect, variance = self._effect(plan)
            found = effect[wish.rows][:, self._targets].T
            miss = float(np.square((found - gap) / self._sd[:, None]).mean())
            slopes = self._slopes(plan)
            bent = found - np.einsum("irsj,sj->ir", self._matrix(self._impulses.mean, slopes), moves)
            if miss < least:
                least = miss
                best = Solution(plan, self._free.values + effect, variance, bent.T if is_bent else 0 * bent.T)
            if miss < (0.1 * TUNING.schedules_close) ** 2:
                break
            correction = bent
        return best

    def _effect(self, plan):
        """Effect of a schedule on all sensors, and its variance, (n_steps, n_columns), asked of the units."""
        effects, wish = self._effects, self._wish
        past = self._recorded[-TUNING.schedules_history :]
        held = np.vstack([past, np.repeat(past[-1:], wish.n_steps, axis=0)])
        other = held.copy()
        other[len(past) :, wish.at] = plan
        units = replace(self._units, lengths=(len(held),))
        change = effects.spec.change(held, other)
        operated = effects.above_level(held)
        none_held = np.zeros(change.shape[1], dtype=bool)
        shape = len(held), len(self._free.columns)
        effect, variance, _ = effects.replayed(units, change, operated, none_held, "hold", shape)
        return effect[len(past) :], np.nan_to_num(variance[len(past) :])

    # -- what is said ----------------------------------------------------------------------------

    def _miss(self, promise):
        """Root mean squares by which a promise (n_steps, d) misses targets, (n_targets,), in standard deviations."""
        missed = (promise[self._wish.rows][:, self._targets] - self._wanted) / self._sd
        return np.sqrt(np.square(missed).mean(axis=0))

    def answer(self):
        """Verdict, schedule and trajectory."""
        plan, promise, variance, bent = self._solved()
        wish, sd, miss = self._wish, self._sd, self._miss(promise)
        rows, at = wish.rows, self._targets
        # bands take what is beyond second order to be as large as that, which is the most; here it is half of it
        spread = variance[rows][:, at]
        spread = np.maximum(spread - (1 - TUNING.schedules_beyond**2) * bent**2, TUNING.schedules_beyond**2 * spread)
        doubt = np.sqrt(spread).mean(axis=0) / sd * stats.norm.ppf(self._confidence)  # to one side
        moved = np.abs(self._free.values[rows][:, at].mean(axis=0) - self._wanted) / sd
        notes = self._notes(plan)
        is_far = np.abs(self._wanted - self._free.level[at]) > TUNING.schedules_far * sd
        unseen = [name for name, far in zip(wish.target, is_far, strict=True) if far]
        if unseen:
            notes.append(f"Targets of {listed(unseen)} lie outside what was seen in `fit`.")
        vague = doubt > np.maximum(TUNING.schedules_vague, moved / 2)
        if (miss - doubt > TUNING.schedules_close).any():
            verdict = "not reachable"
        else:
            is_missed = (miss > TUNING.schedules_close).any() or self._leaves(plan, TUNING.schedules_out).any()
            verdict = "cannot tell" if is_missed or vague.any() or unseen else "reachable"
        half = two_sided(self._confidence) * np.sqrt(self._free.variance + variance)
        by_itself = half[rows][:, at].mean(axis=0) / sd
        for name, one, width, row in zip(wish.target, miss, doubt, by_itself, strict=True):
            notes.append(
                f"{name}: promised within {one:.3g} standard deviations of the target; what the moves do is known "
                f"to {width:.2g} of them, a single measurement to {row:.2g}."
            )
        steps = pd.RangeIndex(1, wish.n_steps + 1, name="time")
        schedule = pd.DataFrame(np.clip(plan, wish.low, wish.high), index=steps, columns=list(wish.inputs))
        blocks = {"value": promise, "low": promise - half, "high": promise + half}
        trajectory = long_table("time", steps, self._free.columns, blocks)
        return Reach(verdict, schedule, trajectory, dict(zip(wish.target, miss.tolist(), strict=True)), tuple(notes))

    def _of_whole_moves(self, responses, slopes):
        """What inputs do to targets that move through all of their bounds and stay, (n_targets, m), in their sd."""
        found = self._matrix(responses, slopes).sum(axis=2).mean(axis=1)
        return found * (self._wish.high - self._wish.low) / self._sd[:, None]

    def _leaves(self, plan, share):
        """Which inputs a schedule takes out of the range seen in `fit`, by more than a share of it, (m,)."""
        known, at = self._effects.spec.written, self._wish.at
        low, high = known.low[at], known.high[at]
        slack = share * (high - low)
        return (plan.min(axis=0) < low - slack) | (plan.max(axis=0) > high + slack)

    def _notes(self, plan):
        """Notes about inputs: those without effect on any target, and those that leave the range seen."""
        wish, notes = self._wish, []
        slopes = self._slopes(plan)
        size = [self._of_whole_moves(part, slopes) for part in (self._impulses.mean, *self._impulses.draws)]
        doubt = two_sided(self._confidence) * np.sqrt(np.mean(np.square(size[1:] or [0 * size[0]]), axis=0))
        idle = (np.abs(size[0]) < np.maximum(TUNING.schedules_idle, doubt)).all(axis=0)
        if idle.any():
            notes.append(f"Inputs {listed(np.array(wish.inputs)[idle])} do next to nothing to the targets.")
        beyond = self._leaves(plan, 1e-9)
        if beyond.any():
            names = listed(np.array(wish.inputs)[beyond])
            notes.append(f"The schedule takes inputs {names} out of the range seen in `fit`.")
            warn(f"{notes[-1]} The promise extrapolates.")
        return notes


# -- bounded least squares -------------------------------------------------------------------------


def least_moves(G, gap, errors, sd, now, wish):
    """Moves from where the inputs stand now, shape (n_steps, m).

    ``G`` (n_targets, n_rows, n_steps, m) says what moves do, `gap` (n_targets, n_rows) what they should do,
    `errors` how G may be wrong: the expected squared miss is that of G and the mean of those of its errors.
    """
    n_steps, m = G.shape[2:]
    width = wish.high - wish.low
    rows = len(gap[0])

    def scaled(matrix, share):
        return (matrix / sd[:, None, None, None] * width).reshape(-1, n_steps * m) * np.sqrt(share / rows)

    blocks = [scaled(G, 1.0), *(scaled(error, 1.0 / len(errors)) for error in errors)]
    M = np.vstack(blocks)
    b = np.concatenate([(gap / sd[:, None]).ravel() / np.sqrt(rows), np.zeros(len(M) - len(blocks[0]))])
    M, b = _reduced(M, b)
    low, high = (np.tile((edge - now) / width, n_steps) for edge in (wish.low, wish.high))
    limits = wish.rates / width
    if np.isinf(limits).all() and n_steps * m <= TUNING.schedules_exact:
        moves = np.kron(np.eye(n_steps) - np.eye(n_steps, k=-1), np.eye(m))  # from row to row
        whole = np.vstack([M, np.sqrt(_RIDGE / n_steps) * moves])
        aim = np.concatenate([b, np.zeros(len(whole) - len(b))])
        x = lsq_linear(whole, aim, bounds=(low, high + 1e-12), method="trf", tol=1e-10).x.reshape(n_steps, m)
    else:
        x = _by_gradients(M, b, low, high, limits, n_steps, m)
    return within(x, np.zeros(m), low[:m], high[:m], limits) * width


def _reduced(M, b):
    """As few rows of a least-squares problem, M (n, k) and b (n,), as say the same but for what weighs nothing."""
    if len(M) > M.shape[1]:
        Q, R = np.linalg.qr(M)
        return R, Q.T @ b
    values, axes = np.linalg.eigh(M @ M.T)
    kept = axes[:, values > TUNING.schedules_weightless * values[-1]].T
    return kept @ M, kept @ b


def _by_gradients(M, b, low, high, limits, n_steps, m):
    """The same of many moves, or with rates, which a growing penalty keeps to, (n_steps, m)."""
    x = np.zeros(n_steps * m)
    ridge, finite = _RIDGE / n_steps, np.isfinite(limits)

    def value(x, penalty):
        rest = M @ x - b
        steps = np.diff(x.reshape(n_steps, m), axis=0, prepend=0.0)
        pull = ridge * steps
        loss = rest @ rest + ridge * np.square(steps).sum()
        if finite.any():
            over = np.where(finite, steps - np.clip(steps, -limits, limits), 0.0)
            loss += penalty * np.square(over).sum()
            pull = pull + penalty * over
        back = pull.copy()
        back[:-1] -= pull[1:]
        return loss, 2 * (M.T @ rest + back.ravel())

    for penalty in _PENALTIES if finite.any() else (0.0,):
        settings = {"maxiter": 120, "maxfun": 150, "ftol": 1e-9, "gtol": 1e-7}
        edges = Bounds(low, high)
        x = minimize(value, x, (penalty,), jac=True, bounds=edges, method="L-BFGS-B", options=settings).x
    return x.reshape(n_steps, m)


def within(x, before, low, high, limits):
    """Values (n_steps, m) that keep to bounds and rates exactly, from those of the row before; NaN for any."""
    x = np.clip(x, low, high)
    before = np.where(np.isnan(before), x[0], before)
    for row in x:
        row[:] = np.clip(row, before - limits, before + limits)
        before = row
    return x


# The moves of inputs that would best decide whether one unit acts on another.

_KINDS = ("state", "input")


@dataclass(frozen=True, eq=False)
class Experiment:
    """Moves that tell most about a link, the answer of :func:`~skfedcausal.inspection.experiment`.

    Attributes
    ----------
    schedule : DataFrame
        One row per row from now, 1 for the next one, and one column per input that may move.
    rows_needed : int
        Rows of such moves after which an influence of strength `margin` (of the server) is separated from none four
        times in five, by this plant; more than the schedule has where it is too short.
    random_rows_needed : int
        The same of inputs that go from bound to bound at random in every row.
    verdict : str
        What `links_` says about the link so far.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import experiment
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> plan = experiment(est, "unit0", "unit1", inputs=["unit0__u0"], bounds={"unit0__u0": (-3, 3)}, rows=50)
    >>> plan.schedule.shape
    (50, 1)
    """

    schedule: pd.DataFrame
    rows_needed: int
    random_rows_needed: int
    verdict: str


def designed_experiment(effects, links, cause, effect, inputs, bounds, rows, kind, rates, now):
    """The :class:`Experiment` of a link, by :class:`InputEffects`; `links` is the table of the plant."""
    server, spec = effects.server, effects.spec
    refuse_unknown((cause, effect), server.names_, "Got unknown unit")
    check_choice("kind", kind, _KINDS)
    if cause == effect:
        raise ValueError(f"Got {cause!r} as cause and effect; a link has two units.")
    check_number(rows, "rows", 10)
    allowed = allowed_inputs(spec, inputs, bounds, rates)
    inputs, at, low, high = allowed.inputs, allowed.at, allowed.low, allowed.high
    bent = [name for name, k in zip(inputs, at, strict=True) if spec.map.functions[k] is not None]
    if bent:
        raise ValueError(
            f"Inputs {listed(bent)} act through a curve, and an experiment is designed for linear ones. Leave them out."
        )
    half, middle = (high - low) / 2, (high + low) / 2
    start = _standing(inputs, {} if now is None else now)
    check_now(allowed, start)
    design = link_design(server, spec, cause, effect, kind, at, half, int(rows))

    def keep(u):
        return (within(middle + half * np.clip(u, -1, 1), start, low, high, allowed.rates) - middle) / half

    levels = server.alpha, server.margin
    u = best_moves(design, int(rows), keep)
    steps = pd.RangeIndex(1, int(rows) + 1, name="time")
    schedule = pd.DataFrame(np.clip(middle + half * u, low, high), index=steps, columns=list(inputs))
    link = links.query("cause == @cause and effect == @effect and kind == @kind")
    return Experiment(
        schedule,
        design.rows_needed(u, *levels),
        random_rows_needed(design, int(rows), keep, *levels),
        link["verdict"].iloc[0] if len(link) else "unknown",
    )


def _standing(inputs, now):
    """Where inputs stand, NaN for those of which nothing is said."""
    if not isinstance(now, Mapping):
        raise ValueError(f"Got now={now!r}; give a dict from input to its present value.")
    refuse_unknown(now, inputs, "`now` names", "`inputs` are")
    return np.array([finite(now[name], f"The present value of {name!r}") if name in now else np.nan for name in inputs])


def link_design(server, spec, cause, effect, kind, at, half, n_rows):
    """The :class:`LinkDesign` of a link for inputs at positions, moved by `half` of the width of their bounds."""
    sent = np.searchsorted(spec.owners[spec.active], at)  # one column each, since they are linear
    early = spec.early[spec.active]
    scale = server.plant_.scale
    back = np.linalg.inv(scale)
    responses = np.einsum("ij,jtk->itk", back, state_responses(server, n_rows, early)[:, :, sent] * half)
    of_cause, of_effect = (np.arange(rows.start, rows.stop) for rows in map(server.state_slices_.get, (cause, effect)))
    acting = np.flatnonzero(server.transition_[of_effect].any(axis=0))
    moving = np.arange(len(at))  # the search for links starts with inputs that act on every unit
    if kind == "state":
        causes, states, direct = of_cause, np.setdiff1d(acting, of_cause), moving
        states = np.concatenate([of_cause, states])
    else:
        units = [spec.written.units[k] for k in at]
        causes = np.flatnonzero([unit == cause for unit in units])
        states, direct = acting, np.concatenate([causes, np.setdiff1d(moving, causes)])
    noise = back @ settled_covariance(server) @ back.T
    rest = (back @ server.process_cov_ @ back.T)[np.ix_(of_effect, of_effect)]
    design = LinkDesign(responses, noise, states, direct.astype(int), early[sent], len(causes), kind == "input", rest)
    if not len(causes):
        raise ValueError(f"None of the `inputs` belongs to {cause!r}: what its inputs do is told by moving them.")
    if kind == "state" and np.abs(design.responses[causes]).sum(axis=1).max() < TUNING.designs_nothing:
        raise ValueError(
            f"The `inputs` do next to nothing to the states of {cause!r} within their bounds: no moves of theirs tell "
            "about this link. Give inputs that act on it, or wider bounds."
        )
    return design


# Moves of inputs: schedules that bring sensors to targets, and experiments that decide links.


def reach(
    est: "FederatedCounterfactualEstimator",
    target: Any,
    *,
    inputs: str | Sequence[str],
    bounds: Mapping[str, Any],
    by: int,
    rates: Mapping[str, Any] | None = None,
    hold: int | None = None,
    X: Record | None = None,
    confidence: float = 0.9,
    record_inputs: Inputs = None,
    lengths: Lengths = None,
) -> "Reach":
    """A schedule of inputs that brings sensors to targets, with what it promises.

    Parameters
    ----------
    est : FederatedCounterfactualEstimator
        Fitted.
    target : dict of str to float
        Value by sensor, ``unit__sensor``, of any units.
    inputs : str or list of str
        Inputs that may move, ``unit__input``; all others stay as they are in the last row of X.
    bounds : dict of str to (float, float)
        Low and high end of every one of them, which hold its present value.
    by : int
        Rows from now, 1 for the next one, until the targets are reached.
    rates : dict of str to float, default=None
        Most that an input may change from row to row; None for any change.
    hold : int, default=None
        Rows that the targets are held after that. None: 5.
    X : list, dict, DataFrame or ndarray, default=None
        The rows up to now, in a container as in `fit`; None after `fit_sites`, for the record of the sites.
    confidence : float, default=0.9
        Of the band of what is promised.
    record_inputs : list or dict, default=None
        Inputs beside X, as `inputs` of `fit`.
    lengths : sequence of int, default=None
        Rows of each episode of X; the last of them goes on.

    Returns
    -------
    Reach
        Verdict, schedule, promised trajectory.

    Raises
    ------
    ValueError
        If an input or sensor is unknown, an input never moved in `fit` or has levels, bounds are missing or
        leave out the present value.

    Warns
    -----
    UserWarning
        If the schedule leaves the range of an input that was seen in `fit`.

    Notes
    -----
    The schedule has the least expected squared miss over the rows where the targets have to be reached, the
    error of the estimated plant included, with a small price on moves that makes it unique. "Not reachable" is
    said where even so the promise stays away from a target by more than the plant may be wrong, "cannot tell"
    where it stays away by less, where the effect of the inputs is hardly known, or where the target lies
    outside what was seen or the schedule leaves the range of an input by a tenth of it. It leaves that range only
    where no schedule within it is enough. The band is that of a forecast, see `forecast`, and of the effect.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import reach
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> limits = {"unit0__u0": (-3, 3)}
    >>> reach(est, {"unit0__x0": 1e6}, inputs=list(limits), bounds=limits, by=10, X=X,
    ...     record_inputs=truth.inputs).verdict
    'not reachable'
    """
    asked = fitted(est, AskedInputs, "reach")
    check_confidence(confidence)
    effects = asked.effects()
    effects.check_covariances("a plan")
    wish = wished(effects.spec, target, inputs, bounds, by, rates, hold)
    with asked.about(X, record_inputs, lengths) as units:
        return Situation(effects, units, wish, confidence).answer()


def experiment(
    est: "FederatedCounterfactualEstimator",
    cause: str,
    effect: str,
    *,
    inputs: str | Sequence[str],
    bounds: Mapping[str, Any],
    rows: Any,
    kind: str = "state",
    rates: Mapping[str, Any] | None = None,
    now: Any = None,
) -> "Experiment":
    """The moves of inputs within bounds that would best decide whether one unit acts on another.

    Parameters
    ----------
    est : FederatedCounterfactualEstimator
        Fitted.
    cause, effect : str
        Units of the link that is to be decided.
    inputs : str or list of str
        Inputs that may move, ``unit__input``.
    bounds : dict of str to (float, float)
        Low and high end of every one of them.
    rows : int
        Rows of the experiment, at least 10.
    kind : {"state", "input"}, default="state"
        Whether the states of `cause` act on `effect`, or its inputs do.
    rates : dict of str to float, default=None
        Most that an input may change from row to row; None for any change.
    now : dict of str to float, default=None
        Present values of inputs, from which rates count; None for any.

    Returns
    -------
    Experiment
        Schedule, and the rows that it and a random excitation need for a decision.

    Raises
    ------
    ValueError
        If a unit or input is unknown, bounds are missing or leave out the present value, or the inputs do nothing
        to the cause.

    Notes
    -----
    The schedule has the largest determinant of the information about the coefficients of the link, given all others
    that act on the effect, in the plant that was learned (D-optimality for a part of the coefficients). It asks no
    unit and sends nothing. Put the rows of the experiment behind those of the record (`lengths`) and fit again.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.inspection import experiment
    >>> X, truth = make_granger_plant(2, n_inputs=1, input_links=[(0, 1)], random_state=0)
    >>> est = FederatedCounterfactualEstimator().fit(X, inputs=truth.inputs)
    >>> plan = experiment(est, "unit0", "unit1", inputs=["unit0__u0"], bounds={"unit0__u0": (-3, 3)}, rows=100)
    >>> plan.rows_needed <= plan.random_rows_needed
    True
    """
    effects = fitted(est, AskedInputs, "experiment").effects()
    effects.check_covariances("an experiment")
    return designed_experiment(effects, est.links_, cause, effect, inputs, bounds, rows, kind, rates, now)
