"""What is asked of the links of a fitted plant, and which of them added noise leaves undecided."""

import warnings
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..beside import beside
from ..containers.layout import listed
from ..containers.rows import sampling_period
from ..optional import import_optional
from ..privacy.errors import UtilityWarning
from ..server.links.grades import MEASURED, told_links
from ..server.watching.thresholds import steps_between_alarms
from ..statespace.matrices import companion
from ..statespace.riccati import stationary_covariance
from ._base import FederatedEstimator, where_server

_SHARE = 0.1  # a state with less of the strongest one's variance may stay unseen
_TESTS = ("p_value", "p_adjusted", "p_holm", "p_fdr")
_EFFECTS = ("cause", "effect", "verdict", "cause_tag", "effect_tag", "gain", "correlation", "delay", "delay_time")


class LinkQuestions(FederatedEstimator):
    """Base of the estimators whose server learns links: what is asked of these."""

    _undecidable: tuple = ()  # units of which added noise may hide states
    _known_benefit: Any = None, None  # plant that the last call of `benefit` was about, and its table

    @property
    def validity_(self):
        """What was checked of the assumptions behind the verdicts of `links_`.

        A table of ``check, cause, effect, statistic, p_value, passed, remedy``, cause and effect the same for a
        check of a unit. Verdicts that rest on a check that failed are withheld in `links_`.
        """
        check_is_fitted(self)
        table = getattr(self.server_, "validity_", None)
        if table is None:
            raise AttributeError(
                f"{type(self.server_).__name__} does not check what its plant assumes; fit with a LikelihoodServer."
            )
        return table

    def validity_display(self):
        """Picture of `validity_` (extra ``plot``).

        Returns
        -------
        ValidityDisplay

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(2, random_state=0)
        >>> FederatedGrangerEstimator().fit(X).validity_display().failed.sum()
        np.int64(0)
        """
        return beside("ValidityDisplay").from_estimator(self)

    def link_effects(self):
        """What every link does in terms of measurements, with its sign and in their units.

        Returns
        -------
        DataFrame
            One row per link between states with the verdict "influence" or "coupled": ``cause, effect, verdict``;
            ``cause_tag`` and ``effect_tag``, the sensors that show it best; ``gain``, the expected change of the
            effect's tag through this link alone, one delay after the cause's tag stood a unit of its own higher;
            ``correlation``, the same in standard deviations of both; ``delay`` in rows and ``delay_time`` in seconds,
            NaN without times.

        Raises
        ------
        ValueError
            If units at sites of their own cannot be asked.

        Notes
        -----
        With states h of covariance P, the block M of the lag that acts most, and sensors ``y = C h + noise`` of cause k
        and effect m, the gains between their tags are ``C_m M P_k C_k' / var(C_k h)``: what the regression on the
        cause's tag says of the states that act. Of a link that rests on a held-out gain M is that of a regression on
        what single rows measure of the states, so that their noise makes gains smaller; of a curved one it is the line
        through the record, which may be flat where the curve is not. Units tell their C, one packet
        each.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=0)
        >>> table = FederatedGrangerEstimator().fit(X).link_effects()
        >>> table[["cause", "effect", "delay"]].to_string(index=False)
        'cause effect  delay\\nunit0  unit2    1.0'
        """
        with self._asking_models() as units:
            C, columns = units.loadings()
        lags = self.lag_transitions_
        P = state_covariance(lags, self.process_cov_)
        variance = np.einsum("ij,jk,ik->i", C, P, C)
        found = told_links(self.links_[self.links_["kind"] == "state"])
        rows, seconds = [], np.nan if self._row_time is None else self._row_time.total_seconds()
        for link in found.to_dict("records"):
            cause, effect = (self.state_slices_[link[end]] for end in ("cause", "effect"))
            is_graded = link["basis"] in MEASURED
            blocks = (self.server_.carried_ if is_graded else lags)[:, effect, cause]
            M = blocks[np.argmax(np.linalg.norm(blocks, axis=(1, 2)))]
            of_cause, of_effect = (np.flatnonzero(np.abs(C[:, at]).sum(axis=1)) for at in (cause, effect))
            gains = C[of_effect][:, effect] @ M @ P[cause, cause] @ C[of_cause][:, cause].T / variance[of_cause]
            scaled = gains * np.sqrt(variance[of_cause] / variance[of_effect][:, None])
            # all alike between units of one state: the first of those that tie up to rounding
            i, j = np.unravel_index(np.abs(scaled).round(9).argmax(), scaled.shape)
            tags = columns[of_cause[j]], columns[of_effect[i]]
            gain, delay = (gains[i, j], scaled[i, j]), link["lag" if is_graded else "delay"]
            rows.append((link["cause"], link["effect"], link["verdict"], *tags, *gain, delay, delay * seconds))
        return pd.DataFrame(rows, columns=list(_EFFECTS))

    @where_server("test_links")
    def test_links(self, X=None, method="lr", *, inputs=None, lengths=None):
        """Test every link between states given the others, by one of the three classical tests.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to learn the plant from, such as that of `fit`, of which an estimator keeps no series.
        method : {"lr", "wald", "score"}, default="lr"
            Likelihood ratio of the plants with and without the link; Wald test in the plant with it; score
            test in the plant without it. Large samples make them agree. A plant of several lags has "score"
            only, over all of them.
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
        with self._asking(X, inputs, lengths) as units:
            return undecided(self.server_.test_links(units.messages(), method), self._undecidable)

    @where_server("spectrum")
    def spectrum(self, cause, effect, *, conditional=True, n_frequencies=None, level=None):
        """Geweke's measure of the influence of one unit on another over frequency.

        Parameters
        ----------
        cause, effect : str
            Names of units.
        conditional : bool, default=True
            Given the measurements of all other units; False looks at the two units alone.
        n_frequencies : int, default=None
            None takes as many as the average over frequency needs to converge.
        level : float, default=None
            Coverage of intervals at each frequency by the delta method, columns ``low, high``; None gives
            none.

        Returns
        -------
        DataFrame
            Columns ``frequency``, in radians per time step up to pi, and ``measure``. ``attrs["total"]`` is
            the measure of the time domain, and ``attrs["averages_to_total"]`` says whether Geweke's root
            condition holds, so that the mean over frequency is the total.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(2, links=[("unit0", "unit1")], random_state=0)
        >>> spectrum = FederatedGrangerEstimator().fit(X).spectrum("unit0", "unit1")
        >>> bool(abs(spectrum["measure"].mean() - spectrum.attrs["total"]) < 1e-6)
        True
        """
        check_is_fitted(self)
        settings = {"conditional": conditional, "n_frequencies": n_frequencies, "level": level}
        return self.server_.spectrum(cause, effect, **settings)

    @where_server("link_intervals")
    def link_intervals(self, level=0.95, *, geweke=False):
        """Intervals of the strength of every link between states, and what would decide them.

        Parameters
        ----------
        level : float, default=0.95
            Coverage of each interval, not of all together.
        geweke : bool, default=False
            Also intervals of Geweke's measure: by the delta method on the scale of its root, and like the
            measure given the links in the model. Takes a few seconds for 30 units. Of plants of several lags, or of
            more than 32 units, they go with the square of the strength of the link, which alone is taken to be
            uncertain.

        Returns
        -------
        DataFrame
            One row per ordered pair: ``cause, effect, norm``; ``low, high``, the interval, `low` zero
            where no influence is compatible with the record; ``deciding_rows``, length of a record of this
            kind in which an influence of strength `margin` is told from none four times in five; with
            `geweke` also ``geweke, geweke_low, geweke_high``, the ends NaN where the plant has no way from
            cause to effect, so that the measure is exactly zero.
        """
        check_is_fitted(self)
        return self.server_.link_intervals(level, geweke=geweke)

    @where_server("benefit")
    def benefit(self, X=None, *, inputs=None, lengths=None, held_out=0.3, by="unit"):
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
        with self._asking(X, inputs, lengths) as units:
            found = self.server_.benefit(units.messages(), held_out=held_out)
        if by == "pair":
            return found.by_pair()
        table = self._with_bytes(found.by_unit())
        self._known_benefit = (self.transition_, table)
        return table

    def _with_bytes(self, table):
        """The table with what joining took in `fit`."""
        paid = self.communication_["per_client"]
        sent = {way: [paid[name][way] for name in table.index] for way in ("bytes_up", "bytes_down")}
        return table.assign(**sent)

    @property
    def benefit_(self):
        """Table by unit of the last call of :meth:`benefit` since `fit`, or of `fit` itself.

        `fit` makes it where the server holds rows out: ``LikelihoodServer(held_out=0.2)``.
        """
        check_is_fitted(self)
        transition, table = self._known_benefit
        if transition is self.transition_:
            return table
        table = getattr(self.server_, "benefit_", None)
        if table is None:
            raise AttributeError(
                "Nothing held-out was predicted: call benefit(X), or fit with server=LikelihoodServer(held_out=0.2)."
            )
        return self._with_bytes(table)

    @where_server("changed_links")
    def changed_links(self, X=None, *, inputs=None, lengths=None, alpha=0.05, false_alarm_rate=None):
        """Which links and units have changed since the fit: tested, dated, with gain and delay before and after.

        Every row is a test of "this has changed" against everything else being as it was learned. Both the noise of
        the new record and that of what was learned count. A change is supposed to hold from some row on to the end;
        what one change explains is not reported of other rows.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            New record of the units of `fit`, of 50 rows at least; a change shows after some hundred.
        inputs, lengths
            As in `fit`.
        alpha : float, default=0.05
            Chance of any false report in one call, over all rows of the table.
        false_alarm_rate : float or str, optional
            Of a watch, instead of `alpha`: false reports per row, or for instance ``"1 per week"`` for frames with a
            DatetimeIndex. A call about ``n`` rows is given as much of the budget as they take.

        Returns
        -------
        DataFrame
            One row per ordered pair of units, and one per unit (cause and effect are the same), those that changed
            first; a unit's own row comes behind the rows of pairs that explain it.

            ``changed`` is whether ``p_adjusted`` (family-wise) is at most the level. ``verdict`` is "lost" (less than
            a quarter of its gain is left), "weaker", "stronger", "delayed" (acts at another lag), "new", "unchanged",
            or "cannot tell" where nothing was found and the record is too short or too noisy to have shown the loss
            of the link, or a new one as strong as the plant's usual ones.
            ``gain_before`` and ``gain_after`` are strengths as in
            `links_`, ``delay_before`` and ``delay_after`` lags in rows. Of a unit's own row, gains are the size of
            what it does by itself, 1 in the record of the fit. ``since`` is the row the change dates from, by its
            label where X has an index.

        Notes
        -----
        The innovations ``w[t]`` of a unit, given the past of all and whitened, are regressed on what a change of its
        coefficients would add to them: of a link's gain, of its lag, of a block that the plant has not, of the unit's
        own dynamics, level and variance. With the information ``G`` of the new record and ``r G`` of that of the fit,
        ``r / (1 + r) s' G^-1 s`` of the score ``s`` is chi-squared where nothing has changed. The smallest p-value over
        hypotheses and starts is calibrated by innovations drawn anew from the record's own; rows share the level by
        Holm's rule: 0.6 of it for links of the plant, mostly for less gain, 0.3 for other pairs, 0.1 for units.

        A plant that misses something steady (a season, a nonlinearity) shows it here as a change.

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> import numpy as np
        >>> A = np.kron([[0.6, 0.0], [0.4, 0.6]], np.eye(2))
        >>> X, _ = make_granger_plant(2, transition=A, random_state=0)
        >>> est = FederatedGrangerEstimator().fit(X)
        >>> A[2:, :2] = 0.0
        >>> Y, _ = make_granger_plant(2, transition=A, n_samples=400, random_state=0)
        >>> table = est.changed_links(Y)
        >>> table.loc[table["changed"], ["cause", "effect", "verdict"]].to_string(index=False)
        'cause effect verdict\\nunit0  unit1    lost'
        """
        with self._asking(X, inputs, lengths) as units:
            level = level_of(alpha, false_alarm_rate, units.n_samples, units.index)
            table = self.server_.changed_links(units.messages(), level)
            return dated(settled(table, self._undecidable), units.index)

    @where_server("links_over_time")
    def links_over_time(self, X=None, *, inputs=None, lengths=None, piece=None):
        """Links in pieces of time: which stay the same along a record, and between which rows the others hold.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to look at, such as that of `fit`, of which an estimator keeps no series.
        inputs, lengths
            As in `fit`.
        piece : int, optional
            Rows of the pieces that are compared: a link changes between pieces, not within. None for an eighth of the
            record, 200 rows at least. Episodes are cut on their own, short rests join the piece before.

        Returns
        -------
        DataFrame
            One row per ordered pair of units and stretch of time in which its link is the same: ``cause, effect``;
            ``start`` and ``stop``, its first row and the one behind its last, by their labels where X has an index (of
            the last stretch the label of the last row); ``norm, stderr, p_value, verdict`` as in `links_`, of that
            stretch alone; ``changes``, whether the link has several stretches, which is where ``p_adjusted``, the
            family-wise p-value of "this link is the same in all pieces", is at most the server's ``alpha``.

        Raises
        ------
        ValueError
            For units whose sensors do not determine their states, or a record of one piece.

        Notes
        -----
        The plant with the links of the whole record is learned anew from every piece, in the same standardised states;
        a pair without a link is estimated from the scores there. For estimates ``b_k`` with covariances ``V_k``,
        ``sum_k (b_k - b)' V_k^-1 (b_k - b)`` around their weighted mean b is chi-squared where the link is the same in
        all of them [1]_. Of a link that is not, the stretches are those with the least misfit at a price of ``dof
        log(n_samples)`` for each change [2]_. All with one lag, also where the plant has several: links that act later
        show in what of the cause is still there.

        References
        ----------
        .. [1] Cochran (1954), The combination of estimates from different experiments, Biometrics 10(1).
        .. [2] Yao (1988), Estimating the number of change-points via Schwarz' criterion, Statistics & Probability
               Letters 6(3).

        Examples
        --------
        >>> import numpy as np
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> A = np.kron([[0.6, 0.0], [0.4, 0.6]], np.eye(2))
        >>> B = np.kron([[0.6, 0.0], [0.0, 0.6]], np.eye(2))
        >>> parts = [make_granger_plant(2, transition=a, n_samples=1000, random_state=0)[0] for a in (A, B)]
        >>> X = {name: np.vstack([part[name] for part in parts]) for name in parts[0]}
        >>> table = FederatedGrangerEstimator().fit(X, lengths=[1000, 1000]).links_over_time(X, lengths=[1000, 1000])
        >>> table[table["changes"]][["cause", "effect", "start", "stop", "verdict"]]
           cause effect  start  stop       verdict
        0  unit0  unit1      0  1000     influence
        1  unit0  unit1   1000  2000  no influence
        """
        with self._asking(X, inputs, lengths) as units:
            return labelled(self.server_.links_over_time(units.messages(), piece), units.index)

    def to_networkx(self, *, undecided=False):
        """The links as a graph of networkx (extra ``graph``).

        Parameters
        ----------
        undecided : bool, default=False
            Also the pairs with the verdicts "coupled", "cannot tell" and "shared driver".

        Returns
        -------
        networkx.MultiDiGraph
            One node per unit. One edge from cause to effect per influence, its key the `kind` and its
            attributes the other columns of `links_`; ``weight`` is the norm.

        Raises
        ------
        ImportError
            Without networkx.
        """
        check_is_fitted(self)
        networkx = import_optional("networkx", "graph", "A graph of the links")
        graph = networkx.MultiDiGraph()
        graph.add_nodes_from(self.client_names_)
        kept = ["influence", "coupled", "cannot tell", "shared driver"] if undecided else ["influence"]
        for link in self.links_.to_dict("records"):
            if link["verdict"] in kept:
                cause, effect, kind = (link.pop(key) for key in ("cause", "effect", "kind"))
                graph.add_edge(cause, effect, key=kind, weight=link["norm"], **link)
        return graph

    @where_server("bootstrap_links")
    def bootstrap_links(
        self,
        X=None,
        *,
        inputs=None,
        lengths=None,
        n_resamples=200,
        method="blocks",
        block_length=None,
        level=0.95,
        random_state=None,
        n_jobs=None,
    ):
        """How the estimates of links scatter over resampled records, as a check of their standard errors.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to learn the plant from, such as that of `fit`, NaN where missing.
        inputs, lengths
            As in `fit`.
        n_resamples : int, default=200
        method : {"blocks", "parametric"}, default="blocks"
            "blocks" draws blocks of the record with replacement, whatever its noise is like; "parametric"
            simulates records of the fitted plant with Gaussian noise.
        block_length : int or "episodes", default=None
            Rows of a block, or whole episodes. None takes four times the memory of the slowest state, at
            least the cube root of the number of rows.
        level : float, default=0.95
            Coverage of the intervals of Geweke's measure.
        random_state : int, RandomState instance or None, default=None
            None takes that of the estimator. The same numbers come for any `n_jobs`.
        n_jobs : int, default=None
            Resampled records that are fitted at the same time.

        Returns
        -------
        DataFrame
            One row per link: ``cause, effect, kind, norm``; ``stderr`` and ``p_value`` as in `links_`;
            ``bootstrap_stderr``, scatter of the estimates along the estimate; ``bootstrap_p_value``, share of
            records whose estimate is as far from what they were drawn from as the estimate is from zero;
            ``geweke, geweke_low, geweke_high``. ``attrs["not_converged"]`` counts refits that did not.

        Raises
        ------
        ValueError
            If the sensors of a unit do not determine its states, the record has fewer than ten blocks, or for
            an unknown method.

        Notes
        -----
        The server draws from messages, nothing else crosses. A block of a complete record enters by its
        lagged products [1]_, so that no transition is made up at its ends; one of a record with gaps becomes
        an episode of the exact likelihood. The plant is fitted again with the links it has; like all tests
        the results are conditional on them. p-values cannot be below ``1 / (n_resamples + 1)``.

        References
        ----------
        .. [1] Künsch (1989), The jackknife and the bootstrap for general stationary observations, Annals of
               Statistics 17(3).

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=2)
        >>> est = FederatedGrangerEstimator().fit(X)
        >>> table = est.bootstrap_links(X, n_resamples=50, random_state=0)
        >>> table.query("bootstrap_p_value < 0.05")[["cause", "effect"]].to_string(index=False)
        'cause effect\\nunit0  unit2'
        """
        drawing = {"n_resamples": n_resamples, "block_length": block_length, "n_jobs": n_jobs}
        return self._resampled(
            "bootstrap_links", (X, inputs, lengths), random_state, method=method, level=level, **drawing
        )

    @where_server("stable_links")
    def stable_links(
        self,
        X=None,
        *,
        inputs=None,
        lengths=None,
        n_resamples=50,
        threshold=0.75,
        block_length=None,
        random_state=None,
        n_jobs=None,
    ):
        """Links that the search finds in most halves of a record: stability selection.

        Parameters
        ----------
        X : list, dict, DataFrame or ndarray
            Record to learn the plant from, such as that of `fit`, NaN where missing.
        inputs, lengths
            As in `fit`.
        n_resamples : int, default=50
            Random divisions of the record's blocks into two halves.
        threshold : float, default=0.75
            Share of the halves from which on a link counts as stable, above 0.5.
        block_length, random_state, n_jobs
            As in :meth:`bootstrap_links`.

        Returns
        -------
        DataFrame
            ``cause, effect, kind``; ``share`` of the halves in which the search finds the link;
            ``stable``, whether that is at least the threshold. ``attrs["mean_selected"]`` is the number q of
            links found in a half on average, ``attrs["expected_false"]`` the bound ``q**2 / ((2 threshold -
            1) n_pairs)`` of Meinshausen and Bühlmann [1]_ on the expected number of stable links that are
            none.

        Raises
        ------
        ValueError
            If the sensors of a unit do not determine its states, the record has fewer than ten blocks, or the
            threshold is not above 0.5.

        Notes
        -----
        Both halves of a division are searched, as complementary pairs [2]_. The bound supposes that pairs
        without a link are exchangeable and found no more often than by guessing. Half a record finds weak
        links less often than the whole.

        References
        ----------
        .. [1] Meinshausen, Bühlmann (2010), Stability selection, Journal of the Royal Statistical Society B
               72(4).
        .. [2] Shah, Samworth (2013), Variable selection with error control: another look at stability
               selection, Journal of the Royal Statistical Society B 75(1).

        Examples
        --------
        >>> from skfedcausal import FederatedGrangerEstimator
        >>> from skfedcausal.datasets import make_granger_plant
        >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=2)
        >>> table = FederatedGrangerEstimator().fit(X).stable_links(X, n_resamples=10, random_state=0)
        >>> table.query("stable")[["cause", "effect"]].to_string(index=False)
        'cause effect\\nunit0  unit2'
        """
        drawing = {"n_resamples": n_resamples, "block_length": block_length, "n_jobs": n_jobs}
        return self._resampled("stable_links", (X, inputs, lengths), random_state, threshold=threshold, **drawing)

    def _resampled(self, question, record, random_state, **settings):
        """Ask the server with a seed, from the estimator's own random state where none is given."""
        chosen = self.random_state if random_state is None else random_state
        seed = int(check_random_state(chosen).randint(2**31 - 1))
        with self._asking(*record) as units:
            return getattr(self.server_, question)(units.messages(), random_state=seed, **settings)


