"""What estimators answer besides when their server was trained by gradients."""

import numpy as np
import pandas as pd
from sklearn.utils.metaestimators import available_if

from ..client.answers import local_features
from ..client.training import augmented_losses, unit_series
from ._oracle import training_problems


class GradientQuestions:
    """Questions about gradient training; part of the estimators of plants."""

    @available_if(lambda self: hasattr(self.server, "dialogue"))
    def losses(self, X, *, inputs=None, lengths=None):
        """Client and server losses of gradient training on a record, for estimators with a GradientServer."""
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

    @available_if(lambda self: hasattr(self.server, "dialogue"))
    def training_problems(self, X, *, inputs=None, lengths=None):
        """Every unit's problem of gradient training on a record, for ``skfedcausal.theory.unified``.

        Only for data that may be pooled: a problem holds moments of a unit's measurements with the other
        units' states.
        """
        data = self._read(X, inputs, lengths)
        clients = {name: self._site(name)["client"] for name in data.names}
        return training_problems(clients, data, self.server_.step_sizes_)
