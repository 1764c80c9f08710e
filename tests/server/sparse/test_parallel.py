"""Work in other processes: arrays as they lie here."""

import numpy as np

from skfedcausal.server.sparse.parallel import laid_out


def test_parts_of_memory_maps_are_plain_arrays(tmp_path):
    """Every slice of a map would be a map again, which takes several times as long."""
    np.save(tmp_path / "Y.npy", np.arange(12.0).reshape(4, 3))
    mapped = np.load(tmp_path / "Y.npy", mmap_mode="r")
    (found,) = laid_out((mapped,))
    assert type(found) is np.ndarray
    assert np.shares_memory(found, mapped)
    np.testing.assert_array_equal(found, mapped)
