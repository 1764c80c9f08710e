"""What the estimators share: containers to workers, rounds of messages, fitted attributes, tables out."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Integral

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from ._oracle import PooledTraining, pooled_messages
from .client.kalman import KalmanClient
from .client.worker import UnitWorker, local_prediction, unit_message
from .federation.ledger import Ledger, LedgeredTransport
from .federation.rounds import learn_plant
from .federation.training import train_plant
from .federation.transport import InProcessTransport, Site
from .message import WIRE_DTYPES
from .server.likelihood import LikelihoodServer
from .utils import read_plant

# what is kept of a site after a fit
_KEPT = ("client", "augmenter", "transition", "input_matrix", "input_mean", "phi", "loading_error")


class FederatedEstimator(TransformerMixin, BaseEstimator):
    """Base of the federated estimators; use a subclass."""

    _parameter_constraints = {
        "client": [HasMethods("message"), HasMethods("filter_moments"), list, tuple, dict, None],
        "client_labels": ["array-like", callable, StrOptions({"from_columns"})],
        "augmenter": [HasMethods(["fit", "predict"]), None],
        "server": [HasMethods(["fit", "replies"]), HasMethods("dialogue"), None],
        "privacy": [None],
        "transport": [callable, None],
        "wire_dtype": [StrOptions(set(WIRE_DTYPES))],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    # -- reading ---------------------------------------------------------------------------------

    def _read_new(self, X, inputs, lengths):
        """Plant data to learn from."""
        labels = self.client_labels
        return _row_by_row(
            read_plant(X, client_labels=labels, inputs=inputs, lengths=lengths, estimator=self)
        )

    def _read(self, X, inputs=None, lengths=None):
        """Plant data in the layout learned by `fit`."""
        check_is_fitted(self)
        return _row_by_row(
            read_plant(X, inputs=inputs, lengths=lengths, layout=self.layout_, min_samples=1, estimator=self)
        )

    # -- fitting ---------------------------------------------------------------------------------

    def _fit_plant(self, data, pooled=False, server=None):
        """One message per unit up, the server's fit, one reply per unit down.

        With `pooled` the server learns from statistics of the pooled raw table instead. `server` stands in
        where the user gave none.
        """
        sites = self._sites_of(data)
        channel = LedgeredTransport(self._transport(sites), Ledger())
        server = clone(server or LikelihoodServer()) if self.server is None else clone(self.server)
        learn, pool = learn_plant, None
        if hasattr(server, "dialogue"):
            learn = partial(train_plant, inputs=any(U is not None for U in data.inputs))
            pool = PooledTraining(sites) if pooled else None
        elif pooled:

            def pool(messages):
                return pooled_messages({name: sites[name].state["client"] for name in messages}, data)

        try:
            learn(channel, server, data.names, dtype=self.wire_dtype, pool=pool)
        finally:
            channel.close()
        self.server_, self.ledger_ = server, channel.ledger
        self._sites = {
            name: {key: site.state[key] for key in _KEPT if key in site.state}
            for name, site in sites.items()
            if site.state  # empty where the transport has workers of its own elsewhere
        }
        self.clients_ = {name: site["client"] for name, site in self._sites.items()}
        self.augmenters_ = {name: site["augmenter"] for name, site in self._sites.items()}
        self.layout_ = data.layout
        raw = {
            name: Y.nbytes + (0 if U is None else U.nbytes)
            for name, Y, U in zip(data.names, data.outputs, data.inputs, strict=True)
        }
        self.communication_ = self.ledger_.communication(raw)
        self._store_fit(self.server_)
        return self

    def _transport(self, sites):
        if self.transport is None:
            return InProcessTransport(sites, n_jobs=self.n_jobs)
        return self.transport(sites)

    def _sites_of(self, data):
        templates = self._templates(data.names)
        return {
            name: Site(UnitWorker(name, Y, U, data.starts, columns, templates[name], self.augmenter))
            for name, Y, U, columns in zip(
                data.names, data.outputs, data.inputs, data.layout.outputs, strict=True
            )
        }

    def _templates(self, names):
        """Template of each unit's model by name."""
        return client_templates(self.client, names)

    def _site(self, name):
        """What a unit learned: its ``client``, ``augmenter`` and ``transition``."""
        if name not in self._sites:
            raise NotFittedError(
                f"The model of unit {name!r} was fitted at its site and is kept there: this estimator has "
                "the plant, but cannot read that unit's measurements."
            )
        return self._sites[name]

    def _messages(self, data, const=False):
        """Messages of the fitted clients about a record."""
        return {
            name: unit_message(self._site(name)["client"], Y, data.starts, inputs=U, const=const)
            for name, Y, U in zip(data.names, data.outputs, data.inputs, strict=True)
        }

    def _oracle(self, data):
        """Copy fitted by a central machine that holds all raw measurements."""
        return self._unfitted()._fit_plant(data, pooled=True)

    def _unfitted(self):
        """Copy without a fit, in this process."""
        return clone(self).set_params(transport=None)

    # -- predicting ------------------------------------------------------------------------------

    def _predict_blocks(self, data, model):
        """One-step-ahead measurements of each unit by one of the models."""
        if model == "server":
            predicted = self.server_.filter(self._messages(data)).predicted
            return [
                self.clients_[name].measurements(predicted[:, rows])
                for name, rows in self.server_.state_slices_.items()
            ]
        return [
            local_prediction(self._site(name), Y, U, data.starts, augmented=model == "augmented")
            for name, Y, U in zip(data.names, data.outputs, data.inputs, strict=True)
        ]

    def _table(self, blocks, positions, columns, index):
        """Unit blocks as one table in the order of the columns that came in.

        An array, or a frame when `set_output` asks for one.
        """
        n_samples = len(blocks[0])
        table = np.empty((n_samples, len(columns)))
        for block, where in zip(blocks, positions, strict=True):
            table[:, where] = block
        container = _get_output_config("transform", self)["dense"]
        if container == "default":
            return table
        frame = pd.DataFrame(table, columns=list(columns), index=index)
        if container == "polars":
            import polars

            return polars.DataFrame({name: frame[name].to_numpy() for name in frame})
        return frame


def _row_by_row(data):
    """Plant data whose measurements lie in memory row by row.

    Products and sums of arrays that lie differently round differently; one record shall give the identical
    plant whatever container it came in. Frames, which lie column by column, are copied.
    """
    return replace(data, outputs=tuple(np.ascontiguousarray(Y) for Y in data.outputs))


def client_templates(client, names):
    """Template of each unit's model.

    Parameters
    ----------
    client : None, object, list or dict
        As given to the estimator.
    names : sequence of str

    Returns
    -------
    dict of str to object

    Raises
    ------
    ValueError
        If a list or dict does not name every unit once.
    """
    if client is None:
        client = KalmanClient()
    if isinstance(client, Mapping):
        if set(client) != set(names):
            raise ValueError(
                f"`client` names the units {sorted(client)}, but the data have {sorted(names)}. Give one "
                "client per unit."
            )
        return dict(client)
    if isinstance(client, list | tuple):
        if len(client) != len(names):
            raise ValueError(
                f"Got {len(client)} clients for {len(names)} units ({', '.join(names)}); give one per unit."
            )
        return dict(zip(names, client, strict=True))
    return dict.fromkeys(names, client)
