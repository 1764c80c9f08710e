"""The plant from lagged moments in one pass: closed form, no search, no iteration."""

import numpy as np

from ..statespace.units import moment_start
from .joint import JointRecord
from .level_shifts import LevelShifts
from .likelihood import LikelihoodServer


class MomentServer(LikelihoodServer):
    """Learns the plant by errors-in-variables moments, ``A = G1 (G0 - N)^-1``.

    G0 and G1 are the covariances of the scores ``s = J^-1 z = h + e`` at lags 0 and 1, N the covariance of e
    that the messages bring. Every block is estimated, none is tested. The estimate is consistent, less
    precise than maximum likelihood, and costs one product over the record whatever the plant: enough for
    telling whose innovations are out of the ordinary.

    Attributes
    ----------
    names_, partition_, state_slices_, transition_, process_cov_, information_
        See :class:`~skfedcausal.LikelihoodServer`.

    See Also
    --------
    skfedcausal.LikelihoodServer : Maximum likelihood, tests of links.

    Examples
    --------
    >>> from skfedcausal import FederatedRCADetector
    >>> from skfedcausal.datasets import make_granger_plant
    >>> from skfedcausal.server.moments import MomentServer
    >>> X, _ = make_granger_plant(n_units=2, random_state=0)
    >>> FederatedRCADetector(server=MomentServer()).fit(X).server_.transition_.shape
    (8, 8)
    """

    _parameter_constraints = {}

    needs_local_model = False
    n_rounds = 1

    def __init__(self):
        pass

    def fit(self, messages):
        """Learn the plant from one message per unit.

        Parameters
        ----------
        messages : dict of str to StateMessage

        Returns
        -------
        self : MomentServer
        """
        record = JointRecord.from_messages(messages)
        scores = record.scores
        N = record.block_diagonal(scores.noise)
        A, Q = moment_start(scores.moments(1), N)
        self.names_, self.partition_ = record.names, record.partition
        self.state_slices_ = dict(zip(record.names, record.partition.slices, strict=True))
        self.transition_ = self.unshrunk_transition_ = A
        self.process_cov_ = (Q + np.swapaxes(Q, -1, -2)) / 2
        self.input_slices_ = dict(zip(record.names, record.partition.input_slices, strict=True))
        self.input_ = self.unshrunk_input_ = np.zeros((record.partition.n_states, record.partition.n_inputs))
        self.input_level_, self.coefficients_, self._run = record.input_level, None, None
        self._shifts, self._known_level = LevelShifts.none(record.partition.n_states), record.known_level
        self._new_levels = self._shifts.levels
        self.information_ = record.block_diagonal([part.mean_information for part in record.parts])
        return self
