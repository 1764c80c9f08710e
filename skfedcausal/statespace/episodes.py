"""Episodes: several records of one plant, one below the other."""


def episodes(starts, n_samples):
    """Pairs (first row, row after the last) of each episode.

    Parameters
    ----------
    starts : sequence of int
        First row of each episode.
    n_samples : int
        Rows of all episodes together.

    Returns
    -------
    list of tuple of int
    """
    return list(zip(starts, [*starts[1:], n_samples], strict=True))
