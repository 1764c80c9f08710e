"""What a plant that was learned by gradient training answers."""

from functools import cached_property

import numpy as np

from ..message import EffectReply, SmoothedReply
from ..statespace.filter import covariance_schedule
from ..statespace.responses import input_response
from ..statespace.riccati import NotStationaryError, predicted_covariance
from .joint import JointRecord
from .prediction import InputDrive, PlantFilter, smooth_plant


class GradientAnswers:
    """Predictions and answers about inputs; part of :class:`GradientServer`.

    Training gives a point and no sampling covariance: effects come without standard errors.
    """

    excitation_ = feedback_ = None  # training diagnoses neither

    def filter(self, messages):
        """The server's model over a record: the units' own filters and its prediction from their states.

        Parameters
        ----------
        messages : dict of str to StateMessage

        Returns
        -------
        ServerPrediction
        """
        record = self._record(messages)
        drives = self._drive(self.input_), self._drive(self._own_input)
        return ServerPrediction(self.transition_, self._own, self.process_cov_, record, *drives)

    def effects(self, change, *, held=None):
        """What a change of inputs does to every unit's states.

        Parameters
        ----------
        change : ndarray of shape (n_steps, k)
            Change of all inputs at each step.
        held : None
            Every input is held: training identifies no controllers.

        Returns
        -------
        dict of str to EffectReply
            Row j is the effect one step after row j of `change`; without covariances.

        Raises
        ------
        ValueError
            If controllers are to respond.
        """
        if held is not None:
            raise ValueError(
                "GradientServer identifies no controllers, so that none can respond (loops='react'). Use "
                "loops='hold', or LikelihoodServer."
            )
        effect = input_response(self.transition_, self.input_, change).effect
        return {
            name: EffectReply(np.ascontiguousarray(effect[:, rows]))
            for name, rows in self.state_slices_.items()
        }

    def abducted(self, messages):
        """Every unit's states given all messages, by the smoother of the learned plant.

        Returns
        -------
        dict of str to SmoothedReply
        """
        states, covariances = smooth_plant(
            self.transition_,
            self.process_cov_,
            self._record(messages),
            self._drive(self.input_),
            intercept=False,
        )
        return {
            name: SmoothedReply(np.ascontiguousarray(states[:, rows]), covariance)
            for (name, rows), covariance in zip(self.state_slices_.items(), covariances, strict=True)
        }

    def _record(self, messages):
        return JointRecord.from_messages(messages, names=self.names_)

    def _drive(self, B):
        """How the inputs act, an episode's first state being as in the units' own filters."""
        if not B.shape[1]:
            return None
        return InputDrive(B, self.input_level_, np.zeros_like(self.transition_))


class ServerPrediction(PlantFilter):
    """States that the units filter alone, predicted by the server from all units' states.

    The log-likelihood is that of the Kalman filter of the learned plant, since the server's prediction from
    states that were filtered apart has no density of its own.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        The learned transition matrix.
    own : ndarray of shape (n, n)
        Its diagonal blocks.
    Q : ndarray of shape (n, n)
    record : JointRecord
    drive, own_drive : InputDrive, default=None
        How inputs act in the learned plant and in the units' own models.
    """

    def __init__(self, A, own, Q, record, drive=None, own_drive=None):
        super().__init__(A, Q, record, drive)
        self._units = PlantFilter(own, Q, record, own_drive)

    @cached_property
    def _schedule(self):
        """As in the base class, also for a learned plant that has no stationary covariance."""
        J = self._record.block_diagonal([part.patterns[0] for part in self._record.parts])
        try:
            return covariance_schedule(self._A, self._Q, J)
        except NotStationaryError:
            return covariance_schedule(self._A, self._Q, J, predicted_covariance(self._A, J, self._Q))

    @property
    def filtered(self):
        """``h_hat_c[t]`` of all units, shape (n_samples, n)."""
        return self._units.filtered

    @property
    def predicted(self):
        """``h_s[t] = A h_hat_c[t-1] + B u[t-1]``, zero in an episode's first row; shape (n_samples, n)."""
        carried = self.carried(self._A)
        return carried if self._exogenous is None else carried + self._exogenous
