"""``python -m skfedcausal whatif`` and ``impact``: a record under other inputs, and what a move of inputs did."""

import numpy as np
import pandas as pd

from ..containers.arrays import listed, refuse_unknown
from ..estimators._interventions import EFFECT
from ..estimators.counterfactual import FederatedCounterfactualEstimator, InputModel
from ..historian.naming import column_of
from ..server.lagged.stage import SAMPLED
from ._shared import add_options
from .plant_file import FileError, add_max_time, parser_for, row_at, run, save_picture, server_of, write_csv

_FORMS = "a number, 'hold', 'x1.1', '+0.5' or '-0.5' (INPUT==-0.5 to hold a negative number)"
_SHOWN = ["column", "mean", "mean_low", "mean_high", "verdict", "trust", "shows"]
_NAMES = {"column": "tag", "mean": "effect", "mean_low": "low", "mean_high": "high"}


def add_question(reader, *, required):
    """Let a command ask what other inputs do."""
    add_options(reader, "question", do={"required": required, "default": None if required else []})
    add_max_time(reader)


def with_columns(options, columns):
    """The options with columns of the record in place of the names that tags have in the plant."""
    for option, n_names in {"do": 1, "moved": 1, "sampled": 1, "limit": 1, "instrument": 2}.items():
        texts = [text.split("=", 1) for text in getattr(options, option, [])]
        named = [[column_of(name, columns) for name in parts[:n_names]] + parts[n_names:] for parts in texts]
        setattr(options, option, ["=".join(parts) for parts in named])
    options.inputs = [column_of(name, columns) for name in options.inputs.split(",")]
    return options


def asked_estimator(plant, options):
    """The estimator that the options describe, fitted to the record."""
    refuse_unknown(options.inputs, plant.frame.columns, "--inputs names", "the columns that move are", FileError)
    instruments = dict(_pair(text, "--instrument") for text in options.instrument)
    estimator = FederatedCounterfactualEstimator(
        server=server_of(options),
        input_columns=options.inputs,
        sampled=_sampled(options.sampled),
        input_model=InputModel(missing="hold", instruments=instruments or None),
    )
    return estimator.fit(plant.frame, lengths=plant.lengths)


def settings_of(options):
    """Settings of a question that the options describe."""
    return {"loops": "react" if options.react else "hold", "limits": dict(map(_limit, options.limit)) or None}


def changes(texts, first=lambda name: lambda series: np.asarray(series)[0]):
    """What replaces every input, by its name; `first` gives for a name what 'hold' stands for."""
    return dict(_change(text, first) for text in texts)


def _change(text, first):
    """Input and what replaces it."""
    name, value = _pair(text, "--do", f"INPUT=VALUE with {_FORMS}")
    if value == "hold":
        return name, first(name)
    try:
        return name, _rule(value)
    except ValueError:
        raise FileError(f"Got --do {text!r}; give INPUT=VALUE with {_FORMS}.") from None


def _rule(value):
    if value.startswith("x"):
        factor = float(value[1:])
        return lambda series: factor * series
    if value.startswith(("+", "-")):
        step = float(value)
        return lambda series: series + step
    return float(value.removeprefix("="))


def _in_words(value):
    """What a rule does to an input, as in a sentence."""
    signs = {"+": "raised by ", "-": "lowered by ", "x": "multiplied by ", "=": "at "}
    if value == "hold":
        return "held at its first value"
    return signs[value[0]] + value[1:] if value[0] in signs else f"at {value}"


def _sampled(texts):
    """A word for all inputs, or a dict of words by input."""
    words = dict(_pair(text, "--sampled") for text in texts if "=" in text)
    single = [text for text in texts if "=" not in text]
    unknown = [word for word in [*single, *words.values()] if word not in SAMPLED]
    if unknown or len(single) > 1 or (single and words):
        raise FileError(
            f"Got --sampled {' '.join(texts)}; give one of {listed(SAMPLED)} for all inputs, or INPUT=WORD for some."
        )
    return single[0] if single else words or "auto"


def _limit(text):
    name, edges = _pair(text, "--limit")
    try:
        low, high = map(float, edges.split(":"))
    except ValueError:
        raise FileError(f"Got --limit {text!r}; give TAG=LOW:HIGH with two numbers, such as 0:100.") from None
    return name, (low, high)


