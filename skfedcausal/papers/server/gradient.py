"""The papers' server: block rows of the transition matrix by gradient descent, how sure they are, what they answer."""

from collections.abc import Generator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import block_diag
from scipy.stats import chi2, f
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from ...arguments import check_confidence, warn
from ...bases import AT_LEAST_ONE, FROM_ZERO, BaseEstimator, Versioned
from ...message.requests import Acknowledgement, Ask
from ...message.states import EffectReply, SmoothedReply, StateMessage
from ...message.training import (
    ANSWERS,
    Influences,
    InfluencesRequest,
    LocalModel,
    TrainingEnd,
    TrainRequest,
    later_answer,
)
from ...server.dynamics import InputDrive, OperatingPoint, PlantFilter
from ...server.dynamics import Plant as LearnedPlant
from ...server.effects import ErrorsOfOneLag
from ...server.estimation.evidence import PADDED_VARIANCE, BlockEstimates, holm
from ...server.joint import JointRecord
from ...server.links.grades import TOLD, are_gradable, grades, with_grades
from ...server.links.tables import COLUMNS, intervals_table
from ...server.plant import smoothed_replies
from ...statespace.geweke import geweke_measures
from ...statespace.inputs import input_response
from ...statespace.kalman import NotStationaryError, predicted_covariance, stationary_covariance
from ...statespace.matrices import Partition, spectral_radius
from ..numerics.descent import ENOUGH_ROWS, covariance
from . import rounds
from .rounds import VARIANTS, Plant, Rates, StopRule, Trained, Training, choose_sizes, load

# Answers of a plant that was learned by gradient training: predictions, and a table of untested links.


class _AnyPlantFilter(PlantFilter):
    """Filter that starts a plant without stationary covariance at its steady prediction error, as units do.

    Units that nothing joins start each on its own.
    """

    def _first_covariance(self):
        slices = self.record.partition.slices
        joined = self.A[~self.record.partition.block_diagonal].any()
        groups = [slice(None)] if joined else slices
        information = self.record.block_diagonal([part.patterns[0] for part in self.record.parts])
        parts = [(self.A[rows, rows], self.Q[rows, rows], information[rows, rows]) for rows in groups]
        return block_diag(*[_stationary(A, Q, partial(predicted_covariance, A, J, Q)) for A, Q, J in parts])


def _stationary(A, Q, otherwise):
    """Stationary covariance of the states, (n, n), or what is taken otherwise."""
    try:
        return stationary_covariance(A, Q)
    except NotStationaryError:
        return otherwise()


class ServerPrediction(_AnyPlantFilter):
    """States that the units filter alone, predicted by the server from all units' states.

    The log-likelihood is that of the Kalman filter of the learned plant: a prediction from states that were
    filtered apart has no density of its own. `own` holds the diagonal blocks, as the units' models do.
    """

    def __init__(self, A, own, Q, record, drive=None, own_drive=None):
        super().__init__(A, Q, record, drive)
        self._units = _AnyPlantFilter(own, Q, record, own_drive)

    @property
    def filtered(self):
        """``h_hat_c[t]`` of all units, shape (n_samples, n)."""
        return self._units.filtered

    @property
    def predicted(self):
        """``h_s[t] = A h_hat_c[t-1] + B u[t-1]``, zero in an episode's first row; shape (n_samples, n)."""
        carried, exogenous = self.carried(self.A), self._exogenous
        return carried if exogenous is None else carried + exogenous


def unit_scales(plant, A, B, Q):
    """Matrices (n, n) and (n + k, n + k) that take ``[A, B]`` to states and inputs of unit variance, by both sides."""
    scaled = B * plant.inputs[2]
    roots = _state_scales(plant.states, A, Q + scaled @ scaled.T)
    left = block_diag(*(np.linalg.inv(root) for root in roots))
    return left, block_diag(*roots, np.diag(plant.inputs[2]))


