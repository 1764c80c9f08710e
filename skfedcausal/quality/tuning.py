"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    check_most_lags: int = 720
    check_least_rows: int = 200  # for the comparison of clocks
    check_same: float = 0.8  # overlap of frozen segments that counts as one event

    clocks_level: float = 1e-3  # chance of any false offset between two units
    clocks_fewest_rows: int = 100
    clocks_fewest_moves: int = 20  # of a column: that single upsets of two units coincide says nothing
    clocks_keeps: float = 0.4  # share of the largest evidence that small lags have where clocks agree
    clocks_remains: float = 0.25  # share up to which an offset is believed
    clocks_width: int = 10  # lags over which a response may spread
    clocks_widest: int = 40
    clocks_pointwise: float = 1e-3  # level at which a single lag belongs to the response
    clocks_foot: float = 0.15  # share of the largest evidence at which a response begins
    clocks_slow: float = 0.96  # largest modulus of a transition whose states are compared
    clocks_left: float = 1e-3  # share of a state's variance that must be left by the other unit's own state
    clocks_faint: float = 0.1  # weight of a tie that only the states show, beside one that the innovations show
    clocks_gradual: int = 8  # lags after which a response that rises slowly must begin to count as an offset

    moves_level: float = 1e-3  # chance of any finding of a kind in a unit that stays where it is
    moves_fewest_rows: int = 300
    moves_bandwidth: float = 12.0  # lags of the long-run variance of 100 rows
    moves_smoothed: int = 15  # rows over which scores are averaged before modes are looked for
    moves_two: float = 0.8  # share of the variance that two levels explain; of a normal distribution it is 0.64
    moves_visits: int = 4  # to modes, fewer are shifts
    moves_sure: float = 0.25  # of the distance of two levels, from their middle, at which a row is in one of them
    moves_dwell: int = 20  # rows in a mode on average
    moves_spike: float = 8.0  # robust deviations
    moves_rounding: float = 0.02  # of a column's deviation: what a smooth curve leaves of another is no season
    moves_chance: int = 5  # times as many common spikes as chance would give

    offsets_level: float = 0.01  # chance of any false offset in a plant
    offsets_keeps: float = 0.7  # share of the largest evidence that small lags have where clocks agree
    offsets_width: int = 10  # lags over which a response may spread
    offsets_coarse: int = 8  # rows of the means in which slow units show what single rows do not
    # share of a unit's evidence that comes from one other unit where it is tied to no third
    offsets_mutual: float = 0.8
    offsets_most_lags: int = 720
    offsets_regular: float = 1e8  # condition up to which a row determines the states

    record_gap: float = 1.5  # steps between two rows that count as a gap

    report_bins: int = 24
    report_steps: int = 60

    rows_apart_past: int = 4  # rows of the past
    rows_apart_rows_each: int = 10  # for each coefficient of the regression on it
    rows_apart_partners: int = 6  # units that tell most of a unit
    rows_apart_peaks: int = 4  # lags that are worth a look
    rows_apart_beside: int = 5  # lags on either side of a peak that are compared with it
    rows_apart_level: float = 1e-3  # chance of taking nothing for information, at any lag of any unit
    rows_apart_ratio: float = 4.0  # information at another lag, of that in the same row, with which a clock is off
    rows_apart_peaked: float = 0.35  # share of the information around a peak that is in it
    # share of what a unit shares with single partners, the first left out, who say that it is late
    rows_apart_agreed: float = 0.7
    rows_apart_others: float = 0.3  # the same of all units but one, beyond what they know of its past
    rows_apart_more: float = 1.5  # information at another lag, of that in the same row, where besides
    rows_apart_twice: float = 2.0  # information within a few rows, of that as told, with which units were moved rightly

    tags_few_runs: int = 20  # fewer repetitions than that say nothing about their usual length
    tags_few_levels: int = 10
    tags_modes: int = 5  # levels up to which a tag is taken for a mode or a coarse switch
    tags_still: float = 0.3
    tags_on_lines: float = 0.9  # shares of rows that stand still, and of moving rows on lines, of a programme
    tags_level: float = 1e-3  # false findings per tag that a test allows itself
    tags_shortest: int = 8  # values that a frozen segment has at least
    tags_longer: float = 2.0  # times the longest ordinary segment
    tags_most_frozen: int = 5  # frozen segments looked for in one tag
    tags_lines: float = 0.03  # share of rows on straight lines that counts as interpolation
    tags_rounded_lines: float = 0.5  # the same where rounding makes some by chance
    tags_too_coarse: float = 0.5  # share of lines by chance above which nothing can be said
    tags_fewest_rises: int = 8
    tags_most_resets: float = 0.05  # of a counter: how often it rises, and is set back for each rise
    tags_smooth: float = 0.001  # change of its rise from row to row, as a share, below which a tag follows a curve
    tags_turns: float = 0.1  # share of rows in which a rounded rise is another one
    tags_fewest_fills: int = 3  # cells that hold a fill value
    tags_fewest_levels: int = 10  # a tag with fewer has no limits and no lines


TUNING = Tuning()
