"""Scaling that every unit can do alone."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import _check_n_features

from ..arguments import as_floats
from ..bases import Versioned
from .arrays import as_native, column_names, kinds, listed, to_floats
from .plant import stack_clients
from .rows import ClientArrays, n_dimensions, opened

if TYPE_CHECKING:
    from ..bases import StandardScaler
else:
    from sklearn.preprocessing import StandardScaler


class UnitScaler(Versioned, StandardScaler):
    """Brings every column to zero mean and unit variance and keeps the names of units and sensors.

    A :class:`~sklearn.preprocessing.StandardScaler` that gives back a table for a table, so that the
    estimator after it in a pipeline still knows which unit a column belongs to. A column needs nothing of
    other columns: each unit can scale its own. NaN stays NaN, constant columns are only centred.

    Parameters
    ----------
    copy : bool, default=True
    with_mean : bool, default=True
    with_std : bool, default=True

    Attributes
    ----------
    mean_, var_, scale_ : ndarray of shape (n_features,)
        In the units of the columns.
    n_features_in_ : int
    feature_names_in_ : ndarray of str of shape (n_features,)

    See Also
    --------
    stack_clients : The table of a dict or list of units.

    Notes
    -----
    What is learned from standardised columns does not depend on the columns' physical units, and neither do
    the links of :class:`~skfedcausal.FederatedGrangerEstimator`; likelihoods (``score``) do.

    Examples
    --------
    >>> import pandas as pd
    >>> from skfedcausal import UnitScaler
    >>> X = pd.DataFrame({"mill__power": [1.0, 2.0, 3.0], "kiln__temp": [900.0, None, 920.0]})
    >>> print(UnitScaler().fit_transform(X).round(2))
       mill__power  kiln__temp
    0        -1.22        -1.0
    1         0.00         NaN
    2         1.22         1.0
    """

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn means and variances.

        Parameters
        ----------
        X : DataFrame, ndarray, ClientArrays, or dict or list of units
            Of pandas or polars, NaN where missing.
        y : None
            Ignored.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        self : UnitScaler

        Raises
        ------
        ValueError
            If X is no table of numbers, or the squares of some cannot be computed.
        """
        table = _table(X)
        if sample_weight is not None:
            sample_weight = as_floats(sample_weight, "`sample_weight`", "one number for each row")
        with np.errstate(over="ignore", invalid="ignore"):
            fitted = super().fit(table, y, sample_weight)
        lost = np.flatnonzero(~np.isfinite(self.var_) & ~np.isnan(self.mean_)) if self.with_std else ()
        if len(lost):
            large = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))[lost].tolist()
            raise ValueError(
                f"Values of {listed(large, 4)} are so large that their squares cannot be computed. Give them in other "
                "units, and take out values that no sensor can have reported."
            )
        return fitted

    def transform(self, X: Any, copy: bool | None = None) -> pd.DataFrame | np.ndarray:
        """Scaled columns.

        Parameters
        ----------
        X : DataFrame, ndarray, ClientArrays, or dict or list of units
        copy : bool, default=None

        Returns
        -------
        DataFrame, ClientArrays or ndarray of shape (n_samples, n_features)
            Of the kind that came (a pandas table for a dict or list), or as ``set_output`` says.
        """
        return self._in_kind(super().transform, X, copy)

    def inverse_transform(self, X: Any, copy: bool | None = None) -> pd.DataFrame | np.ndarray:
        """Columns in their own units again.

        Parameters
        ----------
        X : DataFrame, ndarray, ClientArrays, or dict or list of units
        copy : bool, default=None

        Returns
        -------
        DataFrame or ndarray of shape (n_samples, n_features)
            Of the kind that came.

        Raises
        ------
        ValueError
            If there are more or fewer columns than in `fit`.
        """
        return self._in_kind(self._inverse, X, copy)

    def _inverse(self, table, copy):
        _check_n_features(self, table, reset=False)
        return super().inverse_transform(np.asarray(table) if isinstance(table, pd.DataFrame) else table, copy=copy)

    def _in_kind(self, change, X, copy):
        table = _table(X)
        changed = change(table, copy=copy)
        is_set = _get_output_config("transform", self)["dense"] != "default"
        if isinstance(X, ClientArrays) and not is_set:
            return X.replaced(np.asarray(changed))
        if is_set or not isinstance(table, pd.DataFrame):
            return changed
        if hasattr(X, "to_pandas"):  # polars
            return type(X)(dict(zip(table.columns, np.asarray(changed).T, strict=True)))
        return pd.DataFrame(changed, columns=table.columns, index=table.index)


def _table(X):
    """A table of any container."""
    X = as_native(opened(X)[0])
    several = isinstance(X, (list, tuple)) and any(n_dimensions(part) == 2 or isinstance(part, Mapping) for part in X)
    table = stack_clients(X) if isinstance(X, Mapping) or several else X
    column_names(table)  # refuses those that are there twice
    if not issparse(table) and (not kinds(table) or kinds(table) - set("fiub")):
        columns = column_names(table)
        to_floats(table, name_column=lambda place: repr(place if columns is None else columns[place]), where="X")
    return table