# -- changes ---------------------------------------------------------------------------------------


def level_of(alpha, false_alarm_rate, n_samples, index):
    """Chance of any false report about a record, from itself or from a budget of reports over time."""
    if false_alarm_rate is None:
        if isinstance(alpha, bool) or not isinstance(alpha, Real) or not 0 < float(alpha) < 1:
            raise ValueError(f"Got alpha={alpha!r}; give the chance of any false report, between 0 and 1.")
        return float(alpha)
    is_number = isinstance(false_alarm_rate, Real) and not isinstance(false_alarm_rate, bool)
    if not (isinstance(false_alarm_rate, str) or (is_number and 0 < float(false_alarm_rate) < 1)):
        raise ValueError(
            f"Got false_alarm_rate={false_alarm_rate!r}; give false reports per row, between 0 and 1, or for instance "
            "'1 per week'."
        )
    return float(-np.expm1(-n_samples / steps_between_alarms(false_alarm_rate, sampling_period(index))))


def dated(table, index):
    """The table with labels of the record's rows for their numbers, where rows have labels."""
    if index is None:
        return table
    known = table["since"].notna()
    labels = pd.Series(index[table.loc[known, "since"].astype(int)], index=table.index[known])
    return table.assign(since=labels.reindex(table.index))


def labelled(table, index):
    """The table with labels of the record's rows for those between which something holds, the last one for its end."""
    if index is None:
        return table
    stops = table["stop"].to_numpy()
    return table.assign(start=index[table["start"].to_numpy()], stop=index[np.minimum(stops, len(index) - 1)])


