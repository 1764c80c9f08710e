"""Base classes: scikit-learn's with annotations, parameters as one object, pickles that know their version."""

from inspect import signature
from numbers import Integral, Real
from reprlib import repr as short
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils._param_validation import Interval, InvalidParameterError, validate_parameter_constraints

from ._version import __version__
from .arguments import warn

# Base classes of scikit-learn, with the annotations that it does not have: type checkers see those here.

if TYPE_CHECKING:
    from typing import Self

    class Bunch(dict[str, Any]):
        """A dict whose keys are attributes."""

        def __getattr__(self, name: str) -> Any: ...

    class MadePlant(Bunch):
        """What generators of faults give."""

        data: dict[str, np.ndarray]

    class BaseEstimator:
        """Parameters, clones, metadata."""

        def __getstate__(self) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[str, Any]) -> None: ...
        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def get_metadata_routing(self) -> Any: ...
        def __sklearn_tags__(self) -> Any: ...
        def _validate_params(self) -> None: ...
        @classmethod
        def _get_param_names(cls) -> list[str]: ...

    class TransformerMixin:
        """Transformers."""

        def fit_transform(self, X: Any, y: None = None, **fit_params: Any) -> np.ndarray: ...
        def set_output(self, *, transform: str | None = None) -> Self: ...
        def __sklearn_tags__(self) -> Any: ...

    class ClassNamePrefixFeaturesOutMixin:
        """Names of columns after the class."""

        def get_feature_names_out(self, input_features: Any = None) -> Any: ...

    class StandardScaler(TransformerMixin, BaseEstimator):
        """Columns of zero mean and unit variance."""

        with_std: bool
        mean_: np.ndarray
        var_: np.ndarray
        scale_: np.ndarray
        n_features_in_: int
        feature_names_in_: np.ndarray

        def __init__(self, *, copy: bool = True, with_mean: bool = True, with_std: bool = True) -> None: ...
        def fit(self, X: Any, y: None = None, sample_weight: Any = None) -> Self: ...
        def transform(self, X: Any, copy: bool | None = None) -> Any: ...
        def inverse_transform(self, X: Any, copy: bool | None = None) -> Any: ...

    class RegressorMixin:
        """Regressors."""

        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...
        def __sklearn_tags__(self) -> Any: ...

else:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, RegressorMixin, TransformerMixin
    from sklearn.utils import Bunch

    MadePlant = Bunch

__all__ = [
    "BaseEstimator", "Bunch", "ClassNamePrefixFeaturesOutMixin", "MadePlant", "RegressorMixin", "TransformerMixin",
]  # fmt: skip


# What pickles say of the version that wrote them.

VERSION_KEY = "_skfedcausal_version"


class InconsistentVersionWarning(UserWarning):
    """A pickle was written by another version than the one that reads it.

    Examples
    --------
    >>> from skfedcausal.bases import InconsistentVersionWarning
    >>> issubclass(InconsistentVersionWarning, UserWarning)
    True
    """


