"""The ball that measurements are clipped to before noise is added."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Bounds:
    """Ball in scaled measurements, and the largest change that is protected.

    Attributes
    ----------
    center, scale : ndarray of shape (n_features,)
    clip : float
        Radius of the ball ``||(y - center) / scale||``.
    radius : float
        Largest protected change of one time step, in the same units.
    public : bool
        Whether `clip` was given; otherwise it comes from the data.
    """

    center: np.ndarray
    scale: np.ndarray
    clip: float
    radius: float
    public: bool


def norms(Y, center, scale):
    """Euclidean norm of each row's scaled measurements, those that are missing aside."""
    scaled = np.nan_to_num((Y - center) / scale, nan=0.0)
    return np.sqrt(np.einsum("ti,ti->t", scaled, scaled))


def clipped(Y, bounds):
    """Scaled measurements, rows outside the ball moved to its nearest point; NaN stays.

    The nearest-point map brings no two rows further apart: a change inside the protected radius stays inside.
    """
    scaled = (Y - bounds.center) / bounds.scale
    length = norms(Y, bounds.center, bounds.scale)
    factor = bounds.clip / np.maximum(length, bounds.clip)
    return scaled * factor[:, None]


def into_ball(Y, bounds):
    """Measurements in their own units, rows outside the ball moved to its nearest point."""
    return bounds.center + bounds.scale * clipped(Y, bounds)
