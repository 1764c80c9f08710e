"""What estimators answer besides when their server was trained by gradients."""

import numpy as np
import pandas as pd
from sklearn.utils.metaestimators import available_if

from ..client.at_home import local_features
from ..client.training_series import augmented_losses, unit_series
from ._oracle import training_problems


class GradientQuestions:
    """Questions about gradient training; part of the estimators of plants."""

    @available_if(lambda self: hasattr(self.server, "n_rounds_at_most"))
    def losses(self, X, *, inputs=None, lengths=None):
        """Client and server losses of gradient training on a record, for estimators with a GradientServer.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs : list or dict, default=None
            As in `fit`.
        lengths : sequence of int, default=None

        Returns
        -------
        DataFrame
            One row per unit, columns ``client`` (mean squared error of the augmented prediction of the
            measurements) and ``server`` (mean squared distance of server's and augmented states).
        """
        data, clients = self._released(self._read(X, inputs, lengths))
        predictions = self._predictions(self._messages_of(data, clients))
        rows = []
        for name, Y, U in zip(data.names, data.outputs, data.inputs, strict=True):
            site = {**self._site(name), "client": clients[name]}
            local = local_features(site["client"], Y, U, data.starts)
            series = unit_series(site["client"], Y, U, data.starts, local)
            states, loss = augmented_losses(site, series, series.rows)
            distance = predictions[name].states[series.rows] - states
            rows.append({"client": loss, "server": float(np.mean((distance**2).sum(axis=1)))})
        return pd.DataFrame(rows, index=pd.Index(data.names, name="unit"))

    @available_if(lambda self: hasattr(self.server, "n_rounds_at_most"))
    def training_problems(self, X, *, inputs=None, lengths=None):
        """Every unit's problem of gradient training on a record, for ``skfedcausal.theory.unified``.

        Only for data that may be pooled: a problem holds moments of a unit's measurements with the other
        units' states.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs : list or dict, default=None
            As in `fit`.
        lengths : sequence of int, default=None

        Returns
        -------
        dict of str to tuple (AugmentedProblem, Rates)

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator, GradientServer
        >>> from skfedcausal.datasets import make_granger_plant
        >>> from skfedcausal.statespace.training.fixed_point import recurrence
        >>> from skfedcausal.theory.unified import spectral_radius
        >>> X, _ = make_granger_plant(2, random_state=0)
        >>> est = FederatedGrangerEstimator(server=GradientServer(solve="stationary")).fit(X)
        >>> bool(spectral_radius(recurrence(*est.training_problems(X)["unit0"]).H) < 1)
        True
        """
        data = self._read(X, inputs, lengths)
        clients = {name: self._site(name)["client"] for name in data.names}
        return training_problems(clients, data, self.server_.step_sizes_)
