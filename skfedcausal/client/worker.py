"""A unit's side of the federation: it alone holds the record, and functions by kind of message answer for it."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..containers.rows import episode_starts
from ..message.packet import PacketError
from ..message.requests import CommonRows
from ..message.schema import KINDS
from ..message.states import StateMessage
from ..seeding import copied
from ..statespace.episodes import episode_lengths, lagged_rows
from .extended_kalman import BlackBoxClient, ExtendedKalmanClient, NonlinearClient
from .kalman import KalmanClient
from .monitor import ResidualFlag
from .records import Silence, UnitRows, in_use, release_pages, warn_few_rows
from .unit_model import UnitClient, expected_measurements, under_noise

# Which function of a unit answers which kind of message; modules add theirs with ``handles``.


class Handler(NamedTuple):
    """What answers a kind of message."""

    answer: Callable[..., tuple[Any, dict]]  # (unit, message, state, round) -> (its answer, the state after it)
    sets_precision: bool  # whether later answers have the precision that this message asks for


MODULES = ("client.fitting", "client.questions", "client.watching", "papers.client.network_training")

_HANDLERS: dict[str, Handler] = {}


def handles(*kinds, sets_precision=False):
    """Decorate the function of a unit that answers some kinds of message.

    Parameters
    ----------
    *kinds : subclasses of Message
    sets_precision : bool, default=False
        Whether later answers have the precision that this message asks for.

    Returns
    -------
    callable
        Decorator of ``answer(unit, message, state, round)``, which returns the message that goes back and the
        state of the unit after it. The unit is the ``UnitWorker`` of the record without its seasons and the like.

    Raises
    ------
    ValueError
        If one of the kinds has a handler in another module.
    """

    def register(answer):
        for kind in kinds:
            known = _HANDLERS.setdefault(kind.OP, Handler(answer, sets_precision))
            if known.answer.__module__ != answer.__module__:
                raise ValueError(
                    f"{kind.__name__} is answered by {known.answer.__module__}.{known.answer.__name__} already; "
                    f"{answer.__module__}.{answer.__name__} cannot answer it too."
                )
        return answer

    return register


def handler_of(op):
    """Handler of an operation, None if no module has one."""
    if op not in _HANDLERS:
        for module in MODULES:
            import_module(f"skfedcausal.{module}")
    return _HANDLERS.get(op)


# What a unit computes locally, from its own record and from what it received, whatever its client is.


def loadings(client, n_states):
    """How a unit's measurements follow its states, shape (n_sensors, n_states), whatever its client is."""
    level = client.measurements(np.zeros((1, n_states)))
    return (client.measurements(np.eye(n_states)) - level).T


def mapped_effect(site, reply):
    """Effect of a change of inputs on a unit's measurements, and its variance, shape (n_steps, n_sensors)."""
    C = loadings(site["client"], reply.states.shape[1])
    variance = effect_variances(reply, C)
    error = site.get("loading_error")
    if error is not None:
        variance += error.variance(reply.states)
    return reply.states @ C.T, variance


def effect_variances(reply, C):
    """Variances of ``C`` times the states of an effect, NaN where it came without covariances.

    C is (n_sensors, n_states), the variances (n_steps, n_sensors).
    """
    if reply.covariances is None:
        return np.full((len(reply.states), len(C)), np.nan)
    return np.einsum("di,tij,dj->td", C, reply.covariances, C).clip(0)


def forecast_variance(client, reply):
    """Variance of what a forecast of the states' scores misses of measurements, shape (n_samples, n_sensors).

    A score holds the sensor noise along the states; what the scores do not show of it is added here.
    """
    C = loadings(client, reply.states.shape[1])
    noise = getattr(client, "measurement_cov_", np.zeros(len(C)))
    R = np.diag(noise) if noise.ndim == 1 else noise
    seen = np.isfinite(R.diagonal()) & (R.diagonal() > 0)
    rest = np.zeros(len(C))
    if seen.any():
        of_seen, R = C[seen], R[np.ix_(seen, seen)]
        J = of_seen.T @ np.linalg.solve(R, of_seen)
        rest[seen] = (R - of_seen @ np.linalg.pinv(J, hermitian=True) @ of_seen.T).diagonal().clip(0)
    return effect_variances(reply, C) + rest


