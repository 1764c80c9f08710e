"""A self-contained page, escaped and with its pictures inside; its sections on a record; a ledger to read and sign."""

import base64
import io
import re
from datetime import datetime
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template

import pandas as pd

from .._version import __version__
from ..arguments import check_kind
from ..displays import TrendDisplay
from ..optional import import_optional
from ..privacy.promise import NOT_PRIVATE
from ..quality import check_plant
from ..quality.report import PlantCheck
from .tuning import TUNING

# A self-contained page: text is escaped, pictures are inside, nothing is fetched; and its last section.

_LETTERS = 7.0  # inches of a picture, from which on its letters cannot be read on a telephone
_WITHHELD = (
    "The record was given, but noise protects it: this page is computed from the noised copy alone and shows neither a "
    "check of the measurements nor their trends. At the unit, `check_plant` and the displays show both."
)


class Page:
    """Parts of a page in their order; every text is escaped when it comes in.

    Tags in texts and cells are followed by their unit of measurement, by column in `measures`.
    """

    def __init__(self, title, measures=None):
        self.title = str(title)
        self.measures = measures or {}
        self.pictures = []  # as PNG, in the order in which they were added
        self.withholds = False  # whether a record was given that noise protects, and is not shown
        self._parts = []

    def heading(self, text):
        """Start a section."""
        return self._add(f"<h2>{escape(str(text))}</h2>")

    def lead(self, text):
        """Add the sentence to read if there is time for only one."""
        return self._add(f'<p class="lead">{self._words(text)}</p>')

    def text(self, *sentences):
        """Add a paragraph."""
        return self._add(f"<p>{self._words(' '.join(str(sentence) for sentence in sentences))}</p>")

    def items(self, texts):
        """Add a list."""
        items = "".join(f"<li>{self._words(text)}</li>" for text in texts)
        return self._add(f"<ul>{items}</ul>") if items else self

    def against(self, doubts):
        """Add the section on what speaks against the answer."""
        return self.heading("What speaks against it").items(doubts)

    def check_first(self, steps):
        """Add the section on what a reader does next, in order; nothing without steps."""
        steps = list(steps)
        if not steps:
            return self
        items = "".join(f"<li>{self._words(step)}</li>" for step in steps)
        return self.heading("What to check first")._add(f"<ol>{items}</ol>")

    def table(self, frame, empty="None.", folded=None):
        """Add a table, its numbers with three digits; with words to be opened by if it is `folded`."""
        if frame.empty:
            return self.text(empty)
        head = "".join(f'<th scope="col">{escape(str(column))}</th>' for column in frame.columns)
        wide = len(frame.columns) > TUNING.page_narrow
        labels = [f' data-of="{escape(str(column))}"' if wide else "" for column in frame.columns]
        rows = ("".join(map(self._cell, row, labels)) for row in frame.itertuples(index=False))
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        kind = ' class="wide"' if wide else ""
        table = f"<table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        part = f'<div class="scroll">{table}</div>'
        if folded is not None:
            part = f"<details><summary>{escape(str(folded))}</summary>{part}</details>"
        return self._add(part)

    def links(self, targets):
        """Add a list of links to pages beside this one, by their words."""
        items = [f'<li><a href="{escape(target)}">{escape(str(words))}</a></li>' for words, target in targets.items()]
        return self._add(f"<ul>{''.join(items)}</ul>") if items else self

    def picture(self, draw, caption, narrows=True):
        """Add the figure of the display that `draw` makes, closed afterwards; without matplotlib say what is absent.

        One that `narrows` is drawn a second time for a telephone, on less width with letters of the same size.
        """
        try:
            figure = draw().figure_
        except ImportError as error:
            return self.text(f"A picture is missing here ({caption}): {error}")
        self.pictures.append(_png(figure))
        width, height = figure.get_size_inches()
        words, is_wide = self._words(caption), width > _LETTERS
        image = f'<img alt="{words}" src="{_address(self.pictures[-1])}">'
        if is_wide and narrows:
            figure.set_size_inches(TUNING.page_narrowed * width, height)
            _thin_labels(figure)
            image = f'<source media="(max-width: 640px)" srcset="{_address(_png(figure))}">{image}'
        elif is_wide:  # moves sideways on a narrow screen
            image = image.replace("<img", '<img class="wide"', 1)
        import_optional("matplotlib.pyplot", "plot", "A picture").close(figure)
        image = f'<div class="scroll"><picture>{image}</picture></div>'
        return self._add(f"<figure>{image}<figcaption>{words}</figcaption></figure>")

    def html(self):
        """The page."""
        template = Template(files(__package__).joinpath("page.html").read_text("utf-8"))
        made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
        texts = {"title": escape(self.title), "made": made, "body": "\n".join(self._parts)}
        return template.substitute(texts, version=__version__)

    def write(self, path):
        """Write the page to a file; its path."""
        path = Path(path)
        path.write_text(self.html(), encoding="utf-8")
        return path

    def _words(self, text):
        return escape(with_measures(str(text), self.measures))

    def _cell(self, value, label):
        if isinstance(value, float):
            text = "" if pd.isna(value) else f"{value:.3g}"
            return f'<td class="number"{label}>{text}</td>'
        if isinstance(value, int) and not isinstance(value, bool):
            return f'<td class="number"{label}>{value:,}</td>'
        if value is pd.NaT or value is None:
            return f"<td{label}></td>"
        text = when_in_words(value) if isinstance(value, pd.Timestamp) else str(value)
        kind = ' class="short"' if len(text) <= TUNING.page_short and not isinstance(value, pd.Timestamp) else ""
        return f"<td{kind}{label}>{self._words(text)}</td>"

    def _add(self, part):
        self._parts.append(part)
        return self


