"""What is asked of the links of a fitted plant, and which of them added noise leaves undecided."""

from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..callers import warn
from ..containers.layout import listed
from ..given import Inputs, Lengths, Record
from ..privacy.errors import UtilityWarning
from ..statespace.matrices import companion
from ..statespace.riccati import stationary_covariance
from ._base import FederatedEstimator, where_server
from .tuning import TUNING

_TESTS = ("p_value", "p_adjusted", "p_holm", "p_fdr")


class LinkQuestions(FederatedEstimator):
    """Base of the estimators whose server learns links: what is asked of these."""

    links_: pd.DataFrame
    _undecidable: tuple = ()  # units of which added noise may hide states
    _known_benefit: Any = None, None  # plant that the last call of `benefit` was about, and its table

    @property
    def validity_(self) -> pd.DataFrame:
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

    @where_server("test_links")
    def test_links(
        self, X: Record | None = None, method: str = "lr", *, inputs: Inputs = None, lengths: Lengths = None
    ) -> pd.DataFrame:
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

    @property
    def benefit_(self) -> pd.DataFrame | None:
        """Table by unit of the last call of :func:`~skfedcausal.inspection.benefit` since `fit`, or of `fit` itself.

        `fit` makes it where the server holds rows out: ``LikelihoodServer(options=LikelihoodOptions(held_out=0.2))``.
        """
        check_is_fitted(self)
        transition, table = self._known_benefit
        if transition is self.transition_:
            return table
        table = getattr(self.server_, "benefit_", None)
        if table is None:
            raise AttributeError(
                "Nothing held-out was predicted: call inspection.benefit(est, X), or fit with "
                "server=LikelihoodServer(options=LikelihoodOptions(held_out=0.2))."
            )
        return self._with_bytes(table)

    def _with_bytes(self, table):
        """The table with what joining took in `fit`."""
        paid = self.communication_["per_client"]
        sent = {way: [paid[name][way] for name in table.index] for way in ("bytes_up", "bytes_down")}
        return table.assign(**sent)

    def _keep_benefit(self, table):
        """The table with what joining took, which is the last one about this plant."""
        self._known_benefit = (self.transition_, self._with_bytes(table))
        return self._known_benefit[1]


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
            if TUNING.link_questions_share * strongest < np.sqrt(len(noise[name]) / server.n_samples_):
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
        warn(
            f"The noise on {listed(units)} may hide a state with a tenth of the variance of the strongest. It could "
            "drive both ends of any link: no test is valid, and every link is undecided. Use a larger epsilon, a "
            "smaller event_radius or a longer record.",
            UtilityWarning,
        )
