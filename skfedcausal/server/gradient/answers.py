"""What a plant that was learned by gradient training answers."""

import warnings

import numpy as np
from scipy.linalg import block_diag

from ...message.states import EffectReply, SmoothedReply
from ...statespace.inputs import input_response
from ...statespace.matrices import spectral_radius
from ...statespace.riccati import NotStationaryError, predicted_covariance, stationary_covariance
from ..joint import JointRecord
from ..prediction import InputDrive, PlantFilter, smooth_plant


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

        Warns
        -----
        UserWarning
            If the learned plant is not stable.
        """
        if held is not None:
            raise ValueError(
                "GradientServer identifies no controllers, so that none can respond (loops='react'). Use "
                "loops='hold', or LikelihoodServer."
            )
        radius = spectral_radius(self.transition_)
        if radius >= 1 and len(change) > 1:
            warnings.warn(
                f"Training ended with a plant that is not stable (spectral radius {radius:.3f}): effects "
                "grow with the horizon.",
                UserWarning,
                stacklevel=2,
            )
        effect = input_response(self.transition_, self.input_, change).effect
        return {
            name: EffectReply(np.ascontiguousarray(effect[:, rows]))
            for name, rows in self.state_slices_.items()
        }

    def abducted(self, messages):
        """Every unit's states given all messages, by the smoother of the learned plant.

        Parameters
        ----------
        messages : dict of str to StateMessage
            By unit.

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


class _AnyPlantFilter(PlantFilter):
    """Filter that starts a plant without stationary covariance at its steady prediction error, as units do.

    Units that nothing joins start each on its own.
    """

    def _first_covariance(self):
        slices = self._record.partition.slices
        joined = self._A[~self._record.partition.block_diagonal].any()
        groups = [slice(None)] if joined else slices
        information = self._record.block_diagonal([part.patterns[0] for part in self._record.parts])
        return block_diag(
            *[_start(self._A[rows, rows], self._Q[rows, rows], information[rows, rows]) for rows in groups]
        )


def _start(A, Q, information):
    try:
        return stationary_covariance(A, Q)
    except NotStationaryError:
        return predicted_covariance(A, information, Q)


class ServerPrediction(_AnyPlantFilter):
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
        self._units = _AnyPlantFilter(own, Q, record, own_drive)

    @property
    def filtered(self):
        """``h_hat_c[t]`` of all units, shape (n_samples, n)."""
        return self._units.filtered

    @property
    def predicted(self):
        """``h_s[t] = A h_hat_c[t-1] + B u[t-1]``, zero in an episode's first row; shape (n_samples, n)."""
        carried, exogenous = self.carried(self._A), self._exogenous
        return carried if exogenous is None else carried + exogenous