def _png(figure):
    """A figure as PNG."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=110)
    return stream.getvalue()


def _thin_labels(figure):
    """Leave only every second label of an axis, or fewer, where they do not fit side by side."""
    figure.draw_without_rendering()
    for ax in figure.axes:
        labels = [label for label in ax.get_xticklabels() if label.get_text() and label.get_visible()]
        places = [label.get_window_extent() for label in labels]
        every = next((k for k in range(1, len(labels)) if _are_side_by_side(places[::k])), len(labels) or 1)
        for k, label in enumerate(labels):
            label.set_visible(k % every == 0)


def _are_side_by_side(places):
    return all(one.x1 <= other.x0 for one, other in zip(places[:-1], places[1:], strict=True))


def _address(picture):
    """A picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode('ascii')}"


_TAG = re.compile(r"[^\s,;'\"()]+__[^\s,;'\"()]*[^\s,;:.'\"()]")


def with_measures(text, measures):
    """A text in which tags, ``unit__tag``, are followed by their unit of measurement, by column in `measures`.

    Examples
    --------
    >>> from skfedcausal.reports.page import with_measures
    >>> with_measures("It began in mill__PT1, and kiln__TT2 followed.", {"mill__PT1": "bar"})
    'It began in mill__PT1 [bar], and kiln__TT2 followed.'
    """
    if not measures:
        return text
    if text in measures:
        return _measured(text, measures)
    for name in measures:
        if " " in name and name in text:
            text = text.replace(name, _measured(name, measures))
    return _TAG.sub(lambda found: _measured(found[0], measures), text)


def _measured(name, measures):
    return name if name not in measures or name.endswith((")", "]")) else f"{name} [{measures[name]}]"


def when_in_words(time):
    """A time to the second in its zone, or the number of a row."""
    return f"{time:%Y-%m-%d %H:%M:%S %Z}".strip() if isinstance(time, pd.Timestamp) else f"row {int(time)}"


