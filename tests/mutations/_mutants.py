"""One-token changes of a module's source: operators, comparisons, numbers, booleans, min and max."""

import ast
import io
import tokenize
from typing import NamedTuple

_OPERATORS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_NAMES = {
    "min": "max",
    "minimum": "maximum",
    "argmin": "argmax",
    "any": "all",
    "floor": "ceil",
    "zeros": "ones",
}
_NAMES |= {new: old for old, new in _NAMES.items()}
_UNMEASURED = {"strict", "stacklevel", "check_finite", "copy", "hermitian"}  # keywords that change no result


class Change(NamedTuple):
    """One token of a module in another form: from `start` on, the characters `old` become one of `new`."""

    start: int
    old: str
    new: tuple[str, ...]


class Mutant(NamedTuple):
    """A changed module: its path in the package, line number, the line before and after, the source."""

    module: str
    number: int
    line: str
    becomes: str
    token: str
    source: str


class _Changes(ast.NodeVisitor):
    """Collects the changes of a module; messages, annotations, imports and ``__repr__`` are left alone."""

    def __init__(self, source):
        self.found, self._source = [], source
        lines = source.splitlines(keepends=True)
        self._lines, starts = lines, [0]
        for line in lines:
            starts.append(starts[-1] + len(line))
        self._starts = starts
        self._tokens = [
            (starts[token.start[0] - 1] + token.start[1], token.string)
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type in (tokenize.OP, tokenize.NAME) and token.string not in "()"
        ]

    def _place(self, line, column):
        """Character of the source at an AST position, whose columns are bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _start(self, node):
        return self._place(node.lineno, node.col_offset)

    def _end(self, node):
        return self._place(node.end_lineno, node.end_col_offset)

    def _between(self, left, right, operator):
        """The operator that stands between two operands."""
        old, new = _OPERATORS[type(operator)]
        words = [(i, word) for i, word in self._tokens if self._end(left) <= i < self._start(right)]
        (start, first), (last, word) = words[0], words[-1]
        augmented = isinstance(operator, ast.operator) and first == f"{old}="
        text = old if augmented else self._source[start : last + len(word)]
        self.found.append(Change(start, text, (new,)))

    def visit_BinOp(self, node):
        if type(node.op) in _OPERATORS and not isinstance(node.left, ast.Dict):
            self._between(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_AugAssign(self, node):
        if type(node.op) in _OPERATORS:
            self._between(node.target, node.value, node.op)
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        for left, right in zip(node.values[:-1], node.values[1:], strict=True):
            self._between(left, right, node.op)
        self.generic_visit(node)

    def visit_Compare(self, node):
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators):  # noqa: B905
            self._between(left, right, operator)
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        start, operand = self._start(node), node.operand
        if isinstance(node.op, ast.USub) and isinstance(operand, ast.Constant):
            new = tuple("0" if number == "0" else f"-{number}" for number in _other_numbers(operand.value))
            self.found.append(Change(start, self._source[start : self._end(node)], new))
            return
        sign = {ast.USub: "-", ast.Not: "not", ast.Invert: "~"}.get(type(node.op))
        if sign:
            self.found.append(Change(start, sign, ("",)))
        self.visit(operand)

    def visit_Constant(self, node):
        if isinstance(node.value, bool):
            self.found.append(Change(self._start(node), str(node.value), (str(not node.value),)))
        elif isinstance(node.value, (int, float, complex)):
            text = self._source[self._start(node) : self._end(node)]
            self.found.append(Change(self._start(node), text, _other_numbers(node.value)))

    def visit_Name(self, node):
        if node.id in _NAMES and isinstance(node.ctx, ast.Load):
            self.found.append(Change(self._start(node), node.id, (_NAMES[node.id],)))

    def visit_Attribute(self, node):
        if node.attr in _NAMES and isinstance(node.ctx, ast.Load):
            self.found.append(Change(self._end(node) - len(node.attr), node.attr, (_NAMES[node.attr],)))
        self.visit(node.value)

    def visit_FunctionDef(self, node):
        if node.name == "__repr__":
            return
        for part in [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]:
            self.visit(part)

    def visit_ClassDef(self, node):
        for part in node.body:
            self.visit(part)

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)

    def visit_Call(self, node):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in ("warn", "warning", "info", "debug"):
            return
        self.visit(node.func)
        for part in node.args:
            self.visit(part)
        for keyword in node.keywords:
            if keyword.arg not in _UNMEASURED:
                self.visit(keyword.value)

    def _leave(self, node):
        """Neither imports nor messages change what is computed."""

    visit_Import = visit_ImportFrom = visit_Raise = visit_JoinedStr = visit_Assert = _leave


def _other_numbers(value):
    """Numbers to put in place of one, of which one is drawn."""
    if isinstance(value, complex):
        return (repr(2 * value),)
    if isinstance(value, int):
        return {0: ("1",), 1: ("0", "2")}.get(value, (str(value + 1),))
    if value == 0.0:
        return ("1.0",)
    return (repr(value / 2) if 0.5 < value < 1 else repr(value * 2),)


def changes(source):
    """All changes of a module's source, in its order."""
    visitor = _Changes(source)
    visitor.visit(ast.parse(source))
    return sorted(set(visitor.found))


def mutant(module, source, change, rng):
    """A module with one change made, in the form that `rng` draws."""
    new = rng.choice(change.new)
    end = change.start + len(change.old)
    mutated = source[: change.start] + new + source[end:].lstrip(" " if new == "" else "")
    number = source.count("\n", 0, change.start)
    before, after = source.splitlines()[number].strip(), mutated.splitlines()[number].strip()
    token = f"{' '.join(change.old.split())} -> {new or 'nothing'}"
    return Mutant(module, number + 1, before, after, token, mutated)
