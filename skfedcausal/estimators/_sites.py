"""Fits over a transport to units whose records are elsewhere."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..containers import PlantLayout
from ..federation.ledger import Ledger, LedgeredTransport
from ..federation.rounds import ask, ask_until_there
from ..federation.watching import verdict_reply, watch_request
from ..message.states import ACKNOWLEDGEMENT, StateMessage
from ..server.watching.incidents import incident_row, incident_table
from ..server.watching.root_cause import StreamState
from ._told_promises import HeardPromises, told_promise


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
        several = hasattr(server, "n_rounds_at_most") or getattr(server, "trains_corrections", False)
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
        self._store_told_promises(names)
        self._store_fit(server)
        return self

    def _store_told_promises(self, names):
        """What the sites said of differential privacy, with what their records have cost since the fit."""
        for name, value in told_promise(self._channel.promises, names).items():
            setattr(self, name, value)

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
        self._site_stream = SiteStream(self._root_cause)
        return self

    def _look_at(self, messages):
        self._nominal = messages
        return messages

    def watch_sites(self, *, wait=0.0):
        """Incidents in the records that the sites have to be watched, after :meth:`fit_sites`.

        Every unit sends messages about that record, batch by batch as it comes, by the model it has from the
        fit, and is told the verdicts where there is a way back. Units and server keep where they stand
        between batches, so that the answers are those to one record; the next call goes on.

        Parameters
        ----------
        wait : float, default=0.0
            Seconds to wait for a further batch of every unit before the record is taken to end here.

        Returns
        -------
        DataFrame
            As :meth:`incidents`, in positions from 0 at the first batch; those of all batches so far.

        Raises
        ------
        ClientError
            If a unit gave no usable message, for it has no such record, say.
        ValueError
            If this estimator has no sites, or the batches of the units do not have the same rows.

        See Also
        --------
        follow_sites : The same, batch by batch.
        """
        for _ in self.follow_sites(wait=wait):
            pass
        return self.site_incidents_

    @property
    def site_incidents_(self):
        """Incidents in the records of the sites as far as they were watched, a DataFrame."""
        check_is_fitted(self)
        if self._channel is None:
            raise AttributeError("`site_incidents_` is there after `fit_sites` only.")
        return self._site_stream.table(self.client_names_)

    def follow_sites(self, *, wait=0.0):
        """Follow the records that the sites have to be watched, as :meth:`watch_sites` does.

        Parameters
        ----------
        wait : float, default=0.0
            Seconds to wait for a further batch of every unit.

        Yields
        ------
        DataFrame
            For every batch the incidents that are new or revised, as :meth:`update` gives them.

        Raises
        ------
        ValueError
            If there are no sites to be asked.
        """
        check_is_fitted(self)
        if self._channel is None:
            raise ValueError("There are no sites to be asked: `fit_sites` first.")
        names, round = self.client_names_, self.communication_["rounds"]
        while True:
            request = watch_request(self._site_stream.n_batches + 1, round, self.wire_dtype)
            asked = dict.fromkeys(names, request)
            messages = ask_until_there(self._channel, asked, StateMessage, wait)
            if messages is None:
                return
            changed = self._site_stream.push(messages)
            if not self._channel.one_way:
                verdict = dict.fromkeys(names, verdict_reply(changed).to_packet(round))
                ask(self._channel, verdict, ACKNOWLEDGEMENT, needed=0)
            self._store_told_promises(names)
            yield incident_table([incident_row(v, names, start) for start, v in changed])


class SiteStream:
    """The batches of watched records so far, and the incidents in them.

    Parameters
    ----------
    root_cause : RootCauseServer
    """

    def __init__(self, root_cause):
        self._root_cause = root_cause
        self._state, self._first, self._n_rows = StreamState(), 0, 0
        self._verdicts = {}
        self.n_batches = 0

    def push(self, messages):
        """Incidents that the next batch starts or changes, as (first row of their episode, verdict)."""
        changed, row = [], 0
        lengths = {name: message.lengths for name, message in messages.items()}
        if len(set(lengths.values())) > 1:
            sent = ", ".join(f"{name} sent {sum(rows)}" for name, rows in lengths.items())
            raise ValueError(
                f"Batch {self.n_batches + 1} has not the same rows at all units: {sent}. Cut their records "
                "at the same times."
            )
        for k, length in enumerate(next(iter(lengths.values()))):
            if k > 0:  # the first episode goes on where the last batch ended
                self._state, self._first = StreamState(), self._n_rows
            part = {name: message.rows(row, row + length) for name, message in messages.items()}
            verdicts = self._root_cause.push(part, self._state)
            changed += [(self._first, verdict) for verdict in verdicts]
            row, self._n_rows = row + length, self._n_rows + length
        self._verdicts |= {start + verdict.detected: (start, verdict) for start, verdict in changed}
        self.n_batches += 1
        return changed

    def table(self, names):
        """All incidents as they are known now."""
        found = [self._verdicts[detected] for detected in sorted(self._verdicts)]
        return incident_table([incident_row(verdict, names, start) for start, verdict in found])
