"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    curved_most_signals: int = 16  # states and inputs
    curved_most_knots: int = 20
    curved_fewest_knots: int = 5  # of each within what was seen
    curved_fewest_rows: int = 20  # for every curve
    # share of a state's variance that is noise of its sensors, up to which curves are not flattened by it
    curved_clear: float = 0.1
    curved_first_share: float = 0.01
    curved_least_share: float = 1e-9  # of the variance of the news that one curve may have
    curved_updates: int = 12  # of these shares
    # times the spread of coefficients whose prior is known, which it is not: bands held .8 of 90 % without
    curved_wider: float = 1.5
    curved_noisier: int = 4  # records with the noise of the sensors once more
    curved_least_new: float = 0.05  # share of a covariance that is no noise at least
    curved_runs: int = 1500  # from states of the record: their noise is the same in all answers and bends them alike
    curved_draws: int = 40
    curved_fewer_runs: int = 60  # of plants, and from states by each of these
    curved_move: float = 0.02  # of its range, by which a column is moved either way for a slope
    curved_before: int = 100  # rows before a change that are run through

    experiments_best: int = 2
    experiments_climbs: int = 30  # starts from which a search goes on, and its steps
    experiments_enough: float = 1e-4  # rise of the log-determinant that ends a search
    experiments_random: int = 5  # draws of a random excitation to compare with
    experiments_jitter: float = 1e-9

    fitting_filter: float = 0.2  # and of what is left after it, the choice of its filter

    forecasts_earlier: int = 100  # before them, from which the first of these bands come
    forecasts_half_life: float = 25.0  # rows after which a miss counts half
    forecasts_own: float = 2.0  # rows that the plant's own covariance counts for
    forecasts_fewest: float = 3.0  # effective number of rows at least, so that a band is finite
    forecasts_overlap: float = 3.0  # share of k that forecasts of k rows have in common with their neighbours, inverse
    forecasts_trusted: float = 20.0  # effective rows after which half of what bands have missed is corrected
    forecasts_rarest: float = 5.0  # times the share outside a band that a quantile may be nearer to the end
    forecasts_times: int = 3  # as many rows as are forecast that there have to be before
    # ahead that misses are counted for; later ones are as far as the plant says from there on
    forecasts_most_steps: int = 200
    forecasts_close: float = 1e-6  # relative change below which covariances have settled
    forecasts_beginning: int = 5  # at most one row in so many is spent on forgetting it
    forecasts_starts: int = 8  # random states whose way shows how fast that is

    # times the largest push that targets ask for in a row, which no plant reaches that settles or drifts
    held_runs_away: float = 1e9

    joint_presence_window: int = 11  # gaps much shorter than this act like a smaller average information
    joint_presence_level: float = 0.1
    joint_max_regimes: int = 8
    # variance that fewer sensors add to a score, of what it has in other rows, with which it is left out
    joint_drowned: float = 2.0
    joint_copy_rows: int = 200  # rows in which units differ
    joint_copy: float = 1 - 1e-6  # smallest canonical correlation of two units that are one
    joint_forecasts: int = 40  # steps of an episode in which forecasts can be compared

    knowledge_nothing: float = 1e-12  # share of a variance that stands for none

    # times the states of the unit in the middle, with which one unit alone makes a fit long
    leave_out_outstanding: float = 2.0

    moments_block_steps: int = 20  # of blocks of a large plant towards maximum likelihood
    moments_sparse_steps: int = 5  # of expectation maximisation with these only

    orders_shared: float = 0.3  # correlation of two sensors from which on it is looked at
    orders_copy: float = 1 - 1e-6  # from which on it is one sensor twice, which no covariance describes
    orders_least_left: float = 1e-6  # share of a sensor's variance that others leave of it at least

    prediction_tail_rows: int = 3000  # that tails of innovations are learned from
    prediction_young: int = 100  # rows of an episode from which on covariances are near enough to settled ones
    # difference of sums below which records are the same; those of others differ by one
    prediction_same_record: float = 0.01

    rounds_rounds: float = 0.5  # share of a budget that is left after a first estimate
    rounds_most_rounds: int = 30  # with the first one
    rounds_least_gain: float = 0.3  # log-likelihood of the record that a round brings; a few times as much is then left
    rounds_close: float = 0.1  # log-likelihood that a climb may leave before the last one
    # of standardised plants between rounds, which would make more of rounding errors each time
    rounds_last_bit: float = 2.0**-16

    running_same: float = 1e-9  # relative difference of information matrices that is rounding
    running_least_seen: float = 0.75  # share of rows in which a unit's states have to be seen

    # a plant drifts if T (1 - |eigenvalue|) is below this (three of four random walks without
    # measurement noise are, by the distribution of Dickey and Fuller's coefficient), in long and short records
    warned_drift: float = 8.0
    warned_slow: float = 0.98


TUNING = Tuning()
