"""What a server keeps of a large plant, and which plants are learned as such."""

from dataclasses import replace
from itertools import chain

import numpy as np
import pandas as pd
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from ...arguments import warn
from ...parallel import chunks, run, workers
from ...statespace.matrices import few_threads
from ...statespace.segments import Change
from .. import fitting
from ..dynamics import OperatingPoint
from ..estimation.estimate import LARGE, Climb
from ..estimation.scoring import Budget, Prior
from ..estimation.standardised import joined_shifts
from ..lagged.misfit import misfit_table, one_lag_is_enough
from . import tables
from .blocks import UNITS, LargePlant, filled_by_units, shifts_of_units, stretches
from .filter import WORTH_WAITING, SparsePlant, are_mostly_there, least_there, stable, stationary_gain
from .learning import ALL_PAIRS, AsAWhole, estimate_large
from .memory import check_inputs, check_memory, whole_elements
from .report import InBlocks
from .screening import PairRows, are_told_apart, find_drivers, screened, tested
from .tables import coefficients, input_links_table, shrunk_inputs, without_inputs
from .tuning import TUNING


def asks_for_the_whole(record, server):
    """Why a plant of many units is not learned in blocks, in words; nothing where it is."""
    has_inputs = record.u is not None
    facts = {
        "inputs that act in the row they stand in": has_inputs and "before" in fitting.timing_words(server, record),
        f"units of whose usual measurements less than {least_there(len(record.names)):.0%} are there": not (
            record.is_constant or are_mostly_there(record)
        ),
        "inputs and units with as many states as sensors": (  # forecasts choose how much is noise, if anybody can wait
            has_inputs and record.has_choice and server.horizon > 1 and len(record.names) <= WORTH_WAITING
        ),
        "sums of batches": record.most_lags is not None,
        "known links": record.known_links is not None,
        "units whose sensors do not determine their states": not record.determined.all(),
        "episodes of few rows": record.n_samples <= 2 * len(record.starts),
    }
    return ", ".join(settings_for_the_whole(server) + [name for name, holds in facts.items() if holds])


def settings_for_the_whole(server):
    """Parameters of a server by which no plant is learned in blocks, in words."""
    usual = {"sparsity": "fdr", "covariance": "information", "likelihood": "whittle", "fix_local": False}
    return [f"{name}={getattr(server, name)!r}" for name, value in usual.items() if getattr(server, name) != value]


def warn_of_work(record, reason):
    """Say before it starts what a plant of many units costs that has to be learned as a whole."""
    n_units, p = len(record.names), record.partition
    check_inputs(n_units, p.n_states, p.n_inputs)
    if n_units > TUNING.server_whole:
        elements = whole_elements(n_units, p.n_states, p.n_inputs)
        warn(
            f"A plant of {n_units} units with {reason} is learned as a whole, from {elements} elements at least: "
            "minutes of work, eight times as many for twice the units, as far as max_time goes. Fit parts of it, or do "
            "without that, and it is learned in blocks along its links.",
        )


def learned_in_blocks(server, record):
    """Learn a plant of many units in blocks; False for one that has to be learned as a whole, which is said.

    And the filter over the record where it went through, else None.
    """
    record = fitting.with_knowledge(server, record)
    server.noise_share_ = server.filter_noise_share_ = None
    server.filled_, server.outdone_, server.work_left = False, False, server.max_time
    run = None
    with few_threads(record.partition.n_states):
        reason = asks_for_the_whole(record, server)
        if not reason:
            try:
                run = _in_blocks(server, record)
            except AsAWhole as found:
                reason = str(found)
        if reason:
            warn_of_work(record, reason)
            return False, None
        fitting.look_for_drift(server, in_blocks=True)
        record.forget_scores()
    return True, run


def _in_blocks(server, record):
    """Learn a plant in blocks; its filter over the record where it went through, else None."""
    p, is_few, run = record.partition, len(record.names) <= ALL_PAIRS, None
    check_memory(len(record.names), p.n_states, record.n_samples, not record.is_constant, p.n_inputs)
    with workers(len(record.names), server.n_jobs) as parallel:
        estimate, steps, changes = _estimate(server, record, parallel)
        fitting.keep(server, record, _learned(server, record, estimate, steps, changes))  # while workers measure
        run = fitting.look_at_inputs(server, record)
        if parallel is not None and record.is_constant:  # what the report asks for, too
            run = server.plant_.run(server.plant_.point.placed(record))
            _ = run.predicted  # goes through it now
        later = tables.later_lags(estimate)
    server.misfit_ = misfit_table(record.names, later)
    lags_act = server.frees_lags and not one_lag_is_enough(server.misfit_, TUNING.server_lags_level)
    if lags_act and is_few and record.u is not None:  # without inputs nobody asks for paths over many rows
        raise AsAWhole("later lags that act")
    _keep_links(server, record, estimate)
    answer = record.u is not None and _are_answers(server.feedback_)
    if answer and is_few:
        raise AsAWhole("inputs that depend on what is measured")
    _warn(server, estimate, lags_act, answer)
    return run


