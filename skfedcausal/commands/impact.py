"""``python -m skfedcausal impact plant.csv --moved unit__valve --from 08:00``: what a move did, or would have done."""

import pandas as pd

from ..containers.layout import listed
from ..estimators._interventions import EFFECT
from .plant_file import FileError, parser_for, row_at, run, save_picture, write_csv
from .questions import add_question, asked_estimator, changes, settings_of

_SHOWN = ["column", "mean", "mean_low", "mean_high", "verdict", "trust", "shows"]
_NAMES = {"column": "tag", "mean": "effect", "mean_low": "low", "mean_high": "high"}


def main(arguments):
    """Fit, ask about the window, and write a table, a picture and the report."""
    parser = parser_for("impact", "What a move of inputs did within a window, or what other values would have done.")
    parser.add_argument(
        "--moved",
        action="append",
        default=[],
        metavar="INPUT",
        help="what did its move within the window do? Without it the input would have had the value before the window; "
        "INPUT=VALUE for another; may be given several times",
    )
    parser.add_argument("--from", dest="start", required=True, metavar="TIME", help="first time or row of the window")
    parser.add_argument(
        "--to", dest="stop", metavar="TIME", help="first time or row after it; default: end of the file"
    )
    parser.add_argument(
        "--horizon", type=int, metavar="ROWS", help="rows from the start of the window that are looked at"
    )
    parser.add_argument("--confidence", type=float, default=0.9, help="of bands (default: %(default)g)")
    parser.add_argument(
        "--margin", type=float, default=0.1, help="standard deviations up to which there is no effect to speak of"
    )
    add_question(parser, required=False)
    return run(parser, arguments, _impact)


def _impact(plant, folder, options):
    from ..reports import impact_page  # matplotlib is optional

    if bool(options.moved) == bool(options.do):
        raise FileError("Give --moved INPUT for what a move did, or --do INPUT=VALUE for what VALUE would have done.")
    start, stop = window_of(plant, options)
    texts = options.do or [text if "=" in text else f"{text}=hold" for text in options.moved]
    change = changes(texts, lambda name: _value_before(plant.frame, name, start))
    estimator = asked_estimator(plant, options)
    record, lengths = _looked_at(plant, start, options.horizon)
    found = estimator.impact(
        record,
        change,
        (start, min(stop, len(record))),
        lengths=lengths,
        confidence=options.confidence,
        margin=options.margin,
        question="would" if options.do else "did",
        **settings_of(options),
    )
    names = listed(tuple(change), quoted=False)
    title = f"What other values of {names} would have done" if options.do else f"What {names} did"
    write_csv(found.total, folder / "impact.csv")
    write_csv(found.table, folder / "rows.csv")
    save_picture(folder / "impact.png", found.plot)
    impact_page(found, title, plant.check).write(folder / "report.html")
    estimator.report(folder / "plant.html", check=plant.check)
    table = (
        found.total[_SHOWN]
        .sort_values("verdict", key=lambda told: told != EFFECT, kind="stable")
        .rename(columns=_NAMES)
    )
    told = table.to_string(index=False, float_format=lambda x: f"{x:.3g}", na_rep="")
    return [found.summary, "", f"Mean effect of a row in the window, {found.effect_is}:", told]


def window_of(plant, options):
    """First row of the window and the one after the last."""
    stop = len(plant.frame) if options.stop is None else _row(options.stop, plant.frame.index)
    start = _row(options.start, plant.frame.index)
    if not 0 <= start < stop <= len(plant.frame):
        raise FileError(
            f"--from {options.start} --to {options.stop or 'the end'} are the rows {start} to {stop} of "
            f"{len(plant.frame)}: that is no window. Give its first time and the first one after it."
        )
    return start, stop


def _row(text, index):
    """Position of a row that is given by its number or its time."""
    if text.isdecimal():
        return int(text)
    if not isinstance(index, pd.DatetimeIndex):
        raise FileError(f"{text!r} is no number of a row, and the file has no times.")
    return row_at(text, index)


def _value_before(frame, name, start):
    """Last value of an input before a row."""
    known = frame.get(name, pd.Series(dtype=float)).iloc[:start].dropna()
    if known.empty:
        raise FileError(f"{name!r} has no value before the window; give --moved {name}=VALUE, what it would have been.")
    return known.iloc[-1]


def _looked_at(plant, start, horizon):
    """The record up to so many rows from the start of the window on, and the lengths of its episodes."""
    if horizon is None:
        return plant.frame, plant.lengths
    if horizon < 1:
        raise FileError(f"Got --horizon {horizon}; give a number of rows of at least 1.")
    first, _ = plant.split(min(start + horizon, len(plant.frame)))
    return first.frame, first.lengths
