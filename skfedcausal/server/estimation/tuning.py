"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    block_tests_known: float = 1e-10  # share of a block's largest information below which there is none

    covariance_level: float = 0.05  # family-wise, at which Hotelling's statistic and chi-squared reject alike
    covariance_row_work: float = 2e4  # operations of any of them
    # rows over which the contributions of a row go back, with more of which they cost more
    covariance_usual_memory: int = 16
    covariance_seed: int = 0  # an integral over records has one value: the same at every call

    estimate_search: float = 0.6  # share of a budget that the search for links takes at most; the rest is for the climb
    estimate_shifts: float = 0.2  # share of a whole budget that a search for shifts of levels takes at most
    estimate_prior: float = 0.5  # of what links may take, beside it, for the choice of the prior's weight
    estimate_all: float = 0.9  # share of a budget for plants that keep one lag
    estimate_first_rows: int = 500
    estimate_for_little: float = 0.02  # share of the time that is left in which a little more may be found
    estimate_least_seen: float = 0.9  # share of rows that show a unit's states, from which on gaps may be filled
    # of the exact likelihood from where Whittle's has its maximum to where it has its own
    estimate_evaluations: int = 20

    evidence_indefinite: float = 1e-8  # of the largest eigenvalue, below zero by which one is no rounding
    evidence_slab: float = 0.05  # prior standard deviation of a real link's elements, for ordering only
    evidence_n_thresholds: int = 32
    evidence_nearest: float = 1e-100
    evidence_farthest: float = 1e6  # of about the largest weight, between which tails are neither one nor nothing
    evidence_converged: float = 1e-7  # of the last Newton step; what it leaves is of the order of its square

    hidden_causes_level: float = 0.01  # below which pairs are suspect, for all of them together
    hidden_causes_read: int = 10  # rows of its own measurements that a controller may read, the present one among them

    input_checks_max_order: int = 20
    input_checks_windows: int = 5000  # stretches of an input that are looked at, evenly spread
    input_checks_excited: float = 1e-6  # share of an input's variance that steps before it must leave unexplained
    input_checks_same: float = 1e-10  # share of an input's variance below which the other inputs determine it
    input_checks_max_past: int = 20  # rows of their own past that inputs are freed of
    input_checks_level: float = 1e-3  # below which a test of no feedback rejects
    input_checks_rank: float = 1e-9

    # probability of being in doubt about a shift anywhere in a record without one
    level_shifts_doubt_level: float = 1e-3
    level_shifts_clear: float = 0.5  # share of the strongest likelihood ratio whose onset counts as well
    level_shifts_work: float = 1e4  # operations for each row of a unit, about

    noise_share_max_origins: int = 2000  # time steps that forecasts start from, evenly spread

    prior_weights: tuple[float, ...] = (5.0, 0.5, 0.05)  # time steps that it is worth, of which rows left out choose
    prior_left_out: int = 4  # the first and the last such part of a record
    prior_ahead: float = 3.0  # log-likelihood of the rows left out that a lighter one must bring
    prior_link_scale: float = 1.0
    prior_variance_floor: float = 0.01  # of the noise of pseudo-observations, in any direction

    scoring_correlation_floor: float = 1e-6  # smallest eigenvalue of the correlations of process noise
    scoring_much: int = 2**23  # of columns that are formed again rather than kept during a climb
    scoring_indefinite: float = 1e-6  # relative ridge that cures no rounding but a negative eigenvalue
    scoring_difference: float = 1e-5  # step of numerical derivatives, in standardised units
    scoring_rounding: float = 1e-12  # relative differences of log-likelihoods that may be rounding errors
    # share of the budget after which the clock stops what the count did not; the rest tells what was found
    scoring_clock: float = 0.8
    scoring_rounding_gain: float = 1e-9  # log-likelihood that a step may promise when rounding keeps it from rising

    search_max_additions: int = 3  # new links per effect and round
    search_max_rounds: int = 60
    search_unit_root: float = 0.98  # spectral radius of units that are close to a unit root
    search_step_level: float = 0.01  # of the tests whether a unit's level shifts at a step that is known
    search_singular: float = 1e-3  # smallest eigenvalue of the process noise of a plant that needs no prior

    standardised_variance_floor: float = 0.01  # share of a score's variance its state has at least
    standardised_least_share: float = 0.01  # of the products at a lag, with fewer of which nothing is known of it
    # of information, up to which hardly any time is taken to go through a record row by row
    standardised_loss_by_gaps: float = 0.05
    standardised_edge_share: float = 3.0  # standard deviations of a score test to one edge effect at least


TUNING = Tuning()
