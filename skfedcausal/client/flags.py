"""A unit's anomaly flags: is a residual further from its nominal mean than the nominal percentile?"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ResidualFlag:
    """Mahalanobis distance of a unit's residual and its nominal threshold (eq. 7 of the paper).

    Attributes
    ----------
    mean : ndarray of shape (n_sensors,)
    precision : ndarray of shape (n_sensors, n_sensors)
    threshold : float
    """

    mean: np.ndarray
    precision: np.ndarray
    threshold: float

    @classmethod
    def learn(cls, residuals, percentile):
        """Mean, covariance and threshold of nominal residuals, rows with missing values left out."""
        complete = residuals[~np.isnan(residuals).any(axis=1)]
        if len(complete) <= residuals.shape[1]:
            raise ValueError(
                f"Only {len(complete)} rows have every sensor; the covariance of {residuals.shape[1]} "
                "residuals needs more."
            )
        mean = complete.mean(axis=0)
        covariance = np.atleast_2d(np.cov(complete.T))
        floor = 1e-9 * np.trace(covariance) / len(covariance)
        precision = np.linalg.inv(covariance + floor * np.eye(len(covariance)))
        flag = cls(mean, precision, 0.0)
        return cls(mean, precision, float(np.percentile(flag.distances(complete), percentile)))

    def distances(self, residuals):
        """Squared Mahalanobis distances; missing sensors count as their mean."""
        centred = np.nan_to_num(residuals - self.mean)
        return np.einsum("ti,ij,tj->t", centred, self.precision, centred)

    def raised(self, residuals):
        """1 where the distance is above the threshold, else 0."""
        return (self.distances(residuals) > self.threshold).astype(np.uint8)
