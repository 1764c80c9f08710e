"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    page_narrowed: float = 0.6
    page_short: int = 22  # letters of a cell that is not broken into lines
    page_nearly: float = 0.999
    page_narrow: int = 3  # columns of a table that fits a telephone; the rows of a wider one become blocks there

    plant_singular: float = 0.1  # smallest eigenvalue of the correlations of process noise, and
    plant_unit_root: float = 0.999  # radius, beyond which a plant that needed a prior is nearly degenerate
    plant_bar: int = 8  # letters of a bar of all that is unpredicted

    record_most_findings: int = 40
    record_most_steps: int = 4


TUNING = Tuning()