def untested_links(plant, A, B, Q, information):
    """Table of all ordered pairs without evidence, of a plant A (n, n), B (n, k), Q (n, n).

    Geweke's measure is NaN for inputs and unstable plants.
    """
    partition, n_units = plant.states, len(plant.names)
    geweke = np.full((n_units, n_units), np.nan)
    if np.abs(np.linalg.eigvals(A)).max() < 1:
        geweke = geweke_measures(A, Q, information, partition)
    scaled = B * plant.inputs[2]
    roots = _state_scales(partition, A, Q + scaled @ scaled.T)
    slices, names = partition.slices, plant.names
    rows = []
    for effect, cause in partition.pairs:
        block = A[slices[effect], slices[cause]] @ roots[cause]
        rows.append((names[cause], names[effect], "state", _size(roots[effect], block), geweke[effect, cause]))
    for effect, cause in partition.pairs:
        block = scaled[slices[effect], plant.input_slices[cause]]
        if block.size:
            rows.append((names[cause], names[effect], "input", _size(roots[effect], block), np.nan))
    table = pd.DataFrame(rows, columns=["cause", "effect", "kind", "norm", "geweke"])
    table = table.astype({"cause": object, "effect": object, "kind": object, "norm": float, "geweke": float})
    nothing: dict[str, Any] = dict.fromkeys(("delay", "delay_low", "delay_high"), np.nan)
    nothing |= {"stderr": np.inf, "statistic": 0.0, "p_value": 1.0, "p_adjusted": 1.0}
    nothing |= {"verdict": "cannot tell", "because": "training by gradients tests no links"}
    return table.assign(**nothing)[list(COLUMNS)]


def _state_scales(partition, A, Q):
    """Roots (n_m, n_m) of each unit's state covariance in the learned plant or, where that is not stable, of Q."""
    cov = _stationary(A, Q, lambda: Q)
    return [np.linalg.cholesky(cov[rows, rows]) for rows in partition.slices]


def _size(root, block):
    """Frobenius norm of a block (n_m, k) in states standardised by their root (n_m, n_m)."""
    return float(np.linalg.norm(np.linalg.solve(root, block)))


# How sure the blocks that training ends at are: errors from stretches of the record, tests, intervals.
#
# These are about the limit of training. That is the link only where no other unit and no level that moves acts on the
# effect, the limit then being zero; the verdicts of the table therefore rest on held-out gains of the same states.

ALPHA, MARGIN = 0.05, 0.1  # of tests by default, as a LikelihoodServer has them
_MOST_ELEMENTS = 0.5  # of a block, as a share of the stretches its covariance is estimated from
_BIASED = (
    "other units or levels that move act on the effect: p_value, stderr and intervals are about what training ends at, "
    "which is not this link"
)
_SHORT = "what training ends at may be zero whatever the link, and rows are too few for held-out gains"


@dataclass(frozen=True)
class Spread:
    """What stretches of a record add to ``[A, B]``, (n_stretches, n, n + k), NaN in rows of units that do not tell."""

    of_blocks: np.ndarray

    @classmethod
    def of(cls, plant, told):
        """From the units' influences by name; None if no unit tells any."""
        told = {name: each for name, each in told.items() if each is not None}
        if not told:
            return None
        spread = np.full((len(next(iter(told.values()))), *plant.free.shape), np.nan)
        spread[:, ~plant.free] = 0.0
        for name, rows, columns in zip(plant.names, plant.states.slices, plant.drivers, strict=True):
            if name in told:
                shape = (len(spread), len(columns), rows.stop - rows.start)
                spread[:, rows, columns] = np.swapaxes(told[name].reshape(shape), 1, 2)
        return cls(spread)

    @property
    def stderr(self):
        """Standard error of every element of ``[A, B]``, (n, n + k), zero for the units' own ones."""
        n_stretches = len(self.of_blocks)
        return np.sqrt((self.of_blocks**2).sum(axis=0) * n_stretches / (n_stretches - 1))

    def estimates(self, learned, left, right, family):
        """Blocks of `learned` (n, n + k) in other units, ``left X right``, as :class:`Tested` of a family of pairs."""
        spread = np.pad((left @ self.of_blocks @ right).reshape(len(self.of_blocks), -1), [(0, 0), (0, 1)])
        own = spread[:, family.pair_elements]
        V, dof = covariance(own), family.pair_dof
        is_known = (np.diagonal(V, axis1=1, axis2=2) > 0).sum(axis=1) == dof
        is_known &= dof <= _MOST_ELEMENTS * len(spread)
        V[~is_known] = PADDED_VARIANCE * np.eye(V.shape[1])
        flat = np.append((left @ learned @ right).ravel(), 0.0)
        return Tested(BlockEstimates.padded(flat[family.pair_elements], V, family), is_known, len(spread))


