"""A plant learned from the messages with which that can be done, whoever sent the others."""

from statistics import median

import numpy as np

from ..federation.content import FASTEST, oddity
from ..statespace.matrices import TimeUpError, companion, spectral_radius, time_limit
from .tuning import TUNING

_ODD = np.log(1e3)  # logarithm of a ratio of variances that sensors of several kinds may have


def checked(server, came):
    """The fit of a server, which has to be a plant, and from which what the answers' ``then`` does has to go on."""

    def fit(messages):
        server.fit(messages)
        _check_growth(getattr(server, "lag_transitions_", server.transition_[None]))
        if came.then is not None:
            came.then(server, messages)

    return fit


def fit_rest(fit, messages, came, earlier):
    """Fit to messages, without those of a unit with which it fails; the messages that were used.

    Of a unit that is left out its message of an `earlier` round stays. Where leaving out no single unit helps,
    all go that cannot be fitted alone, and where there are none of these either, the error is that of all together.

    Parameters
    ----------
    fit : callable
        Learns from a dict of messages by unit.
    messages, earlier : dict of str to StateMessage
        What to learn from, and the messages of the round before.
    came : Answers
        Of this round: with the rule for lost units, and with `leave_out`, which is told who goes.
    """
    unlimited = False
    while True:
        largest = None if unlimited else _outstanding(messages)
        try:
            with time_limit(None if largest is None else came.rule.max_seconds):
                fit(messages)
            return messages
        except TimeUpError as error:
            rest = _without(messages, largest, earlier)
            if _ends(fit, rest, came.rule.max_seconds):
                came.leave_out(largest, _too_long(messages[largest], came.rule), error)
                return rest
            unlimited = True  # it is not this unit that the time goes to
        except Exception as error:
            found = _first_that_fits(fit, messages, earlier)
            if found is not None:
                name, rest = found
                came.leave_out(name, f"sent a message with which the fit fails ({type(error).__name__}).", error)
                return rest
            alone = [name for name, message in messages.items() if not _fits(fit, {name: message})]
            if not alone or len(alone) == len(messages):
                error.add_note(f"So it is whichever of {', '.join(map(repr, messages))} is left out.")
                raise
            for name in alone:
                came.leave_out(name, f"sent a message that cannot be fitted alone ({type(error).__name__}).", error)
                messages = _without(messages, name, earlier)


def _check_growth(lags):
    """Refuse a plant that no record can be of, from its transition matrices by lag."""
    radius = float(np.max(spectral_radius(companion(np.hstack(list(lags)), len(lags)))))
    if not radius <= FASTEST:
        raise ArithmeticError(f"The plant grows {radius:.3g} times with every row; at most {FASTEST:g} can be.")


def _without(messages, name, earlier):
    """The messages without a unit's newest one."""
    if name in earlier and earlier[name] is not messages[name]:
        return {**messages, name: earlier[name]}
    return {other: message for other, message in messages.items() if other != name}


def _first_that_fits(fit, messages, earlier):
    """A unit without which the fit goes through, and the messages left; the oddest is tried first, then the latest."""
    how_odd, latest = oddity(messages), list(reversed(messages))
    for name in sorted(latest, key=lambda name: -how_odd[name] * (how_odd[name] > _ODD)):
        rest = _without(messages, name, earlier)
        if rest and _fits(fit, rest):
            return name, rest
    return None


def _fits(fit, messages):
    try:
        fit(messages)
    except Exception:  # whatever it is, the error of all units together is the one that is told
        return False
    return True


def _ends(fit, messages, seconds):
    try:
        with time_limit(seconds):
            fit(messages)
    except TimeUpError:
        return False
    return True


def _outstanding(messages):
    """The unit that has so many more states than the others that the fit takes as long as it wants; None for none."""
    sizes = {name: message.z.shape[1] for name, message in messages.items()}
    largest = max(sizes, key=lambda name: sizes[name])
    others = [size for name, size in sizes.items() if name != largest]
    return largest if others and sizes[largest] > TUNING.leave_out_outstanding * median(others) else None


def _too_long(message, rule):
    p, seconds = message.z.shape[1], rule.max_seconds
    return (
        f"has {p} states, with which the fit did not end in LostUnits(max_seconds={seconds:g}); give more seconds to "
        "take them."
    )
