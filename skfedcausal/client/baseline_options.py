"""Seasons, trends, modes and levels of a record that are nominal, as one object for units and detectors."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import Interval, StrOptions

from ..parameters import Grouped, ParameterGroup


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Baseline(ParameterGroup):
    """What in a record is expected: its operating point, seasons, trend, modes and levels.

    A :class:`~skfedcausal.KalmanClient` removes it from its own record before anything is learned, and adds it to
    predictions again. A :class:`~skfedcausal.FederatedRCADetector` has `levels` and `mode`, of the whole plant, for
    nominal; give the others to its `client`.

    Parameters
    ----------
    center : bool, default=True
        Take the means of the columns (and of the inputs) in `fit` as the operating point around which the
        model holds; otherwise it is zero.
    harmonics : float, sequence of float, dict or "auto", default=None
        Periods in rows of seasons that the unit removes from its record, each with its overtones (twelve at
        most; a dict gives their number by period). "auto" finds the periods by a test for lines.
    trend : {"linear", "smooth"} or int, default=None
        Trend removed by the unit: a line, or a natural cubic spline of as many degrees of freedom ("smooth": 8).
        It continues as a line after the record.
    mode : str, int or array-like of shape (n_samples,), default=None
        Column of the record that says in which mode the unit or the plant is (an operating mode, a holiday),
        or the labels themselves. Each mode has a level of its own; the column is no measurement any more. What names
        of columns a detector takes, and what it does about modes that are new, its own page says.
    levels : {"auto", "episode", "wander"} or float, default="auto"
        "episode": each episode has a level of its own. A number of rows has the level of a sensor move as well: what is
        slower than such a period is removed. "wander" finds the period of sensors that are random walks beside
        their noise, and none where they stay. None: one level for all rows. "auto" is None for a unit; a detector
        then looks for a few levels between which the nominal record shifts. It knows neither "wander" nor periods.
    profile : {"auto", "calendar"} or None, default="auto"
        Removes what the times of rows predict, where that pays on held-out segments of the record: the level by
        time of day (and weekend, of two weeks or more) or the year, and up to three seasons that nobody named, which
        show as sharp lines of the spectrum. "calendar" is the first alone, of rows up to half an hour apart, and what
        "auto" means to a detector: a fault may have a period. Nothing without times, or under privacy.

    Examples
    --------
    >>> from skfedcausal import Baseline, KalmanClient
    >>> KalmanClient(baseline=Baseline(harmonics=24)).set_params(baseline__trend="linear").baseline
    Baseline(harmonics=24, trend='linear')
    """

    center: bool = True
    harmonics: Any = None
    trend: str | int | None = None
    mode: Any = None
    levels: str | float | None = "auto"
    profile: str | None = "auto"

    _parameter_constraints = {
        "center": ["boolean"],
        "harmonics": [StrOptions({"auto"}), Interval(Real, 2, None, closed="left"), "array-like", dict, None],
        "trend": [StrOptions({"linear", "smooth"}), Interval(Integral, 1, None, closed="left"), None],
        "mode": [str, Integral, "array-like", None],
        "levels": [StrOptions({"auto", "episode", "wander"}), Interval(Real, 0, None, closed="neither"), None],
        "profile": [StrOptions({"auto", "calendar"}), None],
    }

    def check_watched(self) -> None:
        """Refuse what only a unit can take off.

        Raises
        ------
        ValueError
            Of such settings.
        """
        self.check()
        plain = Baseline().get_params(deep=False)
        own = [name for name in ("center", "harmonics", "trend", "profile") if getattr(self, name) != plain[name]]
        if own or self.levels not in ("auto", "episode", None):
            raise ValueError(
                f"The baseline of a detector has `levels` ('auto', 'episode' or None) and `mode`, got {self}; the rest "
                "belongs to its units: client=KalmanClient(baseline=Baseline(...))."
            )
        if not (self.mode is None or isinstance(self.mode, str)):
            raise ValueError(f"mode={self.mode!r}: a detector takes the name of a column that tells the mode.")

    def taken_off(self) -> dict[str, Any]:
        """Options by name of what a unit removes from its own record, None for what it leaves.

        Returns
        -------
        dict
        """
        options = {name: getattr(self, name) for name in ("harmonics", "trend", "mode", "levels", "profile")}
        return options | {"levels": None if options["levels"] == "auto" else options["levels"]}


class HasBaseline(Grouped):
    """Mixin of who takes a :class:`Baseline`, with its options as attributes."""

    center: bool
    profile: Any
