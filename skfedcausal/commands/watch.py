"""``python -m skfedcausal watch SETTINGS``: follow a live source, tell who should know, keep a page."""

import sys
import warnings
from contextlib import ExitStack

from ..federation.gate import ExactStatesWarning
from ..saving import load
from ..streams.cells import Stamps
from ..streams.sources import open_source
from ._shared import DONE, ERRORS, FAILED, noted, parser
from .watching import sinks
from .watching.live import Pages, serve
from .watching.loop import Journal, Watch, ended_by_signals, say
from .watching.settings import fingerprint, read_plant, read_settings, secret_of

ALARM = 3  # exit code after an incident
_PATIENCE = 15.0  # seconds in which those are told who were away, at the end
_AGAIN = 5.0  # seconds until a source is called again that was there once


def main(arguments):
    """Fit to the nominal record, follow the source to its end, and tell of incidents.

    The exit code is 0 without an incident, 3 with one, 1 where settings are wrong or the source is not there, and 2
    where the command was called wrongly.
    """
    reader = parser("watch", "Monitor a live source of plant data and report incidents.", json=False)
    path = reader.parse_args(arguments).settings
    try:
        with noted(say):
            warnings.simplefilter("always", UserWarning)  # of a year, each time
            warnings.simplefilter("ignore", ExactStatesWarning)  # the whole record is here
            return _watch(read_settings(path), path.resolve().parent)
    except (*ERRORS, ImportError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FAILED


def _watch(settings, folder):
    given, journal = settings.watch, Journal(settings.watch.state)
    outboxes = [sinks.Outbox(name, tell, given.state / "queue" / name) for name, tell in _called(settings).items()]
    tellers = [sinks.to_print, *([] if given.log is None else [sinks.to_file(folder / given.log)]), *outboxes]
    plant, known, problem = read_plant(given), fingerprint(given), _problem(journal)
    with ExitStack() as stack:
        if not problem:
            stack.enter_context(journal.lock())
        watch, goes_on = _begun(given, plant, known, journal, tellers)
        if problem:
            watch.problem = problem
        else:
            watch.keep()
        stack.callback(journal.close)
        for outbox in outboxes:
            outbox.start()
        pages = Pages(watch, given)
        pages.write()
        if settings.live is not None:
            stack.enter_context(serve(watch, settings.live, outboxes))
        with ended_by_signals(watch):
            _follow(settings, plant, watch, journal, folder, goes_on)
        pages.tick(everything=True)
        for outbox in outboxes:
            outbox.close(_PATIENCE)
    return ALARM if watch.incidents.n_incidents else DONE


def _called(settings):
    """Those who are told and may be away, by name."""
    found, webhook = {}, settings.watch.webhook
    if webhook:
        found["webhook"] = sinks.to_webhook(webhook)
        if why := sinks.answers(webhook):
            sinks.say_away("webhook", why)
    makers = {"mail": sinks.to_mail, "table": sinks.to_table, "publish": sinks.to_broker, "syslog": sinks.to_syslog}
    for name, make in makers.items():
        part = getattr(settings, name)
        if part is not None:
            found[name] = make(part, secret_of(part))
            door = getattr(part, "door", None) if getattr(part, "tcp", True) else None
            if door and (why := sinks.listens(*door)):
                sinks.say_away(name, why)
    return found


def _problem(journal):
    """Why the state cannot be kept, empty if it can."""
    try:
        journal.check()
    except OSError as error:
        say(f"The state of the watch cannot be kept ({error.strerror or error}). Monitoring continues without it.")
        return f"the state cannot be kept: {error.strerror or error}"
    return ""


def _begun(given, plant, known, journal, tellers):
    """A watch that goes on where one stood that was ended, or a new one; and whether it goes on."""
    kept = journal.read()
    if kept is not None and kept[0]["fingerprint"] == known:
        watch = Watch(load(kept[1]), plant, given, journal, tellers, known)
        watch.take_up(kept[0], kept[2])
        return watch, True
    for text in plant.said:
        say(text)
    watch = Watch(plant.fitted(given), plant, given, journal, tellers, known)
    if kept is not None:
        say(
            f"The state in {given.state} is of another nominal record, source, version or other settings: the watch "
            "learns afresh and keeps the known incidents."
        )
        watch.incidents.known = dict(kept[0]["incidents"])
    return watch, False


def _follow(settings, plant, watch, journal, folder, goes_on):
    """Follow the source to its end; one that was there once is opened again whatever becomes of it."""
    stamps = Stamps(settings.watch.tz)
    if plant.period is not None:
        stamps.zoned = plant.is_zoned
    options = settings.options(plant.names, plant.words, journal.name)
    watch.tell_again()
    while not watch.stopped.is_set():
        try:
            source = open_source(settings.watch.source, stamps, options, watch.place, folder)
            watch.run(source, settings.watch.until == "alarm")
            return
        except (FileNotFoundError, ImportError):  # neither a file nor a package comes by itself
            raise
        except Exception as error:
            if not goes_on and not watch.counts["batches"]:
                raise
            say(f"The source cannot be followed now ({type(error).__name__}: {error}): it is opened again.")
            watch.tick()
            watch.stopped.wait(_AGAIN)
    watch.keep()