def local_features(client, Y, U, starts, n_states=None):
    """Centred measurements with the missing ones replaced by their filtered expectation. Shape (n_samples, n_used)."""
    if not isinstance(client, UnitClient):
        states = _filtered(client, Y, U, starts, n_states)
        level = client.measurements(np.zeros((1, states.shape[1])))
        expected = in_shape(client.measurements(states), Y.shape, client, "measurements")
        centred = np.where(np.isnan(Y), expected, Y) - level
        return np.nan_to_num(centred)  # a sensor that was never seen has no level
    Y = in_use(client, Y)
    model = client.model
    centred = Y - model.mean
    if not np.isfinite(Y.sum()):  # a missing value anywhere reaches the sum
        missing = np.isnan(centred)
        expected = model.filter(Y, U, starts) @ model.C.T
        centred[missing] = expected[missing]
    return centred


def in_shape(value, shape, part, method):
    """What a part of the user's own gave, if it has the shape that it should have."""
    if np.shape(value) != shape:
        raise PacketError(
            f"`{method}` of its {type(part).__name__} gave an array of shape {np.shape(value)}, expected {shape}."
        )
    return value


def _filtered(client, Y, U, starts, n_states=None):
    """States by the unit's own filter."""
    if isinstance(client, UnitClient):
        return client.model.filter(in_use(client, Y), U, starts)
    states = client.filter(Y, **along(Y, U, starts))
    return states if n_states is None else in_shape(states, (len(Y), n_states), client, "filter")


def _predicted(client, Y, U, starts):
    """Measurements predicted one step ahead by the unit's own filter."""
    if isinstance(client, UnitClient):
        states = client.model.predict(in_use(client, Y), U, starts)
        return expected_measurements(client, states, Y, U, starts)
    return in_shape(client.predict(Y, **along(Y, U, starts)), Y.shape, client, "predict")


def local_prediction(site, Y, U, starts, *, augmented):
    """Measurements predicted one step ahead by what the unit itself has, shape (n_samples, n_sensors)."""
    client = site["client"]
    if not augmented:
        return _predicted(client, Y, U, starts)
    if hasattr(site["augmenter"], "corrected_measurements"):  # trained to correct the filtered states
        return site["augmenter"].corrected_measurements(client, Y, starts)
    filtered = _filtered(client, Y, U, starts, len(site["transition"]))
    n_lags = site["transition"].shape[1] // len(site["transition"])
    states = lagged_rows(filtered, n_lags, starts) @ site["transition"].T
    if "input_matrix" in site:
        states += _driven(U - site["input_mean"], site["input_matrix"], starts)
    states[list(starts)] = 0.0
    guess = site["augmenter"].predict(local_features(client, Y, U, starts, states.shape[1]), starts)
    states += in_shape(guess, states.shape, site["augmenter"], "predict")
    if isinstance(client, UnitClient):
        return expected_measurements(client, states, Y, U, starts)
    return in_shape(client.measurements(states), Y.shape, client, "measurements")


def _driven(inputs, matrix, starts):
    """What its own inputs add, those of the row before or, through blocks side by side, of rows 0, 1, ... before.

    `inputs` is (n_samples, k), `matrix` (p, k n_lags).
    """
    n_lags = matrix.shape[1] // inputs.shape[1]
    before = lagged_rows(inputs, max(n_lags - 1, 1), starts)
    return (before if n_lags == 1 else np.hstack([inputs, before])) @ matrix.T


def off_baseline(client, Y, index, starts, after=None):
    """Watched measurements less seasons and the like of a client that knows any, and the number of the last row."""
    baseline = getattr(client, "baseline_", None)
    if baseline is None:
        return Y, None
    off, last = getattr(baseline, "watched", baseline).of(Y, index, starts, after)
    return Y - off, last


