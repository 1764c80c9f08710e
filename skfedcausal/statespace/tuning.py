"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    em_radius: float = 0.999
    em_floor: float = 1e-3  # of the largest eigenvalue: start of the expectation maximisation

    episodes_many_columns: int = 16
    episodes_many_products: int = 512  # and lags times columns, from which the way through Fourier transforms pays,
    # that count there: of few lags the direct way is quicker, however many columns there are
    episodes_most_columns: int = 64
    episodes_least_window: int = 64
    episodes_in_steps: int = 32
    episodes_at_once: int = 2048  # rows of a window, and of windows taken together
    episodes_narrow: int = 4
    episodes_learned: float = 0.75  # share of every episode that is learned from, to judge by the rest

    fisher_tested: int = 2**22  # bytes of columns whose elements are tested at a time
    fisher_cached: int = 2**20  # bytes of factors that are multiplied at a time
    fisher_at_once: int = 32  # frequencies that are multiplied at a time

    geweke_converged: float = 1e-10
    geweke_max_frequencies: int = 1 << 15
    geweke_hardly: float = 1e-9  # share of information that is next to nothing
    geweke_roots: float = 1e-7  # mean of log |det T| that is rounding

    held_out_least: float = 1e-10  # sum of squares of a column that does not move
    held_out_most_others: int = 8  # units that an effect is conditioned on, beside its own past
    held_out_still: float = 1e-3  # of a standard deviation, below which a robust one is that of rows that stand still

    input_basis_independent: float = 1e-6  # share of a column's variance that the columns before it have to leave

    # share of the greatest contribution to an effect that one of its coefficients makes
    inputs_negligible: float = 1e-9

    kalman_nearly_settled: float = 1e-9  # distance at which standing still means that rounding is in the way
    kalman_schedule_bytes: int = 1 << 26
    kalman_least_steps: int = 16  # of covariances that are kept until they settle, and how many at least
    kalman_rank: float = 1e-12

    lag_products_least_window: int = 512
    lag_products_numbers: int = 2**21  # rows of a window, numbers of the windows that are taken together

    lines_overtones: int = 4
    lines_folds: int = 10
    lines_level: float = 0.995  # of the gain on segments left out, one-sided
    lines_most_lines: int = 3
    lines_sharp: float = 20.0  # power of a line over the median of its neighbourhood, and
    lines_alone: float = 10.0  # over the largest power beside it
    lines_near: int = 40  # frequencies of the neighbourhood on either side
    lines_cycles: int = 8  # of a season in the record, at least
    lines_most_overtones: int = 12
    lines_period_level: float = 1e-3  # chance of a period in a record without one
    lines_most_periods: int = 4
    lines_period_lags: int = 12  # of a sensor beside which a period is looked for
    lines_finer: int = 4  # frequencies between two of the Fourier transform
    lines_fewest_periods: int = 3  # in the record: what is slower is a trend
    lines_rounded: float = 1e-12  # of the largest value, what an autoregression leaves by rounding
    lines_as_good: float = 4.0  # less of the statistic at which a period of whole rows is taken as well

    matrices_few_rows: int = 250
    matrices_kurtosis: float = 8.0  # that kurtosis is judged by at least; standard errors that are far
    # columns from which on Cholesky factors one by one are faster than a general inverse of a stack
    matrices_wide: int = 16
    matrices_largest_kept: int = 2**25 - 2**13  # bytes of the largest array that glibc may keep when it is freed
    matrices_last_bit: float = 2.0**-30
    matrices_top: float = 2.0**13  # scaled series reach 2**13 to 2**14; the largest half-precision number is 65504
    matrices_unseen: float = 1e-12  # share of the largest information below which a direction counts as unseen
    # share of the variances by which rounding may make a matrix indefinite or asymmetric
    matrices_rounding: float = 1e-6

    networks_selu_scale: float = 1.0507009873554805
    networks_selu_alpha: float = 1.6732632423543772

    observation_max_condition: float = 1e12
    observation_same: float = 1e-9  # relative difference of information matrices that is rounding
    observation_rounding: float = 1e-11  # part of a precision that is rounding in a difference of two
    observation_loss: float = 1e-6  # part of a precision that a measurement cannot have taken away by rounding
    observation_max_steps: int = 200  # of the search for sensor noise
    observation_max_log_step: float = 2.0
    observation_max_damping: float = 1e12

    ring_parts: int = 3  # series behind each other: of the lag covariances, and the two that grades rest on
    ring_least_bits: int = 12
    ring_limb: int = 22

    # rows of an average of the past beside the lags, since noise of sensors hides slow states from few lags, and rows
    # for which inputs act: what an input does in later rows looks like a change of level from few of them
    segments_memory: int = 8
    segments_block: int = 50
    segments_most_blocks: int = 60  # rows between the first candidates, and how many of these there are at most
    segments_per_coefficient: int = 4  # rows for each coefficient of an equation at least
    segments_passes: int = 4
    segments_rounding: float = 1e-12  # of the mean of values, that differences of them are not told from
    segments_seldom: float = 0.01  # of all candidates together, where there is no change

    smoother_light: int = 8  # steps of information from row to row that cost as much as one of everything

    tails_steps: int = 30  # of the fixed point of a scale, which converges by a third at least
    tails_least_size: float = 1e-3  # of the scale of a component: values that come again exactly have no density
    tails_least_gain: float = 5.0  # log-likelihood beyond the penalty of two numbers

    timedomain_most_steps: int = 400

    units_start_radius: float = 0.98
    units_start_floor: float = 0.05  # share of the sample variance a start leaves to the states at least
    units_noise_floor: float = 1e-3  # share of a slow unit's state variance that is process noise at least
    units_covariance_floor: float = 0.02  # share of the previous trace below which a step may not take an eigenvalue

    wander_bands: int = 6  # of the faster frequencies, in which noise is equally large
    wander_as_white: float = 1.5  # of the scatter that white noise has between these bands
    # twice the log-likelihood of a walk beside none; 2.8 is the most of 120 units of sensors that stay
    wander_clear: float = 10.0
    wander_alike: float = 1e-8  # of the largest variance, below which a direction says what others do
    wander_cut: float = 1.5  # times the frequency at which a walk is as large as the noise


TUNING = Tuning()
