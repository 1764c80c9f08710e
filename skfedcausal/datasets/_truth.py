"""The truth about a simulated plant."""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True, eq=False)
class LevelShift:
    """Constant added to the state equation of one unit.

    Attributes
    ----------
    unit : str
        Name of the unit.
    start, stop : int
        The constant is in the equation of the states of rows ``start`` to ``stop - 1``.
    offset : ndarray of shape (n_states_of_the_unit,)
        Constant, in units of the states.

    Examples
    --------
    >>> from skfedcausal.datasets import make_granger_plant
    >>> _, truth = make_granger_plant(2, level_shift={"unit": 0, "size": 5.0, "at": 0.5}, random_state=0)
    >>> shift = truth.level_shift[0]
    >>> shift.unit, shift.start, shift.stop, shift.offset.tolist()
    ('unit0', 1000, 2000, [5.0, 5.0])
    """

    unit: str
    start: int
    stop: int
    offset: np.ndarray


@dataclass(frozen=True, eq=False)
class PlantTruth:
    """Everything that generated a plant's data.

    Blocks follow the order of `names`. Row t of every series belongs to the same time step; the
    inputs of row t act on the states of row t + 1.

    Attributes
    ----------
    names : list of str
        Units.
    transition : ndarray of shape (n, n)
        ``A``; block ``[state_slices[effect], state_slices[cause]]`` is the direct influence of one
        unit's states on another's.
    input : ndarray of shape (n, n_inputs) or None
        ``B``; columns by `input_slices`.
    process_cov : ndarray of shape (n, n)
        ``Q``.
    observation : list of ndarray of shape (n_sensors_m, n_states_m)
        ``C_m`` of each unit.
    measurement_cov : list of ndarray of shape (n_sensors_m, n_sensors_m)
        ``R_m`` of each unit.
    states : ndarray of shape (n_samples, n)
        Hidden states ``h``.
    state_slices, input_slices : dict of str to slice
        States and inputs of each unit.
    links : DataFrame
        One row per ordered pair of different units with an influence, columns ``cause``,
        ``effect``, ``kind`` (``"state"``: a block of A, ``"input"``: a block of B) and
        ``strength`` (Frobenius norm of the block).
    inputs : list of (ndarray of shape (n_samples, n_inputs_m) or None) or None
        Inputs of each unit, None for a unit that has none; None for a plant without inputs.
    input_columns : list of str
        Flat names ``unit__input`` of the inputs.
    lengths : list of int
        Rows of each episode.
    level_shift : tuple of LevelShift
        Constants added to state equations.
    missing : list of ndarray of bool, shape (n_samples, n_sensors_m)
        Cells of each unit's measurements that were set to NaN.

    Examples
    --------
    >>> from skfedcausal.datasets import make_granger_plant
    >>> _, truth = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
    >>> truth.links[["cause", "effect", "kind"]].to_string(index=False)
    'cause effect  kind\\nunit0  unit2 state'
    >>> rows, cols = truth.state_slices["unit2"], truth.state_slices["unit0"]
    >>> truth.transition[rows, cols].shape
    (2, 2)
    """

    names: list[str]
    transition: np.ndarray
    input: np.ndarray | None
    process_cov: np.ndarray
    observation: list[np.ndarray]
    measurement_cov: list[np.ndarray]
    states: np.ndarray
    state_slices: dict[str, slice]
    input_slices: dict[str, slice]
    inputs: list[np.ndarray | None] | None
    lengths: list[int]
    level_shift: tuple[LevelShift, ...]
    missing: list[np.ndarray]

    @cached_property
    def links(self) -> pd.DataFrame:
        """Influences between different units, see Attributes."""
        rows = []
        sources = ("state", self.transition, self.state_slices), ("input", self.input, self.input_slices)
        for kind, matrix, slices in sources:
            if matrix is None:
                continue
            for (cause, columns), (effect, states) in product(slices.items(), self.state_slices.items()):
                strength = float(np.linalg.norm(matrix[states, columns]))
                if cause != effect and strength > 0:
                    rows.append((cause, effect, kind, strength))
        return pd.DataFrame(rows, columns=["cause", "effect", "kind", "strength"])

    @cached_property
    def input_columns(self) -> Any:
        """Flat names of the inputs, see Attributes."""
        sizes = {name: columns.stop - columns.start for name, columns in self.input_slices.items()}
        return [f"{name}__u{j}" for name, size in sizes.items() for j in range(size)]

    def clients(self) -> dict[str, dict[str, Any]]:
        """True model of each unit on its own.

        Returns
        -------
        models : dict of str to dict
            For each unit the keywords ``A, B, C, Q, R`` of its local model: the diagonal blocks of
            the plant. ``B`` is None for a unit without inputs.

        Examples
        --------
        >>> from skfedcausal import KalmanClient
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, truth = make_granger_plant(2, random_state=0)
        >>> clients = {name: KalmanClient(**model) for name, model in truth.clients().items()}
        >>> clients["unit0"].fit(X["unit0"]).n_states_
        2
        """
        models = {}
        for name, C, R in zip(self.names, self.observation, self.measurement_cov, strict=True):
            own, columns = self.state_slices[name], self.input_slices[name]
            B = None if self.input is None or columns.start == columns.stop else self.input[own, columns]
            model = {"A": self.transition[own, own], "B": B, "C": C, "Q": self.process_cov[own, own], "R": R}
            models[name] = {key: None if M is None else M.copy() for key, M in model.items()}
        return models
