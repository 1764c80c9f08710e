"""A self-contained page: text is escaped, pictures are inside, nothing is fetched."""

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

    Parameters
    ----------
    title : str

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
        """A section begins."""
        return self._add(f"<h2>{escape(str(text))}</h2>")

    def lead(self, text):
        """The one sentence to read if there is time for one."""
        return self._add(f'<p class="lead">{escape(str(text))}</p>')

    def text(self, *sentences):
        """A paragraph."""
        return self._add(f"<p>{escape(' '.join(str(sentence) for sentence in sentences))}</p>")

    def items(self, texts):
        """A list."""
        return self._add("<ul>" + "".join(f"<li>{escape(str(text))}</li>" for text in texts) + "</ul>")

    def table(self, frame, empty="None."):
        """A table; numbers with three digits."""
        if frame.empty:
            return self.text(empty)
        head = "".join(f'<th scope="col">{escape(str(column))}</th>' for column in frame.columns)
        rows = ("".join(_cell(value) for value in row) for row in frame.itertuples(index=False))
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return self._add(
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )

    def picture(self, figure, caption):
        """A matplotlib figure, closed afterwards."""
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=110)
        import_optional("matplotlib.pyplot", "plot", "A picture").close(figure)
        data = base64.b64encode(stream.getvalue()).decode("ascii")
        words = escape(str(caption))
        return self._add(
            f'<figure><img alt="{words}" src="data:image/png;base64,{data}"><figcaption>{words}</figcaption>'
            "</figure>"
        )

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
        """Write the page to a file.

        Returns
        -------
        Path
        """
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
