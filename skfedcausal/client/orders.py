"""A unit's number of states and its sensors once more, with the inputs of other units beside its own."""

import warnings
from dataclasses import replace

import numpy as np

from .worker import fitted_client

_EDGE_SHARE = 3.0  # a state's noise in a row, over its variance, is at most the root of the rows over this


def client_told_inputs(template, client, about, others):
    """The unit's model identified with inputs of others, without these; None if they tell it nothing.

    They do where it has more states for them, none too faint for a record of this length, or as many and
    measurements that follow them: what inputs move is then not taken for noise of the states when loadings and
    sensor noise are found.
    """
    Y, U, starts, name, columns, noise, index = about
    own = 0 if U is None else U.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all of it was said of the first model
        known = fitted_client(
            template, Y, others if U is None else np.hstack([U, others]), starts, name, columns, noise, index
        )
    model, before = known.model, client.model
    if model.n_states == before.n_states:
        tells = model.own_past.evidence() > before.own_past.evidence()
    else:
        tells = model.n_states > before.n_states and _noise_of_states(model) < np.sqrt(len(Y)) / _EDGE_SHARE
    if not tells:
        return None
    B, level = (model.B[:, :own], model.input_mean[:own]) if own else (None, None)
    known._keep(replace(model, B=B, input_mean=level, own_past=before.own_past), known._active, Y)
    return known


def _noise_of_states(model):
    """Largest variance of the states as one row shows them, over their own."""
    J = model.C.T @ (model.C / model.R[:, None])
    return 1 / max(np.linalg.eigvalsh(J)[0], np.finfo(float).tiny)
