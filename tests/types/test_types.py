"""What a type checker finds in a user's script."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import skfedcausal

pytest.importorskip("numpydoc")
from ..test_public_names import public_methods, public_names

SCRIPT, PARTS = ((Path(__file__).parent / name).read_text() for name in ("script.txt", "parts.txt"))
ROOT = Path(skfedcausal.__file__).parents[1]


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    return said_of(SCRIPT, tmp_path_factory.mktemp("user"))


def said_of(script, folder):
    """Lines of mypy about a script, as one who has installed the library sees them: (line, kind, text)."""
    pytest.importorskip("mypy")
    (folder / "script.py").write_text(script)
    settings = ["--config-file=", "--follow-imports=silent", "--ignore-missing-imports"]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", *settings, "script.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "MYPYPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("MYPYPATH")]))},
    )
    found = re.findall(r"^script\.py:(\d+): (\w+): (.*)$", run.stdout, re.MULTILINE)
    assert found, run.stdout + run.stderr
    return [(int(line), kind, text) for line, kind, text in found]


@pytest.mark.slow
def test_five_of_five_mistakes_of_a_users_script_are_found_and_no_others(said):
    lines = SCRIPT.splitlines()
    mistakes = [k for k, line in enumerate(lines, 1) if "# mistake" in line]
    assert len(mistakes) == 5
    if _frames_are_unknown(said):  # one of the mistakes is about a table
        mistakes = [k for k in mistakes if "pd." not in lines[k - 1]]
    assert sorted({line for line, kind, _ in said if kind == "error"}) == mistakes


@pytest.mark.slow
def test_an_editor_knows_the_type_at_fourteen_of_fourteen_places(said):
    if _frames_are_unknown(said):
        pytest.skip("needs pandas-stubs: pandas itself says nothing of its types")
    revealed = [text for _, kind, text in said if kind == "note" and text.startswith("Revealed")]
    assert len(revealed) == 14
    assert not [text for text in revealed if re.search(r'type is "(builtins\.)?Any"', text)]
    assert "FederatedGrangerEstimator" in revealed[0]
    assert "DataFrame" in revealed[1]
    assert "ndarray" in revealed[2]
    assert "dict[str, " in revealed[3]


@pytest.mark.slow
def test_what_is_no_part_is_found_and_what_is_one_is_not(tmp_path):
    mistakes = [k for k, line in enumerate(PARTS.splitlines(), 1) if "# mistake" in line]
    assert [line for line, kind, _ in said_of(PARTS, tmp_path) if kind == "error"] == mistakes


def _frames_are_unknown(said):
    texts = [text for _, kind, text in said if kind == "note" and text.startswith("Revealed")]
    return '"Any"' in texts[1]


def test_every_public_function_says_what_it_gives_back():
    silent = [
        name
        for name, thing in [*public_names(), *public_methods()]
        if inspect.isfunction(thing) and not thing.__module__.startswith("skfedcausal.estimators")
        if "return" not in inspect.get_annotations(inspect.unwrap(thing))
    ]
    assert silent == []


STAY = """
    fit fit_sites connect partial_fit predict transform score score_samples report plan test_links forecast
    counterfactual whatif impact transfer_function predict_root_cause incidents update reset decision_function
    attribute fit_predict
"""


@pytest.mark.parametrize(
    "name", ["FederatedGrangerEstimator", "FederatedCounterfactualEstimator", "FederatedRCADetector"]
)
def test_what_estimators_are_asked_says_what_it_gives_back(name):
    kind = getattr(skfedcausal, name)
    for method in filter(lambda method: hasattr(kind, method), STAY.split()):
        assert "return" in inspect.get_annotations(inspect.unwrap(getattr(kind, method))), method


def test_only_public_names_are_shown():
    assert dir(skfedcausal) == sorted(skfedcausal.__all__)
