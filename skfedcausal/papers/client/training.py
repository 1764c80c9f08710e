"""A unit's side of gradient training: its correction of its own states, moved by two losses."""

from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from ...client.augmenter import LinearAugmenter
from ...client.records import in_use
from ...client.unit_model import UnitModel
from ...message.packet import PacketError
from ...message.training import (
    AugmentedMessage,
    BlockRow,
    CorrectionMoments,
    GradientReply,
    LocalModel,
    PredictedMessage,
    TrainingPlan,
)
from ...statespace.episodes import episode_lengths, inner_rows
from ..numerics.descent import (
    AugmentedProblem,
    Products,
    Rates,
    Stretches,
    WarmUp,
    augmented_problem,
    correction,
    correction_curvature,
    correction_divisor,
    correction_step,
    covariance,
    fixed_point,
    from_delta,
    gradients,
    influences,
    losses,
    parameter_update,
    recurrence,
    risen,
    stretches,
)


@dataclass(frozen=True)
class UnitSeries:
    """A unit's series as training needs them; they stay at the site."""

    filtered: np.ndarray
    measurements: np.ndarray
    inputs: np.ndarray | None
    rows: np.ndarray
    lengths: np.ndarray
    seen: np.ndarray  # what theta is multiplied with: the measurements, or features of them