def listed_in_words(names):
    """A list as in a sentence: "a, b and c"."""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def counted(number, word):
    """A number of things in words: "1 defect", "6 defects"."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def percent(probability):
    """A probability as a reader takes it: never more certain than it is."""
    if probability > TUNING.page_nearly:
        return f"above {TUNING.page_nearly:.1%}"
    if probability < 1 - TUNING.page_nearly:
        return f"below {1 - TUNING.page_nearly:.1%}"
    return f"{probability:.0%}" if 0.01 <= probability <= 0.99 else f"{probability:.1%}"


def measures_of(*sources):
    """Units of measurement by column, of the first of a record and its check that knows some."""
    return next((found for one in sources if (found := getattr(one, "measures", None))), {})


def begun_page(title, estimator, X, check):
    """A page on a fitted estimator, and the record and its check as far as it may show them: not behind a mechanism."""
    if check is not None:
        check_kind(check, "`check`", (PlantCheck,), "what check_plant(X) has found")
    page = Page(title, measures_of(X, check))
    if estimator.privacy_statement_.startswith(NOT_PRIVATE):
        return page, X, check
    page.withholds = X is not None or check is not None
    return page, None, None


def add_departures(page, estimator):
    """The page with its last section: what left the units, and what is promised about it."""
    sent, ledger = estimator.communication_, estimator.ledger_
    share = sent["bytes_up"] / sent["raw_bytes"] if sent["raw_bytes"] else 0.0
    rounds = counted(sent["rounds"], "round")
    page.heading("What data left the units").text(
        f"The units sent {sent['bytes_up']:,} bytes for the fit, in {rounds}: {share:.0%} of the {sent['raw_bytes']:,} "
        f"bytes of raw measurements. In all they have sent {ledger.total('up'):,} bytes and received "
        f"{ledger.total('down'):,}; the list below has every packet. No raw rows and no sensor names are among them."
    )
    packets = pd.DataFrame(
        [(entry.direction, entry.op, entry.n_bytes, set(entry.fields)) for entry in ledger.entries],
        columns=["direction", "what", "n_bytes", "fields"],
    )
    kinds = packets.groupby(["direction", "what"], sort=False)
    table = kinds["n_bytes"].agg(packets="size", bytes="sum")
    table["fields"] = [", ".join(sorted(set().union(*fields))) or "-" for _, fields in kinds["fields"]]
    page.table(table.reset_index())
    return page.text(*[_WITHHELD] * page.withholds, estimator.privacy_statement_)


# Sections of a page about the record itself: what a check found in it, and how its tags went.

_UNITS = ["unit", "tags", "usable", "gaps", "clock", "verdict"]
_FINDINGS = ["unit", "column", "kind", "start", "end", "detail", "advice"]


def check_of(X, check):
    """The check of a record: the one given, that of a table that has one, or one made now; None without a record."""
    if check is not None or X is None:
        return check
    known = getattr(X, "check", None)
    return check_plant(X) if known is None else known


def defects(check):
    """What has to be fixed in the data before anything else, as steps; nothing without a check."""
    first = () if check is None else check.fix_first
    yield from (f"Data: {text}" for text in first[: TUNING.record_most_steps])
    if len(first) > TUNING.record_most_steps:
        yield f'Data: {len(first) - TUNING.record_most_steps} further defects, see "The data" below.'


def add_check(page, check):
    """Section on what was found in the data; nothing without a check."""
    if check is None:
        return
    first = check.fix_first
    page.heading("The data")
    if first:
        page.text(f"{counted(len(first), 'defect')} of the record should be fixed first: conclusions may be wrong.")
        page.items(first[TUNING.record_most_steps :])
    elif check.ok:
        page.text("The check of the record found no defects.")
    else:
        page.text("The check of the record found nothing that has to be fixed first.")
    page.table(check.units[_UNITS].rename(columns={"usable": "usable from a step of"}))
    shown = check.findings[_FINDINGS].head(TUNING.record_most_findings)
    if len(check.findings) > TUNING.record_most_findings:
        page.table(shown, folded=f"The first {TUNING.record_most_findings} of {len(check.findings)} findings")
    elif len(shown):
        page.table(shown, folded=counted(len(shown), "finding"))


def add_trends(page, X, caption, **which):
    """Picture of tags of the record; nothing without a record, or without units to show."""
    if X is not None and which.get("units") != []:
        draw = partial(TrendDisplay.from_record, X, measures=page.measures, **which)
        page.heading("Measurements").picture(draw, caption)


# A site's ledger as a page to read, print and sign.

_AS_MEASURED = "sensor states"  # packets of sensors that a policy lets a site share
_NONE = "No packet holds raw rows of measurements or tag names."
_HEADER = ["packet", "purpose, or field", "meaning", "bytes", "rounding", "noise"]


def ledger_page(entries, totals):
    """Page of a checked ledger."""
    sites = sorted({str(entry.get("site", "")) for entry in entries})
    first, last = (entries[0]["time"], entries[-1]["time"]) if entries else ("-", "-")
    name, refused = ", ".join(sites), [entry for entry in entries if entry["event"] in ("refused", "not sent")]
    page = Page("What the site sent and received").lead(
        f"{name or 'The site'} sent {totals['bytes_up']:,} bytes and received {totals['bytes_down']:,} in "
        f"{counted(totals['entries'], 'packet')}, {totals['refused']:,} of them refused or not sent. "
        f"{_measurements(entries)} The chain of hashes is intact."
    )
    page.items(
        [
            f"Site: {name}",
            f"From: {first}",
            f"To: {last}",
            f"Packets in the ledger: {totals['entries']:,}",
            f"Bytes sent: {totals['bytes_up']:,}",
            f"Bytes received: {totals['bytes_down']:,}",
            f"Refused, or not sent: {totals['refused']:,}",
            "Chain of hashes: intact",
            f"Last hash (keep it elsewhere): {totals['head']}",
        ]
    )
    page.heading("Sent").table(_kinds(entries, "sent"), empty="Nothing.")
    page.heading("Received").table(_kinds(entries, "taken"), empty="Nothing.")
    if refused:
        rows = [(e["number"], e["time"], e["event"], e["reason"]) for e in refused]
        page.heading("Refused").table(pd.DataFrame(rows, columns=["line", "time", "event", "reason"]))
    page.against(
        [
            "Unless the column “noise” says otherwise, packets are data-minimising, not differentially private: "
            "statistics of the measurements can be inferred from them.",
            "The ledger shows what this program sent; it does not show other traffic of the machine.",
        ]
    )
    page.check_first(
        [
            "Does the last hash match the copy kept elsewhere?",
            *(["Is each refusal explained by the site's policy, or did someone ask for more?"] if refused else []),
            "Is every purpose in the tables covered by what was agreed for this site?",
        ]
    )
    return page.text("Read and agreed: ______________________  Date: ____________")


def _measurements(entries):
    """Whether measurements as they are were sent, in a sentence."""
    shared = any(entry["event"] == "sent" and entry["op"] == _AS_MEASURED for entry in entries)
    return f"Readings of sensors that the site shares were sent as measured ({_AS_MEASURED})." if shared else _NONE


def _kinds(entries, event):
    """One table row per field of every kind of packet, with the sum over all packets of that kind."""
    kinds: dict[str, list] = {}
    for entry in entries:
        if entry["event"] == event:
            kinds.setdefault(entry["op"], []).append(entry)
    rows = []
    for op, packets in kinds.items():
        total = sum(entry["n_bytes"] for entry in packets)
        noise = ", ".join(sorted({entry["noise"] for entry in packets}))
        rows.append((op, packets[0]["purpose"], counted(len(packets), "packet"), total, "", noise))
        fields: dict[str, dict] = {}  # their bytes added up, the last shape shown
        for name, field in (pair for entry in packets for pair in entry["fields"].items()):
            fields[name] = {**field, "bytes": field["bytes"] + fields.get(name, {"bytes": 0})["bytes"]}
        for name, field in fields.items():
            shape = " × ".join(map(str, field["shape"])) or "one number"
            what = f"{field['meaning']} ({field['dtype']}, {shape})"
            rows.append(("", name, what, field["bytes"], field["rounding"], ""))
    return pd.DataFrame(rows, columns=_HEADER)