def _are_answers(feedback):
    """Whether inputs go with what is new in measurements before or in their row: the expected information is wrong."""
    same_row = feedback["same_row_p_value"] * len(feedback)
    return bool(min(feedback["p_adjusted"].min(), same_row.min()) < TUNING.server_feedback_level)


def _estimate(server, record, parallel):
    """The estimate of a large plant, the rows at which levels shift, and by how much they do."""
    gapped = None if record.is_constant else record
    if gapped is not None:
        record = filled_by_units(record, parallel)
    plant = LargePlant(record, parallel, gapped)
    input_p_value = find_drivers(plant, server.alpha, parallel)
    steps, changes = _steps(plant, parallel) if server.level_shifts else (), []
    if steps:  # every stretch between shifts has levels of its own
        cut = replace(record, starts=tuple(sorted({*record.starts, *steps})))
        if record.u is not None and not are_told_apart(record, cut):
            raise AsAWhole("shifts of levels that go with its inputs")
        plant, changes = LargePlant(cut, parallel, gapped, plant.driven), _changes(record, steps, plant)
    budget = Budget(server.max_time * len(record.names) / TUNING.server_per_large)
    settings = fitting.settings_of(server, record.names)
    return estimate_large(plant, settings, parallel, budget, input_p_value), steps, changes


def _steps(plant, parallel):
    """Rows at which levels of units shift."""
    n_units = len(plant.names)
    tasks = ((*plant.units(units), plant.starts, n_units) for units in chunks(n_units, UNITS))
    found = list(chain.from_iterable(run(shifts_of_units, tasks, parallel, (plant.regressors,))))
    return tuple(change.start for change in joined_shifts(found)[0])


def screened_table(server, record):
    """The table of the score tests of all pairs at the plant without links."""
    check_memory(len(record.names), record.partition.n_states, record.n_samples, has_gaps=not record.is_constant)
    with workers(len(record.names), server.n_jobs) as parallel:
        plant = LargePlant(record if record.is_constant else filled_by_units(record, parallel), parallel)
        found = screened(plant, with_noise=False, parallel=parallel)
    pairs = tables.reported_pairs(np.zeros_like(found.p_value, dtype=bool), found.p_value)
    rows = PairRows.of(pairs, found.products, plant.partition)
    *known, _ = tested(pairs, found.spectra, rows, plant.partition.sizes, plant.n_samples)
    blocks = tables.chosen_blocks(pairs, known, plant.partition)
    return _links_table(server, record.names, pairs, blocks, found.p_value, np.full(len(pairs), np.nan))


def _links_table(server, names, pairs, blocks, p_value, geweke):
    """The table of links of some pairs, from p-values (n_units, n_units) of all."""
    adjusted = tables.adjusted_p_values(p_value, fitting.correction_of(server, names))[tuple(pairs.T)]
    return tables.large_links_table(names, pairs, blocks, adjusted, geweke, server.alpha, server.margin)


def _changes(record, steps, plant):
    """By how much the level of every unit's standardised scores changes at each step."""
    units = list(zip(plant.scale, record.partition.slices, strict=True))
    found = []
    for before, after in stretches(record, steps):
        change = record.scores.series[after].mean(axis=0) - record.scores.series[before].mean(axis=0)
        found.append([np.linalg.solve(S, change[own]) for S, own in units])
    return found


def _learned(server, record, estimate, steps, changes):
    """The plant of an estimate, `Learned`."""
    plant = estimate.plant
    standard, B = _stable(estimate.A, plant), plant.unscaled_inputs(estimate.B)
    shrunk, shrunk_B = standard, B  # in states of unit variance, and in the units' own
    if server.shrink:
        shrunk, shrunk_B = _stable(_shrunk(estimate), plant), plant.unscaled_inputs(shrunk_inputs(estimate))
    found = None
    if record.partition.n_inputs:
        found = coefficients(estimate, standard)
        changes = without_inputs(changes, estimate, record, steps)
    fits = estimate.fits
    climb = Climb(
        max(fit.n_iter for fit in fits),
        bool(estimate.settled and all(fit.converged for fit in fits)),
        float(np.sqrt(max(max(fit.gain, 0.0) for fit in fits) / record.n_samples)),
        estimate.has_prior,
        estimate.has_prior * Prior.weight,
    )
    table = tables.level_shift_table(record, plant, steps, changes)
    table = table[table["p_value"] <= TUNING.server_step_level].reset_index(drop=True)
    between = estimate.linked, estimate.correlated, _strengths(shrunk, plant.partition)
    matrices = plant.in_own_states(stationary_gain(plant, shrunk, estimate.Q, estimate.cores, *between))
    scale = plant.dense(plant.scale)
    about = {"point": _operating_point(record, plant, steps, changes, table, scale), "scale": scale}
    learned = SparsePlant.of_one_lag(matrices.A.toarray(), shrunk_B, matrices.Q.toarray(), matrices=matrices, **about)
    correlations = tables.correlations(record.names, estimate)
    return fitting.Learned(learned, (plant.unscaled(standard).toarray(), B), climb, correlations, table, found)


