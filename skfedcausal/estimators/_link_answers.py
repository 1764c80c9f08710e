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

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to learn from and to predict, such as that of `fit`, of which an estimator keeps no series.
        inputs, lengths
            As in `fit`.
        held_out : float, default=0.3
            Share of every episode to predict.
        by : {"unit", "pair"}, default="unit"

        Returns
        -------
        DataFrame
            By unit: ``gain``, log-density of the unit's own measurements given the past of all units less
            that given its own past, in nats per row, and ``stderr``; ``rows`` with measurements of the unit
            that were predicted; ``neighbour``, whose messages it would miss most, with ``neighbour_gain``
            and ``neighbour_stderr``, or ``""`` where no such gain is significant (one-sided, 5 %);
            ``bytes_up, bytes_down``, what joining took in `fit`. By pair: ``cause, effect, gain, stderr``.

        Raises
        ------
        ValueError
            For a plant with inputs, or a share that episodes cannot be split at.

        Notes
        -----
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

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, n_samples=5000, links=[("unit0", "unit2")], random_state=0)
        >>> est = FederatedGrangerEstimator().fit(X)
        >>> est.benefit(X).loc["unit2", "neighbour"]
        'unit0'
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
        """Test every link between states given the others, by one of the three classical tests.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to learn the plant from, such as that of `fit`, of which an estimator keeps no series.
        method : {"lr", "wald", "score"}, default="lr"
            Likelihood ratio of the plants with and without the link; Wald test in the plant with it; score
            test in the plant without it. Large samples make them agree.
        inputs, lengths
            As in `fit`.

        Returns
        -------
        DataFrame
            One row per ordered pair: ``cause, effect, in_model, statistic, dof, p_value``, ``p_holm``
            (family-wise, Holm) and ``p_fdr`` (false discovery rate, Benjamini and Hochberg). Chi-squared
            under the hypothesis of no link, given the other links in the model as everything in `links_`.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
        >>> tests = FederatedGrangerEstimator().fit(X).test_links(X, "lr")
        >>> tests.query("p_holm < 0.05")[["cause", "effect"]].to_string(index=False)
        'cause effect\\nunit0  unit2'
        """
        check_is_fitted(self)
        messages = self._messages(self._read(X, inputs, lengths))
        return undecided(self.server_.test_links(messages, method), self._obscured)

    @_answered_by_server("lag_orders")
    def lag_orders(self, X, max_lags=5, *, inputs=None, lengths=None, held_out=0.3):
        """How many lags of the units' states a record asks for.

        Plants ``h[t] = A_1 h[t-1] + ... + A_L h[t-L] + w[t-1]`` of up to `max_lags` lags are fitted to the
        same rows, those after the first ``max_lags - 1`` of each episode.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to learn the plant from, NaN where missing.
        max_lags : int, default=5
        inputs, lengths
            As in `fit`.
        held_out : float, default=0.3
            Share of every episode, its last part, that the column `held_out` is about.

        Returns
        -------
        DataFrame
            Indexed by ``n_lags``: ``n_links`` found, ``n_parameters``, ``log_likelihood`` up to a constant,
            ``aic``, ``bic`` (smaller is better), and ``held_out``, the log-likelihood per row, up to a
            constant, of the last part of every episode by the plant of the rest (larger is better).

        Raises
        ------
        ValueError
            For plants with inputs, units whose sensors do not determine their states, and units that report
            in different rows.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
        >>> int(FederatedGrangerEstimator().fit(X).lag_orders(X, 3)["bic"].idxmin())
        1
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

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to learn the plant from, NaN where missing.
        n_lags : int or {"aic", "bic", "held_out"}, default="aic"
            Number of lags, or the criterion of :meth:`lag_orders` that chooses it.
        max_lags : int, default=5
            Largest number to choose.
        by : {"pair", "lag"}, default="pair"
        inputs, lengths
            As in `fit`.

        Returns
        -------
        DataFrame
            By pair ``cause, effect, delay``: the lag that alone would explain most of the link, NaN where no
            link was found; ``delay_probability``: of that lag, if the link acts at one of them and all were
            as likely beforehand (states that move slowly make neighbouring lags hard to tell apart);
            ``seconds``, the delay in time, where the rows have times; ``strength, stderr``: Frobenius norm of
            the blocks of all lags in standardised states; ``delay_strength``: what it is if the link acts at
            the delay only; ``statistic, dof, p_value, p_adjusted, verdict`` as in `links_`.
            By lag ``cause, effect, lag, strength, stderr, statistic, p_value`` of
            each block given the others. ``attrs["n_lags"]`` is the number of lags.

        Raises
        ------
        ValueError
            For plants with inputs, units whose sensors do not determine their states, and units that report
            in different rows.

        Warns
        -----
        ConvergenceWarning
            If the likelihood did not converge.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=2)
        >>> links = FederatedGrangerEstimator().fit(X).lagged_links(X, 3)
        >>> links.query("verdict == 'influence'")[["cause", "effect", "delay"]].to_string(index=False)
        'cause effect  delay\\nunit0  unit2    1.0'
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
        """The links as a graph of networkx (extra ``graph``).

        Parameters
        ----------
        undecided : bool, default=False
            Also the pairs with the verdict "cannot tell".

        Returns
        -------
        networkx.MultiDiGraph
            One node per unit. One edge from cause to effect per influence, its key the `kind` and its
            attributes the other columns of `links_`; ``weight`` is the strength.

        Raises
        ------
        ImportError
            Without networkx.
        """
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
