"""What a fitted plant answers about its links."""

import warnings
from numbers import Integral
from types import SimpleNamespace

import pandas as pd
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ...statespace.geweke import geweke_spectrum
from ..estimation.blocktests import input_estimates
from ..estimation.estimate import estimated_links, fitted_likelihood
from ..estimation.standardised import StandardisedPlant
from ..estimation.unit_states import in_unit_states, unit_state_roots
from .benefit import Benefit, split_messages
from .bootstrap import METHODS as BOOTSTRAPS
from .bootstrap import Resampling, bootstrap_table, stability_table
from .geweke_intervals import measure_intervals, spectrum_intervals
from .intervals import intervals_table
from .lags import CRITERIA, best_order, by_lag_table, delays_table, fit_lags, order_table, without_shifts
from .tests import METHODS, pair_statistics, tests_table


def _check_number(number, name, least=1):
    if not isinstance(number, Integral) or number < least:
        raise ValueError(f"Got {name}={number!r}; give a whole number, at least {least}.")


def _check_level(level):
    if not 0 < level < 1:
        raise ValueError(f"Got level={level}; a coverage lies between 0 and 1.")


class LinkQuestions:
    """Questions to a server that has learned the links; part of :class:`LikelihoodServer`."""

    def link_intervals(self, level=0.95, *, geweke=False):
        """Intervals of the strength of every link between states, and what would decide them."""
        _check_level(level)
        table = intervals_table(
            self.names_,
            self.partition_.pairs,
            self._blocks,
            self.n_samples_,
            level=level,
            alpha=self.alpha,
            margin=self.margin,
        )
        if geweke:
            effect, cause = self.partition_.pairs.T
            found = measure_intervals(self._parameters, self.information_, self.partition_, level)
            for name, values in zip(("geweke", "geweke_low", "geweke_high"), found, strict=True):
                table[name] = values[effect, cause]
        return table

    def benefit(self, messages, *, held_out=0.3):
        """What every unit gains from the plant, on rows that nothing was learned from."""
        if self.partition_.n_inputs:
            raise ValueError("The benefit of joining is computed for plants without inputs.")
        head, tail = split_messages(messages, held_out)

        def learn(known):
            return clone(self).set_params(held_out=None).fit(known)

        return Benefit(learn(head), lambda name: learn({name: head[name]}), tail)

    def test_links(self, messages, method="lr"):
        """Test every link between states given the others, by one of the three classical tests."""
        if method not in METHODS:
            raise ValueError(f"method={method!r}; choose {', '.join(map(repr, METHODS))}.")
        if method == "lr" and self.covariance != "information":
            raise ValueError(
                f"Got method='lr' with covariance={self.covariance!r}: a likelihood ratio is chi-squared "
                "only under Gaussian noise of constant variance. Choose 'wald' or 'score', which take the "
                "covariance into account."
            )
        plant = clone(self).set_params(held_out=None).fit(messages)
        settings = self._likelihood_settings(messages)
        objective, scoring, standardised = fitted_likelihood(plant._record(messages), **settings)

        def estimates(scoring):
            return estimated_links(standardised, scoring, self.covariance)

        return tests_table(plant.names_, scoring, pair_statistics(objective, scoring, method, estimates))

    def lag_orders(self, messages, max_lags=5, *, held_out=0.3):
        """How many lags of the states a record asks for."""
        _check_number(max_lags, "max_lags")
        settings = self._lag_settings()
        parts = split_messages(messages, held_out)
        records = [without_shifts(self._record(part)) for part in (messages, *parts)]
        return order_table(*records, max_lags, **settings)

    def lagged_links(self, messages, n_lags="aic", *, max_lags=5, by="pair"):
        """Links that act after several time steps, and their delays."""
        if by not in ("pair", "lag"):
            raise ValueError(f"by={by!r}; choose 'pair' or 'lag'.")
        if isinstance(n_lags, str):
            if n_lags not in CRITERIA:
                raise ValueError(f"n_lags={n_lags!r}; give a number or {', '.join(map(repr, CRITERIA))}.")
            n_lags = best_order(self.lag_orders(messages, max_lags), n_lags)
        _check_number(n_lags, "n_lags")
        fit = fit_lags(without_shifts(self._record(messages)), n_lags, **self._lag_settings())
        if not fit.converged:
            warnings.warn(
                f"The likelihood of the plant of {n_lags} lags did not converge; increase max_iter.",
                ConvergenceWarning,
                stacklevel=2,
            )
        if by == "pair":
            table = delays_table(self.names_, fit, alpha=self.alpha, margin=self.margin)
        else:
            table = by_lag_table(self.names_, fit)
        table.attrs["n_lags"] = n_lags
        return table

    def bootstrap_links(
        self,
        messages,
        *,
        n_resamples=200,
        method="blocks",
        block_length=None,
        level=0.95,
        random_state=None,
        n_jobs=None,
    ):
        """How the estimates of links scatter over resampled records, as a check of their standard errors."""
        if method not in BOOTSTRAPS:
            raise ValueError(f"method={method!r}; choose {', '.join(map(repr, BOOTSTRAPS))}.")
        _check_level(level)
        _check_number(n_resamples, "n_resamples", 2)
        _, scoring, plant = fitted_likelihood(self._record(messages), **self._likelihood_settings(messages))
        resampling = Resampling(plant, scoring.point, block_length)
        if method == "blocks":
            resampling.require_blocks()
        roots, partition = unit_state_roots(plant, scoring.point), plant.partition
        families = [("state", partition, estimated_links(plant, scoring, self.covariance))]
        if partition.n_inputs:
            pairs = partition.input_pairs
            blocks = in_unit_states(input_estimates(scoring), pairs, roots, causes=False)
            families.append(("input", pairs, blocks))
        return bootstrap_table(
            self.names_,
            resampling,
            scoring,
            families,
            roots,
            method=method,
            n_resamples=n_resamples,
            random_state=random_state,
            n_jobs=n_jobs,
            level=level,
        )

    def stable_links(
        self,
        messages,
        *,
        n_resamples=50,
        threshold=0.75,
        block_length=None,
        random_state=None,
        n_jobs=None,
    ):
        """Links that the search finds in most halves of a record: stability selection."""
        if not 0.5 < threshold <= 1:
            raise ValueError(f"Got threshold={threshold}; give a share above 0.5, at most 1.")
        _check_number(n_resamples, "n_resamples", 1)
        plant = StandardisedPlant(self._record(messages))
        point = SimpleNamespace(A=plant.uncoupled[0], Q=plant.uncoupled[1])
        resampling = Resampling(plant, point, block_length)
        resampling.require_blocks()
        return stability_table(
            self.names_,
            resampling,
            plant,
            n_resamples=n_resamples,
            alpha=self.alpha,
            threshold=threshold,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    def _lag_settings(self):
        return {name: getattr(self, name) for name in ("sparsity", "alpha", "max_iter", "tol")}

    def spectrum(self, cause, effect, *, conditional=True, n_frequencies=None, level=None):
        """Geweke's measure of the influence of one unit on another over frequency."""
        for name in (cause, effect):
            if name not in self.names_:
                raise ValueError(f"There is no unit {name!r}; the units are {', '.join(self.names_)}.")
        if cause == effect:
            raise ValueError(f"Cause and effect are both {cause!r}; give two units.")
        found = geweke_spectrum(
            self.unshrunk_transition_,
            self.process_cov_,
            self.information_,
            self.partition_,
            self.names_.index(effect),
            self.names_.index(cause),
            conditional=conditional,
            n_frequencies=n_frequencies,
        )
        table = pd.DataFrame({"frequency": found.frequency, "measure": found.measure})
        if level is not None:
            _check_level(level)
            pair = self.names_.index(effect), self.names_.index(cause)
            known = self._parameters, self.information_, self.partition_
            table["low"], table["high"] = spectrum_intervals(*known, pair, found, conditional, level)
        table.attrs = {"total": found.total, "averages_to_total": found.has_roots_inside}
        return table