def _strengths(A, partition):
    """Squared norms of the blocks of a sparse plant matrix, (n_units, n_units)."""
    coo, unit, m = A.tocoo(), partition.unit_of_state, partition.n_units
    place = unit[coo.row] * m + unit[coo.col]
    return np.bincount(place, np.square(coo.data), m * m).reshape(m, m)


def _operating_point(record, plant, steps, changes, table, scale):
    """Where the filter runs, with the levels that units shift to."""
    n = record.partition.n_states
    moved = np.zeros((n, len(steps)))
    shifted = set(zip(table["unit"], table["start"], strict=True))
    for k, step in enumerate(steps):
        for m, (name, own) in enumerate(zip(record.names, record.partition.slices, strict=True)):
            if (name, step) in shifted:
                moved[own, k] = plant.scale[m] @ changes[k][m]
    return OperatingPoint.of(record, np.zeros((n, n)), tuple(Change(step, step + 1) for step in steps), moved, scale)


def _keep_links(server, record, estimate):
    """The table of links and the estimates behind it."""
    n_units = len(record.names)
    pairs = tables.reported_pairs(estimate.linked, estimate.p_value)
    blocks = tables.chosen_blocks(pairs, tables.in_order(pairs, estimate.tests, n_units), record.partition)
    geweke = tables.measures(estimate)[tuple(pairs.T)]
    links = _links_table(server, record.names, pairs, blocks, estimate.p_value, geweke)
    server.n_absent_ = n_units * (n_units - 1) - len(pairs)
    if estimate.input_tests is not None:
        settings = fitting.correction_of(server, record.names), server.alpha, server.margin
        links = pd.concat([links, input_links_table(record.names, estimate, *settings)], ignore_index=True)
    plant = estimate.plant
    server.engine_ = InBlocks(pairs, blocks, None if plant.gapped is None else plant.record, links)


def _shrunk(estimate):
    """The transition matrix with the posterior means of the blocks, standardised states."""
    partition = estimate.plant.partition
    pairs, means = tables.shrunk_blocks(estimate)
    p = partition.padded.shape[1]
    unit = partition.unit_of_state
    A = estimate.A.tocoo()
    own = unit[A.row] == unit[A.col]
    rows, cols = partition.padded[pairs[:, 0]][:, :, None], partition.padded[pairs[:, 1]][:, None, :]
    rows, cols = (np.broadcast_to(x, (len(pairs), p, p)).ravel() for x in (rows, cols))
    real = (rows < partition.n_states) & (cols < partition.n_states)
    rows, cols, values = (np.concatenate(each) for each in zip(
        (A.row[own], A.col[own], A.data[own]), (rows[real], cols[real], means.ravel()[real]), strict=True
    ))  # fmt: skip
    return csr_array((values, (rows, cols)), shape=A.shape)


def _stable(A, plant):
    """The plant with its links made weaker until it is stable, which a plant of stable blocks hardly ever needs."""
    A, share = stable(A, plant.partition)
    if share < 1:
        warn(
            f"The blocks of the plant are stable and the whole is not: links were made weaker by a factor {share:g}. "
            "Standard errors do not account for it.",
            ConvergenceWarning,
        )
    return A


def _warn(server, estimate, lags_act, inputs_answer):
    """Say what a reader of the plant should know."""
    if estimate.was_stopped or not server.converged_:
        why = "was ended by max_time" if estimate.was_stopped else "did not settle"
        warn(
            f"The search for links of {len(server.names_)} units {why}: after its last round the gradient per time "
            f"step has length {server.gradient_norm_:.2e}. Raise max_time or max_iter.",
            ConvergenceWarning,
        )
    if lags_act:
        n = int((server.misfit_["p_adjusted"] <= TUNING.server_lags_level).sum())
        warn(
            f"Later lags act (see `misfit_`; {n} channels say so by themselves), and plants of several lags are "
            f"learned of up to {LARGE} units (with inputs {ALL_PAIRS}). This one of {len(server.names_)} has one "
            "lag: sample slower, or fit parts of the plant.",
        )
    if inputs_answer:
        warn(
            f"Inputs go with what is new in measurements (see `feedback_`), and plants of more than {ALL_PAIRS} units "
            "take them to be independent: their standard errors are wrong. Fit parts of the plant.",
        )
