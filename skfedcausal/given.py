"""What users give, as type checkers see it: records of a plant, inputs beside them, lengths of episodes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd


class HasArray(Protocol):
    """Arrays, and tables that make one."""

    def __array__(self) -> Any: ...


class HasEpisodes(Protocol):
    """A :class:`~skfedcausal.PlantTable`, and whatever else knows where it is cut."""

    def to_episodes(self) -> list[pd.DataFrame]: ...


class Fitted(Protocol):
    """Parts that are fitted: augmenters and the models of most clients."""

    def fit(self, *args: Any, **settings: Any) -> Any: ...


class Dialogue(Protocol):
    """Servers that speak with the units themselves."""

    def dialogue(self, *args: Any, **settings: Any) -> Any: ...


class Server(Protocol):
    """Servers that have learned: what all of them know; what else there is depends on which one was given."""

    names_: tuple[str, ...]
    state_slices_: dict[str, slice]
    transition_: np.ndarray
    process_cov_: np.ndarray

    def __getattr__(self, name: str) -> Any: ...


class Filtered(Protocol):
    """Clients that are not fitted, as those whose functions are known."""

    def filter_moments(self, *args: Any, **settings: Any) -> Any: ...


Record = list[Any] | tuple[Any, ...] | Mapping[Any, Any] | pd.DataFrame | HasArray | HasEpisodes
Inputs = list[Any] | tuple[Any, ...] | Mapping[Any, Any] | pd.DataFrame | HasArray | None
Lengths = Sequence[int] | np.ndarray | None
Setting = float | str | Sequence[Any] | np.ndarray | pd.Series | Mapping[str, Any]  # of inputs, one or row by row
Unit = str | int | np.integer
Client = Fitted | Filtered
Seed = int | np.integer | np.random.RandomState | None
ByUnit = float | Mapping[str, float] | None
Columns = Sequence[Any] | Mapping[Any, Any] | np.ndarray | pd.Index | pd.Series | Callable[..., Any]
