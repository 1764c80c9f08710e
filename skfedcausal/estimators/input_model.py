"""How inputs are read and through what they act, as one object."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.utils._param_validation import StrOptions

from ..parameters import ParameterGroup
from ..statespace.input_basis import BASES


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class InputModel(ParameterGroup):
    """What is known of the inputs of a plant: gaps, curves through which they act, instruments and relays.

    Parameters
    ----------
    missing : {"error", "hold"}, default="error"
        What to do about inputs that are not known at some time steps: refuse, naming them, or let the last
        value of the episode hold.
    basis : {"linear", "spline"}, callable or dict, default="linear"
        Through which curve inputs act on the plant. "spline": piecewise linear, bent at the quartiles of the
        record (valves that saturate, dead bands, switches). A function maps the values of an input, shape
        (n_samples,), to columns of shape (n_samples, k) of which a sum acts. A dict chooses by input or unit.
        The plant has a column of `input_` for each, questions are about the input itself. Not for sites.
    instruments : dict of str to str, default=None
        What moves an input and acts on the plant through this input alone: ``{"valve": "setpoint"}``, both columns
        that are declared as inputs of one unit. The effect of the input is then learned from what its instrument, now
        and in up to 20 rows before, explains of it, so that a hidden cause of the rest of its moves does no harm. The
        instrument is no input of the plant. Sites say so in their own settings.
    relays : dict of str to Relay, default=None
        Inputs that are the status, 0 or 1, of what a level switches on and off, and when:
        ``{"tank__pump": Relay("tank__level", 3.1, 4.4)}`` (:class:`~skfedcausal.estimators.relays.Relay`).
        Questions what if and impacts let them answer what other inputs do, unless the question is about them;
        everything else holds them as they were. Status and level belong to one unit.

    Examples
    --------
    >>> from skfedcausal import FederatedCounterfactualEstimator, InputModel
    >>> FederatedCounterfactualEstimator(input_model=InputModel(basis="spline")).set_params(input_model__missing="hold")
    FederatedCounterfactualEstimator(input_model=InputModel(basis='spline',
                                                            missing='hold'))
    """

    missing: str = "error"
    basis: Any = "linear"
    instruments: Mapping | None = None
    relays: Mapping | None = None

    _parameter_constraints = {
        "missing": [StrOptions({"error", "hold"})],
        "basis": [StrOptions(set(BASES)), callable, Mapping],
        "instruments": [Mapping, None],
        "relays": [Mapping, None],
    }
