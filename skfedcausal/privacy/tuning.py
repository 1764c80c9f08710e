"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    errors_correlation: float = 0.2  # what a link should show at least, in the rule of thumb for what noise leaves
    errors_many_clipped: float = 0.05

    noise_grid_bits: int = 20

    site_account_named: int = 32  # digits of a release that name its file

    # of the spread of a column: noise for smaller changes leaves three digits of every measurement
    voids_step: float = 1e-3


TUNING = Tuning()
