"""What users give, as type checkers see it: records of a plant, inputs beside them, lengths of episodes."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd


class HasArray(Protocol):
    """Arrays, and tables that make one."""

    def __array__(self) -> Any: ...


class HasEpisodes(Protocol):
    """A :class:`~skfedcausal.PlantTable`, and whatever else knows where it is cut."""

    def to_episodes(self) -> list[pd.DataFrame]: ...


Record = list[Any] | tuple[Any, ...] | Mapping[Any, Any] | pd.DataFrame | HasArray | HasEpisodes
Inputs = list[Any] | tuple[Any, ...] | Mapping[Any, Any] | pd.DataFrame | HasArray | None
Lengths = Sequence[int] | np.ndarray | None
Setting = float | str | Sequence[Any] | np.ndarray | pd.Series | Mapping[str, Any]  # of inputs, one or row by row
Unit = str | int | np.integer
