"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    answers_curvature: float = 0.15  # of an effect that a straight line may miss
    answers_twice: float = 2.0  # jumps of the record and those of the other world are two draws once the worlds differ
    answers_long: int = 100
    answers_shown: float = 0.2  # rows of a step that are looked at, share of its largest effect
    answers_found: float = 1.5  # times the errors along directions that were found with the same errors

    # share of news in jumps (relays, trips) from which on the bands of a Gaussian plant hold too seldom
    choice_jumps: float = 0.15
    # times the loss with inputs that act later up to which they may as well act in their own row
    choice_both: float = 1.1

    # seconds of work that settle a plant whose whole search is short, and times the loss of responses that one which is
    # not settled misses at most: plants of the library's own class miss as much as responses by then
    early_quick: float = 0.1
    early_misses: float = 1.25
    early_level: float = 1e-3  # of the test that says that an input follows measurements, for all inputs together

    held_out_runs_away: float = 1e12
    held_out_numbers: int = 2_000_000  # of all rows, states and inputs of the runs over a stretch, at most
    held_out_around: int = 5

    learning_share: float = 0.25
    learning_most: int = 400  # regressors for every row, and most of them
    learning_pairs: int = 10_000  # of an input and a state, whose effects fit in memory
    learning_horizon: int = 100  # rows of a run over rows left out
    learning_least: float = 1e-6
    learning_apart: float = 30.0  # times the ridge, for shifted inputs that may be the same ones again
    learning_shifts: int = 19  # of the inputs in time, as far apart as the record allows
    learning_gaussian: float = 1.4826  # standard deviation over the median of what is left

    moments_level_ridge: float = 1e-9

    runs_settles: float = 0.999  # most that a model of a stable plant may keep of an effect from row to row
    runs_numbers: int = 4_000_000  # at once

    trust_tau: float = 0.25
    trust_floor: float = 0.05
    trust_rounds: int = 50  # how far real slopes are from one; least standard error


TUNING = Tuning()
