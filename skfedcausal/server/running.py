"""The plant from batch after batch: sums of products of scores add, and rows are forgotten."""

from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from numbers import Real
from typing import Any

import numpy as np

from ..bases import place_of
from ..message.requests import Ask, FitRequest, LawRequest, RecordRequest
from ..message.states import Acknowledgement, FeedbackLaw, StateMessage
from ..statespace.lag_products import LagProducts, RunningProducts
from ..statespace.matrices import Partition, without_last_bits
from ..statespace.observation import Information
from .estimation.input_checks import check_independent
from .estimation.scoring import Budget
from .fitting import settings_of, with_knowledge
from .joint import JointRecord, Scores, Standardised, usual_information
from .tuning import TUNING

_LAGS, _LEAST_LAGS, _NUMBERS = 442, 12, 2**22  # lags of products: most, fewest, numbers in them about
# settings of a LikelihoodServer that need all rows at once, with the values that do not
_OF_BATCHES: dict[str, tuple] = {
    "fix_local": (False,),
    "likelihood": ("whittle",),
    "covariance": ("information",),
    "held_out": (None,),
    "n_rounds": ("auto", 1),
}


class RunningScores(Scores):
    """Lag covariances of the scores of all batches; `series` are the rows of the last one."""

    def __init__(self, record):
        self._record, self.present = record, None
        self.noise = [np.linalg.inv(part.patterns[0]) for part in record.parts]
        self.noise = [without_last_bits(N, np.sqrt(np.diag(N))) for N in self.noise]
        n, scale = record.partition.n_states, np.ones(record.partition.n_regressors)
        products = record.products.balanced()
        if record.partition.n_inputs:
            scale[n:] = record.standard_known.scale
        self._unit = np.diag(1 / scale)
        self.products = products.transformed(self._unit)
        # as many rows as the record says, which are whole numbers
        self.sums = self.products.sums * (record.n_samples / (products.weights @ products.lengths))
        self._scale = np.sqrt(np.diag(self.sums[0]) / record.n_samples)

    @property
    def series(self):
        """Centred scores and inputs of the last batch, in the units of the sums."""
        return self._record.recent.scores.series * self._in_units()

    @property
    def known(self):
        """The inputs among them."""
        return self.series[:, self._record.partition.n_states :]

    def _in_units(self):
        """What the series of the last batch has to be multiplied by: it has inputs of unit variance of its own."""
        n, factor = self._record.partition.n_states, np.diag(self._unit).copy()
        if len(factor) > n:
            factor[n:] *= self._record.recent.standard_known.scale
        return factor

    def moments(self, n_lags):
        """Lag covariances of the transitions, a :class:`TransitionMoments`."""
        return self.products.moments(n_lags).without_last_bits(self._scale)

    def lag_sums(self, needed):
        """Sums of products of rows at the first `needed` lags, (needed, c, c)."""
        return self.sums[:needed]

    def products_of_lags(self, n_lags, memory):
        """`LagSums` of a plant of several lags; None where batches are too short for that."""
        return self.products.lag_sums(n_lags, memory)

    def periodogram(self):
        """Averaged periodogram of the scores and inputs."""
        return self.products.spectrum / (self.products.weights @ self.products.lengths)