def settled(table, undecidable):
    """The table in which nothing has changed that noise may hide."""
    if not undecidable:
        return table
    return table.assign(changed=False, verdict="cannot tell", p_value=1.0, p_adjusted=1.0, since=np.nan)


# -- links that added noise leaves undecided -------------------------------------------------------


def undecidable_units(server, noise, clients):
    """Units of which added noise may hide a state that matters.

    A direction of the sensors' covariance rises above white noise of a record of T rows and D sensors only
    if its signal-to-noise ratio exceeds ``sqrt(D / T)`` [1]_. A unit is obscured if a state with a tenth of
    the variance of its strongest one would stay below that.
    """
    if not noise or not hasattr(server, "unshrunk_transition_"):
        return ()
    lags = getattr(server, "lag_transitions_", ())
    lags = lags if len(lags) > 1 else server.unshrunk_transition_[None]
    states = state_covariance(lags, server.process_cov_)
    hidden = []
    for name, rows in server.state_slices_.items():
        client = clients.get(name)
        searched = client is None or (client.n_states == "auto" and client.C is None)
        if name in noise and searched:
            strongest = np.linalg.eigvals(server.information_[rows, rows] @ states[rows, rows]).real.max()
            if _SHARE * strongest < np.sqrt(len(noise[name]) / server.n_samples_):
                hidden.append(name)
    return tuple(hidden)


def state_covariance(lags, Q):
    """Stationary covariance of the states of a plant, (n, n), from its lags (p, n, n) and process covariance."""
    n = len(Q)
    noise = np.zeros((n * len(lags),) * 2)
    noise[:n, :n] = Q
    return stationary_covariance(companion(np.hstack(list(lags)), len(lags)), noise)[:n, :n]


def undecided(table, units):
    """Table of links in which no test rejects, since noise may hide states of `units`."""
    if not units:
        return table
    tests = {column: 1.0 for column in _TESTS if column in table}
    verdict = {"verdict": "cannot tell"} if "verdict" in table else {}
    return table.assign(**tests, **verdict)


def warn_undecidable(units):
    """Say that no link can be told, and what would help."""
    if units:
        warnings.warn(
            f"The noise on {listed(units)} may hide a state with a tenth of the variance of the strongest. It could "
            "drive both ends of any link: no test is valid, and every link is undecided. Use a larger epsilon, a "
            "smaller event_radius or a longer record.",
            UtilityWarning,
            stacklevel=6,
        )
