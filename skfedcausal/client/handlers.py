"""Which function of a unit answers which kind of message; modules add theirs with ``handles``."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple


class Handler(NamedTuple):
    """What answers a kind of message."""

    answer: Callable[..., tuple[Any, dict]]  # (unit, message, state, round) -> (its answer, the state after it)
    sets_precision: bool  # whether later answers have the precision that this message asks for


MODULES = ("client.fitting", "client.questions", "client.watching", "papers.client.answers")

_HANDLERS: dict[str, Handler] = {}


def handles(*kinds, sets_precision=False):
    """Decorate the function of a unit that answers some kinds of message.

    Parameters
    ----------
    *kinds : subclasses of Message
    sets_precision : bool, default=False
        Whether later answers have the precision that this message asks for.

    Returns
    -------
    callable
        Decorator of ``answer(unit, message, state, round)``, which returns the message that goes back and the
        state of the unit after it. The unit is the ``UnitWorker`` of the record without its seasons and the like.

    Raises
    ------
    ValueError
        If one of the kinds has a handler in another module.
    """

    def register(answer):
        for kind in kinds:
            known = _HANDLERS.setdefault(kind.OP, Handler(answer, sets_precision))
            if known.answer.__module__ != answer.__module__:
                raise ValueError(
                    f"{kind.__name__} is answered by {known.answer.__module__}.{known.answer.__name__} already; "
                    f"{answer.__module__}.{answer.__name__} cannot answer it too."
                )
        return answer

    return register


def handler_of(op):
    """Handler of an operation, None if no module has one."""
    if op not in _HANDLERS:
        for module in MODULES:
            import_module(f"skfedcausal.{module}")
    return _HANDLERS.get(op)
