"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    baseline_smooth: int = 8  # degrees of freedom of a smooth trend unless a number is given
    baseline_settle: int = 8  # rows after a change of mode with a level of their own, while units settle
    baseline_fewest_rows: int = 5  # rows for each column that is taken off, at least
    baseline_fewest_in_mode: int = 10
    baseline_shortest_cut: int = 20  # rows: what is faster is dynamics
    baseline_least_there: float = 0.75  # share of the cells of a sensor that show whether it drifts

    blame_rows_per_column: int = 10  # of the autoregression at least, for more than one lag
    blame_follows: float = 1.1  # a reader's variance given the tag alone, over that given all tags of the row, at most
    blame_least_tie: float = 0.9  # and over its own variance
    blame_before: int = 60  # rows that are shown before an incident
    blame_repeats: int = 10  # rows of one value that are not worth a word
    blame_longer: float = 3.0  # times as long as in nominal operation ever

    extended_kalman_floor: float = 0.01  # of the measurement noise, in standardised units
    extended_kalman_validation: float = 0.1  # share of the rows that tell when to stop, where that is early

    fitting_blocks: int = 40
    fitting_least_rows: int = 25  # segments that a batch is cut into, rows of one
    fitting_sure: float = 5.0  # standard errors
    fitting_clear: float = 0.1  # nats per measurement: what is not predicted of all of them has a fifth more variance

    given_asymmetry: float = 1e-8  # relative difference of a covariance and its transpose that is rounding
    given_negative: float = 1e-10  # eigenvalue below zero, relative to the largest, that is rounding

    habits_margin: int = 3  # times as many repetitions as ever in nominal operation before a value is held
    habits_least: int = 2  # repetitions beyond these, from which on a value is held
    habits_fine: float = 0.03  # share of a column's change from row to row below which decimals do not matter
    habits_width: float = 0.1  # standard deviations from the extreme value that are at the stop
    habits_pile: float = 2.5
    habits_share: float = 0.005  # times the rows in the next such interval (2.4 of a sine), and of all rows
    habits_near: int = 5
    habits_values: int = 8  # such intervals that have to hold as many values, or rounding is too coarse to tell
    habits_low: int = -1
    habits_high: int = 1

    identification_state_floor: float = 1e-2  # share of a state's variance that is signal at least
    # eigenvalues of the regressors' covariance below this share of the largest count as zero
    identification_regular: float = 1e-10
    identification_max_states: int = 8
    identification_order_level: float = 0.001  # level of the tests that choose the number of states
    identification_rows_per_state: int = 125  # time steps that a state chosen automatically needs at least
    identification_near_lags: int = 2  # of the past that tells of one more state
    # at which it has to: rare large noise that sensors share looks like a state in a row as well
    identification_memory_level: float = 0.05
    identification_floor: float = 1e-3  # share of a regressor's variance that is signal at least
    identification_quiet: float = 0.03  # noise of the further states, as a share of that of the measured ones

    kalman_one_and_all: float = 1e-9  # largest but one eigenvalue of correlations of columns that are multiples of one

    # measurements after which more lags only add noise: many sensors tell the states in few steps
    moments_past: int = 64

    monitor_floor: float = 0.01  # share of a column's variance added to the covariance of what the states do not show
    monitor_max_states: int = 4
    monitor_beyond: float = 1e6  # standard deviations beyond which it does not matter how far a measurement is off
    # share of a column's change from step to step below which its resolution does not matter
    monitor_fine: float = 0.03

    orders_noiseless: float = 1e-6  # noise of states that is none to speak of, as a share of their variance
    orders_rows_a_sum: int = 10
    orders_least_sums: int = 20  # of a sketch: 50 sums found a near copy in every record tried

    own_past_most_lags: int = 2

    profile_fewest_days: int = 5
    profile_fewest_weeks: int = 2  # from which on a weekend has a profile of its own
    profile_fewest_years: int = 2

    # share of an input's variance below which the measurements of its row determine it
    questions_determined: float = 1e-3

    records_regular_holds: float = 0.9  # share of reports that come after the usual number of rows
    records_head: int = 1000  # rows that show whether it is worth looking at all
    records_fewest_reports: int = 20
    records_long_run: int = 8  # rows: twice as many of one value are looked at
    records_often: int = 3  # times that a fill value occurs at least
    records_probes: int = 64  # rows in which sensors differ
    records_always_allowed: int = 10  # rows that may repeat in any case
    records_margin: int = 3  # times the longest repetition of `fit`

    shifts_few: int = 3  # shifts that a unit has which settles at other levels
    shifts_axes: int = 3  # directions in which sensors vary most together, in which shifts are looked for
    shifts_alike: float = 1e-9  # share of the largest singular value below which paths are alike

    unit_model_floor: float = 0.05  # share of the variance of the states that their past explains at least

    watching_share: float = 0.1  # of a step
    watching_watched: float = 0.5  # of that, in rows that are watched
    watching_few_values: int = 2  # values that a column of a status has at most
    # share of a column's variance beyond which shifts are no noise of a watched unit; lesser ones are its levels
    watching_least_shift: float = 0.75
    watching_most_states: int = 4
    watching_fewest: int = 20  # rows in which a unit of status bits was there
    watching_looked_at: int = 1000  # rows that mostly show that a unit is none
    watching_few_rows: int = 10  # rows that are looked at in less time than threads need to start
    watching_remembered: int = 300  # rows that a unit's filter goes on from where it sends flags only


TUNING = Tuning()
