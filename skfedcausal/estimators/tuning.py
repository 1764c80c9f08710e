"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    batches_near: float = 1e-3  # of a sampling period, within which a row comes where it is expected

    # levels that an input may have; more are names, notes or numbers that were not read as such
    declared_most: int = 20
    declared_rounding: float = 1e-9  # relative, that is no move of an input
    # of the range of an input in the nominal record, by which it is beyond that when it is told
    declared_beyond: float = 0.1

    input_effects_led: float = 0.01
    # share of an input that is its own where a controller sets it; rows that a record shows anyway
    input_effects_seen: int = 8

    inputs_hardly: float = 1e-3  # share of its variance that an input has to itself if it hardly moves on its own
    inputs_misfit_level: float = 1e-3  # for all pairs together
    # a transient at the start of a record may well reach the former, a loop leaves no doubt
    inputs_loop_level: float = 1e-9

    interventions_clear: float = 0.1
    interventions_real: float = 0.5  # share of rows, trust
    interventions_absurd: float = 1e100

    link_questions_share: float = 0.1  # a state with less of the strongest one's variance may stay unseen

    replay_nothing: float = 1e-6  # standard deviations that an input has to move a sensor by

    streams_remembered: int = 1000  # rows whose times and labels are kept
    streams_revised: float = 0.01  # change of a probability that is told

    granger_shortest: int = 20  # rows that are kept between two shifts of levels

    impact_later: float = 3.0  # times what an effect and its band reach in a window, from which on it comes after it
    # margins that a band has to leave out: tags are many, and some band of many is off zero by chance
    impact_speak: float = 0.5
    impact_fifth: float = 0.2  # of the most that an effect is, from which on it shows
    impact_named: int = 5  # columns that a sentence names, of each verdict

    relays_ends: int = 25  # thresholds that are tried on either side, quantiles of the level
    relays_stretches: int = 10  # of the record, in each of which a relay has to do the same
    relays_least: float = 0.005  # share of the variance of news that a relay explains at least
    relays_level: float = 1e-3  # of a relay that is none, by all thresholds that are tried
    relays_switches: int = 2  # in each stretch: one that switches less says what the level was long ago
    relays_memory: tuple = (5, 20, 80)  # rows of the means of its past that a level is known by
    relays_finer: int = 17  # thresholds between the neighbours of the best one


TUNING = Tuning()