@dataclass(eq=False)
class RunningRecord(JointRecord):
    """A joint record without series: what all batches add up to, and the last of them as it came."""

    products: Any = None  # LagProducts of scores and inputs
    recent: Any = None  # JointRecord of the last batch

    has_rows = False

    def __post_init__(self):
        self.n_samples = len(self.parts[0].z)
        self.is_constant, self.has_choice = True, False
        sizes = [part.z.shape[1] for part in self.parts]
        self.partition = Partition(sizes, [0 if u is None else u.shape[1] for u in self.inputs], 0)
        n, k = self.partition.n_states, self.partition.n_inputs
        self.u = np.broadcast_to(np.nan, (self.n_samples, k)) if k else None
        self.input_level = self.products.mean()[n:]

    @classmethod
    def of(cls, names, informations, input_sizes, products: LagProducts, recent):
        """Record of units with these information matrices and numbers of inputs."""
        rows = products.rows_by_episode
        n_samples = int(rows.sum())
        nothing = np.broadcast_to(np.nan, (n_samples, 1))  # whoever looks at a row gets NaN
        parts = tuple(Information(np.broadcast_to(nothing, (n_samples, len(J))), J[None]) for J in informations)
        inputs = tuple(np.broadcast_to(nothing, (n_samples, k)) if k else None for k in input_sizes)
        starts = (0, *accumulate(rows[:-1].tolist()))
        return cls(tuple(names), parts, starts, inputs, (None,) * len(parts), products=products, recent=recent)

    @property
    def most_lags(self):
        """Lags that moments can be had for."""
        return self.products.n_lags

    @property
    def at_hand(self):
        """Rows that can be looked at: those of the last batch."""
        return self.recent

    def adapted(self, settings):
        """Settings of an estimate that there are no rows for."""
        return replace(settings, level_shifts=None, edges=False)

    @cached_property
    def scores(self):
        """The :class:`RunningScores` of the record."""
        return RunningScores(self)

    @cached_property
    def standard_known(self):
        """Standard deviations of inputs around their means in each episode; the series has no rows to show."""
        n, products = self.partition.n_states, self.products.balanced()
        variance = np.diag(products.sums[0])[n:] / (products.weights @ products.lengths)
        return Standardised(np.broadcast_to(np.nan, (self.n_samples, len(variance))), np.sqrt(variance))

    def input_correlation(self):
        """Correlation matrix of the inputs."""
        n, scale = self.partition.n_states, self.standard_known.scale
        products = self.products.balanced()
        return products.sums[0][n:, n:] / (products.weights @ products.lengths) / np.outer(scale, scale)

    @property
    def known_level(self):
        """Mean of every input."""
        return self.input_level


class BatchDialogue:
    """The round in which a server learns from one more batch; units `to_identify` learn their models from it."""

    def __init__(self, server, to_identify=None, *, continues=False, forget=None):
        self._server, self._to_identify = server, to_identify
        self._how = {"continues": continues, "forget": forget}
        self.outdated: tuple[str, ...] = ()  # units that say so

    def dialogue(self, names, inputs=False):
        """Requests, and what units answer to them, as those of a server."""
        server, first = self._server, names if self._to_identify is None else self._to_identify
        ask = {name: FitRequest(fits=True) if name in first else RecordRequest(fits=True) for name in names}
        came = yield Ask(ask, StateMessage)
        self.outdated = tuple(name for name, message in came.items() if message.outdated)
        known = server.batches_
        server.partial_fit(dict(came), **self._how)
        messages = came if known is None else with_stand_ins(dict(came), known.names, known)[0]
        if server.controlled_units_:
            asked = {name: LawRequest() for name in server.controlled_units_ if name in came}
            laws = yield Ask(asked, FeedbackLaw)
            server.laws_ = {**server.laws_, **laws}
        replies = server.replies(messages)
        yield Ask({name: replies[name] for name in came}, Acknowledgement, needed=0)


