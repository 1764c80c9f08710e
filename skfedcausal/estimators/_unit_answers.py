"""How the units answer questions about inputs: the server on states, every unit through its own sensors."""

import numpy as np
import pandas as pd

from ..client.answers import effect_variances, loadings, mapped_effect
from ..federation.lost import Attendance
from ..federation.rounds import ask
from ..message.states import ACKNOWLEDGEMENT, EffectReply
from ..statespace.episodes import episodes
from ._plant import FederatedPlantModel, output_places


class AnsweringPlantModel(FederatedPlantModel):
    """Base of the estimator with inputs; its `_plant_inputs` says which inputs the server knows."""

    def _effects(self, change, held, loops):
        """Every unit's answer to a change of inputs: through the ledger, as everything a unit gets.

        Units at sites of their own get it there and map it through their sensors at home.
        """
        known = self._plant_inputs
        known.check_known(change)
        if not known.active.any():
            raise ValueError("No input of this plant moved in `fit`: there is nothing to ask about.")
        held = held[known.active] if loops == "react" else None
        replies = self.server_.effects(change[:, known.active], held=held)
        at_sites = self._channel is not None and not self._channel.one_way
        round = self.communication_["rounds"] if at_sites else 0
        packets = {name: reply.to_packet(round, self.wire_dtype) for name, reply in replies.items()}
        if at_sites:
            ask(self._channel, packets, ACKNOWLEDGEMENT, Attendance(packets, self.lost_units), needed=0)
        elif self._channel is None:
            for name, packet in packets.items():
                self.ledger_.record(name, "down", packet)
        return {name: EffectReply.from_packet(packet) for name, packet in packets.items()}

    def _effect_frames(self, change, held, loops, level, steps):
        """Effect and standard error (NaN where the server has none) as labelled tables."""
        answers = self._effects(change, held, loops)
        if level == "state":
            known = [answers[name] for name in self.client_names_]
            effect = np.hstack([answer.states for answer in known])
            std = np.sqrt(
                np.hstack([effect_variances(answer, np.eye(answer.states.shape[1])) for answer in known])
            )
            columns = self.get_feature_names_out()
        else:
            effect, variance = self._mapped(answers)
            std, columns = np.sqrt(variance), output_places(self.layout_)[1]
        return tuple(pd.DataFrame(block, index=steps, columns=list(columns)) for block in (effect, std))

    def _mapped(self, answers):
        """Effect on the sensors and its variance: every unit maps its own states."""
        positions, columns = output_places(self.layout_)
        n_steps = len(next(iter(answers.values())).states)
        effect, variance = np.zeros((n_steps, len(columns))), np.zeros((n_steps, len(columns)))
        for where, name in zip(positions, self.layout_.names, strict=True):
            effect[:, where], variance[:, where] = mapped_effect(self._site(name), answers[name])
        return effect, variance

    def _replayed(self, change, held, loops, starts):
        """Effect and its variance over the rows of a record, every episode from its own start."""
        n_outputs = len(output_places(self.layout_)[1])
        effect, variance = np.zeros((len(change), n_outputs)), np.zeros((len(change), n_outputs))
        for start, stop in episodes(starts, len(change)):
            moved = np.flatnonzero(change[start:stop].any(axis=1))
            if not len(moved) or start + moved[0] + 1 >= stop:
                continue
            first = start + moved[0]
            answers = self._effects(change[first : stop - 1], held, loops)
            effect[first + 1 : stop], variance[first + 1 : stop] = self._mapped(answers)
        return effect, variance

    def _factual(self, data):
        """Measurements of the record, expected ones where they are missing, and the variance of those."""
        positions, columns = output_places(data.layout)
        factual = np.empty((data.n_samples, len(columns)))
        variance = np.zeros_like(factual)
        for where, Y in zip(positions, data.outputs, strict=True):
            factual[:, where] = Y
        if not np.isnan(factual).any():
            return factual, variance
        abducted = self._told(self.server_.abducted(self._messages(data)))
        for where, name in zip(positions, data.names, strict=True):
            client, reply = self._home(name)["client"], abducted[name]
            C = loadings(client, reply.states.shape[1])
            expected = client.measurements(reply.states)
            noise = getattr(client, "measurement_cov_", np.zeros(len(C)))
            noise = noise if noise.ndim == 1 else np.diag(noise)
            spread = np.einsum("di,tij,dj->td", C, reply.covariances, C) + np.where(np.isinf(noise), 0, noise)
            block = factual[:, where]
            missing = np.isnan(block)
            factual[:, where] = np.where(missing, expected, block)
            variance[:, where] = np.where(missing, spread, 0.0)
        return factual, variance
