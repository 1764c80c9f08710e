"""How the units answer questions about inputs: the server on states, every unit through its own sensors."""

import numpy as np
import pandas as pd

from ._plant_model import FederatedPlantModel, output_places
from .client.worker import loadings
from .message import EffectReply
from .statespace.episodes import episodes


class AnsweringPlantModel(FederatedPlantModel):
    """Base of the estimator with inputs; its `_plant_inputs` says which inputs the server knows."""

    def _effects(self, change, held, loops):
        """Every unit's answer to a change of inputs: through the ledger, as everything a unit gets."""
        known = self._plant_inputs
        known.check_known(change)
        if not known.active.any():
            raise ValueError("No input of this plant moved in `fit`: there is nothing to ask about.")
        held = held[known.active] if loops == "react" else None
        replies = self.server_.effects(change[:, known.active], held=held)
        answers = {}
        for name, reply in replies.items():
            packet = reply.to_packet(dtype=self.wire_dtype)
            self.ledger_.record(name, "down", packet)
            answers[name] = EffectReply.from_packet(packet)
        return answers

    def _effect_frames(self, change, held, loops, level, steps):
        """Effect and standard error (NaN where the server has none) as labelled tables."""
        answers = self._effects(change, held, loops)
        if level == "state":
            known = [answers[name] for name in self.client_names_]
            effect = np.hstack([answer.states for answer in known])
            std = np.sqrt(np.hstack([_variances(answer, np.eye(answer.states.shape[1])) for answer in known]))
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
            answer = answers[name]
            C = loadings(self._site(name)["client"], answer.states.shape[1])
            effect[:, where] = answer.states @ C.T
            variance[:, where] = _variances(answer, C)
            error = self._site(name).get("loading_error")
            if error is not None:
                variance[:, where] += error.variance(answer.states)
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
        abducted = self.server_.abducted(self._messages(data))
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


def _variances(answer, C):
    """Variances of ``C`` times the states of an answer, NaN where it came without covariances."""
    if answer.covariances is None:
        return np.full((len(answer.states), len(C)), np.nan)
    return np.einsum("di,tij,dj->td", C, answer.covariances, C).clip(0)
