"""``python -m skfedcausal whatif plant.csv --do unit__valve=0.5``: a record under other inputs."""

import numpy as np

from ..containers.layout import listed
from ..estimators.counterfactual import FederatedCounterfactualEstimator
from .plant_file import FileError, add_max_time, parser_for, run, save_picture, server_of, write_csv


def main(arguments):
    """Fit, replay the record, and write a table, a picture and the report."""
    parser = parser_for("whatif", "Replay a record of your plant under other inputs.")
    parser.add_argument("--inputs", required=True, help="columns that are inputs, unit__tag, with commas between")
    parser.add_argument(
        "--do",
        action="append",
        required=True,
        metavar="INPUT=VALUE",
        help="what replaces an input: a number, 'hold' (its first value), 'x1.1' (times), '+0.5' or '-0.5' "
        "(added); may be given several times",
    )
    parser.add_argument("--react", action="store_true", help="let the controllers of other units react")
    add_max_time(parser)
    return run(parser, arguments, _whatif)


def _whatif(plant, folder, options):
    from ..displays import EffectDisplay  # matplotlib is optional
    from ..reports import whatif_page

    inputs = [name.strip() for name in options.inputs.split(",")]
    unknown = [name for name in inputs if name not in plant.frame]
    if unknown:
        raise FileError(f"--inputs names {listed(unknown)}; the columns that move are {listed(plant.frame.columns)}.")
    change = dict(_change(text) for text in options.do)
    record = plant.frame, {"lengths": plant.lengths}
    estimator = FederatedCounterfactualEstimator(server=server_of(options), input_columns=inputs, missing_inputs="hold")
    estimator.fit(record[0], **record[1])
    answer = estimator.whatif(record[0], change, loops="react" if options.react else "hold", **record[1])
    write_csv(answer, folder / "whatif.csv")
    save_picture(folder / "whatif.png", lambda: EffectDisplay.from_whatif(answer))
    words = {name: f"at {value}" for name, _, value in (text.partition("=") for text in options.do)}
    whatif_page(answer, words, check=plant.check).write(folder / "report.html")
    estimator.report(folder / "plant.html", check=plant.check)
    mean = answer.groupby("column", sort=False)["effect"].mean()
    largest = mean.reindex(mean.abs().sort_values(ascending=False).index).head(10)
    return ["Mean effect:", largest.to_string(float_format=lambda x: f"{x:.3g}")]


def _change(text):
    """Input and what replaces it."""
    name, sign, value = text.partition("=")
    try:
        if not sign:
            raise ValueError
        return name.strip(), _rule(value.strip())
    except ValueError:
        raise FileError(
            f"Got --do {text!r}; give INPUT=VALUE with a number, 'hold', 'x1.1', '+0.5' or '-0.5' "
            "(INPUT==-0.5 to hold a negative number)."
        ) from None


def _rule(value):
    if value == "hold":
        return lambda series: np.asarray(series)[0]
    if value.startswith("x"):
        factor = float(value[1:])
        return lambda series: factor * series
    if value.startswith(("+", "-")):
        step = float(value)
        return lambda series: series + step
    return float(value.removeprefix("="))
