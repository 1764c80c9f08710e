"""A record without what its inputs do beyond what is linear: that is no disturbance, which would die away."""

from dataclasses import replace

import numpy as np


def straight_run(server, messages, n_steps=0, share=0.0):
    """Filter over a record as if its inputs acted linearly, and what they add to the states beyond that.

    The second, (n_samples + n_steps, n), is None for nothing; after the record inputs stay as they are. Only the
    last episode has it: earlier ones say nothing of what is to come. A `share` of what no forecast may count on is
    part of it.
    """
    added = _bent(server, messages, n_steps, share)
    if added is None:
        return server.filter(messages), None
    straight = {}
    for name, message in messages.items():
        J = message.patterns[message.information.pattern_of]
        bent = np.einsum("tij,tj->ti", J, added[: len(J), server.state_slices_[name]])
        straight[name] = replace(message, z=message.z - bent)
    return server.filter(straight), added


def expected_states(server, messages):
    """Filter over a record and its states given the messages of earlier rows; those of missing rows are forecast."""
    run, added = straight_run(server, messages)
    return run, run.predicted if added is None else run.predicted + added


def _bent(server, messages, n_steps, share):
    """What inputs add to the states, None for nothing."""
    curvature = getattr(server, "curvature_", None)
    if curvature is None or not curvature.foretells(share):
        return None
    u = np.hstack([message.inputs for message in messages.values() if message.inputs is not None])
    u = np.vstack([u, np.repeat(u[-1:], n_steps, axis=0)]) - server.input_level_
    lengths = next(iter(messages.values())).lengths
    last = len(u) - n_steps - lengths[-1]
    added = np.zeros((len(u), curvature.dynamics.n_states))
    added[last + 1 :] = curvature.driven(u[last:-1], share)
    return added
