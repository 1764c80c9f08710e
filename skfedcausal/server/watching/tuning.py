"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    bends_most_states: int = 16  # of all units, whose products are looked at
    bends_folds: int = 4  # of the nominal rows, in each of which curves are those that the others taught
    bends_chance: float = 0.05  # of any curve where there is none
    bends_radius: float = 0.999  # largest spectral radius of the response

    detector_drift: float = 0.2  # of the cumulative sum that finds the onset
    detector_alarmed: float = 2.0  # log prior odds that an alarm is of a fault
    detector_slight: float = 0.75  # the same of an alarm of a single row that hardly reaches its threshold
    detector_awaited: int = 5  # rows after an alarm from which on it may be called slight
    detector_named: float = 4.0  # the same of a window that the user names
    # share of the variance of a root's news that is its own, below which it is outside what was learned
    detector_known: float = 0.8
    detector_most_unsure: float = (
        3.0  # of the variance of news: where curves were not seen it counts a quarter at least
    )
    # probability that a surprise comes from a unit that acts on it and is absent throughout
    detector_absent: float = 0.4

    elsewhere_away: float = 1e-3  # tail beyond which the first row of a unit is not nominal
    # of the way from the nominal level that may lie between the first and the last rows there
    elsewhere_apart: float = 0.2
    elsewhere_per_state: int = 10  # of these for each state
    # times more or less surprise than in the nominal record, from which on the plant is another one
    elsewhere_otherwise: float = 2.0
    elsewhere_least_surprise: float = 1e-3  # over the nominal one, of units that hold still

    evidence_sure: float = 0.98  # probability that the unit that notices something first is the root
    evidence_late: float = 0.3  # the same of a constant that changes after the fault was seen elsewhere
    evidence_soon: int = 5  # rows after an alarm in which an event still belongs to its beginning
    evidence_fades: float = 1.0  # per row by which a unit notices something later than the first, in log probability
    evidence_loud: float = 6.0  # times the usual surprise that a wrong row has at least
    evidence_rest: float = 0.2  # of its surprise that all other rows may have above the usual, together
    evidence_scatter: float = 1.5  # of the sum of the usual surprise of so many rows, over their square root
    evidence_apart: float = 8.0  # times the usual distance of what a unit's sensors show beside its states

    incidents_hardly: float = 1.2  # times a threshold that false alarms of a budget seldom reach
    # of a probability, by which one is not larger than another: those near one differ by rounding
    incidents_as_sure: float = 1e-6
    # of the threshold: an alarm after a pause must begin that much higher to be another incident
    incidents_step: float = 0.1

    inputs_jitter: float = 1e-9  # the same of a regressor, in how well coefficients are known
    inputs_unknown: float = 0.4  # leverage of a steady level from which on it is not known what the plant does there
    inputs_further: float = 1.5  # times as far from where the plant is known as it was in the nominal record
    inputs_least_kept: float = 0.5  # share of the variance of averages that a fit leaves at least
    # times half the range of an input in the nominal record, beyond which being farther out says no more
    inputs_farthest: float = 1.0
    inputs_little: float = 0.01  # of these that is nothing
    inputs_radius: float = 0.999  # largest spectral radius of the response

    lasting_lags_of_others: int = 2
    lasting_far: float = 30.0
    lasting_loudest: float = 6.0  # standard deviations at which states, and news in spreads, are cut off
    lasting_scores: int = 8  # leading ones of the other units' means that a unit's means are compared with, at most
    lasting_windows_each: int = 8  # that a score takes
    lasting_quietest: float = 1e-4  # mean square of news that is as good as none
    lasting_nearest: float = 0.1  # of a usual distance, below which it does not matter how near sensors are

    learning_floor: float = 0.01  # share of each state's variance added to the innovation covariance
    learning_held_out_steps: int = 10  # of expectation maximisation, for plants that see only a part of the record
    learning_alike: float = 1e-6  # ratio of units of measurement that one rank of all states bears
    # share of the work of a fit that a plant without a part of the record may take in any case
    learning_least_work: float = 0.04

    monitor_step_bytes: int = 1 << 26  # of the covariances of the first rows that are kept
    monitor_least: float = 1e-4  # share of a column's largest element below which a response is none
    monitor_least_information: float = 1e-3  # share of the nominal one from which on a unit counts as there

    neighbourhood_core: int = 6
    neighbourhood_most: int = 16  # units in alarm that are judged, and with their neighbours
    neighbourhood_probed: int = 12  # places of the plant whose nominal windows show how far these stray
    neighbourhood_known: int = 32  # neighbourhoods whose posteriors are kept
    neighbourhood_alike: float = 1e-3  # tail beyond which the mean of some rows is not of an operating point
    neighbourhood_moved: float = 1e-3  # of a unit's level that is taken to have moved

    nominal_n_folds: int = 4
    nominal_most_absent: float = 0.5  # share of the nominal rows in which a unit may be absent
    nominal_most_gaps: int = 8  # segments without some unit that are cut out of the nominal record
    nominal_least_run: int = 4  # rows after the first that a segment must have to learn from it
    nominal_min_rows: int = 4
    nominal_curved_rows: float = 30.0  # of a squared correlation, over the rows, that chance has nowhere
    nominal_tail: float = 0.05  # share of nominal windows beyond the quantile that ratios are compared at
    nominal_reweightings: int = 3

    operating_averaged: int = 39  # rows in the slowest average
    operating_enough: int = 1000  # rows that an operating point is learned from
    operating_stays: float = 2.0  # of log likelihood that the last rows of an incident are as those before
    operating_least_rows: int = 10  # to know an operating point again
    operating_alike: float = 1e-3  # tail beyond which rows are not of an operating point
    operating_drifted: float = 1e-3  # of a mean that is taken for drift
    operating_moves: float = 2.0  # from which on `slow` may mean that the level of the nominal record itself moves
    # standard deviations of a unit's errors by which its level has moved at least when that is told
    operating_told: float = 0.5
    # of a move as far as that by the levels of nominal blocks, where these are few, and of one that moves
    operating_chance: float = 0.01
    operating_nats: float = 6.0  # of log likelihood that one operating point has to be ahead of another

    # of how often units surprise in the energy posterior, by log loss on simulated faults
    posterior_sharpness: float = 8.0
    posterior_far: float = 2.0  # times the nominal mean square of the states, from which on errors of the model count
    posterior_max_paired: int = 20  # units up to which two roots at a time are candidates
    posterior_second_root: float = 0.2  # prior weight of a second root
    posterior_sensor: float = 0.5  # prior weight of a sensor fault beside a process fault of the same unit
    posterior_sensor_outside: float = 0.9
    posterior_process_outside: float = 0.1  # prior probability that a fault shows off the subspace
    posterior_whatever: float = 0.1  # prior weight of a disturbance that is no steady fault
    # prior weight of changed dynamics of a unit, half of it of its own and half of links into it
    posterior_changed: float = 0.1
    posterior_reversed: float = 0.02  # prior weight of a unit whose readings have the other sign
    posterior_grows: float = 0.1  # prior probability that a steady fault grows from the first row of a named window on
    # times as much as innovations let them that nominal windows vary, from which on what nobody measures acts
    posterior_unmeasured: float = 2.0
    posterior_few_rows: float = 48.0  # for each state, learned from which shifts vary twice as much of themselves
    posterior_unknown: float = 0.25  # share of what a fault explains that its signature, learned as it is, may miss
    posterior_both: float = 0.5  # probability of the second of two roots from which on it is asked who was first
    # most certainty in a root that leaves much unexplained where another unit was first, or is one too
    posterior_unforeseen: float = 2 / 3
    # of the probability of a root that is that of one upstream which the model does not know to act on it
    posterior_upstream: float = 0.85
    # of the probability of such a root of a named window that is that of the unit in alarm before it
    posterior_earlier: float = 0.75
    posterior_less: float = 1e-13  # share by which a unit ranks below another of the same probability

    rarity_body: float = 0.85  # quantile of the largest values from which on their tail is exponential
    rarity_prior_blocks: float = 10.0  # weight of the tails of a kind beside the blocks beyond that quantile
    rarity_outlier: float = 5.0  # times the median excess that a mean excess may be: one start-up is no tail
    # of a tail, as a share of the distance from the median of the largest values to its beginning
    rarity_least_tail: float = 0.3

    slow_shift_of_work: float = 8 * 3600.0  # seconds
    slow_least_day: int = 48
    slow_before: int = 24  # rows of it that have to be there, and that may be of the alarm itself
    slow_folds: int = 6
    slow_rows_each: int = 8
    slow_longest_piece: int = 16
    slow_most_pieces: int = 6000  # rows of a piece, more where a record had more pieces
    slow_least_blocks: int = 60
    slow_least_block: int = 16
    slow_least_days: int = 10  # blocks of the nominal record, rows of one, longest windows
    # times its threshold that a level is at most, so that a louder surprise is another incident
    slow_loudest: float = 1.05
    slow_stood: float = 2.0
    slow_free: float = 1.5  # a kind counts beyond so many times its mean before, less that
    slow_high_threshold: float = 12.0
    slow_least_threshold: float = 0.3
    slow_at_once: int = 4096  # rows, a multiple of any piece
    slow_left: float = 2.0  # return period, log10, below which nothing is left to be explained
    slow_most_left: float = 12.0
    slow_most_own: float = 6.0
    slow_own_rows: int = 8  # before an alarm, which may be of what it tells
    slow_outside: float = 4.5  # what a disturbance that no unit measures leaves, at the same scale
    slow_surest: float = 0.85  # of a unit: all else may have come in from outside through the first unit that shows it
    slow_sure: float = 0.8
    slow_named: float = 0.9  # probability from which what lasts names a root, and from which surprises do

    stream_sharp: float = 4.0  # of the posterior over the units that drift
    stream_remembered: int = 1000  # rows after an incident in which a drift of its root is of the same fault
    stream_most_inputs: int = 3  # levels of the inputs besides the present one at which an operating point is the same
    stream_after: int = 3  # rows beside a fault that may be out of the ordinary without it

    thresholds_excesses: int = 40  # levels of nominal blocks that are beyond the beginning of a tail
    thresholds_tail: tuple = (0.2, 0.5)  # least and most share of the blocks that these are
    thresholds_outlier: float = 1.6  # times the median excess that a mean excess may be: one start-up is no tail
    thresholds_promise: float = 1.0  # standard deviations of how often a tail is passed that are allowed for
    thresholds_prior_rows: float = 20.0  # weight of the model beside the data in the variance of a smoothed score
    thresholds_falls: int = 3  # power of 1 + how far inputs are beyond their ranges that the budget falls with

    visited_visited: int = 120  # rows of a level at least
    # rows after a switch that are not of the level yet, at most a quarter of those until the next one
    visited_settling: int = 40
    visited_at_an_end: float = 0.1  # share of the rows that a level at an end of the record has at least
    visited_least: int = 20  # rows of a stretch, where an episode begins or ends beside a switch
    visited_most_levels: int = 4
    visited_most_switches: int = 8


TUNING = Tuning()