class Batches:
    """What a server keeps of the batches that it learned from."""

    def __init__(self, record):
        self.names, self.n_batches = record.names, 0
        self.informations = [usual_information(part) for part in record.parts]
        self.input_sizes = [0 if u is None else u.shape[1] for u in record.inputs]
        n_lags = int(np.clip(_NUMBERS // record.partition.n_regressors**2, _LEAST_LAGS, _LAGS))
        self.products = RunningProducts(n_lags, np.nan_to_num(self._rows(record).mean(axis=0)))

    def copy(self):
        """Another one that can go on on its own."""
        other = copy(self)
        other.products = self.products.copy()
        return other

    def add(self, record, *, continues, forget, absent=()):
        """Take the next batch, a joint record without gaps."""
        there = [name not in absent for name in self.names]
        present = np.concatenate([np.repeat(there, sizes) for sizes in (record.partition.sizes, self.input_sizes)])
        settings = {"continues": continues, "forget": forget, "present": present}
        self.products.add(self._rows(record), record.starts, **settings)
        self.n_batches += 1

    def record(self, recent):
        """The :class:`RunningRecord` of all of them."""
        about = self.names, self.informations, self.input_sizes
        return RunningRecord.of(*about, self.products.products(), recent)

    def _rows(self, record):
        """Scores and inputs of a batch as they are."""
        scores = [part.z @ np.linalg.inv(J) for part, J in zip(record.parts, self.informations, strict=True)]
        return np.concatenate([*scores, *(u for u in record.inputs if u is not None)], axis=1)


def check_batches(server):
    """Refuse settings of a `LikelihoodServer` for which sums over rows do not suffice."""
    for name, able in _OF_BATCHES.items():
        value = getattr(server, name)
        if value not in able:
            raise ValueError(
                f"{server!r} needs all rows at once for {name}={value!r}, and of earlier batches there are only sums; "
                f"give {place_of(type(server), name, repr(able[0]))}."
            )


def check_forget(forget):
    """The share that is forgotten, None for nothing."""
    if forget is None:
        return None
    if isinstance(forget, bool) or not isinstance(forget, Real) or not 0 <= float(forget) <= 1:
        raise ValueError(
            f"Got forget={forget!r}; give the share of their weight that all earlier rows lose: 0.1, say, or 1 to "
            "start afresh with the same unit models."
        )
    return float(forget) or None


def next_batch(server, messages, *, continues=False, forget=None):
    """The record of all batches with one more, the `Batches`, and the messages of all units.

    Units of which no message came are absent from the batch, and get one that says so.
    """
    check_batches(server)
    forget, known = check_forget(forget), server.batches_
    names = tuple(messages) if known is None else known.names
    messages, absent = with_stand_ins(messages, names, known)
    record = with_knowledge(server, JointRecord.from_messages(messages, names))
    if known is not None:
        check_models(known, record, absent)
    full = record if record.is_constant else filled_batch(server, record, messages)
    batches = Batches(full) if known is None else known.copy()  # what cannot be learned from is not kept
    batches.add(full, continues=continues, forget=forget, absent=absent)
    running = with_knowledge(server, batches.record(full))
    if running.u is not None:
        check_independent(running.input_correlation())
    return running, batches, messages


def with_stand_ins(messages, names, known):
    """Messages of all units, of absent ones such as say nothing; and who is absent."""
    unknown = [name for name in messages if name not in names]
    if unknown:
        raise ValueError(f"Batches were about units {', '.join(names)}, and now {', '.join(unknown)} came too.")
    absent = tuple(name for name in names if name not in messages)
    if not absent:
        return {name: messages[name] for name in names}, absent
    if not messages:
        raise ValueError("No unit sent a message about this batch.")
    lengths, found = next(iter(messages.values())).lengths, {}
    for k, name in enumerate(names):
        found[name] = messages.get(name)
        if found[name] is None:
            q = known.input_sizes[k]
            U = np.zeros((sum(lengths), q)) if q else None
            found[name] = StateMessage.silent(len(known.informations[k]), lengths, U)
    return found, absent


def check_models(known, record, absent):
    """Refuse messages of other unit models than those of the batches before."""
    for name, part, J in zip(record.names, record.parts, known.informations, strict=True):
        if name in absent:
            continue
        if not part.patterns.any():
            raise ValueError(
                f"Unit {name!r} has no measurements in this batch, and the rest cannot be filled in. Leave the batch "
                "out, or give `lost_units` and a batch that the unit is not asked about."
            )
        usual = usual_information(part)
        if usual.shape != J.shape or np.abs(usual - J).max() > TUNING.running_same * np.abs(J).max():
            raise ValueError(
                f"Unit {name!r} sees its states otherwise than in the batches before: its model, or the sensors that "
                "it has, are not the same. Sums of both do not add; begin with its new model (`inspection.renew`)."
            )


def filled_batch(server, record, messages):
    """A batch with gaps, every row as if it were seen as the best one, the rest as the plant so far expects."""
    from .lagged.misfit import filled_record  # of batches with gaps

    for name, part in zip(record.names, record.parts, strict=True):
        if part.patterns.any() and part.determined_rows.mean() < TUNING.running_least_seen:
            raise ValueError(
                f"The sensors of unit {name!r} show its states in less than {TUNING.running_least_seen:.0%} of the "
                "rows of this "
                "batch, and the rest cannot be filled in. Leave the batch out, or give the unit fewer states."
            )
    if server.batches_ is None:
        from .estimation.noise_share import estimate_filled

        settings = replace(settings_of(server, record.names, messages), budget=Budget(server.max_time))
        return replace(estimate_filled(record, settings)[1], known_links=record.known_links)
    return filled_record(record, server.plant_.hindsight(record))
