"""Every public name says what it takes, what it gives back and shows an example."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import skfedcausal
from skfedcausal import FederatedGrangerEstimator, inspection, papers

NumpyDocString = pytest.importorskip("numpydoc.docscrape").NumpyDocString

MODULES = (
    "skfedcausal",
    "skfedcausal.datasets",
    "skfedcausal.displays",
    "skfedcausal.federation",
    "skfedcausal.historian",
    "skfedcausal.inspection",
    "skfedcausal.message",
    "skfedcausal.metrics",
    "skfedcausal.papers",
    "skfedcausal.containers",
    "skfedcausal.privacy",
    "skfedcausal.quality",
    "skfedcausal.secure",
    "skfedcausal.streams",
    "skfedcausal.testing",
    "skfedcausal.transfer",
    "skfedcausal.containers",
)
# an example would need records that are not public, or an object that only a mechanism makes
WITHOUT_EXAMPLE = {
    "load_hai", "load_swat", "prepare_hai", "prepare_records", "prepare_swat", "Release", "UnitNoise",
    "follow_mqtt", "follow_sites", "partial_fit_sites", "to_networkx", "watch_sites",
}  # fmt: skip
# the one contract that all messages share; StateMessage and Packet describe it
CODEC = {"to_packet", "from_packet"}
# names that stem from one of the papers or from the literature say from where
FROM_A_SOURCE = {
    "FederatedCounterfactualEstimator", "FederatedGrangerEstimator", "FederatedRCADetector", "KalmanClient",
    "ExtendedKalmanClient", "LikelihoodServer", "GradientServer", "RegressorServer", "MomentServer", "SecureSumsServer",
    "LinearAugmenter", "GaussianMechanism", "RandomizedResponse", "PrivacyAccountant", "LSTMRegressor",
    "SELURegressor", "check_plant", "TransferFunction", "epsilon_of", "gaussian_noise_multiplier",
    "mu_from_epsilon", "epsilon_from_mu", "randomized_response_composition",
    "augmented_message_sensitivity", "server_gradient_sensitivity", "make_nonlinear_plant",
    "load_tep", "load_batadal", "load_causrca", "load_skab", "load_sysid", "load_hai", "load_swat",
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


def public_methods():
    """Methods of public classes, inherited ones of ours once, at the first class that has them.

    Without those that are described at a public class they override.
    """
    classes = {thing for _, thing in public_names() if inspect.isclass(thing)}
    seen = set()
    for name, thing in public_names():
        for method in dir(thing) if inspect.isclass(thing) else ():
            function = inspect.getattr_static(thing, method)
            function = getattr(function, "fn", function)  # of `available_if`
            function = getattr(function, "__func__", function)
            if not inspect.isfunction(function) or method[0] == "_" or function in seen:
                continue
            described_above = any(method in vars(base) for base in classes & set(thing.__mro__[1:]))
            if function.__module__.startswith("skfedcausal") and not described_above:
                seen.add(function)
                yield f"{name}.{method}", inspect.unwrap(function)


def code_of(function):
    """Source of a function without its docstring."""
    source = inspect.getsource(function)
    return source.split('"""', 2)[-1] if function.__doc__ else source


def described(doc, *sections):
    """Names under some sections of a docstring."""
    names = (p.name for section in sections for p in doc[section])
    return {part.strip().lstrip("*") for name in names for part in name.split(",")}


def is_described_at_the_estimator(name):
    """Questions that are passed on to a server with the messages, under the same name."""
    owner, method = name.split(".")
    of_estimators = hasattr(FederatedGrangerEstimator, method) or hasattr(inspection, method)
    return owner == "LikelihoodServer" and method != "fit" and of_estimators


def is_signal(thing):
    return inspect.isclass(thing) and issubclass(thing, (Exception, Warning))


def parameters_of(thing):
    return {name for name in inspect.signature(thing).parameters if name not in ("self", "cls", "args", "kwargs")}


def raises(function):
    return re.search(r"^ +raise \w", code_of(function), re.MULTILINE)


def lacks_of_name(name, thing):
    """What the docstring of a public name does not say."""
    doc = NumpyDocString(inspect.getdoc(thing) or "")
    if not doc["Summary"]:
        yield "a docstring"
    if is_signal(thing):
        return
    if not doc["Examples"] and name not in WITHOUT_EXAMPLE:
        yield "an example"
    yield from parameters_of(thing) - described(doc, "Parameters", "Attributes")
    if inspect.isfunction(thing) and not (doc["Returns"] or doc["Yields"]):
        yield "what it returns"
    if inspect.isfunction(thing) and raises(thing) and not doc["Raises"]:
        yield "what it raises"


def lacks_of_method(name, function):
    """What the docstring of a public method does not say."""
    if not function.__doc__:
        yield "a docstring"
        return
    if is_described_at_the_estimator(name):
        return
    doc = NumpyDocString(inspect.getdoc(function))
    if raises(function) and not doc["Raises"]:
        yield "what it raises"
    owner, method = name.split(".")
    if method in CODEC and owner != "StateMessage":
        return
    yield from parameters_of(function) - described(doc, "Parameters")
    if re.search(r"^ +return \S", code_of(function), re.MULTILINE) and not (doc["Returns"] or doc["Yields"]):
        yield "what it returns"


def lacks(things, of):
    return {name: found for name, thing in things if (found := [*of(name, thing)])}


def test_a_public_name_says_what_it_takes_gives_and_raises_with_an_example():
    assert lacks(public_names(), lacks_of_name) == {}


def test_a_public_method_says_what_it_takes_gives_and_raises():
    assert lacks(public_methods(), lacks_of_method) == {}


def test_arrays_have_shapes():
    def shapeless(name, thing):
        doc = NumpyDocString(inspect.getdoc(thing))
        arrays = [p for section in ("Parameters", "Attributes", "Returns") for p in doc[section]]
        arrays = [p for p in arrays if re.match(r"ndarray", p.type) and "Axes" not in p.type]
        return [(p.name, p.type) for p in arrays if "shape" not in p.type]

    assert lacks(public_names(), shapeless) == {}


def test_what_stems_from_a_source_names_it():
    cited = r"\b(eq\.|equation|Theorem|Algorithm|paper|(19|20)\d\d\b)"
    texts = {name: inspect.getdoc(dict(public_names())[name]) for name in FROM_A_SOURCE}
    assert not [n for n, text in texts.items() if not (NumpyDocString(text)["References"] or re.search(cited, text))]


def test_what_a_fit_leaves_behind_is_documented():
    for name, thing in public_names():
        if name.startswith(("Federated", "GradientServer", "LikelihoodServer")):
            attributes = NumpyDocString(inspect.getdoc(thing))["Attributes"]
            assert any(re.search(r"\w_\b", attribute.name) for attribute in attributes), name


def names_of_page(name):
    """Names that a page of the reference lists."""
    page = (Path(__file__).parent.parent / "docs" / f"{name}.rst").read_text(encoding="utf-8")
    return re.findall(r"^   (?:\w+\.)*(\w+)$", page, re.MULTILINE)


def test_the_reference_lists_every_public_name_once():
    listed = names_of_page("api") + names_of_page("rooms")
    exported = {name for name, _ in public_names()}
    internal = {"Release", "UnitNoise", "flat_name", "later_answer"}
    assert exported - internal <= set(listed)
    assert len(listed) == len(set(listed))


def test_the_api_page_fits_in_a_head():
    listed = names_of_page("api")
    assert {*skfedcausal.__all__, *inspection.__all__, *papers.__all__} - {"__version__", "theory"} <= set(listed)
    assert len(listed) <= 100