@dataclass(frozen=True)
class Tested:
    """Estimates of blocks, of which pairs their covariance is known, and from how many stretches."""

    blocks: BlockEstimates
    is_known: np.ndarray
    n_stretches: int

    @property
    def columns(self):
        """Columns of a table of links: Hotelling's test of every block, adjusted by Holm's rule."""
        blocks, known = self.blocks, self.is_known
        left = np.maximum(self.n_stretches - blocks.dof, 1)
        p_value = f.sf(blocks.statistic * left / (blocks.dof * (self.n_stretches - 1)), blocks.dof, left)
        p_value = np.where(known, p_value, 1.0)
        p_adjusted = np.ones(len(known))
        p_adjusted[known] = holm(p_value[known])
        return {
            "stderr": np.where(known, blocks.stderr, np.inf),
            "statistic": np.where(known, blocks.statistic, 0.0),
            "p_value": p_value,
            "p_adjusted": p_adjusted,
        }

    def widened(self):
        """The blocks with covariances with which chi-squared gives the ends that Hotelling's statistic does."""
        dof, left = self.blocks.dof, np.maximum(self.n_stretches - self.blocks.dof, 1)
        hotelling = (self.n_stretches - 1) * dof / left * f.isf(ALPHA, dof, left)
        wider = self.blocks.covariance * (hotelling / chi2.isf(ALPHA, dof))[:, None, None]
        return BlockEstimates(self.blocks.estimate, wider, dof)

    def intervals(self, names, pairs, n_rows, confidence):
        """The table of intervals of the strengths of all pairs."""
        levels = {"confidence": confidence, "alpha": ALPHA, "margin": MARGIN}
        return intervals_table(names, pairs, self.widened(), n_rows, **levels)


def families(plant):
    """Pairs of units by kind of link."""
    partition = Partition(plant.states.sizes, [model.n_inputs for model in plant.models])
    return {"state": partition} | ({"input": partition.input_pairs} if plant.n_inputs else {})


def tested(table, tests, plant):
    """A table of untested links with tests by kind, and verdicts by held-out gains of the states that were relayed."""
    for kind, test in tests.items():
        rows = table.index[table["kind"] == kind][test.is_known]
        for name, values in test.columns.items():
            table.loc[rows, name] = values[test.is_known]
        table.loc[rows, "because"] = _SHORT
    n, slices, found = plant.states.n_states, plant.states.slices, None
    if are_gradable(slices, plant.n_samples):
        known = plant.relayed[:, n:] if plant.n_inputs else None
        found = grades(plant.relayed[:, :n], slices, plant.starts, known)
    table = with_grades(table, found, plant.names)
    is_told = table["verdict"].isin(TOLD) | (table["p_adjusted"] <= ALPHA)
    moved = table["effect"].isin(table.loc[is_told, "effect"]) & np.isfinite(table["stderr"])
    reasons = table["because"].where(table["because"] != _SHORT, "")
    table.loc[moved, "because"] = (reasons + "; ").where(reasons != "", "")[moved] + _BIASED
    return table


# The papers' server: block rows of the transition matrix by gradient descent on the units' states.

_ROUNDS = {"batch": 3000, "online": 2}


