"""Published figures and pages are what the code gives, and a planted change is found by its name."""

import copy
import runpy

import numpy as np
import pytest

from benchmarks import _pages, standing
from benchmarks._rivals import kernel_granger
from benchmarks.field import methods, regimes
from benchmarks.links import curved
from benchmarks.paper1 import losses
from benchmarks.paper3 import _setting as third
from skfedcausal.papers.client import network_training, training

GROUPS = _pages.groups()
PLANTED = "paper1", {"losses": losses}


@pytest.mark.parametrize("group", GROUPS)
def test_pages_and_figures_fit_each_other(group):
    """Pages are written from the figures, no figure by hand, and the two forms agree where their settings do."""
    assert _pages.at_rest(group) == []


@pytest.mark.parametrize("group", GROUPS)
def test_every_table_of_both_forms_is_published(group):
    for form in ("full", "small"):
        assert list(_pages.published(group, form)) == list(_pages.settings(group, form))
    assert set(_pages.settings(group, "small")) <= set(_pages.settings(group))


def test_the_page_of_standing_is_what_the_groups_say_and_every_page_is_made():
    assert standing.wrong_at_rest() == []


def test_scripts_and_pages_are_few():
    folder = _pages.RESULTS.parent
    assert len(list(folder.rglob("*.py"))) <= 48
    assert len(list(folder.rglob("*.md"))) <= 25


@pytest.mark.medium
def test_the_figures_are_those_published():
    assert _pages.check(*PLANTED) == []


@pytest.mark.medium
def test_a_changed_figure_is_named(monkeypatch, capsys):
    kept = copy.deepcopy(_pages.published("paper1", "small"))
    kept["losses"]["sections"]["Where training ends"][0]["error of both blocks"] *= 1.001
    read = _pages.published
    monkeypatch.setattr(_pages, "published", lambda p, form="full": kept if form == "small" else read(p, form))
    assert _pages.main(["paper1", "--small", "--tables", "losses"]) == 1
    name = "losses / Where training ends / paper's mode, its limit / error of both blocks: "
    told = capsys.readouterr().out
    assert name + "published" in told
    assert name + "not what was computed (small.json)" in told


def test_a_changed_page_is_named(monkeypatch):
    monkeypatch.setattr(losses, "TITLE", "First paper, Figure 3")
    (line,) = _pages.stale_pages("paper1")
    assert line.startswith("benchmarks/results/paper1.md, line")
    assert line.endswith("the figures give '## First paper, Figure 3'")


@pytest.mark.medium
def test_a_changed_metric_is_found(monkeypatch):
    exact = losses.relative_error
    monkeypatch.setattr(losses, "relative_error", lambda A, truth: exact(A, truth) ** 2)
    found = _pages.check(*PLANTED)
    assert len(found) == 3
    assert all("error of both blocks" in line for line in found)


@pytest.mark.medium
def test_a_changed_sign_of_a_gradient_is_found(monkeypatch):
    exact = training.parameter_update
    monkeypatch.setattr(
        training,
        "parameter_update",
        lambda rates, client, server, parameters: exact(rates, client, -server, parameters),
    )
    assert any("Losses and distances along training" in line for line in _pages.check(*PLANTED))


@pytest.mark.medium
def test_a_changed_sign_of_the_networks_gradient_is_found(monkeypatch):
    settings = _pages.settings("paper3", "small")["table2"] | {
        "n_train": 300,
        "n_nominal": 100,
        "n_test": 100,
    }
    train, _, _ = third.records(settings, 0)
    history = third.trained(settings, train).server_.loss_history_
    exact = network_training.output_gradient
    monkeypatch.setattr(network_training, "output_gradient", lambda *given: -exact(*given))
    planted = third.trained(settings, train).server_.loss_history_
    told = [
        _pages.flat("table", {"losses": [{"": str(k), "client": value} for k, value in enumerate(one)]})
        for one in (history.client.sum(axis=1), planted.client.sum(axis=1))
    ]
    assert _pages.differences(*told, *_pages.tolerances("paper3", "sensitivity"))


