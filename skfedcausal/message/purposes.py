"""What every packet is for, in words that a security officer can read.

Each kind of packet has its fields listed here; a field that is not listed is shown as unknown rather than
left out.
"""

from .packet import body_size

_SERIES = "one row per time step"
_SCALE = "undoes the scaling of a rounded series"
_NOISE = {"added_noise": "variance of the noise that the site added to each sensor"}

PURPOSES = {
    "fit": ("asks for the first message", {}),
    "train": ("asks for the unit's own model before training", {}),
    "states": (
        "what the measurements say about the unit's states, to learn the plant",
        {
            "z": f"sufficient statistic of the states, {_SERIES}",
            "unscale": _SCALE,
            "patterns": "how precisely the sensors see the states",
            "patterns_units": _SCALE,
            "index": "which sensors were seen at each time step",
            "lengths": "number of time steps of each episode",
            "const": "rest of the log-density, for likelihood values, one number per time step",
            "transition": "dynamics of the unit's own states",
            "process_cov": "process noise of the unit's own states",
            "inputs": f"the unit's inputs as they are, {_SERIES}",
            "inputs_scale": _SCALE,
            "input_matrix": "how the inputs act on the unit's own states",
            "off_subspace": "distance of the measurements from what states show, one number per time step",
            "unpredicted": "what the past leaves unpredicted of the states' measurements",
            **_NOISE,
        },
    ),
    "refine": (
        "the unit's smoothed states, to re-estimate its sensors at home",
        {
            "states": f"the unit's own states, {_SERIES}",
            "states_scale": _SCALE,
            "packed": "their covariances",
        },
    ),
    "reply": (
        "what the server learned about this unit",
        {
            "cross_term": f"influence of the other units, {_SERIES}, in 4 bits a number",
            "cross_term_beyond": "numbers of this series that 4 bits do not hold",
            "cross_term_level": "mean of each column of this series",
            "cross_term_step": "what one step of each column of this series is",
            "length": "number of its rows",
            "predicted": f"prediction of the unit's states, {_SERIES}",
            "predicted_scale": _SCALE,
            "transition": "the unit's own dynamics",
            "process_cov": "the unit's own process noise",
            "input_matrix": "how the unit's inputs act on its states",
            "input_level": "mean influence of the other units' inputs",
            "noise_share": "how much of what is unpredicted the unit is to take for sensor noise",
        },
    ),
    "prediction": (
        "prediction of this unit's states, to be mapped through its own sensors",
        {"states": f"the unit's own states one step ahead, {_SERIES}", "states_scale": _SCALE},
    ),
    "effect": (
        "what a change of inputs does to this unit's states",
        {
            "states": "effect, one row per step ahead",
            "states_scale": _SCALE,
            "packed": "covariance of the effect",
        },
    ),
    "ask law": ("asks how the unit's controllers compute its inputs", {}),
    "law": (
        "how the unit's controllers compute its inputs, in terms of its states",
        {
            "present": "gain on the states",
            "previous": "gain on the states one step before",
            "persistence": "gain on the inputs one step before",
        },
    ),
    "local-model": (
        "the unit's own model, before training by gradients",
        {
            "transition": "dynamics of the unit's own states",
            "process_cov": "process noise of the unit's own states",
            "information": "how precisely the sensors see the states",
            "lengths": "number of time steps of each episode",
            "curvature": "largest second derivatives of the losses",
            "sizes": "loss and largest state",
            "input_matrix": "how the inputs act on the unit's own states",
            "input_table": "how the inputs act on the unit's own states, their level and spread",
            **_NOISE,
            "filtered": f"filtered states, to be relayed to the other units, {_SERIES}",
            "filtered_scale": _SCALE,
            "inputs": f"the unit's inputs, to be relayed, {_SERIES}",
            "inputs_scale": _SCALE,
        },
    ),
    "plan": (
        "how to train",
        {
            "rates": "step sizes",
            "warm_rates": "step sizes of the first phase",
            "drivers": f"states and inputs of the other units, {_SERIES}",
            "drivers_scale": _SCALE,
        },
    ),
    "augmented": (
        "states of a round of training by gradients",
        {
            "filtered": f"states by the unit's own filter, {_SERIES}",
            "filtered_scale": _SCALE,
            "augmented": f"states with the present correction, {_SERIES}",
            "augmented_scale": _SCALE,
            "predicted": f"states predicted with the present correction, {_SERIES}",
            "predicted_scale": _SCALE,
            "inputs": f"the unit's inputs, {_SERIES}",
            "inputs_scale": _SCALE,
            "constant": "constant of the correction",
            "progress": "loss and change of the parameters",
        },
    ),
    "predicted": (
        "states of a later round of training by gradients",
        {
            "predicted": f"states predicted with the present correction, {_SERIES}",
            "predicted_scale": _SCALE,
            "constant": "constant of the correction",
            "progress": "loss and change of the parameters",
        },
    ),
    "gradient": (
        "derivatives of the server's loss in this unit's states",
        {
            "predicted": f"in the predicted states, {_SERIES}",
            "predicted_scale": _SCALE,
            "augmented": f"in the augmented states, {_SERIES}",
            "augmented_scale": _SCALE,
        },
    ),
    "correction": (
        "moments of a round of training by gradients",
        {
            "cross": "moments of the correction with the other units' states",
            "cross_states": "the same for the part that passes through the dynamics",
            "constant": "constant of the correction",
            "progress": "energies, loss and change of the parameters",
        },
    ),
    "blocks": (
        "blocks of the plant that belong to this unit",
        {
            "blocks": "influence of the other units",
            "losses": "losses at the solution",
            "constant": "constant of the correction",
        },
    ),
    "done": ("says that a reply was taken", {}),
    "finish": (
        "says that training has ended",
        {"input_level": "mean influence of the other units' inputs"},
    ),
    "network-plan": ("how to train the unit's network", {}),
    "predicted-states": (
        "states over a batch of training of networks",
        {
            "predicted": f"states predicted with the present correction, {_SERIES} of the batch",
            "predicted_scale": _SCALE,
            "filtered": f"states by the unit's own filter, {_SERIES} of the batch",
            "filtered_scale": _SCALE,
            "spread": "mean and standard deviation of the states",
        },
    ),
    "no-gradient": ("asks for the next batch; nothing is told", {}),
    "networks trained": ("says that training of networks has ended", {}),
    "flags": (
        "two bits per time step: whether the unit's own models call it unusual",
        {"bits": "the flags, four time steps to a byte", "length": "number of time steps"},
    ),
    "watch": ("asks for a message about the next batch of the record that is to be watched for faults", {}),
    "verdict": (
        "incidents of the plant",
        {"rows": "onset, first and last row in alarm", "roots": "which unit is the root"},
    ),
    "nothing yet": ("says that there is no further batch to be watched yet", {}),
    "close": ("says that the run is over", {}),
    "error": ("says that there is no answer, and of which kind the reason is", {}),
}
UNKNOWN = "unknown to this version of the library"

_ROUNDING = {"float16": "11 significant bits", "float32": "24 significant bits", "float64": "none"}


def purpose(op):
    """What a kind of packet is for."""
    return PURPOSES.get(op, (UNKNOWN, {}))[0]


def described(op, name, array):
    """One field of a packet for the ledger: meaning, dtype, shape, bytes, rounding.

    Parameters
    ----------
    op : str
    name : str
    array : ndarray

    Returns
    -------
    dict
    """
    dtype = array.dtype.name
    return {
        "meaning": PURPOSES.get(op, (UNKNOWN, {}))[1].get(name, UNKNOWN),
        "dtype": dtype,
        "shape": list(array.shape),
        "bytes": body_size(array),
        "rounding": _ROUNDING.get(dtype, "none, whole numbers"),
    }
