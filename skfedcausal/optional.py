"""Optional dependencies: imported when needed, with a message that says which extra to install."""

import importlib


def import_optional(module, extra, purpose):
    """Import an optional dependency.

    Parameters
    ----------
    module : str
        Module to import.
    extra : str
        Extra of this package that brings it.
    purpose : str
        What it is needed for, for the message.

    Returns
    -------
    module

    Raises
    ------
    ImportError
        If it is not installed, naming the extra.

    Examples
    --------
    >>> from skfedcausal.optional import import_optional
    >>> import_optional("json", "plot", "nothing").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(
            f"{purpose} needs {package}, which is not installed: pip install 'skfedcausal[{extra}]'."
        ) from error