@pytest.mark.medium
def test_a_strangers_method_joins_the_benchmark(tmp_path, capsys, monkeypatch):
    """Twenty lines in a file of one's own; one that fails has a row that says so."""
    monkeypatch.setitem(methods.TASKS, "links", dict(methods.TASKS["links"]))
    runpy.run_path("tests/_stranger.py")
    file = tmp_path / "broken.py"
    file.write_text(
        "from benchmarks.field.methods import method\n"
        "@method('links', 'broken')\n"
        "def broken(case):\n"
        "    raise RuntimeError('no idea')\n"
    )
    runpy.run_path(str(file))
    settings = _pages.settings("field", "small")["regimes"] | {"regimes": ["stationary"], "n_samples": 300}
    sections = _pages.compute(regimes, settings | {"n_test": 150})
    told = {row["method"]: row for row in sections[regimes.LINKS]}
    assert "broken" not in {row["method"] for row in sections[regimes.MEANS]}
    assert 0 <= told["stranger: lagged correlation"]["AUROC"] <= 1
    assert told["broken"][""] == "failed: RuntimeError"
    assert "broken failed: no idea" in capsys.readouterr().out


def test_what_is_missing_is_said_and_the_rest_goes_on(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SKFEDCAUSAL_DATA", str(tmp_path))
    modules = {name: module for name, module in _pages.tables_of("paper1").items() if name == "table7"}
    found, reasons = _pages.run("paper1", modules, "full")
    assert found == {}
    assert str(tmp_path) in reasons["table7"]
    assert "paper1.table7 is left out: none of tep, batadal, hai, swat" in capsys.readouterr().out


# -- plants that are not straight, and a rival ------------------------------------------------------------------


@pytest.mark.parametrize("kind", curved.PLANTS)
def test_a_plant_of_known_equations_is_bounded_and_has_some_links(kind):
    found = curved.plant(kind, 3, 40)
    assert found.linked.shape == (len(found.X),) * 2
    assert 0 < found.linked.sum() < len(found.X) * (len(found.X) - 1)
    assert not found.linked.diagonal().any()
    for rows in found.X.values():
        assert len(rows) == 40
        assert np.abs(rows).max() < 1e4


def test_a_kernel_tells_a_square_and_no_link_that_is_not_there():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 3))
    x[1:, 1] += x[:-1, 0] ** 2
    p, size = kernel_granger([x[:, [k]] for k in range(3)], 1)
    assert p[1, 0] < 1e-3
    assert size[1, 0] == size.max()
    assert np.sort(p[~np.eye(3, dtype=bool)])[1] > 0.02


# -- a small group of its own ---------------------------------------------------------------------------------


SETTINGS = """
[tolerance]
default = 1e-3
table = { default = 1e-3, loose = 0.5 }

[absolute]
table = { verdicts = 0.1 }

[full.table]
seeds = [0, 1]

[full.bare]

[small.table]
seeds = [0]

[[standing]]
question = "Which is nearer"
table = "table"
ours = "One | ours | error"
other = "One | theirs | error"
better = "less"
tool = "theirs"

[[standing]]
question = "And what has no small form"
table = "bare"
ours = "One | ours | error"
better = "less"
"""


class Table:
    """A table of few figures."""

    TITLE, TEXT = "A table", "Made of {seeds}."

    def __init__(self, reason=""):
        self.error, self.verdicts, self.loose, self.reason = 0.125, 0.5, 1.0, reason

    def missing(self, settings):
        return self.reason

    def figures(self, settings):
        ours = {"": "ours", "error": self.error, "verdicts": self.verdicts, "loose": self.loose}
        return {"One": [ours, {"": "theirs", "error": 0.25}]}


class Bare(Table):
    TEXT = "Without seeds."


@pytest.fixture
def table(tmp_path, monkeypatch):
    """The group `demo`, alone in a folder of its own, published with its page of standing."""
    found = Table()
    (tmp_path / "benchmarks" / "demo").mkdir(parents=True)
    (tmp_path / "benchmarks" / "demo" / "settings.toml").write_text(SETTINGS)
    monkeypatch.setattr(_pages, "RESULTS", tmp_path / "benchmarks" / "results")
    monkeypatch.setattr(_pages, "tables_of", lambda group: {"table": found, "bare": Bare()})
    for arguments in (["demo"], ["demo", "--small", "--write"]):
        assert _pages.main(arguments) == 0
    assert standing.main([]) == 0
    return found


def planted(place, old, new):
    path = _pages.RESULTS / place
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def checked(capsys, *arguments):
    """Exit code and lines of a check."""
    capsys.readouterr()
    return standing.main(["--check", *arguments]), capsys.readouterr().out.splitlines()


def test_the_page_of_standing_shows_both_and_links_the_page(table):
    line = next(line for line in (_pages.RESULTS / "standing.md").read_text().splitlines() if "nearer" in line)
    assert line.startswith("| Which is nearer | **0.125** | 0.25 (theirs) |  | [demo, table](demo/table.md) |")
    assert _pages.published("demo")["table"]["facts"]["commit"] in line
    page = (_pages.RESULTS / "demo" / "table.md").read_text()
    for part in (
        "- command: `OMP_NUM_THREADS=",
        "- commit: ",
        "- processor: ",
        "- seeds: seeds 0, 1",
        "- CPU seconds: ",
    ):
        assert part in page


