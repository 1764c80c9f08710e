"""Former place of :mod:`skfedcausal.papers.numerics`, whose modules keep these paths too."""

import sys

from ...papers.numerics import augmented, descent, fixed_point

_FORMER = {"augmented": augmented, "descent": descent, "fixed_point": fixed_point, "lagrangian": descent}
sys.modules.update({f"{__name__}.{name}": module for name, module in _FORMER.items()})
