"""Former place of :mod:`skfedcausal.papers.numerics`, whose modules keep these paths too."""

import sys

from ...papers.numerics import augmented, descent, fixed_point

for _name, _module in {
    "augmented": augmented,
    "descent": descent,
    "fixed_point": fixed_point,
    "lagrangian": descent,
}.items():
    sys.modules[f"{__name__}.{_name}"] = _module
