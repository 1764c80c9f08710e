"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    exports_fault: int = 600  # rows

    faults_weather: float = 0.99  # by which the weather follows its last value
    faults_stable: float = 0.985
    faults_draws: int = 50
    faults_most_draws: int = 1000
    faults_weaker: float = 0.98
    faults_ramp: int = 300
    faults_period: int = 25  # rows until a slow fault is there in full, and of an oscillation
    faults_burn: int = 300

    nonlinear_features: int = 64  # of the dependencies
    nonlinear_hidden: int = 16  # of a unit's own LSTM
    nonlinear_radius: float = 2.0
    nonlinear_period: int = 20
    nonlinear_width: int = 16
    # of the map to the sensors: hidden units, standard deviation of a sensor on the cycle
    nonlinear_spread: float = 25.0

    preparation_switch: int = 3  # values of a switch: off, on, and in between


TUNING = Tuning()
