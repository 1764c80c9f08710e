"""Questions to a fitted estimator, as functions of it: links, effects, plans, privacy, and plants that are watched."""

from inspect import isfunction

from ..arguments import checked
from .federation import benefit, oracle, oracle_gap, privacy_curve
from .links import (
    bootstrap_links,
    changed_links,
    link_effects,
    link_intervals,
    link_shape,
    link_slopes,
    links_over_time,
    spectrum,
    stable_links,
    to_networkx,
    validity_display,
)
from .moves import Experiment, Reach, experiment, reach
from .responses import (
    aggregate_counterfactual,
    dose_response,
    frequency_response,
    gain_table,
    sensitivity,
    step_response,
)
from .watching import (
    acknowledge,
    flags,
    follow_sites,
    partial_fit_sites,
    rebaseline,
    renew,
    tag_trend,
    tags,
    watch_sites,
)

__all__ = [
    "Experiment", "Reach", "acknowledge", "aggregate_counterfactual", "benefit", "bootstrap_links",
    "changed_links", "dose_response", "experiment", "flags", "follow_sites", "frequency_response", "gain_table",
    "link_effects", "link_intervals", "link_shape", "link_slopes", "links_over_time", "oracle", "oracle_gap",
    "partial_fit_sites", "privacy_curve", "reach", "rebaseline", "renew", "sensitivity", "spectrum", "stable_links",
    "step_response", "tag_trend", "tags", "to_networkx", "validity_display", "watch_sites",
]  # fmt: skip

# what an argument is, its name says: other kinds are refused before anybody is asked
globals().update({name: checked(globals()[name]) for name in __all__ if isfunction(globals()[name])})