@dataclass(frozen=True)
class UnitTraining:
    """State of a unit between two packets of training."""

    model: UnitModel
    series: UnitSeries
    residuals: np.ndarray
    problem: AugmentedProblem
    parameters: np.ndarray
    rates: Any = None  # Rates, once there is a plan
    mode: str = "series"
    warm_up: WarmUp | None = None
    divide: Any = None
    dual: np.ndarray | None = None
    n_moves: int = 0
    change: float = 1.0
    fitted: LinearAugmenter | None = None  # with the features that theta is multiplied with, if any
    stretches: Stretches | None = None  # of the record, where the others' states are known and it is long enough
    influences: np.ndarray | None = None  # of these on what training ends at, (n_stretches, s)

    # -- before training ---------------------------------------------------------------------------------

    @property
    def step(self):
        """Position in the record, for training step by step."""
        return self.n_moves % len(self.series.rows)

    @property
    def is_warm(self):
        """Whether the augmented Lagrangian leads this round."""
        return self.warm_up is not None and self.n_moves < self.warm_up.n_rounds

    @classmethod
    def start(cls, model, series, constant, scale=0.0, rng=None):
        """Training that has not begun: parameters zero, or normal with standard deviation `scale`."""
        before, now = series.rows - 1, series.rows
        own = series.filtered[before] @ model.A.T
        if series.inputs is not None:
            own += series.inputs[before] @ model.B.T
        residuals = series.measurements[now] - own @ model.C.T
        nobody = np.zeros((len(series.filtered), 0))
        problem = _problem(model, series, residuals, nobody, constant=constant)
        parameters = np.zeros((model.n_states, problem.n_local))
        if scale:
            parameters = scale * rng.standard_normal(parameters.shape)
        return cls(model, series, residuals, problem, parameters)

    def local_model(self, relay, stepwise):
        """What the server is told before training."""
        model, series, problem = self.model, self.series, self.problem
        past = series.seen[series.rows - 1]
        d = problem.n_outputs
        if stepwise:
            top = float(np.einsum("ti,ti->t", past, past).max())
        else:
            top = float(np.linalg.eigvalsh(problem.moments[:d, :d])[-1])
        curvature = correction_curvature(model.A, problem.gram, top)
        if problem.n_local > d:
            curvature += correction_curvature(np.eye(model.n_states), problem.gram, 1.0)
        own: dict[str, Any] = {"transition": model.A, "process_cov": model.Q, "information": model.C.T @ model.weights}
        inputs, reach = series.inputs, np.einsum("ti,ti->t", series.filtered, series.filtered)
        if inputs is not None:
            reach = reach + np.einsum("ti,ti->t", inputs, inputs)
            before = inputs[series.rows - 1].mean(axis=0)
            own |= {"input_matrix": model.B}
            own |= {"input_table": np.array([_input_level(model, inputs), before, inputs.std(axis=0)])}
        own |= {"curvature": np.array(curvature), "loss": float(problem.energy), "reach": float(reach.max())}
        own |= {"filtered": series.filtered, "inputs": inputs} if relay else {}
        return LocalModel(lengths=series.lengths, **own)

    def planned(self, plan):
        """Training with the server's plan."""
        relays = plan.mode in ("moments", "stationary")
        if relays != (plan.drivers is not None):
            raise PacketError(f"A plan for training by {plan.mode} {'needs' if relays else 'has no'} drivers.")
        problem, parts = self.problem, None
        if relays:
            check_shape("drivers", plan.drivers, (len(self.series.filtered), plan.drivers.shape[1]))
            settings = {"n_inputs": plan.n_inputs, "constant": self.constant is not None, "xi": plan.xi}
            problem_of = partial(_problem, self.model, self.series, self.residuals, plan.drivers, **settings)
            problem, parts = problem_of(), stretches(problem_of, len(self.residuals))
        rates = _rates(problem, plan.rates, plan.ridge)
        warm_up = divide = None
        if plan.warm_up:
            warm_up = WarmUp(plan.warm_up, _rates(problem, plan.warm_rates, plan.ridge))
            d = problem.n_outputs
            rate = warm_up.rates.server[:, :1]
            divide = correction_divisor(problem.transition, problem.moments[:d, :d], rate, plan.xi)
        sizes = {"rates": rates, "mode": plan.mode, "warm_up": warm_up, "divide": divide}
        return replace(self, problem=problem, stretches=parts, **sizes)

    # -- rounds ------------------------------------------------------------------------------------------

    def advanced(self, received):
        """Training after a message of the server, and what the unit answers."""
        if isinstance(received, TrainingPlan):
            training = self.planned(received)
            return training.solved() if received.mode == "stationary" else (training, training.message())
        expected = BlockRow if self.mode == "moments" else GradientReply
        if self.rates is None or not isinstance(received, expected):
            raise PacketError(f"A unit that trains by {self.mode} cannot take a {type(received).__name__} now.")
        training = self.moved_by_blocks(received) if expected is BlockRow else self.moved_by_gradients(received)
        return training, training.message()

    def message(self):
        """What the unit sends with its present parameters."""
        if self.mode == "moments":
            return self._moments()
        return self._states(slice(self.step, self.step + 1) if self.mode == "steps" else slice(None))

    def _states(self, pairs):
        """Own and augmented states (n_pairs, n_states) of some pairs of time steps, at the first step of each pair."""
        before = self.series.rows[pairs] - 1
        past, filtered = self.series.seen[before], self.series.filtered[before]
        augmented = filtered + past @ self.theta.T
        inputs = None if self.series.inputs is None else self.series.inputs[before]
        loss = self._loss() if self.mode == "series" else self._loss_of_step()
        if self.constant is None:
            return AugmentedMessage(filtered, augmented, loss, self.change)
        predicted = augmented @ self.model.A.T + self.constant
        if inputs is not None and self.model.B is not None:
            predicted += inputs @ self.model.B.T
        if self.mode == "series" and self.n_moves:
            return PredictedMessage(predicted, self.constant, loss, self.change)
        return AugmentedMessage(filtered, augmented, loss, self.change, predicted, inputs, self.constant)

    @property
    def theta(self):
        """What the measurements add to the filtered states, shape (n_states, n_outputs)."""
        return self.parameters[:, : self.problem.n_outputs]

    @property
    def constant(self):
        """phi, None in a plant without inputs."""
        d = self.problem.n_outputs
        return self.parameters[:, d].copy() if self.problem.n_local > d else None

    def _moments(self):
        """Moments of the present correction with the relayed series."""
        problem, d, q = self.problem, self.problem.n_outputs, self.problem.n_local
        G = correction(problem, self.parameters)
        product = G @ problem.moments[:q]
        cross, energy = product[:, q:], float((product[:, :q] * G).sum())
        turned, energy_turned = cross, energy
        if q > d:
            states = G[:, :d] @ problem.moments[:d]
            turned, energy_turned = states[:, q:], float((states[:, :d] * G[:, :d]).sum())
        return CorrectionMoments(cross, turned, energy, energy_turned, self._loss(), self.change, self.constant)

    def products(self, blocks=None):
        """Products of the present parameters with the record; blocks, (n_states, n_drivers), are zero if not given."""
        if blocks is None:
            blocks = np.zeros((len(self.parameters), self.problem.n_drivers))
        return Products.at(self.problem, self.parameters, blocks)

    def _loss(self):
        return float(losses(self.problem, self.products()).client)

    def _loss_of_step(self):
        t = self.series.rows[self.step]
        e = self.model.A @ (self.theta @ self.series.seen[t - 1])
        if self.constant is not None:
            e = e + self.constant
        own = self.residuals[self.step] - self.model.C @ e
        return float(own @ own)

    def moved_by_gradients(self, reply):
        """Training after one round or step, from the server's derivatives in the states, (n_rows, n_states)."""
        n_rows = 1 if self.mode == "steps" else len(self.series.rows)
        check_shape("predicted", reply.predicted, (n_rows, len(self.parameters)))
        if self.mode == "steps":
            return self._stepped(reply)
        past = self.series.seen[self.series.rows - 1]
        d = self.problem.n_outputs
        pull = reply.predicted.T @ past
        slope = np.empty_like(self.parameters)
        slope[:, :d] = self.model.A.T @ pull
        if reply.augmented is not None:
            slope[:, :d] += reply.augmented.T @ past
        if self.problem.n_local > d:
            slope[:, d] = reply.predicted.sum(axis=0)
        return self._moved(gradients(self.problem, self.products()).client, slope)

    def _stepped(self, reply):
        """Training after one step of the per-step algorithm."""
        t = self.series.rows[self.step]
        row = {"y": self.series.seen[t - 1], "c": self.residuals[self.step], "pull": reply.predicted[0]}
        past = None if reply.augmented is None else reply.augmented[0]
        how = {"pull_past": past, "constant": self.constant is not None}
        parameters = correction_step(self.model.A, self.model.C, self.rates, self.parameters, **row, **how)
        return replace(self, parameters=parameters, n_moves=self.n_moves + 1)

    def moved_by_blocks(self, row):
        """Training after one round, from the server's blocks (n_states, n_drivers) and the unit's own moments."""
        check_shape("blocks", row.blocks, (len(self.parameters), self.problem.n_drivers))
        at, dual = self.products(row.blocks), None
        if self.is_warm:
            dual = np.zeros_like(at.E) if self.dual is None else self.dual + risen(self.problem, at.E)
        slope = gradients(self.problem, at, dual)
        return replace(self._moved(slope.client, slope.server), dual=dual)

    def _moved(self, client, server):
        """Training after a round, from the derivatives of both losses in the parameters, (n_states, n_local)."""
        warm = self.warm_up if self.is_warm else None
        rates = self.rates if warm is None else warm.rates
        step = parameter_update(rates, client, server, self.parameters)
        if warm is not None:
            d = self.problem.n_outputs
            step[:, :d] = self.divide(step[:, :d])
        parameters = self.parameters - step
        size = np.abs(parameters).max()
        change = float(np.abs(step).max() / size) if size > 0 else 0.0
        return replace(self, parameters=parameters, n_moves=self.n_moves + 1, change=change)

    def solved(self):
        """Training at its fixed point from the start, and the blocks that belong to it."""
        delta = fixed_point(recurrence(self.problem, self.rates))
        parameters, blocks = from_delta(self.problem, delta)
        done = replace(self, parameters=parameters).with_influences()
        at = losses(self.problem, done.products(blocks))
        sizes = np.array([at.client, at.server, at.penalty], dtype=float)
        return done, BlockRow(blocks, sizes, done.constant, done.of_blocks)

    def with_influences(self, n_rounds=None):
        """Training with the influences of stretches of the record on what it ended at, after rounds or at the limit."""
        if self.stretches is None:
            return self
        found = influences(self.stretches, self.problem, self.rates, n_rounds)
        return replace(self, influences=found if np.isfinite(found).all() else None)

    @property
    def of_blocks(self):
        """Influences on the blocks, (n_stretches, n_states * n_drivers), None if they are not known."""
        n_blocks = len(self.parameters) * self.problem.n_drivers
        return None if self.influences is None else np.ascontiguousarray(self.influences[:, :n_blocks])

    # -- after training ----------------------------------------------------------------------------------

    def learned(self, end):
        """What the unit keeps: its correction, its own blocks, and phi in absolute inputs."""
        model = self.model
        kept = {"augmenter": self.augmenter(), "transition": model.A}
        if self.series.inputs is not None:
            kept |= {"input_matrix": model.B, "input_mean": _input_level(model, self.series.inputs)}
        if end.input_level is not None:
            check_shape("input_level", end.input_level, (len(self.parameters),))
            kept["phi"] = end.input_level + self.constant
        return kept

    def augmenter(self):
        """The trained correction as a fitted :class:`LinearAugmenter`."""
        fitted = LinearAugmenter() if self.fitted is None else copy(self.fitted)
        fitted.theta_ = self.theta
        fitted.phi_ = np.zeros(len(self.parameters)) if self.constant is None else self.constant
        fitted.coef_ = self.model.A @ fitted.theta_
        fitted.n_features_in_ = self.theta.shape[1] if self.fitted is None else self.fitted.n_features_in_
        if self.influences is not None:
            own = self.influences[:, self.problem.n_drivers * len(self.parameters) :]
            spread = np.sqrt(np.diag(covariance(own))).reshape(self.parameters.shape, order="F")
            d = self.problem.n_outputs
            vars(fitted).update(theta_stderr_=spread[:, :d], phi_stderr_=spread[:, d:].sum(axis=1))
        return fitted


