"""``python -m skfedcausal whatif plant.csv --do unit__valve=0.5``: a record under other inputs."""

from .plant_file import parser_for, run, save_picture, write_csv
from .questions import add_question, asked_estimator, changes, settings_of


def main(arguments):
    """Fit, replay the record, and write a table, a picture and the report."""
    parser = parser_for("whatif", "Replay a record of your plant under other inputs.")
    add_question(parser, required=True)
    return run(parser, arguments, _whatif)


def _whatif(plant, folder, options):
    from ..displays import EffectDisplay  # matplotlib is optional
    from ..reports import whatif_page

    change = changes(options.do)
    estimator = asked_estimator(plant, options)
    answer = estimator.whatif(plant.frame, change, lengths=plant.lengths, **settings_of(options))
    write_csv(answer, folder / "whatif.csv")
    save_picture(folder / "whatif.png", lambda: EffectDisplay.from_whatif(answer))
    words = {name: f"at {value}" for name, _, value in (text.partition("=") for text in options.do)}
    whatif_page(answer, words, check=plant.check).write(folder / "report.html")
    estimator.report(folder / "plant.html", check=plant.check)
    mean = answer.groupby("column", sort=False)["effect"].mean()
    largest = mean.reindex(mean.abs().sort_values(ascending=False).index).head(10)
    return ["Mean effect:", largest.to_string(float_format=lambda x: f"{x:.3g}")]