@dataclass(repr=False, eq=False, kw_only=True)
class GradientServer(Trained, Versioned, BaseEstimator):
    """Learns the blocks between units as in the papers: clients and server descend on each other.

    Every unit corrects its filtered state by a function of its own measurements, ``h_hat_a = h_hat_c +
    theta_m y_m``, and predicts ``h_a[t] = A_mm h_hat_a[t-1]``; the server predicts ``h_s[t] = A_mm
    h_hat_c[t-1] + sum_n A_mn h_hat_n,c[t-1]``. ``theta_m`` descends on the client loss ``mean |y_m - C_m
    h_a|^2`` and on the server loss ``mean |h_s - h_a|^2``, ``A_mn`` on the server loss. In a plant with
    inputs (the second paper) ``B_mm u_m[t-1] + phi_m`` joins the unit's prediction, ``sum_n B_mn u_n[t-1]``
    the server's, and the penalty `xi` keeps what ``A_mn`` explains apart from what ``B_mn`` does.

    This finds the matrices that carry the *mean level* of the other units, not their fluctuations: on
    stationary records the losses fall and the blocks stay near zero. Use
    :class:`~skfedcausal.LikelihoodServer` to learn links and effects; see the page "Training by gradients".

    Parameters
    ----------
    update : {"batch", "online"}, default="batch"
        Gradients of the mean over the record, or of one time step after the other (Algorithm 2 of [1]_).
    solve : {"iterate", "stationary"}, default="iterate"
        "stationary" solves for the fixed point that batch rounds converge to, with one linear solve per
        unit. It needs the other units' states at each unit: the server relays them once.
    rates : Rates, default=None
        Weights and step sizes of the losses, see :class:`~skfedcausal.papers.server.rounds.Rates`. None takes the
        largest that are sure to converge.
    xi : float, default=0.0
        Weight of the penalty ``D = mean |A_mm theta y - sum_n A_mn h_n|^2`` of [2]_ in the server's loss;
        ``rho / 2`` of the augmented Lagrangian.
    constraint : {"penalty", "augmented_lagrangian", "hybrid"}, default="penalty"
        How D is kept small: by the penalty; by multipliers for ``D[t] = 0`` at every step, with steps that
        are implicit in the constraint; by these for the first `n_warm_up` rounds and by the penalty after.
    n_warm_up : int, default=200
        Rounds by the augmented Lagrangian of ``constraint="hybrid"``.
    start_scale : float, default=0.0
        Standard deviation of the normal numbers that all parameters start from; 0 starts from zero.
        ``solve="stationary"`` always starts from zero.
    random_state : int, RandomState instance or None, default=None
        For the start. None takes that of the estimator.
    ridge : float, default=0.0
        Weight of ``|theta|^2`` in the client loss and of ``|A_mn|^2`` in the server loss.
    exchange : {"series", "moments"}, default="series"
        "series" is the papers' protocol: states of all time steps and gradients cross in every round, one
        pass over the data. "moments" gives the same iterates: the server relays the states once, units
        form their moments locally, and after that only matrices of a few numbers cross.
    variant : {"joint", "no_augmentation", "no_server", "pretrained"}, default="joint"
        The paper's method or its baselines: ``theta = 0``; ``theta`` from the client loss alone and nothing
        at the server; ``theta`` from the client loss alone and the server fitted to it.
    stop : StopRule, default=None
        When training ends, see :class:`~skfedcausal.papers.server.rounds.StopRule`.

    Attributes
    ----------
    names_ : tuple of str
    state_slices_ : dict of str to slice
    transition_ : ndarray of shape (n, n)
        The units' own blocks and the learned blocks between them.
    input_ : ndarray of shape (n, k)
        Likewise.
    process_cov_ : ndarray of shape (n, n)
        The units' own, block diagonal.
    links_ : DataFrame
        One row per ordered pair (and kind, with inputs). With ``exchange="moments"`` or ``solve="stationary"``, on 200
        rows at least, `stderr` and `p_value` (adjusted by Holm's rule) are about what training ends at, and verdicts
        are by held-out gains of the relayed states; else `p_value` is 1 and the verdict "cannot tell".
    transition_stderr_, input_stderr_ : ndarray of shape (n, n) and (n, k), or None
        Standard errors of the elements that training ends at, zero for the units' own, NaN where a unit tells none.
    loss_history_ : DataFrame
        One row per round (or pass), columns ("client", unit) and ("server", unit); with inputs also
        ("penalty", unit), the disentanglement D, ("delta_d", unit), ``|phi_m - mean sum_n B_mn u_n|``, and
        ("L_s", unit), the loss of equation 13 of [2]_: "server", the residual alone, and `xi` times D.
    rates_ : DataFrame
        Step sizes by unit.
    step_sizes_ : StepSizes
        The same as arrays, with the weights of penalty and regularisation.
    n_iter_ : int
    converged_, diverged_ : bool

    See Also
    --------
    skfedcausal.LikelihoodServer : The default, which identifies the blocks.
    skfedcausal.papers.numerics.descent.recurrence : Training as one linear map, its limit and rates.

    Notes
    -----
    With step sizes from curvature the weighted loss ``client_weight * L_m + L_s`` falls in every batch round
    and the fixed point is its minimiser. Step by step the iterates end in a cycle around it whose size is
    proportional to the step size.

    References
    ----------
    .. [1] Mohanty, Mohamed, Ramanan, Gebraeel, Federated Granger Causality Learning for Interdependent
           Clients with State Space Representation.
    .. [2] Mohamed, Mohanty, Gebraeel, Federated Causal Representation Learning in State-Space Systems for
           Decentralized Counterfactual Reasoning.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import FederatedGrangerEstimator, GradientServer, KalmanClient
    >>> from skfedcausal.datasets import make_granger_plant
    >>> A = np.kron(np.diag([0.99, 0.5]), np.eye(2))  # the first unit drifts
    >>> A[2:, :2] = 0.25
    >>> X, truth = make_granger_plant(2, transition=A, n_samples=5000, random_state=0)
    >>> clients = [KalmanClient(**model) for model in truth.clients().values()]
    >>> server = GradientServer(solve="stationary")
    >>> est = FederatedGrangerEstimator(clients, server=server).fit(X)
    >>> bool(abs(est.transition_[2:, :2] - 0.25).max() < 0.09)
    True
    """

    update: str = "batch"
    solve: str = "iterate"
    rates: Rates | None = None
    xi: float = 0.0
    constraint: str = "penalty"
    n_warm_up: int = 200
    start_scale: float = 0.0
    random_state: Any = None
    ridge: float = 0.0
    exchange: str = "series"
    variant: str = "joint"
    stop: StopRule | None = None

    trains_units = True  # round by round, so that there are losses
    needs_replies = True
    has_covariances = False

    _parameter_constraints = {
        "update": [StrOptions({"batch", "online"})],
        "solve": [StrOptions({"iterate", "stationary"})],
        **{name: [FROM_ZERO] for name in ("xi", "start_scale", "ridge")},
        "rates": [Rates, None],
        "stop": [StopRule, None],
        "constraint": [StrOptions({"penalty", "augmented_lagrangian", "hybrid"})],
        "n_warm_up": [AT_LEAST_ONE],
        "random_state": ["random_state"],
        "exchange": [StrOptions({"series", "moments"})],
        "variant": [StrOptions(set(VARIANTS))],
    }
    _groups = {"rates": Rates, "stop": StopRule}

    excitation_ = feedback_ = None  # training diagnoses neither

    # -- training ----------------------------------------------------------------------------------------

    @property
    def warm_up_rounds(self) -> int:
        """Rounds by the augmented Lagrangian."""
        rounds = {"penalty": 0, "augmented_lagrangian": self.n_rounds_at_most, "hybrid": self.n_warm_up}
        return rounds[self.constraint]

    @property
    def n_rounds_at_most(self) -> int:
        """Rounds, or passes over the record, after which training ends."""
        return _ROUNDS[self.update] if self.max_iter is None else self.max_iter

    @property
    def sends_series_once(self) -> bool:
        """Whether the server relays the units' states to each other before training."""
        return self.solve == "stationary" or self.exchange == "moments"

    @property
    def _stepwise(self):
        return self.solve == "iterate" and self.update == "online"

    def dialogue(self, names: Sequence[str], inputs: bool = False) -> Generator[Any, Any, None]:
        """Training as a generator: yields what is asked of the units, is sent the answers that came.

        A unit that is lost before it has said all that training starts with is left out, and the others start
        again. One that is lost later is held at its last message, from which it goes on when it is back; its
        block row rests in rounds in which ``answers.skipped``, if the answers have that attribute, names it.
        Training step by step needs every unit at every step.

        Parameters
        ----------
        names : sequence of str
            Units of the plant, in the order of its matrices.
        inputs : bool, default=False
            Whether the plant has inputs: corrections then have a constant.

        Yields
        ------
        Ask
            Requests by unit, and the type of the messages that answer them.

        Raises
        ------
        ValueError
            If the parameters contradict each other or the units do not fit together.
        """
        going = tuple(names)
        while going is not None:
            self._check_settings()
            scale = 0.0 if self.solve == "stationary" else float(self.start_scale)
            seed = int(check_random_state(self.random_state).randint(2**31)) if scale else 0
            request = TrainRequest(self.sends_series_once, self._stepwise, scale, seed, inputs)
            models = yield Ask(dict.fromkeys(going, request), LocalModel)
            going, ends = yield from self._train(models, request)
        yield Ask(ends, Acknowledgement, needed=0)  # what was learned is learned

    def _train(self, models, request):
        """Rounds with the units that sent local models: whom to start again with if some are lost, what ends it."""
        plant = Plant.of(models)
        training = Training.start(plant, request.start_scale, request.seed)
        limits = rounds.Limits(self.n_rounds_at_most, self.tol, self._watch)
        going = self._algorithm(plant, partial(self._choose, plant, training), training, limits)
        replies = next(going)
        held: dict[str, object] = {}
        mode = next(iter(replies.values())).mode
        expected, needed = ANSWERS[mode], None
        while replies is not None:
            came = yield Ask(replies, expected, needed)
            held = {name: message for name, message in held.items() if isinstance(message, expected)} | came
            if len(held) < len(replies):
                going.close()
                return tuple(name for name in replies if name in held), {}
            messages = {name: held[name] for name in replies}
            expected = later_answer(mode, request.constant)
            needed = len(replies) if self._stepwise else None  # who misses a step is at another one
            try:
                replies = going.send(rounds.Received(messages, getattr(came, "skipped", frozenset())))
            except StopIteration:
                replies = None
        if (asked := self._influences_asked(training)) is not None:
            told = yield Ask(dict.fromkeys(plant.names, asked), Influences, needed=0)
            training.influences = {name: one.influences for name, one in told.items()}
        self._store(plant, training)
        return None, self._ends(plant, training)

    def _influences_asked(self, training):
        """What asks for influences after rounds on moments; None where no map from record to blocks is known."""
        knows_moments = self.solve == "iterate" and self.exchange == "moments"
        if not knows_moments or training.diverged or training.plant.n_pairs < ENOUGH_ROWS:
            return None
        if training.converged:
            return InfluencesRequest(0)
        is_plain = self.constraint == "penalty" and not self.start_scale and all(training.moves)
        return InfluencesRequest(len(training.moves)) if is_plain else None

    @property
    def _algorithm(self):
        if self.solve == "stationary":
            return rounds.stationary_round
        if self._stepwise:
            return rounds.online_rounds
        return rounds.batch_rounds if self.exchange == "series" else rounds.moments_rounds

    def _watch(self, training):
        """Whether L_s or the callback, which sees every round, ends training."""
        if self._is_small(training):
            return True
        if self.callback is None:
            return False
        names, losses = training.plant.names, {"client": training.client[-1], "server": training.server[-1]}
        by_unit = {kind: dict(zip(names, one.tolist(), strict=True)) for kind, one in losses.items()}
        return self.callback(len(training.client), by_unit)

    def _is_small(self, training):
        """Whether the loss is as small as the papers' rule asks for."""
        if self.loss_tol is None or not training.server:
            return False
        return (training.server[-1] + self.xi * training.penalty[-1]).sum() <= self.loss_tol

    def _check_settings(self):
        self._validate_params()
        if self._stepwise and self.exchange == "moments":
            raise ValueError(
                "update='online' uses the states of every single step, which exchange='moments' does not send. Use "
                "exchange='series', or update='batch'."
            )
        if self.constraint == "penalty":
            return
        if self.xi == 0:
            raise ValueError(f"constraint={self.constraint!r} needs a weight xi (rho / 2) above 0.")
        if self._stepwise or self.solve == "stationary":
            raise ValueError(
                f"constraint={self.constraint!r} is a way to make batch rounds: use update='batch' and solve='iterate' "
                "or constraint='penalty' (the limit of 'hybrid')."
            )

    def _choose(self, plant, training, blocks):
        """Step sizes for a known curvature of the blocks; keeps them and warns where they are too large."""
        sizes = choose_sizes(self, plant, blocks)
        if blocks is not None:
            self.rates_, self.step_sizes_ = _rate_table(plant, sizes), sizes
            free = copy(self).set_params(variant="joint", rates=Rates(client_weight=self.client_weight))
            training.largest_rates = _rate_table(plant, choose_sizes(free, plant, blocks))
            if self.solve == "iterate":
                loads = load(plant, sizes, blocks)
                worst = int(np.argmax(loads))
                if loads[worst] >= 2:
                    warn(
                        "With these step sizes training is not sure to converge: step times curvature of "
                        f"unit {plant.names[worst]!r} is {loads[worst]:.3g}, at least 2. {_advice(training)}",
                        ConvergenceWarning,
                    )
        return sizes

    def _store(self, plant, training):
        n = plant.states.n_states
        own = self._own = block_diag(*(model.transition for model in plant.models))
        self.names_, self.partition_ = plant.names, plant.states
        self.state_slices_ = dict(zip(plant.names, plant.states.slices, strict=True))
        self.transition_ = own + training.blocks[:, :n]
        self.input_, self._own_input = plant.own_input + training.blocks[:, n:], plant.own_input
        self.input_slices_ = dict(zip(plant.names, plant.input_slices, strict=True))
        self.input_level_ = plant.inputs[0]
        self.process_cov_ = block_diag(*(model.process_cov for model in plant.models))
        self.information_ = block_diag(*(model.information for model in plant.models))
        self.n_samples_ = plant.n_samples
        self.loss_history_ = _history(plant.names, training, float(self.xi))
        self.n_iter_ = len(training.client)
        self.converged_, self.diverged_ = training.converged, training.diverged
        self._store_links(plant, training)
        self._warn_of(training)

    def _store_links(self, plant, training):
        """The table of links, tested where influences of stretches on the blocks are known."""
        matrices = self.transition_, self.input_, self.process_cov_
        links = untested_links(plant, *matrices, self.information_)
        self.spread_ = Spread.of(plant, training.influences)
        if self.spread_ is None:
            self.tests_, self.links_ = {}, with_grades(links, None, plant.names)
            return
        learned, scales = np.hstack(matrices[:2]), unit_scales(plant, *matrices)
        kinds = families(plant)
        self.tests_ = {kind: self.spread_.estimates(learned, *scales, family) for kind, family in kinds.items()}
        self.links_ = tested(links, self.tests_, plant)

    @property
    def plant_(self) -> Any:
        """What was learned as a `Plant`, around the mean of its inputs."""
        point = OperatingPoint.at(self.input_level_, len(self.transition_))
        return LearnedPlant.of_one_lag(self.transition_, self.input_, self.process_cov_, point=point)

    @property
    def errors_(self) -> Any:
        """Errors of the plant, of which training says nothing."""
        return ErrorsOfOneLag(None)

    def _ends(self, plant, training):
        """Last message to every unit, with the mean influence of the others' inputs."""
        if not plant.n_inputs:
            return {name: TrainingEnd() for name in plant.names}
        levels = training.blocks[:, plant.states.n_states :] @ self.input_level_
        return {name: TrainingEnd(levels[rows]) for name, rows in self.state_slices_.items()}

    def _warn_of(self, training):
        if training.diverged:
            problem = (
                f"Training diverged in round {self.n_iter_}: the losses grew beyond all bounds. "
                f"{_advice(training)} `transition_` holds the last finite values."
            )
        elif not (training.converged or self._is_small(training)) and self.tol > 0 and self.callback is None:
            problem = (
                f"Training did not converge in {self.n_iter_} rounds. Raise max_iter or tol, or use "
                "solve='stationary' for its limit."
            )
        else:
            return
        warn(problem, ConvergenceWarning)

    # -- answers -----------------------------------------------------------------------------------------

    @property
    def transition_stderr_(self) -> Any:
        """Standard errors of the elements of `transition_` as the limit of training, None where none are known."""
        return None if self.spread_ is None else self.spread_.stderr[:, : len(self.transition_)]

    @property
    def input_stderr_(self) -> Any:
        """The same of `input_`."""
        return None if self.spread_ is None else self.spread_.stderr[:, len(self.transition_) :]

    def link_intervals(self, confidence: float = 0.95, *, geweke: bool = False) -> pd.DataFrame:
        """Intervals of the strength of the blocks that training ends at.

        Parameters
        ----------
        confidence : float, default=0.95
        geweke : bool, default=False
            There are none of Geweke's measure.

        Returns
        -------
        DataFrame
            See :func:`~skfedcausal.inspection.link_intervals`. Of blocks whose errors are not known they are as wide as
            can be.

        Raises
        ------
        ValueError
            If no errors are known, or intervals of Geweke's measure are asked for.
        """
        check_confidence(confidence)
        if geweke:
            raise ValueError("Got geweke=True; training by gradients has intervals of strengths alone.")
        if "state" not in self.tests_:
            raise ValueError(
                "Errors of blocks need moments of a unit's measurements with the others' states, of 200 rows at least: "
                "fit with GradientServer(exchange='moments') or GradientServer(solve='stationary')."
            )
        return self.tests_["state"].intervals(self.names_, self.partition_.pairs, self.n_samples_, confidence)

    def filter(self, messages: Mapping[str, StateMessage]) -> ServerPrediction:
        """The server's model over a record: the units' own filters and its prediction from their states.

        Parameters
        ----------
        messages : dict of str to StateMessage

        Returns
        -------
        ServerPrediction
        """
        record = self.joint_record(messages)
        drives = self._drive(self.input_), self._drive(self._own_input)
        return ServerPrediction(self.transition_, self._own, self.process_cov_, record, *drives)

    def effects(self, change: np.ndarray, *, held: None = None) -> dict[str, EffectReply]:
        """Effect of a change of inputs on every unit's states.

        Parameters
        ----------
        change : ndarray of shape (n_steps, k)
            Change of all inputs at each step.
        held : None
            Every input is held: training identifies no controllers.

        Returns
        -------
        dict of str to EffectReply
            Row j is the effect one step after row j of `change`; without covariances.

        Raises
        ------
        ValueError
            If controllers are to respond.

        Warns
        -----
        UserWarning
            If the learned plant is not stable.
        """
        if held is not None:
            raise ValueError(
                "GradientServer identifies no controllers (loops='react'): use loops='hold', or LikelihoodServer."
            )
        radius = spectral_radius(self.transition_)
        if radius >= 1 and len(change) > 1:
            warn(
                f"Training ended with a plant that is not stable (spectral radius {radius:.3f}): effects grow with "
                "the horizon."
            )
        effect = input_response(self.transition_, self.input_, change).effect
        return {name: EffectReply(np.ascontiguousarray(effect[:, rows])) for name, rows in self.state_slices_.items()}

    def abducted(self, messages: Mapping[str, StateMessage]) -> dict[str, SmoothedReply]:
        """Every unit's states given all messages, by the smoother of the learned plant.

        Parameters
        ----------
        messages : dict of str to StateMessage
            By unit.

        Returns
        -------
        dict of str to SmoothedReply
        """
        return smoothed_replies(self.state_slices_, *self.plant_.smooth(self.joint_record(messages), intercept=False))

    def joint_record(self, messages: Any) -> Any:
        """Record of the units of `fit`, with their inputs.

        Parameters
        ----------
        messages : dict of str to StateMessage
            By unit.

        Returns
        -------
        JointRecord
        """
        return JointRecord.from_messages(messages, names=self.names_)

    def _drive(self, B):
        """How the inputs act, an episode's first state being as in the units' own filters."""
        return InputDrive(B, self.input_level_, np.zeros_like(self.transition_)) if B.shape[1] else None


