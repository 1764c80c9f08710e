"""The papers' published figures are what the code gives, and a planted change is found by its name."""

import copy
import runpy

import pytest

from benchmarks import _paper
from benchmarks.field import links, methods
from benchmarks.paper1 import losses
from benchmarks.paper3 import _setting as third
from skfedcausal.client import network_training, training

PAPERS = ("paper1", "paper2", "paper3", "field")
PLANTED = "paper1", {"losses": losses}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_page_is_written_from_the_figures(paper):
    assert _paper.stale_pages(paper, _paper.tables_of(paper)) == []


@pytest.mark.parametrize("paper", PAPERS)
def test_figures_of_both_forms_agree_where_their_settings_do(paper):
    assert _paper.shared_differences(paper, _paper.tables_of(paper)) == []


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_of_the_small_form_is_published(paper):
    small = _paper.settings(paper, "small")
    assert list(_paper.published(paper, "small")) == list(small)
    assert set(small) <= set(_paper.settings(paper))


@pytest.mark.medium
def test_the_figures_are_those_published():
    assert _paper.check(*PLANTED) == []


@pytest.mark.medium
def test_a_changed_figure_is_named(monkeypatch, capsys):
    kept = copy.deepcopy(_paper.published("paper1", "small"))
    kept["losses"]["sections"]["Where training ends"][0]["error of both blocks"] *= 1.001
    read = _paper.published
    monkeypatch.setattr(_paper, "published", lambda p, form="full": kept if form == "small" else read(p, form))
    assert _paper.main("paper1", ["--small", "--tables", "losses"]) == 1
    name = "losses / Where training ends / paper's mode, its limit / error of both blocks: published"
    assert name in capsys.readouterr().out


def test_a_changed_page_is_named(monkeypatch):
    monkeypatch.setattr(losses, "TITLE", "First paper, Figure 3")
    assert _paper.stale_pages(*PLANTED) == ["benchmarks/results/paper1/losses.md: not what the published figures give"]


@pytest.mark.medium
def test_a_changed_metric_is_found(monkeypatch):
    exact = losses.relative_error
    monkeypatch.setattr(losses, "relative_error", lambda A, truth: exact(A, truth) ** 2)
    found = _paper.check(*PLANTED)
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
    assert any("Losses and distances along training" in line for line in _paper.check(*PLANTED))


@pytest.mark.medium
def test_a_changed_sign_of_the_networks_gradient_is_found(monkeypatch):
    settings = _paper.settings("paper3", "small")["table2"] | {
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
        _paper.flat("table", {"losses": [{"": str(k), "client": value} for k, value in enumerate(one)]})
        for one in (history.client.sum(axis=1), planted.client.sum(axis=1))
    ]
    assert _paper.differences(*told, _paper.tolerances("paper3")["default"])


@pytest.mark.medium
def test_a_strangers_method_joins_the_benchmark(tmp_path, capsys, monkeypatch):
    """Twenty lines in a file of one's own; one that fails has a row that says so."""
    monkeypatch.setitem(methods.TASKS, "links", dict(methods.TASKS["links"]))
    runpy.run_path("benchmarks/field/stranger.py")
    file = tmp_path / "broken.py"
    file.write_text(
        "from benchmarks.field.methods import method\n"
        "@method('links', 'broken')\n"
        "def broken(case):\n"
        "    raise RuntimeError('no idea')\n"
    )
    runpy.run_path(str(file))
    settings = _paper.settings("field", "small")["links"] | {"regimes": ["stationary"], "n_samples": 300}
    (rows,) = _paper.compute(links, settings).values()
    told = {row["method"]: row for row in rows}
    assert 0 <= told["stranger: lagged correlation"]["AUROC"] <= 1
    assert told["broken"][""] == "failed: RuntimeError"
    assert "broken failed: no idea" in capsys.readouterr().out


def test_what_is_missing_is_said_and_the_rest_goes_on(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SKFEDCAUSAL_DATA", str(tmp_path))
    modules = {name: module for name, module in _paper.tables_of("paper1").items() if name == "table7"}
    found, reasons = _paper.run("paper1", modules, "full")
    assert found == {}
    assert str(tmp_path) in reasons["table7"]
    assert "paper1.table7 is left out: none of tep, batadal, hai, swat" in capsys.readouterr().out
