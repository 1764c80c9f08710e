"""What to call in place of methods that the estimators had in 0.1."""

_ROOMS = {
    ("PlantEstimator", "inspection"): (
        "benefit", "bootstrap_links", "changed_links", "link_effects", "link_intervals", "links_over_time", "oracle",
        "oracle_gap", "partial_fit_sites", "privacy_curve", "renew", "spectrum", "stable_links", "to_networkx",
        "validity_display",
    ),
    ("PlantEstimator", "papers"): ("losses", "training_problems"),
    ("InputQuestions", "inspection"): (
        "aggregate_counterfactual", "dose_response", "experiment", "frequency_response", "gain_table", "reach",
        "sensitivity", "step_response",
    ),
    ("WatchingDetector", "inspection"): (
        "acknowledge", "flags", "follow_sites", "rebaseline", "tag_trend", "tags", "watch_sites",
    ),
}  # fmt: skip
MOVED = {
    name: (owner, f"skfedcausal.{room}.{name}(est, ...)") for (owner, room), names in _ROOMS.items() for name in names
}
MOVED["fit_predict"] = "WatchingDetector", "fit(X).predict(X)"
MOVED["reader_"] = "WatchingDetector", "asked_"


def moved(cls, name):
    """Where a method of a class went, None of others."""
    owner, call = MOVED.get(name, (None, None))
    if owner in (base.__name__ for base in cls.__mro__):
        return f"{cls.__name__}.{name} moved in 0.2: {call}"
    return None