def unit_message(client, Y, starts, *, inputs=None, const=False, local_model=False, monitor=None):
    """Message of a fitted client about measurements, whatever kind of client it is."""
    if monitor is not None and not (const or local_model):
        return monitor.message(shown_columns(client, Y), starts)[0].with_inputs(inputs)
    wishes = {"const": const, "local_model": local_model}
    if isinstance(client, UnitClient):
        return client.message_about(Y, starts, inputs=inputs, **wishes)
    message = client.message(Y, **wishes, **along(Y, inputs, starts))
    about_these_rows = isinstance(message, StateMessage) and len(message.z) == len(Y)
    return message.with_inputs(inputs) if about_these_rows and message.inputs is None else message


def along(Y, inputs, starts):
    """Keywords of the methods of a KalmanClient beside the record."""
    known = {} if inputs is None else {"inputs": inputs}
    return {"lengths": episode_lengths(starts, len(Y)), **known}


def stream_message(state, Y, starts, known=None, measured=None):
    """Message about the next rows of a stream, and what the unit has to know for those after them.

    `measured` are the rows before seasons and the like were taken off.
    """
    known, habit = (None, None) if known is None else known
    if state.get("monitor") is not None:
        message, known = state["monitor"].message(shown_columns(state["client"], Y), starts, known)
    else:
        message, known = unit_message(state["client"], Y, starts), None
    message, habit = with_events(message, state.get("habits"), Y if measured is None else measured, starts, habit)
    return message, (known, habit)


def with_events(message, habits, Y, starts, before=None):
    """A message with what the unit notices of the habits of its columns, and where a stream stands after it."""
    if habits is None:
        return message, None
    events, after = habits.events(Y, starts, before)
    return (message if events is None else replace(message, events=events)), after


def shown_columns(client, Y):
    """Columns that a client's monitor looks at."""
    return in_use(client, Y) if isinstance(client, UnitClient) else Y


def factual(client, Y, reply):
    """A unit's measurements, expected ones where they are missing, and the variance of those.

    The variance is None where nothing had to be found out, both of shape (n_samples, n_sensors).
    """
    if reply.states is None:
        return Y, None
    C, missing = loadings(client, reply.states.shape[1]), np.isnan(Y)
    noise = getattr(client, "measurement_cov_", np.zeros(len(C)))
    noise = noise if noise.ndim == 1 else np.diag(noise)
    spread = np.einsum("di,tij,dj->td", C, reply.covariances, C) + np.where(np.isinf(noise), 0, noise)
    return np.where(missing, client.measurements(reply.states), Y), np.where(missing, spread, 0.0)


# -- flags ---------------------------------------------------------------------------------------


def own_record(state):
    """State of a unit for its raw record, to which no noise was added."""
    client = state["client"]
    if not (isinstance(client, UnitClient) or hasattr(client, "with_noise")):  # cannot be told of noise
        return state
    return {**state, "client": under_noise(client, np.zeros(len(client.mean_)))}


def learned_flags(state, Y, starts, percentile):
    """Flags of the unit's own and its augmented model, from nominal measurements."""
    return tuple(ResidualFlag.learn(rest, percentile) for rest in _residuals(state, Y, starts))


def flags_of(state, Y, starts):
    """Flags about measurements, bool of shape (n_samples, 2)."""
    rests = _residuals(state, Y, starts)
    raised = [flag.raised(rest) for flag, rest in zip(state["flags"], rests, strict=True)]
    return np.column_stack(raised).astype(bool)


def _residuals(state, Y, starts):
    """Measurements less what the unit's own and its augmented model predict, zero where they do not vary."""
    active = getattr(state["client"], "used_columns", np.ones(Y.shape[1], dtype=bool))
    predictions = (local_prediction(state, Y, None, starts, augmented=a) for a in (False, True))
    return [Y - np.where(active, predicted, Y) for predicted in predictions]


# A unit's side of the federation: the only code that holds raw measurements while packets travel.

_BY_ROW = ("outputs", "inputs", "home", "flags", "index", "taken_off", "measured")


