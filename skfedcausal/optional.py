"""Optional dependencies: imported when needed, with a message that says which extra to install."""

import importlib


def import_optional(module, extra, purpose):
    """Module that `purpose` needs; if it is not installed, an ImportError that names the `extra` with it.

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
