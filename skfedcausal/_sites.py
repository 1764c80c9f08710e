"""Fits over a transport to units whose records are elsewhere."""

from itertools import accumulate

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._told_promises import HeardPromises, told_promise
from .federation.ledger import Ledger, LedgeredTransport
from .federation.packet import Packet
from .federation.rounds import ask, messages_of
from .federation.watching import verdict_reply
from .message import ACKNOWLEDGEMENT, StateMessage
from .server.watching.incidents import incident_row, incident_table
from .utils import PlantLayout
from .watch_message import WATCH


class LearningFromSites:
    """What the estimators can do where the units' records are not in this process."""

    def fit_sites(self, transport):
        """Learn the plant from units that are reached over a transport and hold their records themselves.

        The models of the units are what the sites say they are, and so is differential privacy: `client`,
        `augmenter` and `privacy` belong to the settings of a site, which tells its promise with its first
        message; `privacy_spent_`, `privacy_statement_` and `noise_covariance_` are what the sites say. What
        needs a unit's sensors (predictions, effects on measurements) is at the sites after that; everything
        about the plant is here.

        Parameters
        ----------
        transport : Transport
            Stays open, for questions; close it to tell the sites that the run is over.

        Returns
        -------
        self : estimator

        Raises
        ------
        ClientError
            If a unit that is needed gave no usable message.
        ValueError
            If a parameter that belongs to the sites is given, or the link is one-way and the server needs
            more than one message.

        Warns
        -----
        LostUnitWarning
            If the fit went on without some answers.

        See Also
        --------
        skfedcausal.federation.FileTransport : Files between the machines.
        """
        self._validate_params()
        given = [
            name
            for name in ("client", "augmenter", "privacy", "max_bytes")
            if getattr(self, name) is not None
        ]
        if given:
            raise ValueError(
                f"{', '.join(given)} cannot be given to `fit_sites`: units at sites have their own settings."
            )
        channel = HeardPromises(LedgeredTransport(transport, Ledger()))
        server = self._new_server()
        several = hasattr(server, "dialogue") or getattr(server, "trains_corrections", False)
        if channel.one_way and (several or getattr(server, "n_rounds", 1) > 1):
            raise ValueError(
                f"{type(server).__name__} needs several rounds here, and nothing can be sent over a one-way "
                "link. Use a LikelihoodServer with n_rounds=1."
            )
        names = channel.clients()
        self._learn(channel, server, names, self._sites_have_inputs, look=self._look_at)
        self._keep_sites({})
        self._channel = channel
        self.layout_ = self._layout_of_sites(names)
        self.noise_covariance_ = {name: np.diag(told.noise) for name, told in channel.promises.items()}
        self.communication_ = self.ledger_.communication(dict.fromkeys(names, np.nan))
        for name, value in told_promise(channel.promises, names).items():
            setattr(self, name, value)
        self._store_fit(server)
        return self

    _sites_have_inputs = False

    def _look_at(self, messages):
        """Messages as the server is about to see them; of gradient training the units' local models."""
        return messages

    def _layout_of_sites(self, names):
        """Units without columns: what their sensors are called stays with them."""
        nothing = ((),) * len(names)
        return PlantLayout(tuple(names), nothing, nothing, nothing, nothing, named=True)


class WatchingFromSites(LearningFromSites):
    """The same for a detector, which also learns what is nominal."""

    def fit_sites(self, transport):
        """Learn the plant and what is nominal from units at sites of their own, see the other estimators.

        The message that a unit sends to learn the plant is about nominal operation and serves for the
        thresholds too: this works over a one-way link.

        Parameters
        ----------
        transport : Transport

        Returns
        -------
        self : FederatedRCADetector

        Raises
        ------
        ClientError
            If a unit that is needed gave no usable message.
        ValueError
            If ``evidence="flags"``, which is decided at the units, or the budget cannot be read.
        """
        if self.evidence == "flags":
            raise ValueError("evidence='flags' is not offered over sites; use evidence='innovations'.")
        super().fit_sites(transport)
        messages, self._nominal = self._nominal, None
        budget = self._budget(None, self.client_names_, len(next(iter(messages.values())).z))
        self._learn_nominal(messages, *budget)
        return self

    def _look_at(self, messages):
        self._nominal = messages
        return messages

    def watch_sites(self):
        """Incidents in the records that the sites have to be watched, after :meth:`fit_sites`.

        Every unit sends a message about that record, by the model it has from the fit, and is told the
        verdict.

        Returns
        -------
        DataFrame
            As :meth:`incidents`, in positions from 0.

        Raises
        ------
        ClientError
            If a unit gave no usable message, for it has no such record, say.
        ValueError
            If this estimator has no sites that can be asked.
        """
        check_is_fitted(self)
        if self._channel is None or self._channel.one_way:
            raise ValueError("There are no sites to be asked: `fit_sites` over a link with a way back first.")
        round = self.communication_["rounds"]
        request = Packet(WATCH, round, scalars={"dtype": self.wire_dtype})
        asked = dict.fromkeys(self.client_names_, request)
        messages = messages_of(self._channel, asked, StateMessage)
        lengths = next(iter(messages.values())).lengths
        found = self._found(messages, tuple(accumulate(lengths[:-1], initial=0)))
        verdict = dict.fromkeys(self.client_names_, verdict_reply(found).to_packet(round))
        ask(self._channel, verdict, ACKNOWLEDGEMENT, needed=0)
        return incident_table([incident_row(v, self.client_names_, start) for start, v in found])
