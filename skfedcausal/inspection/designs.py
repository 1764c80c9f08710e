"""The moves of inputs that would best decide whether one unit acts on another."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ..arguments import check_choice, check_number
from ..containers.layout import listed, refuse_unknown
from ..server.disturbances import settled_covariance
from ..server.experiments import LinkDesign, best_moves, random_rows_needed
from ..server.planning import state_responses
from .schedules import allowed_inputs, check_now, finite, within
from .tuning import TUNING

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
