"""Checks of a plant's links by resampled records."""

from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted


class LinkChecks:
    """Checks of links on resampled records; part of the estimators of plants."""

    @available_if(lambda self: self._has_server_method("bootstrap_links"))
    def bootstrap_links(
        self,
        X,
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

        The server draws from messages, nothing else crosses. A block of a complete record enters by its
        lagged products [1]_, so that no transition is made up at its ends; one of a record with gaps becomes
        an episode of the exact likelihood. The plant is fitted again with the links it has; like all tests
        the results are conditional on them. p-values cannot be below ``1 / (n_resamples + 1)``.
        """
        return self._resampled(
            "bootstrap_links",
            (X, inputs, lengths),
            n_resamples=n_resamples,
            method=method,
            block_length=block_length,
            level=level,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    @available_if(lambda self: self._has_server_method("stable_links"))
    def stable_links(
        self,
        X,
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

        Both halves of a division are searched, as complementary pairs [2]_. The bound supposes that pairs
        without a link are exchangeable and found no more often than by guessing. Half a record finds weak
        links less often than the whole.
        """
        return self._resampled(
            "stable_links",
            (X, inputs, lengths),
            n_resamples=n_resamples,
            threshold=threshold,
            block_length=block_length,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    def _resampled(self, question, record, *, random_state, **settings):
        """Ask the server with a seed."""
        check_is_fitted(self)
        chosen = self.random_state if random_state is None else random_state
        seed = int(check_random_state(chosen).randint(2**31 - 1))
        messages = self._messages(self._read(*record))
        return getattr(self.server_, question)(messages, random_state=seed, **settings)
