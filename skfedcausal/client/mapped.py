"""Arrays that lie in files and are mapped into memory."""

import mmap

import numpy as np


def release_pages(x):
    """Give back the memory of the pages of a file that were read through an array.

    They are read again when needed. Nothing happens to arrays that are not mapped or could have been changed
    in memory.

    Parameters
    ----------
    x : ndarray
    """
    while x is not None and not isinstance(x, np.memmap):
        x = getattr(x, "base", None)
    if x is not None and x.mode == "r" and hasattr(mmap, "MADV_DONTNEED"):
        x._mmap.madvise(mmap.MADV_DONTNEED)
