"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    checks_guard: int = 2
    checks_beside: int = 12  # frequencies next to a line that belong to it, and those behind them on either side
    checks_least_bin: int = 3  # what is slower is a trend
    checks_far_out: float = 4.0  # deviations beyond which innovations count as that far
    checks_tail: float = 5.0  # degrees of freedom of densities that are compared on rows held out
    checks_least_square: float = 0.1  # of a row's mean square, below which rows are alike
    # square up to which all rows of a unit beside another are rounding, of single precision as well
    checks_copied: float = 1e-13
    checks_rounded: float = 1e-13  # deviation of logarithms up to which they differ by no more than rounding
    checks_ar: int = 6  # lags of the noise that a trend is judged against
    # of the largest singular value of paths, or of a series, below which others say what it does
    checks_same: float = 1e-6
    # of the distance of that autoregression from a unit root near one, in rows of a record less a line
    checks_bias: float = 6.0
    checks_least_gap: float = 1e-3  # of it
    # share of a target's variance that a regression leaves at least: what is less is rounding
    checks_least_left: float = 1e-20
    # share of the largest eigenvalue of products that columns which differ have at least
    checks_told_apart: float = 1e-4

    # mean square of what all terms leave, above which the spectra of the units are not what they are taken for
    cross_left: float = 1.5
    cross_same: float = 1e-15  # of the largest eigenvalue of products, below which regressors are the same
    cross_far: float = 3.0  # the same, above which they say nothing of a driver either: links are no faint terms there

    # lowest frequencies that are bands of their own: what is slow is told from what is a level there
    drivers_single: int = 8
    drivers_growth: float = 1.12  # of the width of bands above
    drivers_faint: float = 0.2  # deviation to start from of noise with a memory, of that of the scores
    drivers_steps: int = 100
    drivers_at_once: int = 8  # of a climb, and those in the same coordinates
    drivers_little: float = 0.05  # log-likelihood that no step more is worth
    drivers_turned: int = 64  # parameters up to which a climb goes in coordinates of its own
    drivers_damping: float = 1e-4  # of the information, where it says little of a parameter
    drivers_stable: float = 0.97  # largest modulus of roots to start from
    drivers_own_lags: int = 3  # of each unit's own memory: units with fewer sensors than states have more than one

    levels_block: int = 120  # rows with a level of their own, as long as no shift is known
    levels_shortest: int = 40  # rows between two shifts
    levels_level: float = 1e-4  # chance of a shift in an episode without any
    levels_passes: int = 5
    levels_least: float = 1e-12  # share of the largest variance that one has at least
    levels_calm: float = 0.25
    levels_as_calm: float = 2.0  # quantile of the scatters of blocks that hold no shift, and how far others are like it
    levels_fewest: int = 3  # shifts that a plant's own model does not follow
    levels_near: int = 40
    levels_grid: int = 4  # rows around a shift among which it begins and ends, and of the steps they are sought in
    levels_settle: int = 5  # rows left out beside a ramp, in which units settle

    report_line_level: float = 1e-8  # of seasons that matter p values are far below; spectra of slow units are not flat
    report_trend_level: float = 1e-4
    report_fewest_rows: int = 200
    report_least_seen: float = 0.75  # share of rows in which all units have to be seen
    report_sure: float = 1e-8  # adjusted p value of a link that is not what is left of a driver of one of its units
    report_echo: float = 1e-5
    report_echo_rows: int = 2000  # adjusted p value of a link back that is more than an echo, in so many rows
    # share of scores up to which noise is what a unit with as many states as sensors supposes of them
    report_no_noise: float = 0.02
    report_near: float = 0.1  # relative difference of variances that matters to no verdict
    # correlation of innovations from which on two units are one, and share out the links of both
    report_one: float = 0.99
    report_most_reasons: int = 2


TUNING = Tuning()
