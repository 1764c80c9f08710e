"""Where methods of the estimators went: a sentence for those who call them by their former name."""

_INSPECTION, _PAPERS = "skfedcausal.inspection", "skfedcausal.papers"
_PLANTS = "PlantEstimator", (
    "benefit", "bootstrap_links", "changed_links", "link_effects", "link_intervals", "links_over_time", "oracle",
    "oracle_gap", "partial_fit_sites", "privacy_curve", "renew", "spectrum", "stable_links", "to_networkx",
    "validity_display",
)  # fmt: skip
_INPUTS = "InputQuestions", (
    "aggregate_counterfactual", "dose_response", "experiment", "frequency_response", "gain_table", "reach",
    "sensitivity", "step_response",
)  # fmt: skip
_WATCHES = "WatchingDetector", (
    "acknowledge", "flags", "follow_sites", "rebaseline", "tag_trend", "tags", "watch_sites",
)  # fmt: skip
MOVED = {name: (owner, _INSPECTION) for owner, names in (_PLANTS, _INPUTS, _WATCHES) for name in names}
MOVED |= dict.fromkeys(("losses", "training_problems"), ("PlantEstimator", _PAPERS))


def moved(cls, name):
    """What to call in place of a method that a class had in 0.1, None of others."""
    owner, home = MOVED.get(name, (None, None))
    if owner not in (base.__name__ for base in cls.__mro__):
        return None
    return f"{cls.__name__}.{name} moved in 0.2: {home}.{name}(est, ...)."
