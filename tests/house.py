"""The package in numbers, beside the budget in ``house.toml``: ``python -m tests.house``.

Code lines are lines without docstrings, comments and blanks. A walk is what one call enters of the package. Circles
are of imports that run when a module is loaded. A use of another object's private name is ``x._name`` where x is no
``self`` and no module. ``--lower`` writes what was found where it is less than the budget.
"""

import argparse
import ast
import inspect
import io
import re
import sys
import tokenize
import tomllib
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

import skfedcausal
from skfedcausal.datasets import make_granger_plant

ROOT = Path(__file__).parent.parent
BUDGET = ROOT / "house.toml"
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
_OF_SCIKIT_LEARN = re.compile(r"set_.*_request|[gs]et_params|get_metadata_routing|set_output")


def sources(folder=ROOT / "skfedcausal"):
    """Text of every module by its dotted name."""
    return {
        ".".join(path.relative_to(folder.parent).with_suffix("").parts): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.py"))
    }


# -- size ----------------------------------------------------------------------------------------------------


def code_lines(source):
    """Number of lines of a module that are neither docstring nor comment nor blank."""
    headed = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    texts = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, headed) and ast.get_docstring(node, clean=False) is not None:
            texts |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    code = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            code |= set(range(token.start[0], token.end[0] + 1))
    return len(code - texts)


def lines(modules):
    """Code lines of every room (a folder of the package, ``top`` for its own modules), and of all."""
    rooms = Counter()
    for name, source in modules.items():
        parts = name.split(".")
        rooms[parts[1] if len(parts) > 2 else "top"] += code_lines(source)
    return {"all": sum(rooms.values()), **dict(sorted(rooms.items()))}


# -- habits --------------------------------------------------------------------------------------------------


def numeric(node):
    """Whether an expression is a number written out, such as ``-1`` or ``60 * 24``."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return numeric(node.operand)
    return isinstance(node, ast.BinOp) and numeric(node.left) and numeric(node.right)


def constants(tree):
    """Number of names in capitals that a module binds to numbers."""
    count = 0
    for node in tree.body:
        for name, value in _bindings(node):
            count += isinstance(name, ast.Name) and name.id.isupper() and numeric(value)
    return count


def _bindings(node):
    """Pairs of target and value of an assignment, tuples taken apart."""
    if isinstance(node, ast.AnnAssign):
        yield from [(node.target, node.value)] if node.value else []
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if not isinstance(target, ast.Tuple):
                yield target, node.value
            elif isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=False)
            else:
                yield from ((one, node.value) for one in target.elts)


def private_uses(tree):
    """Number of private attributes of other objects that a module reads or sets."""
    own = {"self", "cls", "mcs"} | _imported(tree)
    return sum(
        isinstance(node.value, ast.Name) and node.value.id not in own
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr)
    )


def attached(tree):
    """Number of names that a class takes from another module by assignment."""
    modules = _imported(tree)
    count = 0
    for node in ast.walk(tree):
        lines_of_class = node.body if isinstance(node, ast.ClassDef) else []
        for line in (line for line in lines_of_class if isinstance(line, ast.Assign)):
            owners = (value.value for _, value in _bindings(line) if isinstance(value, ast.Attribute))
            count += sum(isinstance(owner, ast.Name) and owner.id in modules for owner in owners)
    return count


def branches(tree):
    """Number of times a module asks which engine learned the plant."""
    return sum(isinstance(node, ast.Attribute) and node.attr in ("_lagged", "_large") for node in ast.walk(tree))


def _imported(tree):
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return {alias.asname or alias.name.split(".")[0] for node in found for alias in node.names}


# -- imports -------------------------------------------------------------------------------------------------


def imports(trees):
    """Modules of the package that each one imports when it is loaded; `trees` by dotted name."""
    known = {name.removesuffix(".__init__"): name for name in trees}
    return {
        name: {known[target] for target in _targets(name, tree, known) if target in known} - {name}
        for name, tree in trees.items()
    }


def _targets(name, tree, known):
    """Dotted names that a module imports outside functions, type checking aside."""
    for node in _at_load(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = name.split(".")[: -node.level] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{module}.{alias.name}" if f"{module}.{alias.name}" in known else module


def _at_load(node):
    """Statements below a node that run when its module is loaded."""
    for child in ast.iter_child_nodes(node):
        checked = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
        if not checked and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield child
            yield from _at_load(child)


def circles(edges):
    """Sets of modules that import each other, directly or not: strongly connected components of `edges`."""
    reach = {name: _reached(name, edges) for name in edges}
    parts = {frozenset(other for other in reach[name] if name in reach[other]) for name in edges if name in reach[name]}
    return sorted(sorted(part) for part in parts)


def _reached(name, edges):
    seen, todo = set(), list(edges[name])
    while todo:
        one = todo.pop()
        if one not in seen:
            seen.add(one)
            todo.extend(edges[one])
    return seen


# -- surface -------------------------------------------------------------------------------------------------


def surface():
    """Public methods and parameters of every class at the top of the package."""
    methods, parameters = {}, {}
    for name in skfedcausal.__all__:
        kind = getattr(skfedcausal, name)
        if isinstance(kind, type) and not issubclass(kind, BaseException):
            names = _parameters(kind)
            methods[name] = len({found for found in methods_of(kind) if found not in names})
            parameters[name] = len(names)
    return methods, parameters


def _parameters(kind):
    try:
        return set(inspect.signature(kind).parameters)
    except (TypeError, ValueError):  # a class without a signature of its own
        return set()


def methods_of(kind):
    """Public names of a class's own kinds that can be called and are not scikit-learn's."""
    for base in kind.__mro__:
        if not base.__module__.startswith("skfedcausal"):
            continue
        for name, value in vars(base).items():
            hidden = name.startswith("_") or name.endswith("_") or isinstance(value, property)
            if not hidden and (callable(value) or hasattr(value, "__get__")) and not _OF_SCIKIT_LEARN.match(name):
                yield name


# -- walks ---------------------------------------------------------------------------------------------------


class Walk:
    """Files, functions and depth of the package that one call enters."""

    def __init__(self):
        self.root = str(Path(skfedcausal.__file__).parent) + "/"
        self.files = set()
        self.functions = set()
        self.now = self.depth = 0

    def __call__(self, frame, event, arg):
        """What ``sys.setprofile`` calls."""
        code = frame.f_code
        if not code.co_filename.startswith(self.root) or code.co_name == "<module>":
            return
        if event == "call":
            self.files.add(code.co_filename)
            if not code.co_name.startswith("<"):
                self.functions.add((code.co_filename, code.co_qualname))
            self.now += 1
            self.depth = max(self.depth, self.now)
        elif event == "return":
            self.now -= 1

    def of(self, call):
        """Numbers of a call."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sys.setprofile(self)
            try:
                call()
            finally:
                sys.setprofile(None)
        return {"files": len(self.files), "functions": len(self.functions), "depth": self.depth}


