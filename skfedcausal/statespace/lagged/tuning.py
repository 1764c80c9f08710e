"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    information_least: float = 0.25  # to which the further term may shrink a direction
    information_not_reached: float = 1e-9
    information_rounding: float = 1e-10

    kernels_rounding: float = 1e-12
    kernels_vanished: float = 1e-5  # share of the first lag's variance below which later lags are zero


TUNING = Tuning()
