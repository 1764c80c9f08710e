"""Parameters that belong together are one object of a constructor, which searches and ``set_params`` reach into."""

from inspect import signature
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import validate_parameter_constraints


class ParameterGroup(BaseEstimator):
    """Base of objects that group parameters: they store what they are given, and who takes them checks it.

    See Also
    --------
    Grouped : Whoever takes such objects.

    Examples
    --------
    >>> from skfedcausal import Communication
    >>> Communication(wire_dtype="float32").get_params()["wire_dtype"]
    'float32'
    """

    _parameter_constraints: dict[str, Any] = {}

    def check(self):
        """Refuse values that cannot be meant.

        Raises
        ------
        ValueError
            Says of which parameter it was, what came and what it may be.
        """
        validate_parameter_constraints(
            self._parameter_constraints, self.get_params(deep=False), caller_name=type(self).__name__
        )


def _names(kind):
    """Parameters of a group."""
    return tuple(signature(kind).parameters)


def place_of(kind, name):
    """How a class is given a parameter that it or one of its groups has, in code; None where it has none.

    Parameters
    ----------
    kind : type
    name : str

    Returns
    -------
    str or None

    Examples
    --------
    >>> from skfedcausal import KalmanClient
    >>> from skfedcausal.parameters import place_of
    >>> place_of(KalmanClient, "trend")
    'KalmanClient(baseline=Baseline(trend=...))'
    """
    if name in _names(kind):
        return f"{kind.__name__}({name}=...)"
    for group, own in getattr(kind, "_groups", {}).items():
        if name in _names(own):
            return f"{kind.__name__}({group}={own.__name__}({name}=...))"
    return None


def of_table(kind, settings):
    """An estimator with the settings of a file, in which a group is a table of its own.

    Parameters
    ----------
    kind : type
    settings : dict

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
    >>> from skfedcausal.parameters import of_table
    >>> of_table(KalmanClient, {"n_states": 2, "baseline": {"harmonics": [24]}})
    KalmanClient(baseline=Baseline(harmonics=[24]), n_states=2)
    """
    tables = {name: own for name, own in getattr(kind, "_groups", {}).items() if isinstance(settings.get(name), dict)}
    return kind(**settings | {name: own(**settings[name]) for name, own in tables.items()})


class Grouped:
    """Mixin of estimators some of whose parameters are groups: ``_groups`` has the class of each by name.

    None stands for a group with nothing set, and a word for one with that first parameter. What is in a group is read
    as an attribute of the estimator, so that numerics do not mind where a parameter stands.
    """

    _groups: dict[str, type[ParameterGroup]] = {}
    _renamed: dict[str, str] = {}  # what old names of parameters have become, for the error of one release

    def __init_subclass__(cls, **settings):
        super().__init_subclass__(**settings)
        for group, kind in vars(cls).get("_groups", {}).items():
            for name in _names(kind):
                setattr(cls, name, property(_getter(group, name)))

    def __new__(cls, *args, **settings):
        """Say of parameters that stood in the constructor of version 0.1 where they are."""
        for name in settings:
            place = None if name in _names(cls) else cls._renamed.get(name) or place_of(cls, name)
            if place is not None:
                raise TypeError(f"{cls.__name__} has no parameter {name!r} since version 0.2: {place}.")
        return super().__new__(cls)

    def group(self, name):
        """The group of a name as it is meant.

        Parameters
        ----------
        name : str

        Returns
        -------
        ParameterGroup
        """
        given, kind = getattr(self, name), self._groups[name]
        if isinstance(given, str):
            return kind(**{_names(kind)[0]: given})
        return kind() if given is None else given

    def _validate_params(self):
        super()._validate_params()
        for name in self._groups:
            self.group(name).check()

    def get_params(self, deep=True):
        """Parameters by name, and with `deep` those in groups and parts, ``group__name``.

        Parameters
        ----------
        deep : bool, default=True

        Returns
        -------
        dict
        """
        params = super().get_params(deep=deep)
        if deep:
            for group in (name for name, kind in self._groups.items() if isinstance(self.group(name), kind)):
                params |= {f"{group}__{name}": value for name, value in self.group(group).get_params().items()}
        return params

    def set_params(self, **params):
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
        for group in {name.partition("__")[0] for name in params if "__" in name} & {*self._groups} - {*params}:
            setattr(self, group, self.group(group))
        return super().set_params(**params)


def _getter(group, name):
    def value(self):
        return getattr(self.group(group), name)

    return value
