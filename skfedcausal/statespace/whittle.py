"""Whittle likelihood of a plant seen through unit scores, in its MA(1) form.

The scores ``s = J^-1 z = h + e`` of a plant ``h[t] = A h[t-1] + w[t]`` satisfy ``r[t] = s[t] - A s[t-1] =
w[t] + e[t] - A e[t-1]``, a moving average of order one with spectrum ``Phi = Q + Z N Z^H``, where ``Z =
exp(i w) I - A`` and ``N = Cov e = J^-1``. With the Fourier sum I_r(w) of a dozen lag covariances of r

    log-likelihood / T = -1/2 mean_w [ log det Phi + tr Phi^-1 I_r ],

because ``log |det Z|`` integrates to zero for a stable A. Its only poles are those of the *filter*, never
those of A, so few lags and frequencies are enough and an evaluation does not depend on the length of the
record [1]_. All functions take stacks of problems of equal size (leading axes).

References
----------
.. [1] Whittle (1953), Estimation and information in stationary time series, Arkiv för Matematik 2.
"""

import numpy as np

from .lagcov import midpoints
from .likelihood import Evaluation, SpectralInformation, hermitian


class WhittleLikelihood:
    """Whittle likelihood as a function of (A, Q), given lag covariances of the scores.

    Parameters
    ----------
    moments : TransitionMoments
        Lag covariances of the centred scores' transitions.
    N : ndarray of shape (..., n, n)
        Covariance of the scores around the states.
    """

    def __init__(self, moments, N):
        self.N = N
        self.n_samples = moments.n_transitions
        frequencies = midpoints(max(len(moments.late) - 1, 1))
        self._rotation = np.exp(1j * frequencies)[:, None, None]
        self._late, self._cross, self._early = moments.spectra(frequencies)

    def _Z(self, A):
        return self._rotation * np.eye(A.shape[-1]) - A[..., None, :, :]

    def evaluate(self, A, Q):
        """Value and gradients at (A, Q)."""
        Z = self._Z(A)
        ZN = Z @ self.N[..., None, :, :]
        Phi = Q[..., None, :, :] + ZN @ hermitian(Z)
        logdet = np.linalg.slogdet(Phi)[1]
        X = np.linalg.inv(Phi)
        AT = np.swapaxes(A, -1, -2)[..., None, :, :]
        early = self._cross - A[..., None, :, :] @ self._early  # residuals with s[t-1]
        residual = self._late - A[..., None, :, :] @ hermitian(self._cross) - early @ AT
        XM = X @ residual
        trace = np.trace(XM, axis1=-2, axis2=-1).real
        value = -0.5 * (logdet + trace).mean(axis=-1)
        E = XM @ X - X
        grad_A = (X @ early - E @ ZN).real.mean(axis=-3)
        grad_Q = 0.5 * E.real.mean(axis=-3)
        return Evaluation(value, grad_A, (grad_Q + np.swapaxes(grad_Q, -1, -2)) / 2)

    def information(self, A, Q):
        """Expected information at (A, Q) as a :class:`SpectralInformation`."""
        Z = self._Z(A)
        Phi = Q[..., None, :, :] + Z @ self.N[..., None, :, :] @ hermitian(Z)
        H = np.linalg.solve(Z, np.broadcast_to(Q[..., None, :, :], Z.shape))
        return SpectralInformation(np.linalg.inv(Phi), H)
