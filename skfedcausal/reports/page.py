"""A self-contained page: text is escaped, pictures are inside, nothing is fetched; and its last section."""

import base64
import io
from datetime import datetime
from html import escape
from pathlib import Path

import pandas as pd

from .._version import __version__
from ..optional import import_optional

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto;
  max-width: 60rem; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .4rem; }
p { margin: .4rem 0; max-width: 46rem; }
.lead { font-size: 1.1rem; border-left: .3rem solid #0072B2; padding: .2rem .9rem; margin: 1rem 0; }
.meta, footer, figcaption { color: #555; font-size: .85rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { border-bottom: 1px solid #ccc; padding: .25rem .6rem; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1rem 0; } img { max-width: 100%; height: auto; }
footer { margin-top: 3rem; border-top: 1px solid #ccc; }
@media print { body { max-width: none; } h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""


class Page:
    """Parts of a page in their order; every text is escaped when it comes in.

    Examples
    --------
    >>> from skfedcausal.reports.page import Page
    >>> page = Page("Plant <A>").heading("Links").text("boiler & turbine")
    >>> "Plant &lt;A&gt;" in page.html() and "boiler &amp; turbine" in page.html()
    True
    """

    def __init__(self, title):
        self.title = str(title)
        self._parts = []

    def heading(self, text):
        """Start a section."""
        return self._add(f"<h2>{escape(str(text))}</h2>")

    def lead(self, text):
        """Add the sentence to read if there is time for only one."""
        return self._add(f'<p class="lead">{escape(str(text))}</p>')

    def text(self, *sentences):
        """Add a paragraph."""
        return self._add(f"<p>{escape(' '.join(str(sentence) for sentence in sentences))}</p>")

    def items(self, texts):
        """Add a list."""
        return self._add("<ul>" + "".join(f"<li>{escape(str(text))}</li>" for text in texts) + "</ul>")

    def table(self, frame, empty="None."):
        """Add a table, its numbers with three digits."""
        if frame.empty:
            return self.text(empty)
        head = "".join(f'<th scope="col">{escape(str(column))}</th>' for column in frame.columns)
        rows = ("".join(_cell(value) for value in row) for row in frame.itertuples(index=False))
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return self._add(f'<div class="scroll">{table}</div>')

    def picture(self, figure, caption):
        """Add a matplotlib figure, which is closed afterwards."""
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=110)
        import_optional("matplotlib.pyplot", "plot", "A picture").close(figure)
        source = f"data:image/png;base64,{base64.b64encode(stream.getvalue()).decode('ascii')}"
        words = escape(str(caption))
        image = f'<img alt="{words}" src="{source}"><figcaption>{words}</figcaption>'
        return self._add(f"<figure>{image}</figure>")

    def html(self):
        """The page."""
        made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
        title = escape(self.title)
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
            "style-src 'unsafe-inline'\">"
            f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><main><h1>{title}</h1>"
            f'<p class="meta">Written {made}</p>\n'
            + "\n".join(self._parts)
            + f"\n</main><footer>skfedcausal {__version__}. This page loads nothing from anywhere.</footer>"
            "</body></html>\n"
        )

    def write(self, path):
        """Write the page to a file; its path."""
        path = Path(path)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def _add(self, part):
        self._parts.append(part)
        return self


def _cell(value):
    if isinstance(value, float):
        text = "" if pd.isna(value) else f"{value:.3g}"
        return f'<td class="number">{text}</td>'
    if isinstance(value, int) and not isinstance(value, bool):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape(str(value))}</td>"


def listed_in_words(names):
    """A list as in a sentence: "a, b and c"."""
    names = [str(name) for name in names]
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " and " + names[-1]


def add_departures(page, estimator):
    """Last section of a report: what left the units, and what is promised about it."""
    sent, ledger = estimator.communication_, estimator.ledger_
    share = sent["bytes_up"] / sent["raw_bytes"] if sent["raw_bytes"] else 0.0
    rounds = f"{sent['rounds']} round{'s' * (sent['rounds'] != 1)}"
    page.heading("What data left the units")
    page.text(
        f"For the fit {sent['bytes_up']:,} bytes went up in {rounds}, "
        f"{share:.0%} of the {sent['raw_bytes']:,} bytes of raw measurements. So far it has been "
        f"{ledger.total('up'):,} bytes up and {ledger.total('down'):,} bytes down, every packet on the list "
        "below. Rows of raw measurements and names of sensors are not among them."
    )
    packets = pd.DataFrame(
        [(entry.direction, entry.op, entry.n_bytes, set(entry.fields)) for entry in ledger.entries],
        columns=["direction", "what", "n_bytes", "fields"],
    )
    kinds = packets.groupby(["direction", "what"], sort=False)
    table = kinds["n_bytes"].agg(packets="size", bytes="sum")
    table["fields"] = [", ".join(sorted(set().union(*fields))) or "-" for _, fields in kinds["fields"]]
    page.table(table.reset_index())
    page.text(estimator.privacy_statement_)
