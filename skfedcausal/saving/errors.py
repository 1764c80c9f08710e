"""What is wrong with a file, or with what was to be saved."""


class ModelFileError(ValueError):
    """A file that cannot be read, or a value that cannot stand in one; the message says which and what to do.

    Examples
    --------
    >>> from skfedcausal.saving import ModelFileError
    >>> issubclass(ModelFileError, ValueError)
    True
    """
