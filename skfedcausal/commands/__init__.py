"""Commands of ``python -m skfedcausal``, each in a module of its own that is imported when it is called.

A command is a function ``main(arguments) -> int``: it takes the command-line words after its name and returns
the exit code (0: done, 1: the work failed, 2: the command was called wrongly).
"""

import sys
from importlib import import_module
from pathlib import Path

_ON_FILES = ("links", "whatif", "impact", "rca")

# name: (module and function, one line of help)
COMMANDS = {
    "demo": ("skfedcausal.commands.demo:main", "the main job on a simulated plant"),
    "links": ("skfedcausal.commands.links:main", "which unit drives which, from your own file"),
    "whatif": ("skfedcausal.commands.inputs:whatif", "replay your own file under different inputs"),
    "impact": ("skfedcausal.commands.inputs:impact", "what a move of an input did, or would have done"),
    "rca": ("skfedcausal.commands.rca:main", "incidents in your own file and where they began"),
    "watch": ("skfedcausal.commands.watch:main", "monitor a live source, with a page that refreshes and alarms"),
    "init": ("skfedcausal.commands.init:main", "the settings and the key of a site, from four questions"),
    "plan": ("skfedcausal.commands.plan:main", "what a site would send and accept; nothing is sent"),
    "run": ("skfedcausal.commands.runs:run", "take part in a run as a site, over a folder of files"),
    "serve": ("skfedcausal.commands.runs:serve", "run a fit over sites, over a folder of files"),
    "verify": ("skfedcausal.commands.trust:verify", "check a site's ledger of what was sent and received"),
    "repair": ("skfedcausal.commands.trust:repair", "continue from a broken ledger, and say what is lost"),
    "key": ("skfedcausal.commands.trust:key", "make a key that a site shares with its server"),
    "flare": ("skfedcausal.commands.flare:main", "the same over NVIDIA FLARE: kits, processes, runs"),
}


def program():
    """Name under which the command line was called."""
    return "skfedcausal" if Path(sys.argv[0]).stem == "skfedcausal" else "python -m skfedcausal"


def run_command(name, arguments):
    """Run one command."""
    module, function = COMMANDS[name][0].split(":")
    if name in _ON_FILES and not {"-h", "--help"} & set(arguments):
        print("Starting ...", file=sys.stderr, flush=True)  # what they import takes its time
    return getattr(import_module(module), function)(arguments)
