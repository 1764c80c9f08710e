"""Between the detector and what leaves the units while it watches: noise, packets, the account."""

import secrets

import joblib
import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..client.at_home import local_prediction
from ..client.flags import ResidualFlag
from ..federation.watching import send_flags
from ..server.watching.flags import FlagWatch, needed_answers
from ._privacy import mechanisms, promise, released

_NOT_OF_THE_PROMISE = {"accountant", "random_state", "sampler"}


class WatchingMixin:
    """What a detector does about privacy and traffic when it reads new records.

    Thresholds hold for the noise they were set under, so that new records get the noise of the nominal one,
    and pay for it what that is worth for their length.
    """

    @property
    def _message_mechanism(self):
        return mechanisms(self.privacy)[0]

    def _check_privacy(self):
        """Refuse before anything is spent what would protect nothing."""
        messages, flags = mechanisms(self.privacy)
        if flags is not None and self.evidence != "flags":
            raise ValueError(
                f"RandomizedResponse answers with flags, but evidence={self.evidence!r} sends states. Give "
                'evidence="flags", or a GaussianMechanism.'
            )
        if messages is not None and messages.place != "record":
            raise ValueError(
                f"This mechanism adds its noise to the {messages.place} of gradient training, which no "
                "detector has. Give one with protocol='one-shot' and trust='none'."
            )
        self._promised = _promise_key(messages)

    def _store_promise(self, n_samples):
        messages, flags = mechanisms(self.privacy)
        names = self.layout_.names
        found = promise(flags if messages is None else messages, names, n_samples)
        if flags is not None:
            of_flags = flags.statement(flags.account.spent(clients=names), names, n_samples)
            of_messages = "Not differentially private as to the nominal record, which was sent without noise."
            if messages is not None:
                of_messages = messages.statement(found["privacy_spent_"], names, n_samples, "all but flags")
            found["privacy_statement_"] = f"{of_messages} Flags of watched records: {of_flags}"
        for name, value in found.items():
            setattr(self, name, value)

    # -- records ---------------------------------------------------------------------------------

    def _released(self, data):
        """A record with the noise of the nominal one, and the units' models of it."""
        clients = {name: self._site(name)["client"] for name in data.names}
        mechanism = self._checked_mechanism()
        if mechanism is None:
            return data, clients
        data, _ = released(mechanism, data, self._noise)
        self._store_promise(data.n_samples)
        return data, clients

    def _checked_mechanism(self):
        """The mechanism for messages, which must be the one that the thresholds were set under."""
        self._check_mechanism()
        mechanism = self._message_mechanism
        if _promise_key(mechanism) != self._promised:
            raise ValueError(
                "`privacy` is not what it was when the detector was fitted: its thresholds hold for the "
                "noise they were set under. Fit it again."
            )
        return mechanism

    def _messages(self, data, const=False):
        """Messages about a watched record as the server gets them, if states may leave at all."""
        self._check_states_may_leave()
        return super()._messages(data, const)

    def _check_states_may_leave(self):
        """Refuse to watch states where only flags are protected."""
        if self._message_mechanism is None and self.privacy is not None:
            raise ValueError(
                "RandomizedResponse protects flags, and this method needs states. Use flags, incidents, "
                "predict or predict_root_cause, or fit with "
                "privacy=[GaussianMechanism(...), RandomizedResponse(...)]."
            )

    # -- flags -----------------------------------------------------------------------------------

    def flags(self, X, *, inputs=None, lengths=None):
        """The paper's flags of every unit as the server gets them: two bits per step (eq. 9).

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
        inputs, lengths
            As in `fit`.

        Returns
        -------
        DataFrame
            Columns ``unit__Z_c`` (proprietary model) and ``unit__Z_a`` (augmented model), 0 or 1.

        Raises
        ------
        ValueError
            If the detector was not fitted with ``evidence="flags"``.
        """
        check_is_fitted(self)
        if self.evidence != "flags":
            raise ValueError('Flags belong to the paper\'s inference; fit with evidence="flags".')
        data = self._read(X, inputs, lengths)
        columns = [f"{name}__{z}" for name in self.client_names_ for z in ("Z_c", "Z_a")]
        return pd.DataFrame(
            self._flag_array(data).reshape(data.n_samples, -1), columns=columns, index=data.index
        )

    def _learn_flags(self, at_home, data):
        """Nominal residuals of every unit and, where answers are randomised, how many make a root.

        `at_home` is the units' raw record, `data` what was released of it.
        """
        self._flagger = secrets.token_hex(8)
        self._flags = {
            name: tuple(ResidualFlag.learn(Y - p, self.percentile) for p in predictions)
            for name, Y, predictions in self._residual_parts(at_home, data)
        }
        mechanism, horizon = mechanisms(self.privacy)[1], int(self.horizon)
        self._needed = horizon // 2 + 1
        if mechanism is not None:
            kept, other = mechanism.confusion[0, :2]
            rate = 1 / self._root_cause.run_length / len(data.names)
            self._needed = needed_answers(horizon, kept, other, 1 - self.percentile / 100, rate)

    def _residual_parts(self, at_home, data=None):
        """Measurements and predictions behind every unit's flags.

        Flags that will be randomised are computed at the unit from its raw record, others from what was
        released of it.
        """
        if mechanisms(self.privacy)[1] is not None:
            data, sites = at_home, {name: self._home(name) for name in at_home.names}
        else:
            data = self._released(at_home)[0] if data is None else data
            sites = {name: self._site(name) for name in data.names}
        for name, Y in zip(data.names, data.outputs, strict=True):
            yield name, Y, _local_predictions(sites[name], Y, data.starts)

    @property
    def _flag_watch(self):
        return FlagWatch(int(self.horizon), self._needed)

    def _flags_at_home(self, name, Y, starts):
        """Flags of one unit's rows as it raises them itself, bool of shape (n_samples, 2)."""
        return self._raised(name, Y, _local_predictions(self._site(name), Y, starts))

    def _raised(self, name, Y, predictions):
        flags = [flag.raised(Y - p) for flag, p in zip(self._flags[name], predictions, strict=True)]
        return np.column_stack(flags).astype(bool)

    def _flag_array(self, data):
        """Flags as the server gets them, shape (n_samples, n_units, 2)."""
        pairs = {
            name: self._raised(name, Y, predictions) for name, Y, predictions in self._residual_parts(data)
        }
        mechanism = mechanisms(self.privacy)[1]
        if mechanism is not None:
            records = dict(zip(data.names, data.outputs, strict=True))
            pairs = mechanism.release(pairs, records=records, flagger=self._flagger)
            self._store_promise(data.n_samples)
        arrived = send_flags(pairs, self.ledger_)
        return np.stack([arrived[name] for name in data.names], axis=1).astype(np.uint8)


def _promise_key(mechanism):
    """What a mechanism promises, as one word; None without one."""
    if mechanism is None:
        return None
    settings = mechanism.get_params(deep=False)
    return joblib.hash({k: v for k, v in settings.items() if k not in _NOT_OF_THE_PROMISE})


def _local_predictions(site, Y, starts):
    """Measurements of one unit predicted by its own model and by the augmented one."""
    predictions = [local_prediction(site, Y, None, starts, augmented=a) for a in (False, True)]
    active = getattr(site["client"], "_active", np.ones(Y.shape[1], dtype=bool))
    return [np.where(active, p, Y) for p in predictions]
