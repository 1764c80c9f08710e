"""What estimators have after a fit, for who reads them and for type checkers; their docstrings say what it is."""

from typing import Any, Literal

import numpy as np
import pandas as pd

from ..containers import PlantLayout
from ..federation.ledger import Ledger, StreamLedger
from ..given import Server
from ..privacy import PrivacySpent


class LearnedPlant:
    """Attributes of every fitted estimator."""

    transport: Any  # as set in `communication`, as the next three
    wire_dtype: str
    lost_units: Any
    max_bytes: int | None
    _names_out: Any
    client_names_: tuple[str, ...]
    transition_: np.ndarray
    lag_transitions_: np.ndarray
    process_cov_: np.ndarray
    state_slices_: dict[str, slice]
    clients_: dict[str, Any]
    augmenters_: dict[str, Any]
    server_: Server
    communication_: dict[str, Any]
    ledger_: Ledger
    lost_units_: pd.DataFrame
    privacy_spent_: PrivacySpent
    privacy_ledger_: pd.DataFrame
    privacy_statement_: str
    noise_covariance_: dict[str, np.ndarray]
    layout_: PlantLayout
    n_features_in_: int
    feature_names_in_: np.ndarray
    _store_fit: Any  # what a subclass keeps of a fit
    _init_callback_context: Any  # of scikit-learn


class LearnedInputs:
    """Attributes of a fitted estimator with inputs."""

    missing: str  # as set in `input_model`, as the next three
    basis: Any
    instruments: Any
    input_: np.ndarray
    lag_inputs_: np.ndarray
    input_at_once_: np.ndarray
    input_slices_: dict[str, slice]
    input_names_: tuple[str, ...]
    input_levels_: dict[str, tuple[str, ...]]
    shared_inputs_: dict[str, tuple[str, ...]]
    excitation_: pd.DataFrame
    feedback_: pd.DataFrame | None
    hidden_causes_: pd.DataFrame | None
    engine_: Literal["plant", "responses"]


class LearnedWatch:
    """Attributes of a fitted detector."""

    signs: str  # as set in `evidence`, as the next four
    statistic: str
    prior: Any
    percentile: float
    n_steps: int
    mode: Any  # as set in `baseline`, as the next one
    levels: Any
    _root_cause: Any  # `RootCauseServer` of the plant
    _watch: Any  # this one, or a `FlagWatch`
    _period: Any
    fit: Any
    transform: Any
    thresholds_: dict[str, float]
    false_alarms_: dict[str, Any]
    input_ranges_: dict[str, tuple[float, float]]
    stream_ledger_: StreamLedger
