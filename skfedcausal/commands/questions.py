"""Shared by the commands about inputs: which these are, what replaces them, and how a plant answers."""

import numpy as np

from ..containers.layout import listed
from ..estimators.counterfactual import FederatedCounterfactualEstimator
from ..server.lagged.timing import SAMPLED
from .plant_file import FileError, add_max_time, server_of

_FORMS = "a number, 'hold', 'x1.1', '+0.5' or '-0.5' (INPUT==-0.5 to hold a negative number)"


def add_question(reader, *, required):
    """Let a command ask what other inputs do."""
    reader.add_argument("--inputs", required=True, help="columns that are inputs, unit__tag, with commas between")
    reader.add_argument(
        "--do",
        action="append",
        required=required,
        default=None if required else [],
        metavar="INPUT=VALUE",
        help="what replaces an input: a number, 'hold' (its first value), 'x1.1' (times), '+0.5' or '-0.5' "
        "(added); may be given several times",
    )
    reader.add_argument("--react", action="store_true", help="let the controllers of other units react")
    reader.add_argument(
        "--sampled",
        action="append",
        default=[],
        metavar="[INPUT=]WORD",
        help="when inputs were set: 'after' the row that they stand in was measured, 'before' it, or 'auto'",
    )
    reader.add_argument(
        "--instrument", action="append", default=[], metavar="INPUT=OTHER", help="the input that moves an input"
    )
    reader.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="TAG=LOW:HIGH",
        help="between what a tag can be: stops of a valve, a full and an empty tank; may be given several times",
    )
    add_max_time(reader)


def asked_estimator(plant, options):
    """The estimator that the options describe, fitted to the record."""
    inputs = [name.strip() for name in options.inputs.split(",")]
    unknown = [name for name in inputs if name not in plant.frame]
    if unknown:
        raise FileError(f"--inputs names {listed(unknown)}; the columns that move are {listed(plant.frame.columns)}.")
    estimator = FederatedCounterfactualEstimator(
        server=server_of(options),
        input_columns=inputs,
        missing_inputs="hold",
        sampled=_sampled(options.sampled),
        instruments=dict(_pair(text, "--instrument") for text in options.instrument) or None,
    )
    return estimator.fit(plant.frame, lengths=plant.lengths)


def settings_of(options):
    """Settings of a question that the options describe."""
    limits = dict(_limit(text) for text in options.limit)
    return {"loops": "react" if options.react else "hold", "limits": limits or None}


def changes(texts, first=lambda name: lambda series: np.asarray(series)[0]):
    """What replaces every input, by its name; `first` gives for a name what 'hold' stands for."""
    return dict(_change(text, first) for text in texts)


def _change(text, first):
    """Input and what replaces it."""
    name, sign, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if sign and value == "hold":
        return name, first(name)
    try:
        if not sign:
            raise ValueError
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


def _pair(text, option):
    name, sign, value = text.partition("=")
    if not (sign and name.strip() and value.strip()):
        raise FileError(f"Got {option} {text!r}; give a name, '=' and what belongs to it.")
    return name.strip(), value.strip()
