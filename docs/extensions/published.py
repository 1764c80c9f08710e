"""Published figures of the papers' tables in the text: a role for one figure, a directive for a section.

``:published:`paper1 | table3 | One record | paper | error``` is one figure; a sixth part is its format.
``.. published:: paper1 | table3 | One record`` is the section as a table, ``:columns:`` (separated by ``|``)
some of its columns. What is not published stops the build.
"""

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective, SphinxRole

from benchmarks._pages import flat, shown, text_of


def section_of(paper, table, section):
    """Rows of a published section."""
    sections = shown(paper)[table][0]["sections"]
    if section not in sections:
        raise KeyError(f"{paper}, {table} has no section {section!r}, but {list(sections)}")
    return sections[section]


def figure(text):
    """One published figure in words."""
    paper, table, section, row, column, *form = (part.strip() for part in text.split("|"))
    value = flat(table, {section: section_of(paper, table, section)})[" / ".join([table, section, row, column])]
    return format(value, form[0]) if form else text_of(value)


class Published(SphinxRole):
    """One figure."""

    def run(self):
        """The figure as text."""
        return [nodes.Text(figure(self.text))], []


class PublishedTable(SphinxDirective):
    """A section."""

    required_arguments = 1
    final_argument_whitespace = True
    option_spec = {"columns": directives.unchanged}

    def run(self):
        """The section as a table."""
        paper, table, section = (part.strip() for part in self.arguments[0].split("|"))
        rows = section_of(paper, table, section)
        columns = list(dict.fromkeys(key for row in rows for key in row))
        if "columns" in self.options:
            columns = ["" if c.strip() == "-" else c.strip() for c in self.options["columns"].split("|")]
        group = nodes.tgroup(cols=len(columns))
        group += [nodes.colspec(colwidth=1) for _ in columns]
        group += nodes.thead("", line(columns))
        group += nodes.tbody("", *(line(text_of(row.get(column)) for column in columns) for row in rows))
        parts = [nodes.table("", group)]
        small = shown(paper)[table][1]["form"] == "small"
        return [*parts, nodes.paragraph(text="(Small form of the table.)")] if small else parts


def line(cells):
    """A row of a table."""
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=cell)) for cell in cells))


def setup(app):
    """Register both."""
    app.add_role("published", Published())
    app.add_directive("published", PublishedTable)
    return {"parallel_read_safe": True}