def _pair(text, option, form="a name, '=' and its value"):
    name, sign, value = text.partition("=")
    if not (sign and name.strip() and value.strip()):
        raise FileError(f"Got {option} {text!r}; give {form}.")
    return name.strip(), value.strip()


def whatif(arguments):
    """Fit, replay the record, and write a table, a picture and the report."""
    parser = parser_for("whatif", "Replay a record of your plant under different inputs.")
    add_question(parser, required=True)
    return run(parser, arguments, _whatif)


def _whatif(plant, folder, options, notes):
    from ..displays import EffectDisplay  # matplotlib is optional
    from ..reports import whatif_page
    from ..reports.impact import mean_effects

    change = changes(with_columns(options, list(plant.frame)).do)
    estimator = asked_estimator(plant, options)
    answer = estimator.whatif(plant.frame, change, lengths=plant.lengths, **settings_of(options))
    write_csv(answer, folder / "whatif.csv")
    save_picture(folder / "whatif.png", lambda: EffectDisplay.from_whatif(answer, measures=plant.measures))
    words = {name: _in_words(value) for name, value in (_pair(text, "--do") for text in options.do)}
    whatif_page(answer, words, check=plant.check, notes=notes()).write(folder / "report.html")
    estimator.report(folder / "plant.html", check=plant.check)
    table = mean_effects(answer).drop(columns="relative").rename(columns=_NAMES)
    return ["Mean effect:", _printed(table.head(10), plant.measures)]


def impact(arguments):
    """Fit, ask about the window, and write a table, a picture and the report."""
    parser = parser_for("impact", "What a move of inputs did within a window, or what other values would have done.")
    add_options(parser, "impact")
    add_question(parser, required=False)
    return run(parser, arguments, _impact)


def _impact(plant, folder, options, notes):
    from ..reports import impact_page  # matplotlib is optional
    from ..reports.page import with_measures

    if bool(options.moved) == bool(options.do):
        raise FileError("Give --moved INPUT for what a move did, or --do INPUT=VALUE for what VALUE would have done.")
    start, stop = window_of(plant, with_columns(options, list(plant.frame)))
    texts = options.do or [text if "=" in text else f"{text}=hold" for text in options.moved]
    change = changes(texts, lambda name: _value_before(plant.frame, name, start))
    estimator = asked_estimator(plant, options)
    record, lengths = _looked_at(plant, start, options.horizon)
    how = settings_of(options) | {name: getattr(options, name) for name in ("confidence", "margin")}
    window, question = (start, min(stop, len(record))), "would" if options.do else "did"
    found = estimator.impact(record, change, window, lengths=lengths, question=question, **how)
    names = listed(tuple(change), quoted=False)
    title = f"What other values of {names} would have done" if options.do else f"What {names} did"
    write_csv(found.total, folder / "impact.csv")
    write_csv(found.table, folder / "rows.csv")
    save_picture(folder / "impact.png", lambda: found.plot(measures=plant.measures))
    impact_page(found, title, plant.check, notes()).write(folder / "report.html")
    estimator.report(folder / "plant.html", check=plant.check)
    table = (
        found.total[_SHOWN]
        .sort_values("verdict", key=lambda told: told != EFFECT, kind="stable")
        .rename(columns=_NAMES)
    )
    head = f"Mean effect of a row in the window, {found.effect_is}:"
    return [with_measures(found.summary, plant.measures), "", head, _printed(table, plant.measures)]


def _printed(table, measures):
    """A table of effects by tag for the terminal, tags with their units."""
    from ..reports.page import with_measures

    table = table.assign(tag=[with_measures(name, measures) for name in table["tag"]])
    return table.to_string(index=False, float_format=lambda x: f"{x:.3g}", na_rep="")


def window_of(plant, options):
    """First row of the window and the one after the last."""
    stop = len(plant.frame) if options.stop is None else _row(options.stop, plant.frame.index)
    start = _row(options.start, plant.frame.index)
    if not 0 <= start < stop <= len(plant.frame):
        raise FileError(
            f"--from {options.start} --to {options.stop or 'the end'} are the rows {start} to {stop} of "
            f"{len(plant.frame)}: that window is empty or outside the record. "
            "Give its first time and the first one after it."
        )
    return start, stop


def _row(text, index):
    """Position of a row that is given by its number or its time."""
    if text.isdecimal():
        return int(text)
    if not isinstance(index, pd.DatetimeIndex):
        raise FileError(f"{text!r} is not a row number, and the file has no times.")
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