class Versioned:
    """Mix-in of classes whose pickles say which version wrote them: a reader of another version warns."""

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {**(state or {}), VERSION_KEY: __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        written = state.pop(VERSION_KEY, "before 0.2")
        if written != __version__:
            warn(
                f"A {type(self).__name__} was pickled by skfedcausal {written}, and this is {__version__}, which may "
                "read it wrongly or not at all. Fit again, or keep models in files of `skfedcausal.save`, which later "
                "versions read.",
                InconsistentVersionWarning,
            )
        parent: Any = super()
        if hasattr(parent, "__setstate__"):
            parent.__setstate__(state)
        else:
            vars(self).update(state)


# Parameters that belong together are one object of a constructor, which searches and ``set_params`` reach into.

FROM_ZERO, POSITIVE = (Interval(Real, 0, None, closed=closed) for closed in ("left", "neither"))
AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
N_JOBS = [Interval(Integral, None, -1, closed="right"), AT_LEAST_ONE, None]


class Checked(BaseEstimator):
    """Base of what refuses invalid parameters, those with which NumPy's comparisons end in an error as well.

    Durations of NumPy are whole numbers to Python, and sparse matrices are compared element by element.
    """

    _parameter_constraints: dict[str, Any] = {}
    _groups: dict[str, type["ParameterGroup"]] = {}
    _moved: dict[str, str] = {}  # what to call in place of methods of 0.1, for the error of one release

    if not TYPE_CHECKING:  # which would take every name for one that is there

        def __getattr__(self, name):
            if name not in type(self)._moved:
                return self.__getattribute__(name)  # which raises, a property in words of its own
            raise AttributeError(f"{type(self).__name__}.{name} moved in 0.2: {type(self)._moved[name]}.")

    def _validate_params(self):
        who = type(self).__name__
        for name, value in self.get_params(deep=False).items():
            try:
                if isinstance(value, np.timedelta64):
                    raise TypeError("a duration")
                validate_parameter_constraints(self._parameter_constraints, {name: value}, caller_name=who)
            except InvalidParameterError:
                raise
            except (TypeError, ValueError) as error:
                raise InvalidParameterError(
                    f"The {name!r} parameter of {who} must be of another kind. Got {short(value)} instead, of type "
                    f"{type(value).__name__} ({error})."
                ) from None
        for name in self._groups:
            group_of(self, name).check()


class ParameterGroup(Checked):
    """Base of objects that group parameters: frozen dataclasses, which who takes them checks.

    See Also
    --------
    Grouped : Whoever takes such objects.

    Examples
    --------
    >>> from skfedcausal import Communication
    >>> Communication(wire_dtype="float32").get_params()["wire_dtype"]
    'float32'
    """

    def check(self) -> None:
        """Refuse invalid values.

        Raises
        ------
        ValueError
            Says of which parameter it was, what came and what it may be.
        """
        self._validate_params()

    def changed(self, **settings: Any) -> Self:
        """Another group with other values of some parameters.

        Parameters
        ----------
        **settings : dict

        Returns
        -------
        ParameterGroup

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        own = self.get_params(deep=False)
        for name in settings.keys() - own.keys():
            raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(own)}.")
        return type(self)(**own | settings)


class Grouped(Checked):
    """Base of estimators some of whose parameters are groups: ``_groups`` has the class of each by name.

    None stands for a group with nothing set, and a word for one with that first parameter. What is in a group is read
    as an attribute of the estimator, so that numerics do not mind where a parameter stands.
    """

    _renamed: dict[str, str] = {}  # what old names of parameters have become, for the error of one release

    def __init_subclass__(cls, **settings):
        super().__init_subclass__(**settings)
        inherited = (getattr(base, "_groups", {}) for base in cls.__bases__)
        own = vars(cls).get("_groups", {})
        cls._groups = {name: kind for groups in (*inherited, own) for name, kind in groups.items()}
        for group, kind in own.items():
            for name in _names(kind):
                setattr(cls, name, property(_getter(group, name)))

    if not TYPE_CHECKING:  # which would hide the parameters of the constructor

        def __new__(cls, *args, **settings):
            """Say of parameters that stood in the constructor of version 0.1 where they are."""
            for name in settings.keys() - {*_names(cls)}:
                place = cls._renamed.get(name) or place_of(cls, name)
                if place is not None:
                    raise TypeError(f"{cls.__name__} has no parameter {name!r} since version 0.2: {place}.")
            return super().__new__(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, and with `deep` those in groups and parts, ``group__name``.

        Parameters
        ----------
        deep : bool, default=True

        Returns
        -------
        dict
        """
        params = super().get_params(deep=deep)
        groups = {name: group_of(self, name) for name in self._groups} if deep else {}
        for group, own in groups.items():
            if isinstance(own, ParameterGroup):  # else it will be refused
                params |= {f"{group}__{name}": value for name, value in own.get_params().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of a group by ``group__name``.

        Parameters
        ----------
        **params : dict

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            If there is no such parameter.
        """
        changes: dict[str, dict] = {}
        for name in [name for name in params if "__" in name and name.partition("__")[0] in self._groups]:
            group, _, own = name.partition("__")
            changes.setdefault(group, {})[own] = params.pop(name)
        super().set_params(**params)
        for group, settings in changes.items():
            setattr(self, group, group_of(self, group).changed(**settings))
        return self


def group_of(estimator, name):
    """The group of an estimator as it is meant, whether it was given, named by a word, or left out.

    Parameters
    ----------
    estimator : Grouped
    name : str

    Returns
    -------
    ParameterGroup

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.bases import group_of
    >>> group_of(FederatedRCADetector(evidence="flags"), "evidence")
    Evidence(signs='flags')
    """
    given, kind = getattr(estimator, name), _groups(type(estimator))[name]
    if isinstance(given, str):
        return kind(**{_names(kind)[0]: given})
    return kind() if given is None else given


def place_of(kind, name, value="..."):
    """How a class is given a parameter that it or one of its groups has, in code; None where it has none.

    Parameters
    ----------
    kind : type
    name : str
    value : object, default="..."

    Returns
    -------
    str or None

    Examples
    --------
    >>> from skfedcausal import KalmanClient
    >>> from skfedcausal.bases import place_of
    >>> place_of(KalmanClient, "trend")
    'KalmanClient(baseline=Baseline(trend=...))'
    """
    setting = f"{name}={value}"
    if name in _names(kind):
        return f"{kind.__name__}({setting})"
    group = _home(kind, name)
    return None if group is None else f"{kind.__name__}({group}={_groups(kind)[group].__name__}({setting}))"


def configured(kind, settings):
    """An estimator with settings that know of no groups, as those of a file.

    Parameters
    ----------
    kind : type
    settings : dict
        Parameters of the estimator, and of its groups by their own names.

    Returns
    -------
    estimator

    Raises
    ------
    TypeError
        If there is no such parameter.

    Examples
    --------
    >>> from skfedcausal import KalmanClient
    >>> from skfedcausal.bases import configured
    >>> configured(KalmanClient, {"n_states": 2, "harmonics": [24]})
    KalmanClient(baseline=Baseline(harmonics=[24]), n_states=2)
    """
    homes = {name: None if name in _names(kind) else _home(kind, name) for name in settings}
    parts: dict[Any, dict] = {
        home: {name: settings[name] for name in settings if homes[name] == home} for home in homes.values()
    }
    own = parts.pop(None, {})
    return kind(**own, **{group: _groups(kind)[group](**inside) for group, inside in parts.items()})


def settings_by_name(estimator):
    """Parameters of an estimator and those in its groups by their own names, as :func:`configured` takes them.

    Parameters
    ----------
    estimator : BaseEstimator

    Returns
    -------
    dict
    """
    groups = _groups(type(estimator))
    own = {name: value for name, value in estimator.get_params(deep=False).items() if name not in groups}
    for group in groups:
        own |= group_of(estimator, group).get_params(deep=False)
    return own


def _groups(kind):
    """Classes of the groups of a class by name."""
    return getattr(kind, "_groups", {})


def _home(kind, name):
    """Name of the group of a class that has a parameter, None where none has."""
    return next((group for group, own in _groups(kind).items() if name in _names(own)), None)


def _names(kind):
    """Parameters of a constructor."""
    return tuple(signature(kind).parameters)


def _getter(group, name):
    def value(self):
        given = group_of(self, group)
        if not isinstance(given, ParameterGroup):
            self._validate_params()  # which says what it is
        return getattr(given, name)

    return value
