"""What the estimators of plants share once fitted: predictions, states, likelihoods, the oracle."""

from dataclasses import replace
from numbers import Integral

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..server.likelihood import LikelihoodServer
from ._base import FederatedEstimator
from ._link_answers import LinkAnswers
from ._link_checks import LinkChecks
from ._sites import LearningFromSites
from ._undecidable import obscured_units, undecided, warn_obscured

_MODELS = ("augmented", "client", "server")


class FederatedPlantModel(LinkAnswers, LinkChecks, LearningFromSites, FederatedEstimator):
    """Base of the estimators whose server learns a linear plant; use a subclass."""

    def _new_server(self, default=None):
        server = super()._new_server(default)
        if not getattr(server, "tests_links", True):
            raise ValueError(
                f"{type(server).__name__} learns a plant for FederatedRCADetector, with no tests of links or "
                f"effects of inputs; {type(self).__name__} needs a LikelihoodServer or a GradientServer."
            )
        return server

    def _store_fit(self, server):
        self.client_names_ = server.names_
        self.transition_ = server.transition_
        self.process_cov_ = server.process_cov_
        self.state_slices_ = server.state_slices_
        self._obscured = obscured_units(server, self.noise_covariance_, self.clients_)
        warn_obscured(self._obscured)
        self.links_ = undecided(server.links_, self._obscured)

    @available_if(lambda self: self._has_server_method("spectrum"))
    def spectrum(self, cause, effect, *, conditional=True, n_frequencies=None, level=None):
        """Geweke's measure of the influence of one unit on another over frequency."""
        check_is_fitted(self)
        settings = {"conditional": conditional, "n_frequencies": n_frequencies, "level": level}
        return self.server_.spectrum(cause, effect, **settings)

    @available_if(lambda self: self._has_server_method("link_intervals"))
    def link_intervals(self, level=0.95, *, geweke=False):
        """Intervals of the strength of every link between states, and what would decide them."""
        check_is_fitted(self)
        return self.server_.link_intervals(level, geweke=geweke)

    def _has_server_method(self, name):
        return hasattr(LikelihoodServer if self.server is None else self.server, name)

    def predict(self, X, *, inputs=None, lengths=None, model="augmented"):
        """Measurements of all units predicted one step ahead, shape (n_samples, n_outputs)."""
        if model not in _MODELS:
            raise ValueError(f"model={model!r}; choose 'augmented', 'client' or 'server'.")
        data = self._read(X, inputs, lengths)
        blocks = self._predict_blocks(data, model)
        positions, columns = output_places(data.layout)
        return self._table(blocks, positions, columns, data.index)

    def forecast(self, X, start, *, inputs=None):
        """Measurements from a row on, given those before it and the inputs of all rows: a free run.

        The server's filter goes on without measurements: many steps ahead, under inputs that are known.
        """
        data = self._read(X, inputs)
        if not isinstance(start, Integral) or isinstance(start, bool) or not 0 < start < data.n_samples:
            raise ValueError(
                f"Got start={start!r} for {data.n_samples} rows; give the position of the first row to be "
                f"forecast, 1 to {data.n_samples - 1}."
            )
        later = np.arange(data.n_samples)[:, None] >= start
        data = replace(data, outputs=tuple(np.where(later, np.nan, Y) for Y in data.outputs))
        blocks = [block[start:] for block in self._predict_blocks(data, "server")]
        index = None if data.index is None else data.index[start:]
        return self._table(blocks, *output_places(data.layout), index)

    def transform(self, X, *, inputs=None, lengths=None):
        """Filtered states of the whole plant, given the messages up to each step, shape (n_samples, n)."""
        data = self._read(X, inputs, lengths)
        return self.server_.filter(self._messages(data)).filtered

    def get_feature_names_out(self, input_features=None):
        """Names of the states, ``unit__state0, unit__state1, ...``, shape (n,)."""
        check_is_fitted(self)
        return np.array(
            [
                f"{name}__state{k}"
                for name, rows in self.state_slices_.items()
                for k in range(rows.stop - rows.start)
            ],
            dtype=object,
        )

    def score_samples(self, X, *, inputs=None, lengths=None):
        """Log-density of all measurements at each time step given the past, shape (n_samples,)."""
        data = self._read(X, inputs, lengths)
        return self.server_.filter(self._messages(data, const=True)).log_likelihood()

    def score(self, X, y=None, *, inputs=None, lengths=None):
        """Mean of :meth:`score_samples`."""
        return float(self.score_samples(X, inputs=inputs, lengths=lengths).mean())

    def oracle(self, X, *, inputs=None, lengths=None):
        """The same estimator fitted by a central machine that holds all raw measurements.

        Only for data that may be pooled: a check of what the federation costs.
        """
        check_is_fitted(self)
        return self._oracle(self._read(X, inputs, lengths))

    def oracle_gap(self, X, *, inputs=None, lengths=None):
        """Relative distance of the plant matrices to the oracle's, in Frobenius norm.

        Rounding error. On a nearly degenerate plant (``server_.has_prior_``) messages in single or half
        precision can lead to other links.
        """
        oracle = self.oracle(X, inputs=inputs, lengths=lengths)
        own, central = (estimator._plant_matrix() for estimator in (self, oracle))
        return float(np.linalg.norm(own - central) / np.linalg.norm(central))

    def report(self, path, *, title="Which unit drives which"):
        """Write a page for people who were not there: links, doubts, what data left the units."""
        check_is_fitted(self)
        from ..reports import plant_page  # matplotlib is optional

        return plant_page(self, title).write(path)

    def _plant_matrix(self):
        """Everything that acts on the states."""
        return self.transition_


def output_places(layout):
    """Positions of each unit's sensors in a table without the inputs, and the names of its columns."""
    rank = {position: k for k, position in enumerate(sorted(sum(layout.output_positions, ())))}
    positions = [[rank[position] for position in unit] for unit in layout.output_positions]
    columns = [None] * len(rank)
    for unit, names in zip(positions, layout.outputs, strict=True):
        for k, name in zip(unit, names, strict=True):
            columns[k] = name
    return positions, columns
