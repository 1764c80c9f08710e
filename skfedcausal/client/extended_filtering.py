"""What a unit with a nonlinear model can say on its own: states, predictions, likelihoods."""

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from ..containers import check_lengths, episode_starts
from ..statespace.episodes import episodes


class ExtendedFilterMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Methods of an estimator with ``filter_moments``, the maps ``h_map_`` and ``measurement_cov_``."""

    @property
    def _n_features_out(self):
        return len(self.process_cov_)

    def _record(self, X, lengths):
        """Checked measurements and the bounds of their episodes."""
        check_is_fitted(self)
        Y = check_array(X, dtype=float, ensure_all_finite="allow-nan", estimator=self, input_name="X")
        n_features = len(self.measurement_cov_)
        if Y.shape[1] != n_features:
            raise ValueError(
                f"X has {Y.shape[1]} features, but {type(self).__name__} is expecting {n_features} features "
                "as input."
            )
        return Y, list(episodes(episode_starts(check_lengths(lengths, len(Y))), len(Y)))

    def transform(self, X, *, lengths=None):
        """Filtered states.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN where missing.
        lengths : sequence of int, default=None
            Time steps of each episode.

        Returns
        -------
        ndarray of shape (n_samples, n_states)
        """
        Y, bounds = self._record(X, lengths)
        return np.concatenate([self.filter_moments(Y[i:j])[2] for i, j in bounds])

    def fit_transform(self, X, y=None, *, lengths=None):
        """`fit`, and the filtered states of the same record with the same episodes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN where missing.
        y : None
            Ignored.
        lengths : sequence of int, default=None
            Time steps of each episode.

        Returns
        -------
        ndarray of shape (n_samples, n_states)
        """
        return self.fit(X, lengths=lengths).transform(X, lengths=lengths)

    def predict(self, X, *, lengths=None):
        """Measurements predicted one step ahead, ``h(f(E[x_(t-1)]))``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN where missing.
        lengths : sequence of int, default=None
            Time steps of each episode.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        Y, bounds = self._record(X, lengths)
        return np.concatenate([self.h_map_.value(self.filter_moments(Y[i:j])[0]) for i, j in bounds])

    def score_samples(self, X, *, lengths=None):
        """Log-density of each row given the past rows of its episode, linearised where the filter is.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        lengths : sequence of int, default=None

        Returns
        -------
        ndarray of shape (n_samples,)
            In nats; zero for a row without measurements.
        """
        Y, bounds = self._record(X, lengths)
        return np.concatenate([self._log_densities(Y[i:j]) for i, j in bounds])

    def score(self, X, y=None, *, lengths=None):
        """Mean of :meth:`score_samples`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            NaN where missing.
        y : None
            Ignored.
        lengths : sequence of int, default=None
            Time steps of each episode.

        Returns
        -------
        float
            In nats per row.
        """
        return float(self.score_samples(X, lengths=lengths).mean())

    def _log_densities(self, Y):
        prior, prior_cov, _, _ = self.filter_moments(Y)
        rest, H = Y - self.h_map_.value(prior), self.h_map_.jacobian(prior)
        S = H @ prior_cov @ H.swapaxes(1, 2) + self.measurement_cov_
        found, seen = np.zeros(len(Y)), ~np.isnan(Y) & self._active
        for t in np.flatnonzero(seen.any(axis=1)):
            r, s = rest[t, seen[t]], S[t][np.ix_(seen[t], seen[t])]
            found[t] = -0.5 * (r @ np.linalg.solve(s, r) + np.linalg.slogdet(2 * np.pi * s)[1])
        return found
