"""Section 13.2's identification of the pooled table, as a baseline: states assigned by energy of C."""

import numpy as np

from skfedcausal import KalmanClient

from ._setting import SETTING, by_default, clients

TITLE = "Second paper, Sections 9.2 and 13.2: pooled identification"
TEXT = SETTING + (
    " One model of the pooled table by subspace identification; every state goes to the client whose "
    "sensors hold most of its column of C (L_2 norm), the rest of C is set to zero, and A and B are fitted "
    "again to the states by least squares. Errors of the response from client 1's inputs to client 2's "
    "sensors over {horizon} steps, which no choice of states changes; purity: share of the energy of C that "
    "the assignment keeps."
)


def assigned(C, slices):
    """Client of every state: the one whose sensors hold most of its column."""
    energy = np.array([(C[rows] ** 2).sum(axis=0) for rows in slices])
    return energy.argmax(axis=0), energy.max(axis=0).sum() / energy.sum()


def pooled(X, inputs, n_states):
    """A, B, C of the pooled table with a block-diagonal C, and the share of C's energy that was kept."""
    Y, U = np.hstack(list(X.values())), np.hstack(inputs)
    ends = np.cumsum([0, *(part.shape[1] for part in X.values())])
    slices = [slice(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    model = KalmanClient(identify="subspace", n_states=n_states).fit(Y, inputs=U)
    C = model.observation_
    owner, kept = assigned(C, slices)
    block = np.zeros_like(C)
    for m, rows in enumerate(slices):
        block[rows] = np.where(owner == m, C[rows], 0.0)
    states = np.linalg.lstsq(block, (Y - Y.mean(axis=0)).T, rcond=None)[0].T
    past = np.hstack([states[:-1], U[:-1] - U.mean(axis=0)])
    found = np.linalg.lstsq(past, states[1:], rcond=None)[0].T
    return found[:, : states.shape[1]], found[:, states.shape[1] :], block, slices, kept


def response(A, B, C, horizon):
    """Impulse responses, (horizon, n_sensors, n_inputs)."""
    out, power = [], B
    for _ in range(horizon):
        out.append(C @ power)
        power = A @ power
    return np.array(out)


def figures(s):
    """Sections of the page."""
    rows = []
    for seed in s["plants"]:
        X, inputs, truth = clients(s, seed=seed)
        d, U = s["n_sensors"], inputs[0].shape[1]
        true = np.zeros((2 * d, len(truth.transition)))
        for m, (C, own) in enumerate(zip(truth.observation, truth.state_slices.values(), strict=True)):
            true[m * d : (m + 1) * d, own] = C
        expected = response(np.array(truth.transition), np.array(truth.input), true, s["horizon"])[:, d:, :U]
        size = np.linalg.norm(expected)
        A, B, C, slices, kept = pooled(X, inputs, len(truth.transition))
        found = response(A, B, C, s["horizon"])[:, slices[1], :U]
        row = {"": f"plant {seed}, pooled and assigned", "error": np.linalg.norm(found - expected) / size}
        rows.append({**row, "purity": kept})
        G = by_default(X, inputs).transfer_function()
        found = response(G.A, G.B, G.C, s["horizon"])[:, d:, :U]
        rows.append({"": f"plant {seed}, units at home, default", "error": np.linalg.norm(found - expected) / size})
    return {"Response across clients": rows}