def _problem(model, series, residuals, drivers, pairs=slice(None), **settings):
    """What a unit minimises over pairs of time steps of its record, driven by series (n_samples, n_drivers)."""
    before = series.rows[pairs] - 1
    return augmented_problem(model.A, model.C, series.seen[before], drivers[before], residuals[pairs], **settings)


def _input_level(model, inputs):
    """Level of the inputs that a model's B acts on the difference to, shape (n_inputs,)."""
    return np.zeros(inputs.shape[1]) if model.input_mean is None else model.input_mean


def _rates(problem, sizes, ridge):
    """Step sizes by column from the five of a plan, eta1, eta2, gamma1, gamma2 and that of the blocks."""
    eta1, eta2, gamma1, gamma2, block_rate = sizes
    d, q = problem.n_outputs, problem.n_local
    own, pulled = np.full((1, q), eta1), np.full((1, q), eta2)
    own[:, d:], pulled[:, d:] = gamma1, gamma2
    return Rates(own, pulled, np.full((1, problem.n_drivers), block_rate), ridge)


def check_shape(name, value, expected):
    """Refuse an array of a reply that has another shape."""
    if value.shape != expected:
        raise PacketError(f"Array {name!r} of a reply has shape {value.shape}, expected {expected}.")


def begun(request, model, series, name, augmenter=None):
    """Training of a unit before its first round, and what the unit tells of itself."""
    rng = np.random.default_rng([request.seed, crc32(name.encode())])
    training = UnitTraining.start(model, series, request.constant, request.start_scale, rng)
    training = replace(training, fitted=augmenter)
    return training, training.local_model(request.relay, request.stepwise)


