"""What a plant is learned with beside the tests of its links: what is known beforehand, and how it is searched."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import Interval, StrOptions

from ..parameters import ParameterGroup


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Knowledge(ParameterGroup):
    """What is known of the links of a plant before it is learned.

    Parameters
    ----------
    forbidden, required : str, list, DataFrame or networkx.DiGraph, optional
        Links between states that are impossible, and that are certain: words such as ``"unit0 -> unit1"``, pairs
        (cause, effect), a table with columns ``cause`` and ``effect``, or a graph. A forbidden link is zero in every
        matrix and has the verdict "no influence"; a required one is never searched for nor dropped, and has the
        verdict "influence", whatever its p-value is.
    delays : dict, DataFrame or networkx.DiGraph, optional
        Rows after which a link may act, ``{"unit0 -> unit1": 3}`` or several of them, a table or edges with a
        ``delay``. At other lags it is zero; where one row is not among them a plant of several lags is learned.

    Examples
    --------
    >>> from skfedcausal import Knowledge, LikelihoodServer
    >>> LikelihoodServer(knowledge=Knowledge(forbidden="mill -> kiln"))
    LikelihoodServer(knowledge=Knowledge(forbidden='mill -> kiln'))
    """

    forbidden: Any = None
    required: Any = None
    delays: Any = None

    _parameter_constraints = dict.fromkeys(("forbidden", "required", "delays"), "no_validation")  # many forms


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class LikelihoodOptions(ParameterGroup):
    """How a :class:`~skfedcausal.LikelihoodServer` searches for links, asks units again and climbs.

    Parameters
    ----------
    fix_local : bool, default=False
        Keep the diagonal blocks at the units' own transition matrices (assumption 4.4 of [1]_) instead of
        re-estimating them, and how their inputs act on themselves where they know it. The units then send
        them along.
    sparsity : {"fdr", None}, default="fdr"
        "fdr" searches for links and for noise that units share with false discovery control and estimates
        only those; None estimates every block of both (plain maximum likelihood, no selection, no shrinkage).
    level_shifts : {"auto", None}, default="auto"
        "auto" looks for shifts of the operating point within an episode that nobody announced, which would
        otherwise be taken for links, and gives every unit that shifted a term of its own; None takes every
        unit's level as constant.
    margin : float, default=0.1
        Strength below which an influence counts as none in the verdicts.
    held_out : float, default=None
        Share of every episode, its last part, on which `fit` also measures what every unit gains from joining
        (`benefit_`): the plant, and every unit alone, are learned once more from the rest. For plants
        without inputs. None does not measure it.
    n_rounds : int or "auto", default=1
        Rounds of messages, beside the few sensors that units share. In every round after the first the units get their
        smoothed states back, re-estimate their sensors (loadings, noise, level) locally and send their message again:
        together with the server's fit this is expectation maximisation of the whole model, nothing pooled, and every
        message leaves once more. "auto" asks the units of which an autoregression of their own measurements is
        likelier than their model, as long as the likelihood of the record gains from another round, at most 30 times.
        It is one round over links that go one way, for plants with inputs, with measurements missing, and under
        privacy.
    horizon : int, default=50
        Steps ahead up to which forecasts under the recorded inputs choose how much counts as sensor noise in
        units with as many states as sensors, whose measurements alone do not tell; at most a tenth of the
        longest episode. 1 leaves it as small as the units suppose. Plants of up to 64 units with inputs and
        complete records only.
    max_iter : int, default=300
        Iterations of the final climb.
    tol : float, default=1e-10
        Length of the gradient of the log-likelihood per time step, in the metric of its curvature, at which
        the climb has converged: the distance to the maximum in standard errors of a single time step.

    References
    ----------
    .. [1] Mohanty, Mohamed, Ramanan, Gebraeel, Federated Granger Causality Learning for Interdependent
           Clients with State Space Representation.

    Examples
    --------
    >>> from skfedcausal import LikelihoodOptions, LikelihoodServer
    >>> LikelihoodServer(options=LikelihoodOptions(n_rounds="auto")).set_params(options__sparsity=None).options
    LikelihoodOptions(n_rounds='auto', sparsity=None)
    """

    fix_local: bool = False
    sparsity: str | None = "fdr"
    level_shifts: str | None = "auto"
    margin: float = 0.1
    held_out: float | None = None
    n_rounds: Any = 1  # or "auto"
    horizon: int = 50
    max_iter: int = 300
    tol: float = 1e-10

    _parameter_constraints = {
        "fix_local": ["boolean"],
        "sparsity": [StrOptions({"fdr"}), None],
        "level_shifts": [StrOptions({"auto"}), None],
        "margin": [Interval(Real, 0, None, closed="neither")],
        "held_out": [Interval(Real, 0, 1, closed="neither"), None],
        "n_rounds": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "horizon": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }
