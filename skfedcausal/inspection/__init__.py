"""Questions to a fitted estimator, as functions of it: links, effects, plans, privacy, and plants that are watched."""

from inspect import isfunction

from ..arguments import checked
from .batches import partial_fit_sites, renew
from .blame import tag_trend, tags
from .designs import Experiment
from .federation import benefit, oracle, oracle_gap
from .links import (
    changed_links,
    link_effects,
    link_intervals,
    link_shape,
    links_over_time,
    spectrum,
    to_networkx,
    validity_display,
)
from .moves import experiment, reach
from .privacy import privacy_curve
from .resampling import bootstrap_links, stable_links
from .responses import (
    aggregate_counterfactual,
    dose_response,
    frequency_response,
    gain_table,
    sensitivity,
    step_response,
)
from .schedules import Reach
from .watching import acknowledge, flags, follow_sites, rebaseline, watch_sites

__all__ = [
    "Experiment", "Reach", "acknowledge", "aggregate_counterfactual", "benefit", "bootstrap_links",
    "changed_links", "dose_response", "experiment", "flags", "follow_sites", "frequency_response", "gain_table",
    "link_effects", "link_intervals", "link_shape", "links_over_time", "oracle", "oracle_gap", "partial_fit_sites",
    "privacy_curve", "reach", "rebaseline", "renew", "sensitivity", "spectrum", "stable_links", "step_response",
    "tag_trend", "tags", "to_networkx", "validity_display", "watch_sites",
]  # fmt: skip

# what an argument is, its name says: other kinds are refused before anybody is asked
globals().update({name: checked(globals()[name]) for name in __all__ if isfunction(globals()[name])})