def late_record():
    """Three units where the second follows the first after four rows."""
    rng = np.random.default_rng(3)
    h = np.zeros((1500, 3))
    for t in range(4, 1500):
        h[t] = 0.6 * h[t - 1] + rng.normal(size=3)
        h[t, 1] += 0.6 * h[t - 4, 0]
    return {f"unit{m}": h[:, [m]] @ rng.normal(size=(1, 3)) + 0.3 * rng.normal(size=(1500, 3)) for m in range(3)}


def walks():
    """Walks of default fits."""
    X, _ = make_granger_plant(4, n_samples=1500, random_state=0)
    granger, detector = skfedcausal.FederatedGrangerEstimator, skfedcausal.FederatedRCADetector
    late = late_record()
    return {
        "fit": Walk().of(lambda: granger().fit(X)),
        "fit, late links": Walk().of(lambda: granger().fit(late)),
        "detector": Walk().of(lambda: detector().fit(X)),
        "detector, late links": Walk().of(lambda: detector().fit(late)),
    }


# -- the budget ----------------------------------------------------------------------------------------------


def written():
    """Numbers that are read off the source."""
    modules = sources()
    trees = {name: ast.parse(source) for name, source in modules.items()}
    methods, parameters = surface()
    return {
        "code lines": lines(modules),
        "structure": {
            "modules": len(modules),
            "import circles": len(circles(imports(trees))),
            "numeric constants at module level": sum(map(constants, trees.values())),
            "private names of other objects": sum(map(private_uses, trees.values())),
            "methods taken from other modules": sum(map(attached, trees.values())),
            "branches on the engine": sum(map(branches, trees.values())),
        },
        "methods": methods,
        "parameters": parameters,
    }


def budget():
    """The budget: a number, or a table of numbers, by name."""
    return tomllib.loads(BUDGET.read_text(encoding="utf-8"))


def above(found, allowed, name=""):
    """Lines that name every number above its budget, or without one."""
    if not isinstance(found, dict):
        return [] if found <= allowed else [f"{name}: {found}, budget {allowed}"]
    out = []
    for key, value in found.items():
        label = f"{name}: {key}" if name else key
        out += above(value, allowed[key], label) if key in allowed else [f"{label}: {value}, no budget"]
    return out


def lowered(found, allowed):
    """The smaller of what was found and what is allowed; what is gone needs no budget."""
    if not isinstance(found, dict):
        return min(found, allowed)
    return {key: lowered(value, allowed[key]) if key in allowed else value for key, value in found.items()}


def as_toml(numbers, name=""):
    """Text of nested tables of numbers."""
    own = [f'"{key}" = {value}' for key, value in numbers.items() if not isinstance(value, dict)]
    parts = [f"[{name}]"] if own and name else []
    text = "\n".join(parts + own) + ("\n" if own else "")
    for key, value in numbers.items():
        if isinstance(value, dict):
            label = f'{name}."{key}"' if name else f'"{key}"'
            text += ("\n" if text else "") + as_toml(value, label)
    return text


def main(arguments=None):
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__.split("\n")[0])
    parser.add_argument("--lower", action="store_true", help="write a budget that is no larger than what was found")
    args = parser.parse_args(arguments)
    found = written() | {"walks": walks()}
    print(as_toml(found))
    lines_above = above(found, budget())
    print("\n".join(lines_above) or "within the budget")
    if args.lower and not lines_above:
        head = BUDGET.read_text(encoding="utf-8").split('\n["', 1)[0]
        BUDGET.write_text(head + "\n" + as_toml(lowered(found, budget())), encoding="utf-8")
    return int(bool(lines_above))


if __name__ == "__main__":
    raise SystemExit(main())
