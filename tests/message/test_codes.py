"""An array has one code, from which it comes back bit for bit, and which is never longer than its bytes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.message import codes
from skfedcausal.message.codes import CodeError, code_size, decoded, encoded, n_leading

RNG = np.random.default_rng(0)
ARRAYS = {
    "normal": RNG.standard_normal(5000),
    "wide": np.exp(30 * RNG.standard_normal(5000)),
    "single precision": RNG.standard_normal((700, 3)).astype("f4"),
    "half precision": RNG.standard_normal(300).astype("f2"),
    "zeros": np.zeros(1000),
    "signed zeros and what is no number": np.tile([0.0, -0.0, np.nan, np.inf, -np.inf, 5e-324], 50),
    "whole numbers": np.arange(1000),
    "big-endian": RNG.standard_normal(999).astype(">f8"),
    "transposed": RNG.standard_normal((40, 50)).T,
    "nothing": np.zeros((0, 3)),
    "one number": np.array(1.5),
    "many values": np.repeat(np.arange(64, dtype="<u8") << 57, 40).view("f8"),
    "too many values": np.repeat(np.arange(65, dtype="<u8") << 56, 40).view("f8"),
}


def code_of(array):
    leading = n_leading(array)
    code = encoded(array, leading)
    assert len(code) == code_size(array.size, array.dtype.itemsize, leading) <= array.nbytes
    return code, array.dtype.newbyteorder("<"), leading


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_every_bit_comes_back(array):
    code, dtype, leading = code_of(array)
    back = decoded(memoryview(code), dtype, array.size, leading)
    assert back.tobytes() == array.astype(dtype).tobytes()
    assert back.flags.aligned


def test_a_series_in_double_precision_takes_half_a_byte_less_per_number():
    z = RNG.standard_normal((10_000, 2))
    assert len(code_of(z)[0]) <= z.size * 7.5 + 16
    assert n_leading(ARRAYS["many values"]) == 64
    assert n_leading(ARRAYS["too many values"]) == n_leading(ARRAYS["half precision"]) == 0


@pytest.mark.parametrize("name", ["normal", "zeros", "single precision"])
def test_there_is_no_other_code_of_an_array(name):
    """Whatever byte is changed: another array, or no code; and an array is never written at length."""
    array = ARRAYS[name][:203]
    code, dtype, leading = code_of(array)
    for at in [*range(leading + 40), *RNG.integers(len(code), size=200)]:
        changed = bytearray(code)
        changed[at] ^= 1 << int(RNG.integers(8))
        try:
            other = decoded(memoryview(bytes(changed)), dtype, array.size, leading)
        except CodeError:
            continue
        assert encoded(other, n_leading(other)) == bytes(changed)
        assert other.tobytes() != array.tobytes()
    with pytest.raises(CodeError, match="shortest"):
        decoded(memoryview(array.tobytes()), dtype, array.size, 0)


def test_a_large_array_is_counted_in_pieces(monkeypatch):
    whole = n_leading(ARRAYS["wide"]), n_leading(ARRAYS["normal"])
    monkeypatch.setattr(codes, "_CHUNK", 7)
    assert (n_leading(ARRAYS["wide"]), n_leading(ARRAYS["normal"])) == whole
    assert_array_equal(decoded(memoryview(code_of(ARRAYS["normal"])[0]), "<f8", 5000, whole[1]), ARRAYS["normal"])
