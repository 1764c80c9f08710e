"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    designs_nothing: float = 0.02  # standard deviations of the cause that inputs have to move it by

    privacy_level: float = 0.05

    responses_left: float = 1e-4
    responses_least: int = 60
    responses_most: int = 3000  # of a step response when it is cut off; its rows
    responses_draws: int = 60
    responses_frequencies: int = 200
    responses_lasted: int = 5  # rows that a hidden cause has been at work before the input moves with it

    schedules_hold: int = 5  # rows that a target is held for if nothing is said
    schedules_close: float = 0.06  # standard deviations of a sensor within which a target is reached
    # standard errors of the effect, in standard deviations, beyond which a promise says nothing
    schedules_vague: float = 0.25
    # standard deviations by which an input that does something moves a target, over all of its bounds
    schedules_idle: float = 0.1
    schedules_beyond: float = 0.5  # share of what bends the effect that may be beyond second order
    schedules_far: float = 4.0  # standard deviations from the level of `fit` beyond which a sensor was not seen
    # share of the range of an input in `fit` that a schedule may leave it by and still be known
    schedules_out: float = 0.1
    schedules_rounding: float = 1e-6  # share of bounds by which an input may stand outside of them
    schedules_passes: int = 6  # for inputs that act through curves
    schedules_history: int = 1000  # rows before now that curves may remember
    schedules_draws: int = 60
    schedules_few_draws: int = 15
    schedules_many_moves: int = 1000
    schedules_exact: int = 300  # moves up to which the active set is found
    schedules_weightless: float = 1e-8  # share of the largest weight of a combination of rows, squared


TUNING = Tuning()