def test_what_is_as_published_holds(table, capsys):
    code, lines = checked(capsys)
    assert code == 0
    assert "demo/table: Which is nearer: holds" in lines
    assert "demo/bare: And what has no small form: not run: it has no small form" in lines


def test_a_wrong_figure_in_a_page_is_named(table, capsys):
    planted("demo/table.md", "| ours | 0.125 |", "| ours | 0.025 |")
    code, lines = checked(capsys)
    assert code == 1
    assert "demo/table: Which is nearer: does not hold" in lines
    (line,) = [line for line in lines if line.startswith("benchmarks/results/demo/table.md, line ")]
    assert "'| ours | 0.025 |" in line


@pytest.mark.parametrize("form", ["full", "small"])
def test_a_wrong_figure_among_those_kept_is_named(table, capsys, form):
    planted(f"demo/{form}.json", '"error": 0.125', '"error": 0.025')
    code, lines = checked(capsys)
    assert code == 1
    assert f"demo / table / One / ours / error: not what was computed ({form}.json)" in lines
    assert "demo/table: Which is nearer: does not hold" in lines


def test_a_figure_that_was_taken_out_is_named(table, capsys):
    planted("demo/full.json", ',\n     "loose": 1.0', "")
    assert "demo / table / One / a figure that is gone: not what was computed (full.json)" in checked(capsys)[1]


def test_a_wrong_figure_in_the_page_of_standing_is_named(table, capsys):
    planted("standing.md", "**0.125**", "**0.025**")
    code, lines = checked(capsys)
    assert code == 1
    (line,) = [line for line in lines if line.startswith("benchmarks/results/standing.md, line ")]
    assert "**0.025**" in line


def test_code_that_gives_another_figure_is_named(table, capsys):
    table.error = 0.126
    code, lines = checked(capsys, "--tables", "demo/table")
    assert code == 1
    assert "demo / table / One / ours / error: published 0.125, now 0.126" in lines
    assert "demo/table: Which is nearer: does not hold" in lines


def test_tolerances_are_by_column(table, capsys):
    table.verdicts, table.loose = 0.6, 1.4
    assert checked(capsys)[0] == 0
    table.verdicts, table.loose = 0.61, 3.0
    code, lines = checked(capsys)
    assert code == 1
    assert [line for line in lines if "now 0.61" in line]
    assert [line for line in lines if "now 3.0" in line]


def test_what_cannot_be_run_never_holds(table, capsys):
    table.reason = "none of tep is here"
    code, lines = checked(capsys)
    assert code == 0
    assert "demo/table: Which is nearer: not run: none of tep is here" in lines
    assert not [line for line in lines if "holds" in line]


def test_a_table_that_fails_is_named_and_the_rest_goes_on(table, capsys, monkeypatch):
    monkeypatch.setattr(table, "figures", lambda settings: 1 / 0)
    code, lines = checked(capsys)
    assert code == 1
    assert "demo / table: failed, ZeroDivisionError: division by zero" in lines
    assert "demo/table: Which is nearer: does not hold" in lines


def test_a_line_about_what_is_not_published_is_named(table, capsys):
    path = _pages.RESULTS.parent / "demo" / "settings.toml"
    path.write_text(SETTINGS.replace("One | theirs", "One | whose"))
    code, lines = checked(capsys)
    assert code == 1
    assert [line for line in lines if line.startswith("demo / table / One / whose / error: not published")]


def test_a_page_that_no_table_makes_is_named(table, capsys):
    (_pages.RESULTS / "demo" / "older.md").write_text("# What once was")
    code, lines = checked(capsys)
    assert code == 1
    assert "benchmarks/results/demo/older.md: no table makes it" in lines


def test_a_table_that_is_not_there_is_refused_with_those_that_are(table, capsys):
    with pytest.raises(SystemExit):
        standing.main(["--check", "--tables", "demo/tabel"])
    assert "no table demo/tabel, but demo/table, demo/bare" in capsys.readouterr().err


def test_parts_are_balanced_and_hold_every_table_once():
    found = {("a", str(k)): seconds for k, seconds in enumerate([100, 60, 50, 40, 30, 20, 10, None])}
    parts = [standing.part_of(found, f"{k}/3") for k in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(found)
    assert max(sum(found[name] or 0 for name in part) for part in parts) <= 110
    assert standing.part_of(found, "today/3") in parts
    with pytest.raises(ValueError, match="K/N with K from 1 to N"):
        standing.part_of(found, "4/3")
