"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    compared_refits: int = 2  # of a changed link, by the filter that knows of the change
    compared_explained: int = 4  # changes of one unit's rows at most
    compared_sure: float = 1.2816  # standard errors beyond the bound: nine of ten such changes would have shown
    compared_visible: float = 0.25  # strength of a new link that shows, of plants without links
    # change of the variance of a unit's innovations that has to show before it is called unchanged
    compared_own_change: float = 2.0

    # times the variance that a record like the new one leaves, beyond which an estimate is not used
    hypotheses_less_sure: float = 3.0

    innovations_rank: float = 1e-10  # relative eigenvalue of what a row tells that is rounding

    sizes_lost: float = 0.25  # share of its gain below which a link is gone: between half of it and nothing
    sizes_passes: int = 3  # of date and size in turn
    sizes_fewest_rows: int = 20
    sizes_still: float = 1e-200  # mean square of innovations of a unit that stands still

    tests_n_windows: int = 12
    tests_fewest_rows: int = 50  # starts of a change that are tried, rows behind the last one
    tests_rows_per_coefficient: int = 5
    tests_tail: float = 0.01  # share of the draws that tell how many tests a minimum is of, at least so many of them
    tests_fewest_draws: int = 20
    # of draws: a record with a row beyond all others shows such minima without any change
    tests_least_log_p: float = -690.0
    tests_rounded: float = 1e-14  # share of squares that is left of them by rounding


TUNING = Tuning()
