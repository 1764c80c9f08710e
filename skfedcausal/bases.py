"""Base classes of scikit-learn, with the annotations that it does not have: type checkers see those here."""

from typing import TYPE_CHECKING, Any

import numpy as np

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