@dataclass(eq=False, repr=False)
class UnitWorker:
    """Answers the server's packets from one unit's private data, by the functions of :mod:`.handlers`.

    What it learns is state that goes in and out and stays at the site. A packet that comes again in its round
    is answered from ``previous``, the model before that round, so that nothing counts twice; a packet of an
    earlier round is refused, and a new fit starts with an empty state.
    """

    name: str
    outputs: np.ndarray  # (n_samples, n_sensors)
    inputs: np.ndarray | None  # (n_samples, n_inputs)
    starts: tuple[int, ...]  # first row of each episode
    columns: tuple[str, ...] | None  # names of the sensors
    client: Any = None  # template of the unit's model, cloned and fitted here
    augmenter: Any = None
    noise: np.ndarray | None = None  # variance of the noise that a privacy mechanism added to `outputs`
    training_noise: Any = None  # PaperNoise for the messages of training
    monitored: Any = None  # another record, whose ``batch(number)`` is a Batch, None where there is none yet
    _: KW_ONLY
    monitor: bool = True  # whether the server may ask for what the unit's states do not show
    home: np.ndarray | None = None  # the record without noise, for flags that are randomised before they leave
    flags: np.ndarray | None = None  # answer when flags are asked for; None: the unit looks
    index: Any = None  # of the rows, where they have one
    taken_off: np.ndarray | None = None  # seasons and the like
    measured: np.ndarray | None = None  # the record, where `outputs` are what seasons and the like leave of it
    clock: Any = None  # Clock of the rows, None where they have no times
    least_shift: float = 0.0  # share of a column's variance beyond which shifts of level are none of its noise

    @property
    def n_columns(self):
        """Measurements and inputs of a row."""
        return self.outputs.shape[1] + (0 if self.inputs is None else self.inputs.shape[1])

    @property
    def is_quick(self):
        """Whether it is asked about so few rows that no other thread or process is worth its while."""
        return self.monitored is not None and getattr(self.monitored, "is_short", False)

    @property
    def n_bytes(self):
        """Of the record, in all forms of it."""
        parts = self.outputs, self.inputs, self.home, self.measured, self.taken_off
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def may_go_elsewhere(self):
        """Whether all of it can be sent to another process and does the same there: no classes of the user's own."""
        return type(self.client) is KalmanClient and self.augmenter is None

    def handle(self, packet, state):
        """The answer to a packet and the state after it; PacketError if it is unknown or out of turn."""
        op, handler = packet.op, handler_of(packet.op)
        if handler is None:
            raise PacketError(f"Unit {self.name!r} does not know the operation {op!r}.")
        kind = KINDS[op]
        if not kind.OPENS and "client" not in state:
            raise PacketError(f"Unit {self.name!r} got {op!r} before it was asked for a message.")
        if packet.round < state.get("round", 0):
            raise PacketError(
                f"Unit {self.name!r} got {op!r} of round {packet.round}, but is in round {state['round']} already."
            )
        dtype = packet.scalars.get("dtype", "float64" if kind.OPENS else state.get("dtype", "float64"))
        if handler.sets_precision:
            state = {**state, "dtype": dtype}
        whole = kind.OPENS or kind is CommonRows  # rows that are left out are named by those of the record
        unit = self if whole or "rows" not in state else self._at(*state["rows"])
        try:
            message, state = handler.answer(unit.off_baseline(state), kind.from_packet(packet), state, packet.round)
        except PacketError as error:
            if repr(self.name) in str(error):
                raise
            raise PacketError(f"Unit {self.name!r} cannot answer {op!r}. {error}") from error
        release_pages(self.outputs)
        return message.to_packet(packet.round, dtype), state

    # -- what handlers ask for -------------------------------------------------------------------

    def off_baseline(self, state):
        """The worker about what seasons, trend, modes and levels leave of the record; itself where there are none."""
        baseline = getattr(state.get("client"), "baseline_", None)
        if baseline is None or self.measured is not None:
            return self
        off = baseline.of(self.outputs, self.index, self.starts)[0]
        home = None if self.home is None else self.home - baseline.of(self.home, self.index, self.starts)[0]
        return replace(self, outputs=self.outputs - off, home=home, measured=self.outputs, taken_off=off)

    def _at(self, rows, grid):
        """The unit with some of its rows."""
        parts = {name: getattr(self, name) for name in _BY_ROW}
        parts = {name: None if part is None else part[rows] for name, part in parts.items()}
        return replace(self, starts=episode_starts(grid.lengths), clock=grid, **parts)

    @property
    def with_baseline(self):
        """The record with its seasons and the like, (n_samples, n_sensors)."""
        return self.outputs if self.measured is None else self.measured

    def fitted(self, template=None, *, outputs=None, inputs=None):
        """A model learned from the record, by another template, or other measurements and inputs, where given."""
        Y = self.with_baseline if outputs is None else outputs
        U = self.inputs if inputs is None else inputs
        template = self.client if template is None else template
        if not isinstance(template, KalmanClient):
            return fitted_client(template, Y, U, self.starts, self.name, self.columns, self.noise)
        try:
            client = clone(template)
        except TypeError:
            client = copied(template)  # which says of what there cannot be two
        who = f"unit {self.name!r}"
        client.fit(UnitRows(Y, U, self.starts, who, self.columns, self.noise, self.index, self.least_shift))
        if client.C is None:
            warn_few_rows(len(Y), len(client.model.C), client.n_states_, who)
        return client

    def first_state(self):
        """What a unit notices of its own record; under privacy nothing, for it would tell of values."""
        return {} if self.noise is not None else {"silence": Silence.learn(self.outputs, self.starts)}

    def with_clock(self, message):
        """A first message with the times of its rows, where they are known."""
        return message if self.clock is None else replace(message, clock=self.clock.numbers, grid=self.clock.digest)


