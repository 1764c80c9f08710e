"""``python -m skfedcausal links plant.csv``: which unit drives which."""

from ..estimators.granger import FederatedGrangerEstimator
from ..server.links.grades import told_links
from .plant_file import add_max_time, parser_for, run, save_picture, server_of, write_csv


def main(arguments):
    """Fit, and write a table, a picture and the report."""
    parser = parser_for("links", "Learn which unit of your plant drives which.")
    add_max_time(parser)
    return run(parser, arguments, _links)


def _links(plant, folder, options, notes):
    from ..displays import LinkMatrixDisplay  # matplotlib is optional
    from ..reports.plant import plant_page, ranked_links

    estimator = FederatedGrangerEstimator(server=server_of(options)).fit(plant.frame, lengths=plant.lengths)
    links = ranked_links(estimator.links_)
    write_csv(links, folder / "links.csv")
    save_picture(folder / "links.png", lambda: LinkMatrixDisplay.from_estimator(estimator))
    plant_page(estimator, X=plant.frame, check=plant.check, notes=notes()).write(folder / "report.html")
    found = told_links(links)
    shown = found[["cause", "effect", "verdict", "strength", "low", "high", "norm", "p_adjusted", "because"]]
    told = shown.to_string(index=False, float_format=lambda x: f"{x:.3g}")
    return ["No link could be shown." if found.empty else told]
