"""Commands of ``python -m skfedcausal``, each in a module of its own that is imported when it is called.

A command is a function ``main(arguments) -> int``: it takes the command-line words after its name and returns
the exit code (0: done, 1: the work failed, 2: the command was called wrongly).
"""

from importlib import import_module

# name: (module and function, one line of help)
COMMANDS = {
    "demo": ("skfedcausal.commands.demo:main", "the main job on a simulated plant"),
    "links": ("skfedcausal.commands.links:main", "which unit drives which, from your own file"),
    "whatif": ("skfedcausal.commands.whatif:main", "a record of yours under other inputs"),
    "rca": ("skfedcausal.commands.rca:main", "incidents in your own file and where they began"),
}


def run_command(name, arguments):
    """Run one command.

    Parameters
    ----------
    name : str
        Key of ``COMMANDS``.
    arguments : list of str

    Returns
    -------
    int
        Exit code.
    """
    module, function = COMMANDS[name][0].split(":")
    return getattr(import_module(module), function)(arguments)
