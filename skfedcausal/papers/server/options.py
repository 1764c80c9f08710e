"""Step sizes of gradient training and when it ends."""

from collections.abc import Callable
from dataclasses import dataclass

from ...parameters import AT_LEAST_ONE, FROM_ZERO, POSITIVE, Grouped, ParameterGroup


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Rates(ParameterGroup):
    """Weight and step sizes of the losses of a :class:`~skfedcausal.papers.GradientServer`, named as in the papers.

    Parameters
    ----------
    client_weight : float, default=1.0
        Weight of the client loss against the server's, eta1 / eta2, unless both are given.
    eta1, eta2 : float, default=None
        Step sizes of ``theta`` along the client loss and along the server loss. None takes the largest that
        are sure to converge given the curvature (a twentieth of it step by step).
    gamma : float, default=None
        Step size of the blocks ``A_mn``. None as above.
    gamma1, gamma2 : float, default=None
        Step sizes of the constant ``phi_m`` of [2]_, for plants with inputs.
    alpha_A, alpha_B : float, default=None
        Step sizes of ``A_mn`` (in place of `gamma`) and ``B_mn`` of [2]_, for plants with inputs.

    References
    ----------
    .. [2] Mohamed, Mohanty, Gebraeel, Federated Causal Representation Learning in State-Space Systems for
           Decentralized Counterfactual Reasoning.

    Examples
    --------
    >>> from skfedcausal import GradientServer
    >>> from skfedcausal.papers.server.options import Rates
    >>> GradientServer(rates=Rates(eta1=0.1)).set_params(rates__eta2=0.2).rates
    Rates(eta1=0.1, eta2=0.2)
    """

    client_weight: float = 1.0
    eta1: float | None = None
    eta2: float | None = None
    gamma: float | None = None
    gamma1: float | None = None
    gamma2: float | None = None
    alpha_A: float | None = None
    alpha_B: float | None = None

    _parameter_constraints = {
        "client_weight": [FROM_ZERO],
        **{name: [FROM_ZERO, None] for name in ("eta1", "eta2", "gamma1", "gamma2")},
        **{name: [POSITIVE, None] for name in ("gamma", "alpha_A", "alpha_B")},
    }


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class StopRule(ParameterGroup):
    """When the training of a :class:`~skfedcausal.papers.GradientServer` ends.

    Parameters
    ----------
    max_iter : int, default=None
        Rounds, or passes over the record for ``update="online"``. None stands for 3000 rounds, 2 passes.
    tol : float, default=1e-9
        Stop when no parameter moves by more than this share of the largest in a round; step by step, when
        blocks and losses change by less than this from one pass to the next.
    loss_tol : float, default=None
        Stop once ``L_s``, penalty included, is at or below this number, in the scale of the states: the stop
        rule that the papers print. None: only by `tol`, `max_iter` and `callback`.
    callback : callable, default=None
        Called after every round with its number and a dict of the losses by unit, ``client`` and ``server``;
        training stops when it returns True.

    Examples
    --------
    >>> from skfedcausal import GradientServer
    >>> from skfedcausal.papers.server.options import StopRule
    >>> GradientServer(stop=StopRule(max_iter=100)).max_iter
    100
    """

    max_iter: int | None = None
    tol: float = 1e-9
    loss_tol: float | None = None
    callback: Callable | None = None

    _parameter_constraints = {
        "max_iter": [AT_LEAST_ONE, None],
        "tol": [FROM_ZERO],
        "loss_tol": [FROM_ZERO, None],
        "callback": [callable, None],
    }


class Trained(Grouped):
    """Mixin of who takes :class:`Rates` and a :class:`StopRule`, with these as attributes."""

    client_weight: float
    max_iter: int | None
    tol: float
    loss_tol: float | None
    callback: Callable | None
