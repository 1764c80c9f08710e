"""A unit's number of states once more, with the inputs of other units beside its own."""

import warnings
from dataclasses import replace

import numpy as np

from .worker import fitted_client


def grown_client(template, client, about, others):
    """The unit's model identified with inputs of others, without these; None if it has no more states for them."""
    Y, U, starts, name, columns, noise = about
    own = 0 if U is None else U.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all of it was said of the first model
        known = fitted_client(
            template, Y, others if U is None else np.hstack([U, others]), starts, name, columns, noise
        )
    model = known.model
    if model.n_states <= client.model.n_states:
        return None
    B, level = (model.B[:, :own], model.input_mean[:own]) if own else (None, None)
    known._keep(replace(model, B=B, input_mean=level, own_past=client.model.own_past), known._active, Y)
    return known
