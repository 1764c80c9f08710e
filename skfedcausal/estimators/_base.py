"""What the estimators share: containers to workers, rounds of messages, fitted attributes, tables out."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted

from ..client.at_home import local_prediction
from ..client.extended_kalman import ExtendedKalmanClient
from ..client.kalman import KalmanClient
from ..client.messages import unit_message
from ..client.silence import SilenceWatch
from ..client.worker import UnitWorker
from ..containers import read_plant
from ..containers.names import listed
from ..federation.corrections import train_corrections
from ..federation.crossing import sent, told
from ..federation.ledger import Ledger, LedgeredTransport
from ..federation.lost import Attendance, LostUnits, LostUnitWarning
from ..federation.rounds import learn_plant
from ..federation.training import train_plant
from ..federation.transport import InProcessTransport, Site
from ..message.states import WIRE_DTYPES, PredictionReply
from ..privacy import GaussianMechanism
from ..seeding import seeded
from ..server.likelihood import LikelihoodServer
from ._oracle import PooledTraining, pooled_messages
from ._privacy import check_noise_can_be_told, promise, released
from ._privacy_curve import privacy_curve
from ._progress import CallbackSupportMixin, FollowedTransport
from ._rehearsal import RehearsedFit
from ._training_privacy import training_noise

# what is kept of a site after a fit
_KEPT = ("client", "augmenter", "transition", "input_matrix", "input_mean", "phi", "loading_error")


class FederatedEstimator(CallbackSupportMixin, RehearsedFit, TransformerMixin, BaseEstimator):
    """Base of the federated estimators; use a subclass."""

    _parameter_constraints = {
        "client": [HasMethods("message"), HasMethods("filter_moments"), list, tuple, dict, None],
        "client_labels": ["array-like", callable, StrOptions({"from_columns"})],
        "augmenter": [HasMethods(["fit", "predict"]), None],
        "server": [HasMethods(["fit", "replies"]), HasMethods("dialogue"), None],
        "privacy": [GaussianMechanism, None],
        "transport": [callable, None],
        "wire_dtype": [StrOptions(set(WIRE_DTYPES))],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "lost_units": [LostUnits, None],
        "max_bytes": [Interval(Integral, 0, None, closed="left"), None],
        "verbose": ["verbose"],
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

    def _read(self, X, inputs=None, lengths=None, stream=None):
        """Plant data in the layout learned by `fit`; units that went silent are missing there.

        `stream` is what is kept between the batches of a stream, see :class:`SilenceWatch`.
        """
        if not hasattr(self, "layout_"):
            check_is_fitted(self)  # takes as long as to read a short record
        data = _row_by_row(
            read_plant(X, inputs=inputs, lengths=lengths, layout=self.layout_, min_samples=1, estimator=self)
        )
        return data if self._silence is None else self._silence.without_silent(data, stream)

    # -- fitting ---------------------------------------------------------------------------------

    def _fit_plant(self, data, pooled=False, server=None):
        """One message per unit up, the server's fit, one reply per unit down.

        With `pooled` the server learns from statistics of the pooled table instead. With a privacy mechanism
        that is the noised one: workers, server and oracle never see another. `server` stands in
        where the user gave none.
        """
        return self._fit_released(self._released_to_learn(data), pooled, server)

    def _released_to_learn(self, data):
        """A new record as everything outside the units sees it."""
        if self._message_mechanism is not None:
            check_noise_can_be_told(self._templates(data.names))
        # what is missing is public: with noise it must not depend on values
        self._silence = SilenceWatch(data) if self._message_mechanism is None else None
        data, self._noise = released(self._message_mechanism, data, learning=True)
        return data

    def _fit_released(self, data, pooled=False, server=None):
        server = self._new_server(server)
        templates = self._templates(data.names)
        mechanism = self._message_mechanism
        if pooled and mechanism is not None and mechanism.place != "record":
            raise ValueError(
                "The oracle pools what the units sent; noise inside training has no counterpart there. Use "
                "noise on the record, or none, to compare with it."
            )
        noise = training_noise(mechanism, server, data, templates, self.wire_dtype)
        sites = self._sites_of(data, templates, noise.units)
        channel = LedgeredTransport(self._transport(sites), Ledger(self.max_bytes))
        pool = self._pool(server, sites, data) if pooled else None
        inputs = any(U is not None for U in data.inputs)
        try:
            self._learn(FollowedTransport(channel, self), server, data.names, inputs, pool, guard=noise.guard)
        finally:
            channel.close()
        self._keep_sites(sites)
        self._channel = None
        self.layout_ = data.layout
        raw = {
            name: Y.nbytes + (0 if U is None else U.nbytes)
            for name, Y, U in zip(data.names, data.outputs, data.inputs, strict=True)
        }
        self.noise_covariance_ = {name: np.diag(noise.variance) for name, noise in self._noise.items()}
        self.communication_ = self.ledger_.communication(raw)
        self._store_promise(data.n_samples)
        self._store_fit(self.server_)
        return self

    def _new_server(self, default=None):
        chosen = (default or LikelihoodServer()) if self.server is None else self.server
        return seeded(chosen, self.random_state)

    def _learn(self, channel, server, names, inputs, pool=None, look=None, guard=None):
        """The rounds of a fit over a channel, whoever is at its other end."""
        learn, wishes = learn_plant, {"replies": not channel.one_way, "pool": pool or look}
        if hasattr(server, "n_rounds_at_most"):
            learn = train_plant
            wishes = {"inputs": inputs, "pool": pool, "look": look, "guard": guard}
        elif getattr(server, "trains_corrections", False):
            learn, wishes = train_corrections, {"pool": pool, "look": look}
        attendance = Attendance(names, self.lost_units)
        learn(channel, server, names, dtype=self.wire_dtype, attendance=attendance, **wishes)
        self.server_, self.ledger_ = server, channel.ledger
        self.lost_units_ = pd.DataFrame(attendance.lost, columns=["unit", "round", "operation", "reason"])
        if attendance.lost:
            units = listed(dict.fromkeys(self.lost_units_["unit"]))
            warnings.warn(
                f"The fit went on without some answers of {units}; `lost_units_` says which and why.",
                LostUnitWarning,
                stacklevel=4,
            )

    @staticmethod
    def _pool(server, sites, data):
        """What a central machine sees in place of the messages."""
        if hasattr(server, "n_rounds_at_most"):
            return PooledTraining(sites)

        def pool(messages):
            return pooled_messages({name: sites[name].state["client"] for name in messages}, data)

        return pool

    def _keep_sites(self, sites):
        """What the units keep; nothing where the transport has workers of its own elsewhere."""
        self._sites = {
            name: {key: site.state[key] for key in _KEPT if key in site.state}
            for name, site in sites.items()
            if site.state
        }
        self.clients_ = {name: site["client"] for name, site in self._sites.items()}
        self.augmenters_ = {
            name: site["augmenter"] for name, site in self._sites.items() if "augmenter" in site
        }

    @property
    def _message_mechanism(self):
        """What adds noise to the records that messages are about, or None."""
        return self.privacy

    def _store_promise(self, n_samples):
        names = self.layout_.names
        for name, value in promise(self._message_mechanism, names, n_samples).items():
            setattr(self, name, value)

    def _transport(self, sites):
        if self.transport is None:
            return InProcessTransport(sites, n_jobs=self.n_jobs)
        return self.transport(sites)

    def _sites_of(self, data, templates, training):
        """A site for every unit; `training` holds noise that units add to messages of training."""
        noise = {name: added.variance for name, added in self._noise.items()}
        augmenter = seeded(self.augmenter, self.random_state)

        def of_unit(name):
            return templates[name], augmenter, noise.get(name), training.get(name)

        return {
            name: Site(UnitWorker(name, Y, U, data.starts, columns, *of_unit(name)))
            for name, Y, U, columns in zip(
                data.names, data.outputs, data.inputs, data.layout.outputs, strict=True
            )
        }

    def _home(self, name):
        """:meth:`_site` for the unit's own use of its raw measurements, which nobody else sees."""
        site = self._site(name)
        if name not in self.noise_covariance_:
            return site
        return {**site, "client": site["client"].with_noise(np.zeros(len(self.noise_covariance_[name])))}

    def _templates(self, names):
        """Template of each unit's model by name."""
        return client_templates(self.client, names, self.random_state)

    def _site(self, name):
        """What a unit learned: its ``client``, ``augmenter`` and ``transition``."""
        if name not in self._sites:
            raise NotFittedError(
                f"The model of unit {name!r} was fitted at its site and is kept there: this estimator has "
                "the plant, but cannot read that unit's measurements."
            )
        return self._sites[name]

    def _released(self, data):
        """A new record as everything outside the units sees it, and the units' models of it."""
        clients = {name: self._site(name)["client"] for name in data.names}
        self._check_mechanism()
        data, noise = released(self._message_mechanism, data)
        if noise:
            self._store_promise(data.n_samples)
        clients |= {name: clients[name].with_noise(added.variance) for name, added in noise.items()}
        return data, clients

    def _check_mechanism(self):
        if self._message_mechanism is None and self.noise_covariance_:
            raise ValueError(
                "This estimator was fitted under differential privacy and has no mechanism any more to "
                "release new measurements with. Give it one: set_params(privacy=...)."
            )

    def _messages(self, data, const=False):
        """Messages of the fitted clients about a record, with noise where a mechanism adds it."""
        return self._messages_of(*self._released(data), const)

    def _messages_of(self, data, clients, const=False):
        """Messages about a released record as the server gets them."""
        return sent(messages_about(data, clients, const), self.ledger_, self.wire_dtype)

    def _told(self, replies):
        """Replies about a record as the units get them."""
        return told(replies, self.ledger_, self.wire_dtype)

    def _predictions(self, messages):
        """The server's prediction of every unit's states, as the unit gets it."""
        predicted = self.server_.filter(messages).predicted
        return self._told(
            {
                name: PredictionReply(np.ascontiguousarray(predicted[:, rows]))
                for name, rows in self.server_.state_slices_.items()
            }
        )

    def _oracle(self, data):
        """Copy fitted by a central machine that holds all raw measurements."""
        return self._unfitted()._fit_plant(data, pooled=True)

    def _unfitted(self):
        """Copy without a fit, in this process."""
        return clone(self).set_params(transport=None)

    def privacy_curve(self, X, epsilons, *, inputs=None, lengths=None, n_draws=1, random_state=None):
        """What a privacy budget buys, tried out where the raw record is, before anything is sent.

        Fits in this process at every epsilon, with noise that is thrown away and an account of its own.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Choosing epsilon by the record that it is to protect reveals something about that record, which
            no statement covers: use a simulated, public or old one.
        epsilons : sequence of float
            To try in place of the epsilon of `privacy`, whose other settings are kept.
        inputs, lengths
            As in `fit`.
        n_draws : int, default=1
            Draws of the noise to average over at each epsilon.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        DataFrame
            One row per epsilon: ``epsilon``; ``noise_to_signal``, noise over the strongest signal of the unit
            where that is largest; ``links_kept``, share of the links found without noise; ``links_added``,
            number of others; ``forecast_error``, root mean square error of one-step-ahead predictions from
            the noised record, in standard deviations of the raw measurements; ``forecast_ratio``, that over
            the same without noise; ``useful``, whether half of the links are kept, not more are added, and
            forecasts beat the level. ``attrs["smallest_useful_epsilon"]`` is the smallest from which on
            all are, or NaN.

        Warns
        -----
        UtilityWarning
            If not even the largest epsilon is useful.
        """
        self._validate_params()
        record = {"X": X, "inputs": inputs, "lengths": lengths}
        return privacy_curve(self, record, epsilons, n_draws, random_state)

    # -- predicting ------------------------------------------------------------------------------

    def _predict_blocks(self, data, model):
        """One-step-ahead measurements of each unit by one of the models."""
        if model == "server":
            predictions = self._predictions(self._messages(data))
            return [self.clients_[name].measurements(reply.states) for name, reply in predictions.items()]
        return [
            local_prediction(self._home(name), Y, U, data.starts, augmented=model == "augmented")
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
    if all(Y.flags.c_contiguous for Y in data.outputs):
        return data
    return replace(data, outputs=tuple(np.ascontiguousarray(Y) for Y in data.outputs))


def messages_about(data, clients, const=False):
    """Messages about a released record, by the models of it that :meth:`_released` gave."""
    return {
        name: unit_message(clients[name], Y, data.starts, inputs=U, const=const)
        for name, Y, U in zip(data.names, data.outputs, data.inputs, strict=True)
    }


def client_templates(client, names, random_state=None):
    """Template of each unit's model.

    Parameters
    ----------
    client : None, object, list or dict
        As given to the estimator.
    names : sequence of str
    random_state : int, RandomState instance or None, default=None
        For models that are still to be learned and draw.

    Returns
    -------
    dict of str to object

    Raises
    ------
    ValueError
        If a list or dict does not name every unit once.
    """
    return {
        name: seeded(part, random_state)
        if isinstance(part, ExtendedKalmanClient) and not part.is_fitted
        else part
        for name, part in _templates_by_name(client, names).items()
    }


def _templates_by_name(client, names):
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