def unit_series(client, Y, U, starts, local_features, augmenter=None):
    """Series of a fitted KalmanClient about a record, and of the features of an augmenter that has some."""
    rows = inner_rows(len(Y), starts)
    if len(rows) == 0:
        raise ValueError("Training needs an episode of at least two time steps.")
    model = client.model
    if U is not None and model.B is None:
        raise ValueError(
            "Gradient training takes a unit's own blocks as known, but a unit with inputs was given matrices without "
            "B. Give its KalmanClient a B (zeros where its inputs do not act on itself), or leave A out and both are "
            "identified."
        )
    filtered = model.filter(in_use(client, Y), U, starts)
    inputs = U if U is None or model.input_mean is None else U - model.input_mean
    seen = local_features if augmenter is None else augmenter.seen(local_features)
    return UnitSeries(filtered, local_features, inputs, rows, np.array(episode_lengths(starts, len(Y))), seen)


def augmented_losses(site, data, rows):
    """States that a trained unit predicts with its correction, and its loss, shape (n_rows, n_states)."""
    model, augmenter = site["client"].model, site["augmenter"]
    before = rows - 1
    states = data.filtered[before] @ model.A.T + augmenter.phi_
    states += data.seen[before] @ augmenter.coef_.T
    if data.inputs is not None:
        states += data.inputs[before] @ model.B.T
    own = data.measurements[rows] - states @ model.C.T
    return states, float(np.einsum("ti,ti->", own, own) / len(rows))
