"""How links scatter, and which are found again, over resampled records."""

from typing import TYPE_CHECKING, Any

import pandas as pd

from ..given import Inputs, Lengths, Record
from ..seeding import generator_of
from ..server.links import answers
from ._asked import answering

if TYPE_CHECKING:
    from ..estimators._plant import PlantEstimator


def bootstrap_links(
    est: "PlantEstimator",
    X: Record | None = None,
    *,
    inputs: Inputs = None,
    lengths: Lengths = None,
    n_resamples: int = 200,
    method: str = "blocks",
    block_length: int | str | None = None,
    confidence: float = 0.95,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """How the estimates of links scatter over resampled records, as a check of their standard errors.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
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
    confidence : float, default=0.95
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
    >>> from skfedcausal.inspection import bootstrap_links
    >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=2)
    >>> est = FederatedGrangerEstimator().fit(X)
    >>> table = bootstrap_links(est, X, n_resamples=50, random_state=0)
    >>> table.query("bootstrap_p_value < 0.05")[["cause", "effect"]].to_string(index=False)
    'cause effect\\nunit0  unit2'
    """
    drawing = {"n_resamples": n_resamples, "block_length": block_length, "n_jobs": n_jobs}
    how = {"method": method, "confidence": confidence}
    return _resampled(est, "bootstrap_links", (X, inputs, lengths), random_state, **how, **drawing)


def stable_links(
    est: "PlantEstimator",
    X: Record | None = None,
    *,
    inputs: Inputs = None,
    lengths: Lengths = None,
    n_resamples: int = 50,
    threshold: float = 0.75,
    block_length: int | str | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> pd.DataFrame:
    """Links that the search finds in most halves of a record: stability selection.

    Parameters
    ----------
    est : FederatedGrangerEstimator or FederatedCounterfactualEstimator
        Fitted.
    X : list, dict, DataFrame or ndarray
        Record to learn the plant from, such as that of `fit`, NaN where missing.
    inputs, lengths
        As in `fit`.
    n_resamples : int, default=50
        Random divisions of the record's blocks into two halves.
    threshold : float, default=0.75
        Share of the halves from which on a link counts as stable, above 0.5.
    block_length, random_state, n_jobs
        As in :func:`bootstrap_links`.

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
    >>> from skfedcausal.inspection import stable_links
    >>> X, _ = make_granger_plant(3, links=[("unit0", "unit2")], random_state=2)
    >>> table = stable_links(FederatedGrangerEstimator().fit(X), X, n_resamples=10, random_state=0)
    >>> table.query("stable")[["cause", "effect"]].to_string(index=False)
    'cause effect\\nunit0  unit2'
    """
    drawing = {"n_resamples": n_resamples, "block_length": block_length, "n_jobs": n_jobs}
    return _resampled(est, "stable_links", (X, inputs, lengths), random_state, threshold=threshold, **drawing)


def _resampled(est, question, record, random_state, **settings):
    """Ask the server with a seed, from the estimator's own random state where none is given."""
    server = answering(est, question, "test_links")
    chosen = est.random_state if random_state is None else random_state
    seed = int(generator_of(chosen, question).randint(2**31 - 1))
    with est.asked_.about(*record) as units:
        return getattr(answers, question)(server, units.messages(), random_state=seed, **settings)
