"""Former place of :mod:`skfedcausal.papers.numerics`, whose modules keep these paths too."""

import sys

from ...papers.numerics import augmented, descent, fixed_point, lagrangian

for _module in (augmented, descent, fixed_point, lagrangian):
    sys.modules[f"{__name__}.{_module.__name__.rpartition('.')[2]}"] = _module
