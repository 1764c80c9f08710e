"""The central machine that federation is measured against: all raw measurements in one place."""

from dataclasses import replace

import numpy as np
from scipy.linalg import block_diag

from ..federation.transport import InProcessTransport
from ..message.states import StateMessage
from ..statespace.episodes import episode_lengths
from ..statespace.observation import information
from .records import in_use
from .unit_model import UnitClient


class PooledTransport(InProcessTransport):
    """Units in this process whose state messages are those of a machine that pools all their records."""

    def exchange(self, out, *, timeout=None):
        """Let every named worker answer, and put pooled statistics in place of their messages."""
        answers = super().exchange(out, timeout=timeout)
        if not all(answer.op == StateMessage.OP for answer in answers.values()):
            return answers
        sites = {name: self._sites[name] for name in out}
        pooled = pooled_messages(sites)
        for name, answer in answers.items():
            came = StateMessage.from_packet(answer)
            kept = {field: getattr(came, field) for field in ("rest", "open_order", "sketch", "wanders")}
            pooled[name] = replace(pooled[name], **kept)
        return {name: message.to_packet(out[name].round) for name, message in pooled.items()}


def pooled_messages(sites):
    """The units' statistics computed from one pooled table with one pooled observation model.

    `sites` are those of all units, with their fitted models; these only provide C, R and the level.
    """
    clients = {name: site.state["client"] for name, site in sites.items()}
    for name, client in clients.items():
        if not isinstance(client, UnitClient):
            raise TypeError(
                f"The client of unit {name!r} is a black box: without its C and R its raw measurements "
                "cannot be pooled, so there is no oracle to compare with."
            )
    workers = {name: site.worker.off_baseline(site.state) for name, site in sites.items()}
    models = [client.message_model for client in clients.values()]
    shown = [in_use(clients[name], worker.outputs) for name, worker in workers.items()]
    Y = np.concatenate(shown, axis=1)
    C = block_diag(*[model.C for model in models])
    mean = np.concatenate([model.mean for model in models])
    if all(model.R.ndim == 1 for model in models):
        R = np.concatenate([model.R for model in models])
    else:
        R = block_diag(*[np.diag(m.R) if m.R.ndim == 1 else m.R for m in models])
    info = information(Y - mean, C, R, with_const=True)
    messages, first = {}, 0
    for (name, worker), model in zip(workers.items(), models, strict=True):
        rows = slice(first, first + model.n_states)
        z, J = (np.ascontiguousarray(own) for own in (info.z[:, rows], info.patterns[:, rows, rows]))
        const = np.zeros(len(Y)) if first else info.const  # of the pooled table, counted once
        unpredicted = model.unpredicted_states() if info.is_constant else None
        about = info.index, episode_lengths(worker.starts, len(Y)), const, model.A, model.Q
        messages[name] = StateMessage(z, J, *about, unpredicted=unpredicted).with_inputs(worker.inputs, model.B)
        first = rows.stop
    return messages
