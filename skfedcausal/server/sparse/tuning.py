"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    blocks_finer: int = 2  # frequencies of a filter's lags over the number of these

    cover_dense: int = 400  # states, up to which eigenvalues are computed all at once
    cover_arnoldi: int = 120  # vectors of others: moduli lie so close that fewer take several times as many products

    filter_least_share: float = 1e-3  # of covariances between units
    filter_least_gain: float = 1e-5  # of a score, both of unit variance; smaller ones move nothing
    filter_dense: int = 600  # states, up to which a dense product of a row is the faster one
    filter_most: int = 24  # units that the gain of a core is computed with, unless more act on it

    # share of rows that a unit has to be there in; more than half, so that many follow each other
    gaps_least_there: float = 0.6
    # the same share in plants that are not so large that nobody can wait for the exact likelihood
    gaps_nearly_always: float = 0.9
    gaps_left: float = 0.03  # share of a link that fillings by plants that do not know it may take away
    gaps_same: float = 1e-6  # relative difference of information that is rounding, of states in other units
    gaps_burn_in: int = 200  # rows

    inputs_rounds: int = 3  # of tests of units on their own
    inputs_least_variance: float = 0.01  # share of an input's variance that stretches between shifts have to leave

    learning_evaluations: int = 50  # that a block is worth, its tests included
    learning_promising: float = 0.1  # p-value at the plant without links up to which a pair is tested again
    learning_near_gain: float = 0.01  # log-likelihood that climbs during the search may leave
    learning_max_rounds: int = 10

    memory_matrices: int = 20  # of all states by all states that a fit holds at its peak, about
    memory_series: int = 10  # of all states over the record
    memory_regressors: int = 3  # states and inputs over the record, and products of all of them
    memory_drawn: int = 8
    memory_of_gaps: int = 4  # more of them where gaps are filled, and for each state of a unit
    memory_base: int = 2**28 + 2**27  # bytes

    report_fewest_rows: int = 200

    screening_pairs: int = 20_000  # that are looked at together

    server_whole: int = 100  # units, above which it is said that a plant is learned as a whole
    server_lags_level: float = 1e-3  # family-wise, below which later lags are taken to act
    server_feedback_level: float = 1e-3  # below which inputs are taken to depend on what is measured
    server_step_level: float = 0.01  # of the tests whether a unit's level shifts with others'
    server_per_large: int = 32  # units that `max_time` is for; larger plants have in proportion


TUNING = Tuning()
