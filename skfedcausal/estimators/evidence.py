"""What tells a detector of a fault, as one object."""

from dataclasses import dataclass
from numbers import Real
from typing import Any

from sklearn.utils._param_validation import Interval, StrOptions

from ..parameters import ParameterGroup


@dataclass(frozen=True, repr=False, eq=False)
class Evidence(ParameterGroup):
    """What counts as a sign of a fault and how the root is found from it.

    Parameters
    ----------
    signs : {"innovations", "flags"}, default="innovations"
        "innovations": surprises of the joint model. "flags": the paper's two bits per unit and step. The word alone,
        ``evidence="flags"``, stands for the object with nothing else set.
    statistic : {"both", "energy", "shift"}, default="both"
        "energy" counts in how many steps and for how long a unit surprises (best in closed loops), "shift"
        is the likelihood ratio of a fault that stays (best for small steady faults). "both" shares the
        budget between them; the one with more evidence for a fault names the root. Of nominal records of 960 rows or
        more, half of the budget (a fifth where 96 rows do not span eight hours) is for means and spreads over windows
        of up to 96 rows.
    prior : dict or array-like, default=None
        Prior weight of each unit being the root, by name or in the order of the units. None for equal ones.
    percentile : float, default=95.0
        Threshold of flags: percentile of the nominal distances.
    n_steps : int, default=1
        Steps over which flags must agree (Remark 5.1 of [1]_): the root in more than half of them. Randomised
        flags must agree in so many that their noise alone would not exceed the `false_alarm_rate` of the detector.

    References
    ----------
    .. [1] Mohanty, Ramanan, Gebraeel, Learning Unknown Interdependencies for Decentralized Root Cause
           Analysis in Nonlinear Dynamical Systems.

    Examples
    --------
    >>> from skfedcausal import Evidence, FederatedRCADetector
    >>> FederatedRCADetector(evidence=Evidence("flags", percentile=99.0)).set_params(evidence__n_steps=5).evidence
    Evidence(n_steps=5, percentile=99.0, signs='flags')
    """

    signs: str = "innovations"
    statistic: str = "both"
    prior: Any = None
    percentile: float = 95.0
    n_steps: int = 1

    _parameter_constraints = {
        "signs": [StrOptions({"innovations", "flags"})],
        "statistic": [StrOptions({"both", "energy", "shift"})],
        "prior": ["array-like", dict, None],
        "percentile": [Interval(Real, 0, 100, closed="neither")],
        "n_steps": [Interval(Real, 1, None, closed="left")],
    }