def fitted_client(template, Y, U, starts, name, columns, noise=None):
    """A unit's fitted model that is no KalmanClient: the unit's own object as it is, or what is behind it.

    `Y` (n_samples, n_features), `U` (n_samples, n_inputs) or None; `noise` (n_features,) is the variance of noise that
    was added to `Y` on purpose, None where there is none.
    """
    who = f"unit {name!r}"
    if noise is not None:
        check_takes_noise(template, name)
        return NonlinearClient(template, who).fit(Y, U, starts, columns).fitted_on(noise)
    if hasattr(template, "filter_moments") and not hasattr(template, "message"):
        behind = NonlinearClient if isinstance(template, ExtendedKalmanClient) else BlackBoxClient
        return behind(template, who).fit(Y, U, starts, columns)
    _check_methods(template, f"The client of {who} is a {type(template).__name__}")
    if not hasattr(template, "fit"):
        return template  # a unit's own model, never fitted by us
    client = clone(template) if hasattr(template, "get_params") else deepcopy(template)
    client.fit(Y, **along(Y, U, starts))
    return client


def _check_methods(template, kind):
    """Refuse an object of the user's that lacks what the model of a unit is asked for."""
    if not hasattr(template, "message"):
        raise TypeError(f"{kind} with neither `message(Y)` nor `filter_moments(Y)`. Give it one, or a KalmanClient.")
    lacking = [method for method in ("filter", "predict", "measurements") if not hasattr(template, method)]
    if lacking:
        raise TypeError(
            f"{kind} with `message`, but without {', '.join(lacking)}. Give it these methods of a "
            "KalmanClient too, or `filter_moments(Y)` instead of all of them."
        )


def check_takes_noise(template, name):
    """Refuse a client that could not take noise of a privacy mechanism into account."""
    extended = isinstance(template, ExtendedKalmanClient) and not template.is_fitted
    if not (extended or isinstance(template, KalmanClient)):
        raise TypeError(
            f"The client of unit {name!r} is a {type(template).__name__}. Only a KalmanClient, or an "
            "ExtendedKalmanClient that is not fitted yet, can be told how much noise a privacy mechanism "
            "added to its measurements; give it the model there."
        )