def _advice(training):
    """Largest step sizes that are sure to converge, in words."""
    safe = ", ".join(f"{name} <= {rates.min():.3g}" for name, rates in training.largest_rates.items())
    return f"Step sizes that hold for all units: {safe}."


def _rate_table(plant, sizes):
    """Step sizes by unit."""
    columns = {"eta1": sizes.client[:, 0], "eta2": sizes.server[:, 0], "gamma": sizes.blocks[:, 0]}
    if plant.has_constant:
        columns |= {"gamma1": sizes.client[:, 1], "gamma2": sizes.server[:, 1], "alpha_B": sizes.blocks[:, 1]}
    return pd.DataFrame(columns, index=pd.Index(plant.names, name="unit"))


def _history(names, training, xi):
    """Losses of all rounds; with inputs the L_s of equation 13 too, residual and weighted penalty."""
    parts = {"client": training.client, "server": training.server}
    if training.plant.n_inputs:
        total = np.array(training.server) + xi * np.array(training.penalty)
        parts |= {"penalty": training.penalty, "delta_d": training.gap, "L_s": total}
    frames = {kind: pd.DataFrame(np.array(rows), columns=list(names)) for kind, rows in parts.items()}
    history = pd.concat(frames, axis=1, names=["loss", "unit"])
    history.index.name = "round"
    return history
