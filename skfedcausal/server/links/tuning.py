"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    benefit_significant: float = 1.645  # standard errors, one-sided 5 %

    curves_most_inputs: int = 8  # whose curves are taken out too
    curves_chance: float = 0.05  # of any unit that enters a regression of none
    curves_chance_of_products: float = 0.01  # the same of products
    curves_most_products: int = 8  # of an effect
    # of what is new in an effect: a curve that tells as much has to show with a chance for a link to be called none
    curves_share: float = 0.1
    curves_power: float = 0.8
    curves_most_columns: int = 640  # of all units: more would take minutes

    grades_level: float = 0.9  # one-sided, of the bounds: Student's t over the stretches
    # of the share of the same row: what a driver of both with a memory gives a later row stays below
    grades_shared: float = 1.0
    # times the gain back that a gain exceeds if it is one way: a driver of a fast and a slow unit stays below
    grades_way: float = 1.5
    grades_chance: float = 5.0  # standard deviations of a share in the same row by chance, from which on it is one
    # robust standard deviations of news from which on a row counts less, in the local specification
    grades_far: float = 2.5
    # share of pairs of many units of which the likelihood holds, with which none is graded
    grades_nearly_all: float = 0.9
    grades_most_units: int = 64  # whose pairs take seconds
    grades_fewest: int = 10  # rows of a stretch beyond the columns of a unit's past

    intervals_power: float = 0.8
    intervals_most_frequencies: int = 128  # at which standard errors of spectra are computed

    over_time_pieces: int = 8
    over_time_fewest_rows: int = 200
    over_time_least_rows: int = 50
    over_time_rows_per_state: int = 8  # of pieces that somebody asks for: in 5 rows nearly all links "change"

    resampling_memories: int = 4  # times in which slow states forget by a factor of e, in a block
    resampling_least_blocks: int = 10

    same_row_same: float = 1e-7  # share of an effect's deviation up to which what a cause leaves of it is rounding

    shapes_far: float = 0.03  # quantile at both ends within which a state that it multiplies is held
    shapes_knots: int = 20
    shapes_noisier: int = 4  # records with the noise of the sensors once more
    shapes_least: float = 0.3  # deviation of a product from which on its coefficient counts as that of a larger one
    shapes_low: float = 0.16  # and the quantile, with its opposite, at which a shape is told
    # standard deviations by which a state is moved either way for its slope: of one at a point few rows tell
    shapes_reach: float = 0.5
    shapes_wider: float = 1.2  # times the errors of coefficients whose prior is taken to be known


TUNING = Tuning()
