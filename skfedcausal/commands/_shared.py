"""Shared by all commands: options, exit codes, and progress of work that takes a while."""

import argparse
import json
import sys
import threading
import time
import tomllib
import warnings
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from ..federation.exchange import ClientError
from ..federation.ledger import ByteLimitError, LedgerError
from ..message.packet import PacketError
from . import program

DONE, FAILED, WRONG = 0, 1, 2  # argparse leaves with the last where a command was called wrongly
ERRORS = (ClientError, PacketError, LedgerError, ByteLimitError, ValueError, OSError, RuntimeError)
_EVERY = 5.0  # seconds
OPTIONS = tomllib.loads(files(__package__).joinpath("options.toml").read_text("utf-8"))
_TYPES = {"int": int, "float": float, "Path": Path}
_ACTIONS = {"switch": argparse.BooleanOptionalAction}


def parser(command, description, *, settings=True, json=True):
    """Parser of a command, with its settings file and the choice of JSON where it has them."""
    reader = argparse.ArgumentParser(prog=f"{program()} {command}", description=description)
    if settings:
        add_options(reader, "settings")
    if json:
        add_options(reader, "json")
    return reader


def add_options(reader, section, **more):
    """Add the options of a section of ``options.toml``; `more` is known of some of them here alone, by their names."""
    for flags, known in OPTIONS[section].items():
        settings = known | more.get(flags.lstrip("-").replace("-", "_"), {})
        for key, words in (("type", _TYPES), ("action", _ACTIONS)):
            if settings.get(key) in words:
                settings[key] = words[settings[key]]
        reader.add_argument(*flags.split(), **settings)


def answer(reader, arguments, work, text):
    """Do the work of a command with its options and print the result, or the reason why there is none."""
    options = reader.parse_args(arguments)
    try:
        with noted():
            result = work(options)
    except ERRORS as error:
        if options.json:
            print(json.dumps({"ok": False, "error": f"{type(error).__name__}: {error}"}))
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return FAILED
    print(json.dumps({"ok": True, **result}, default=str) if options.json else text(result))
    return DONE


def say(text):
    """A note on standard error."""
    print(f"Note: {text}", file=sys.stderr, flush=True)


@contextmanager
def noted(tell=say):
    """Warnings to the user as notes, without the line of code that they come from."""
    usual = warnings.showwarning

    def show(message, category, *where, **more):
        if issubclass(category, UserWarning):
            tell(str(message))
        else:
            usual(message, category, *where, **more)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def report(options, line):
    """Report progress on standard error."""
    if not options.json:
        print(line, file=sys.stderr, flush=True)


@contextmanager
def ticking(what, at_most=None, every=_EVERY, to=None, share=lambda: None):
    """Say every few seconds that work goes on: on a terminal, or `to` it.

    And how much of `at_most` seconds is left, or which `share` of it is done, where that is known.
    """
    if to is None and not sys.stderr.isatty():
        yield
        return
    begin, done = time.monotonic(), threading.Event()

    def tell():
        while not done.wait(every):
            passed = time.monotonic() - begin
            left = "" if at_most is None else f", at most {max(at_most - passed, 0):.0f} s of work left"
            left = ", finishing" if at_most is not None and passed > at_most else left
            left = left if (part := share()) is None else f", {part:.0%}"
            print(f"  {what}: {passed:.0f} s{left}", file=to or sys.stderr, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()
