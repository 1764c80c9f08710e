"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    curvature_most_states: int = 400  # with their lags
    curvature_fewer_bends: int = 15
    curvature_bends_in_all: int = 120  # of an input, of all inputs, else
    curvature_same: float = 1e-6  # share of a kink's squares that those before it have to leave
    curvature_most_regressors: int = 250  # of a state that is also heard through rows of other units
    curvature_heard: float = 0.01  # energy of an answer to another unit, of the largest one, from which on it counts
    curvature_memory: int = 500  # rows that a product acts for, at most
    curvature_settles: float = 0.25
    curvature_forgets: int = 200  # share of an episode, and rows, after which its unknown past is forgotten
    curvature_fewest: int = 100  # at least, beyond the past that is forgotten
    curvature_noise_order: int = 10  # of the autoregression that whitens what is missed
    curvature_passes: int = 3  # of which the later ones know what the quadratic forms explain
    curvature_folds: int = 5  # parts of a record that coefficients are learned without, one after the other
    curvature_history: int = 1000  # rows before a change that matter, at most
    curvature_jitter: float = 1e-6
    curvature_least_noise: float = 1e-20  # share of a variance that noise in it has at least: what is less is rounding

    delays_probability: float = 0.9

    # where a prior backs the plant of one lag: its noise often goes together because of lags that it lacks, and hides
    # them
    misfit_backed_level: float = 0.3
    misfit_least_seen: float = 0.75  # share of rows in which a unit's states have to be seen
    misfit_fewest_lags: int = 5  # that are worth a test
    misfit_no_noise: float = 0.01  # share of the process noise up to which sensor noise is none
    misfit_noise_error: float = 0.1  # relative standard error of sensor noise that is estimated locally
    misfit_unknown: float = 1e-8
    misfit_at_most: float = 0.9  # p value of a lag, where many are combined
    misfit_explained: float = 0.97  # share of a kernel's variance that its basis holds
    misfit_least_left: float = 0.9  # share of the rows that late lags of inputs leave
    misfit_late: int = 4  # lags after which single ones are looked at, which the kernels of the test hardly weigh
    misfit_late_share: float = 0.1  # of the error of a channel's test that is theirs

    noise_n_steps: int = 12
    noise_most_coefficients: int = 600  # of one row: the algebra grows with their cube
    noise_most_turns: int = 6  # of coordinates
    noise_most_steps: int = 40
    noise_most_sweeps: int = 8
    noise_worthwhile: float = 1.0  # log-likelihood that another turn has to add
    noise_floor: float = 1e-10  # share of the largest variance of the noise that is left in any direction

    problem_least_step: float = 0.02
    problem_q_floor: float = 0.1  # share of the smallest eigenvalue of a unit's process noise that a step leaves
    # share of the first process noise that is left where noise of the sensors could take all of it
    problem_q_least: float = 0.01
    problem_keeps: float = 0.5  # share of the step promised that the likelihood may miss

    resampling_steps: int = 20  # of a climb from the plant of the whole record, which is near

    search_max_additions: int = 3  # to a unit in one round
    search_max_rounds: int = 12

    stage_few_states: int = 16
    stage_few_inputs: int = 5  # up to which a plant has many lags
    stage_some_states: int = 40  # up to which it has them if a late one surely acts
    stage_after_latest: int = 2  # lags after the latest one that surely acts
    stage_radius: float = 0.9995  # of the plant at most
    stage_n_draws: int = 100
    stage_climb: float = 10.0  # operations of a climb over the cube of a unit's coefficients, about

    timing_own_lags: int = 10
    timing_state_lags: int = 5
    timing_level: float = 0.01
    timing_rounded: float = 1e-12  # mean square up to which what is left of a standard series is rounding


TUNING = Tuning()
