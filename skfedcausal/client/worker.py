"""A unit's side of the federation: the only code that holds raw measurements while packets travel."""

from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..containers.rows import episode_starts
from ..message.packet import PacketError
from ..message.requests import CommonRows
from ..message.schema import KINDS
from ..seeding import copied
from .answers import along
from .black_box import BlackBoxClient, NonlinearClient
from .extended_kalman import ExtendedKalmanClient
from .handlers import handler_of
from .kalman import KalmanClient
from .records import Silence, UnitRows, release_pages, warn_few_rows

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
        about = self.starts, self.name, self.columns, self.noise, self.index, self.least_shift
        return fitted_client(template, Y, U, *about)

    def first_state(self):
        """What a unit notices of its own record; under privacy nothing, for it would tell of values."""
        return {} if self.noise is not None else {"silence": Silence.learn(self.outputs, self.starts)}

    def with_clock(self, message):
        """A first message with the times of its rows, where they are known."""
        return message if self.clock is None else replace(message, clock=self.clock.numbers, grid=self.clock.digest)


def fitted_client(template, Y, U, starts, name, columns, noise=None, index=None, least_shift=0.0):
    """The unit's fitted model: a clone of a KalmanClient, or the unit's own object as it is.

    `Y` (n_samples, n_features), `U` (n_samples, n_inputs) or None; `noise` (n_features,) is the variance of noise that
    was added to `Y` on purpose, None where there is none.
    """
    who = f"unit {name!r}"
    if isinstance(template, KalmanClient):
        try:
            client = clone(template)
        except TypeError:
            client = copied(template)  # which says of what there cannot be two
        client.fit(UnitRows(Y, U, starts, who, columns, noise, index, least_shift))
        if client.C is None:
            warn_few_rows(len(Y), len(client.model.C), client.n_states_, who)
        return client
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
