"""Every public name says what it takes, what it gives back and shows an example."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

NumpyDocString = pytest.importorskip("numpydoc.docscrape").NumpyDocString

MODULES = (
    "skfedcausal",
    "skfedcausal.datasets",
    "skfedcausal.displays",
    "skfedcausal.historian",
    "skfedcausal.metrics",
    "skfedcausal.preprocessing",
    "skfedcausal.privacy",
    "skfedcausal.quality",
    "skfedcausal.transfer",
    "skfedcausal.utils",
)
# an example would need records that are not public, or an object that only estimators make
WITHOUT_EXAMPLE = {
    "load_hai", "load_swat", "prepare_hai", "prepare_records", "prepare_swat",
    "Release", "UnitNoise", "PrivacySpent",
}  # fmt: skip


def public_names():
    found = {}
    for name in MODULES:
        module = importlib.import_module(name)
        own = [k for k, v in vars(module).items() if getattr(v, "__module__", None) == name and k[0] != "_"]
        for public in getattr(module, "__all__", own):
            thing = getattr(module, public)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                found.setdefault(public, thing)
    return sorted(found.items())


def is_signal(thing):
    return inspect.isclass(thing) and issubclass(thing, (Exception, Warning))


@pytest.mark.parametrize(("name", "thing"), public_names())
def test_a_public_name_is_documented(name, thing):
    text = inspect.getdoc(thing)
    assert text, "no docstring"
    doc = NumpyDocString(text)
    assert doc["Summary"]
    if is_signal(thing):
        return
    assert doc["Examples"] or name in WITHOUT_EXAMPLE
    documented = {
        part.strip().lstrip("*")
        for section in ("Parameters", "Attributes")
        for parameter in doc[section]
        for part in parameter.name.split(",")
    }
    taken = {
        p.name
        for p in inspect.signature(thing).parameters.values()
        if p.name not in ("self", "args", "kwargs")
    }
    assert taken <= documented
    if inspect.isfunction(thing):
        assert doc["Returns"] or doc["Yields"]


@pytest.mark.parametrize(("name", "thing"), [item for item in public_names() if inspect.isclass(item[1])])
def test_public_methods_are_documented(name, thing):
    for method, function in vars(thing).items():
        if inspect.isfunction(function) and not method.startswith("_"):
            assert function.__doc__, f"{name}.{method} has no docstring"


@pytest.mark.parametrize(
    ("name", "thing"),
    [(n, t) for n, t in public_names() if n.startswith(("Federated", "Gradient", "Likelihood"))],
)
def test_what_a_fit_leaves_behind_is_documented(name, thing):
    attributes = NumpyDocString(inspect.getdoc(thing))["Attributes"]
    assert any(re.search(r"\w_\b", attribute.name) for attribute in attributes)


def test_the_api_page_lists_every_public_name():
    page = (Path(__file__).parent.parent / "docs" / "api.rst").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   (?:\w+\.)*(\w+)$", page, re.MULTILINE))
    exported = {name for name, _ in public_names()}
    internal = {"Release", "UnitNoise", "flat_name"}
    assert exported - internal <= listed
