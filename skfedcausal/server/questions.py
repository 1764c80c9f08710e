"""What a fitted plant answers about its inputs, on states; every unit maps that through its own sensors."""

import numpy as np

from ..message.states import EffectReply
from ..statespace.inputs import FeedbackGains, input_response, response_covariances


class InputQuestions:
    """Questions to a server that has learned ``[A | B]``; part of :class:`LikelihoodServer`."""

    def abducted(self, messages):
        """Every unit's states given all messages, at the operating point of `fit`.

        Unlike :meth:`~skfedcausal.LikelihoodServer.smoothed` with the plant that answers questions, and
        without a level of their own for the episodes.
        """
        return self._smoothed(messages, self.transition_, self.input_, intercept=False)

    def take_laws(self, laws):
        """Remember how controllers compute inputs from measurements."""
        self.laws_ = dict(laws)

    def effects(self, change, *, held=None):
        """What a change of inputs does to every unit's states."""
        c = self.coefficients_
        gains = None if held is None else self._gains(held)
        effect = input_response(self.transition_, self.input_, change, gains).effect
        doubtful = effect - input_response(*self._selected_blocks(), change, gains).effect
        A, B = np.hsplit(c.matrix, [self.partition_.n_states])
        if gains is not None:
            gains = gains.scaled(c.state_scale, c.input_scale)
        unshrunk = input_response(A, B, change / c.input_scale, gains)
        blocks = self.partition_.slices
        covariances = response_covariances(unshrunk, c.rows, c.cols, c.covariance, blocks)
        replies = {}
        for (name, rows), V in zip(self.state_slices_.items(), covariances, strict=True):
            S, d = c.state_scale[rows, rows], doubtful[:, rows]
            V = S @ V @ S.T + d[:, :, None] * d[:, None, :]
            replies[name] = EffectReply(np.ascontiguousarray(effect[:, rows]), V)
        return replies

    def _selected_blocks(self):
        """A and B without the small posterior means of links that were not selected."""
        estimates = (self.transition_, self.unshrunk_transition_), (self.input_, self.unshrunk_input_)
        return [np.where(unshrunk == 0, 0.0, shrunk) for shrunk, unshrunk in estimates]

    def _gains(self, held):
        """Laws of all controllers as matrices of the plant, without the inputs that are held."""
        n, k = self.input_.shape
        present, previous, persistence = np.zeros((k, n)), np.zeros((k, n)), np.zeros((k, k))
        for name, law in self.laws_.items():
            states, inputs = self.state_slices_[name], self.input_slices_[name]
            present[inputs, states], previous[inputs, states] = law.present, law.previous
            persistence[inputs, inputs] = law.persistence
        for matrix in (present, previous, persistence):
            matrix[held] = 0.0
        return FeedbackGains(present, previous, persistence)
