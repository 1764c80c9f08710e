"""What a fitted plant says about its links besides their table."""

import pandas as pd
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..optional import import_optional
from ._undecidable import undecided


def _answered_by_server(name):
    return available_if(lambda self: self._has_server_method(name))


class LinkAnswers:
    """Questions about links; part of the estimators of plants."""

    @_answered_by_server("benefit")
    def benefit(self, X, *, inputs=None, lengths=None, held_out=0.3, by="unit"):
        """What every unit gains from joining, on rows that nothing was learned from.

        The server learns the plant, and every unit's model from its own message alone, from the first part of
        every episode, and predicts the last part one step ahead.

        All from messages, which a privacy mechanism releases as everywhere, at its cost. The table stays
        behind as `benefit_`. Gains from a neighbour are what the learned plant predicts worse without
        that unit's messages; they need not add up. A unit without any connection in the plant is its own
        model and gains exactly zero. Otherwise the mean of the differences, given the two fitted models, has
        the standard error of Newey and West, so that a unit can test its gain [1]_ whatever the distribution
        of the noise. The units' sensor models (loadings and noise) were identified from all rows, by each
        alone, and are the same on both sides.

        References
        ----------
        .. [1] Giacomini, White (2006), Tests of conditional predictive ability, Econometrica 74(6).
        """
        if by not in ("unit", "pair"):
            raise ValueError(f"by={by!r}; choose 'unit' or 'pair'.")
        check_is_fitted(self)
        messages = self._messages(self._read(X, inputs, lengths))
        found = self.server_.benefit(messages, held_out=held_out)
        if by == "pair":
            return found.by_pair()
        table = self._with_bytes(found.by_unit())
        self._known_benefit = (self.transition_, table)
        return table

    def _with_bytes(self, table):
        """The table with what joining took in `fit`."""
        paid = self.communication_["per_client"]
        bytes_paid = {
            direction: [paid[name][direction] for name in table.index]
            for direction in ("bytes_up", "bytes_down")
        }
        return table.assign(**bytes_paid)

    @property
    def benefit_(self):
        """Table by unit of the last call of :meth:`benefit` since `fit`, or of `fit` itself.

        `fit` makes it where the server holds rows out: ``LikelihoodServer(held_out=0.2)``.
        """
        check_is_fitted(self)
        transition, table = self.__dict__.get("_known_benefit", (None, None))
        if transition is self.transition_:
            return table
        table = getattr(self.server_, "benefit_", None)
        if table is None:
            raise AttributeError(
                "Nothing held-out was predicted since `fit`; call benefit(X) first, or fit with "
                "server=LikelihoodServer(held_out=0.2)."
            )
        return self._with_bytes(table)

    @_answered_by_server("test_links")
    def test_links(self, X, method="lr", *, inputs=None, lengths=None):
        """Test every link between states given the others, by one of the three classical tests."""
        check_is_fitted(self)
        messages = self._messages(self._read(X, inputs, lengths))
        return undecided(self.server_.test_links(messages, method), self._obscured)

    @_answered_by_server("lag_orders")
    def lag_orders(self, X, max_lags=5, *, inputs=None, lengths=None, held_out=0.3):
        """How many lags of the units' states a record asks for.

        Plants ``h[t] = A_1 h[t-1] + ... + A_L h[t-L] + w[t-1]`` of up to `max_lags` lags are fitted to the
        same rows, those after the first ``max_lags - 1`` of each episode.
        """
        check_is_fitted(self)
        messages = self._messages(self._read(X, inputs, lengths))
        return self.server_.lag_orders(messages, max_lags, held_out=held_out)

    @_answered_by_server("lagged_links")
    def lagged_links(self, X, n_lags="aic", *, max_lags=5, by="pair", inputs=None, lengths=None):
        """Links that act after several time steps, and their delays.

        A plant of `n_lags` lags is learned from the messages of a record: every unit's own states act on it
        at every lag, and so do those of a linked unit. `transition_`, predictions and `links_` stay those of
        the plant of one lag.
        """
        check_is_fitted(self)
        data = self._read(X, inputs, lengths)
        table = self.server_.lagged_links(self._messages(data), n_lags, max_lags=max_lags, by=by)
        if isinstance(data.index, pd.DatetimeIndex):
            steps = pd.Series(data.index).diff().median().total_seconds()
            column = "delay" if by == "pair" else "lag"
            table.insert(3, "seconds", steps * table[column])
        return table

    def to_networkx(self, *, undecided=False):
        """The links as a graph of networkx (extra ``graph``)."""
        check_is_fitted(self)
        networkx = import_optional("networkx", "graph", "A graph of the links")
        graph = networkx.MultiDiGraph()
        graph.add_nodes_from(self.client_names_)
        kept = ["influence", "cannot tell"] if undecided else ["influence"]
        for link in self.links_.to_dict("records"):
            if link["verdict"] in kept:
                cause, effect, kind = (link.pop(key) for key in ("cause", "effect", "kind"))
                graph.add_edge(cause, effect, key=kind, weight=link["strength"], **link)
        return graph
