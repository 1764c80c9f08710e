"""Numbers that decide in this room, as one frozen object: each with what it is for."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tuning:
    """Numbers of the modules beside this one; the first word of a name is that of its module."""

    archive_usual: float = 0.99  # share of the silences of a tag that are usual ones
    archive_longer: float = 3.0  # times a usual silence, from which on one is an outage
    archive_empty: float = 0.1  # share of the cells without an event, at least, where only changes are stored

    fixes_most_fills: int = 5  # fill values of one tag

    forms_looked_at: int = 3000  # cells of a column, about, by which it is told whether it holds words
    forms_most_words: float = 0.5  # share of the cells of a column that may be words; with more it is a text column
    forms_few_words: float = 0.05  # share of the cells below which words nobody knows are bad values
    forms_long: int = 2  # rows of one time, on average, from which on a table looks like one of a row for every value
    forms_most_qualities: int = 20  # words of one column
    forms_since_1970: float = 1e9  # seconds, of 2001

    grid_turned: float = 0.9  # share of the steps that go back where rows came newest first
    grid_long: int = 125_000  # rows of a column that is large on its own, which has its own place in memory
    grid_least_rows: int = 10  # of an episode; shorter ones are left out

    influx_timeout: float = 60.0  # seconds without a byte

    layouts_sample: int = 20  # cells of a column by which it is told whether they are times

    measures_most: float = 0.8  # share of the words of a line, from which on it is one of units of measurement

    naming_levels: int = 3  # of names from which on the first may be that of the site

    reading_copies: float = 1.5  # times the numbers of a table, which its reading and its check need

    # share of rows without a value from which on a tag that comes at even distances is of a laboratory
    roles_sparse: float = 0.5
    roles_often: float = 0.5  # share of the rows in which a counter rises whose rate is a measurement
    roles_seldom: float = 0.01  # share of the rows with a value, below which a column is left out of a fit
    roles_row: int = 10  # rows between two of its values, at least

    steps_month: float = 27 * 86400.0  # seconds, which months are longer than
    steps_round: float = 0.02  # relative difference of a usual step to the round one that is meant
    steps_pace: float = 0.7  # that of rows late by up to half a step

    table_passes: int = 3  # over the findings
    table_least_rows: int = 2

    # between rows, from which on times are of whole seconds, which few decimals of a day blur
    times_slow_days: float = 1.5 / 86400
    times_block: int = 100_000  # rows of texts that are looked at together
    times_most: float = 0.8

    written_beginning: int = 1_000_000  # letters of a text in which its form is told
    written_looked_at: int = 60  # lines by which it is told
    written_sure: int = 6  # of these, those that alone tell the separator where they agree
    written_most_words: int = 3  # lines of words below a header


TUNING = Tuning()
