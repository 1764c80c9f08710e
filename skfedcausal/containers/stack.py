"""The flat table of a list or dict of units."""

import numpy as np
import pandas as pd

from .plant import read_plant


def stack_clients(clients, inputs=None):
    """Put units side by side in one table, the form that travels best through scikit-learn.

    A list or dict of arrays cannot be split along time by :class:`~sklearn.model_selection.GridSearchCV`; a
    table can.

    Parameters
    ----------
    clients : list or dict
        One array or frame of shape (n_samples, n_sensors_m) per unit, as in `read_plant`.
    inputs : list or dict, default=None
        Inputs of the units, as in `read_plant`.

    Returns
    -------
    DataFrame of shape (n_samples, n_columns)
        Sensors of all units, then inputs of all units. Columns are called ``client__sensor``:
        frames keep their own names, columns of arrays are called ``client__x0, client__x1, ...``
        and inputs from arrays ``client__u0, client__u1, ...``.

    Raises
    ------
    TypeError, ValueError
        As in `read_plant`, and if `clients` is a list of episodes.

    See Also
    --------
    skfedcausal.containers.read_plant : The way back.

    Notes
    -----
    Inputs are the last columns; their names are also in ``read_plant(clients,
    inputs=inputs).layout.inputs``.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.containers import read_plant, stack_clients
    >>> clients = {"mill": np.ones((3, 2)), "kiln": np.zeros((3, 1))}
    >>> frame = stack_clients(clients, inputs={"mill": np.full((3, 1), 5.0)})
    >>> list(frame)
    ['mill__x0', 'mill__x1', 'kiln__x0', 'mill__u0']
    >>> data = read_plant(frame, input_columns=["mill__u0"])
    >>> data.inputs[0].ravel(), data.inputs[1]
    (array([5., 5., 5.]), None)
    """
    data = read_plant(clients, inputs=inputs, min_samples=1)
    if len(data.lengths) > 1:
        raise ValueError(
            f"Got a list of {len(data.lengths)} episodes; stack every episode and list the frames."
        )
    arrays = [*data.outputs, *(array for array in data.inputs if array is not None)]
    columns = [name for names in (*data.layout.outputs, *data.layout.inputs) for name in names]
    return pd.DataFrame(np.hstack(arrays), columns=columns, index=data.index)
