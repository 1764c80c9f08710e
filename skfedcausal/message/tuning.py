"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    clock_same_period: float = 1e-3  # relative difference of two periods that is rounding
    clock_beside: float = 0.1  # of a period: how far rows of two units may lie apart
    clock_earliest: float = -6.2e10
    clock_latest: float = 2.53e11  # years 5 and 9987

    codes_fewest: int = 2  # numbers that a table of one value can make shorter
    # of the codes of four bits: numbers within 3.5 standard deviations; others travel on their own
    codes_middle: int = 8

    fields_single: float = 2.0**-20  # share of a matrix that single precision takes from it or adds

    packet_version: int = 2
    packet_max_header: int = 2**20  # bytes
    packet_max_dimensions: int = 4
    packet_max_elements: int = 2**60  # of a shape, empty dimensions aside: NumPy cannot hold more
    packet_max_integer: int = 2**63

    secure_rounding: float = 1e-12
    secure_nothing: float = 1e-9  # eigenvalue that rounding leaves of zero


TUNING = Tuning()
