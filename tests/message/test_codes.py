"""An array has one code, from which it comes back bit for bit, and which is never longer than its bytes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skfedcausal.message.packet import CodeError, code_size, decoded, encoded, n_leading

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


# --- by definition -----------------------------------------------------------------------------------------


def with_leading(values, n, dtype="<f8"):
    """n numbers whose leading bytes take these values in turn; all other bytes are different ones."""
    array = np.random.default_rng(1).integers(0, 256, (n, np.dtype(dtype).itemsize), dtype=np.uint8)
    array[:, -1] = np.resize(np.array(values, dtype=np.uint8), n)
    return array.view(dtype)[:, 0]


def table_by_definition(array):
    """Number of different leading bytes, where a table of them and their places in it are shorter than they."""
    size, n = array.dtype.itemsize, array.size
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    used = len({data[k * size + size - 1] for k in range(n)})
    bits = int(np.ceil(np.log2(used))) if used else 0
    return used if 0 < used <= 64 and used + bits * int(np.ceil(n / 8)) < n else 0


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 63, 64, 65, 66, 500, 8192, 8193, 20_000])
def test_a_table_is_used_if_and_only_if_it_is_shorter(dtype, n):
    for used in (1, 2, 3, 4, 5, 33, 63, 64, 65, 200):
        array = with_leading(np.arange(used) + 7, n, dtype.replace(">", "<")).astype(dtype)
        leading = n_leading(array)
        assert leading == table_by_definition(array)
        code, little, _ = code_of(array)
        assert decoded(memoryview(code), little, n, leading).tobytes() == array.astype(little).tobytes()


def test_two_numbers_may_share_their_leading_byte_and_eight_with_five_of_them_do_not_gain():
    assert n_leading(np.array([1.0, 1.5])) == 1
    assert n_leading(np.array([1.0])) == 0
    assert code_size(8, 1, 5) == 5 + 3 == 8  # as many bytes as without
    assert n_leading(with_leading(range(5), 8)) == 0
    assert n_leading(with_leading(range(5), 9)) == table_by_definition(with_leading(range(5), 9))


@pytest.mark.parametrize("kind", [np.int64, np.uint32, np.uint8, np.float16])
def test_only_real_numbers_of_four_bytes_and_more_have_a_table(kind):
    assert n_leading(np.zeros(1000, dtype=kind)) == 0
    assert n_leading(np.zeros(1000, dtype=np.float32)) == n_leading(np.zeros(1000)) == 1


def test_a_code_is_the_table_then_a_bit_of_every_place_after_the_other_then_the_rest():
    array = with_leading([9, 3, 5, 3, 9, 9, 9, 9, 9, 9, 9], 11)
    rest = array.view(np.uint8).reshape(11, 8)[:, :-1].tobytes()
    low, high = bytes([0b00100000, 0]), bytes([0b10001111, 0b11100000])  # of the places 2 0 1 0 2 2 2 2 2 2 2
    assert encoded(array, 3) == bytes([3, 5, 9]) + low + high + rest
    assert_array_equal(decoded(encoded(array, 3), "<f8", 11, 3), array)


def recoded(table, places, n=20):
    """A code that somebody else wrote for n numbers, with this table and a place in it for each."""
    bits = (len(table) - 1).bit_length()
    planes = [np.packbits((np.resize(places, n) >> bit) & 1).tobytes() for bit in range(bits)]
    return b"".join([bytes(table), *planes, bytes(7 * n)])


@pytest.mark.parametrize(
    ("table", "places", "problem"),
    [
        ([3, 3], [0, 1], "table that no array has"),
        ([5, 3], [0, 1], "table that no array has"),
        ([3, 5, 4], [0, 1, 2], "table that no array has"),
        ([5, 3, 7], [0, 1, 2], "table that no array has"),
        (range(9), range(9), "table that no array has"),
        ([3, 5], [0], "does not use its table"),
        ([3, 5], [1], "does not use its table"),
        ([3, 5, 7], [0, 2], "does not use its table"),
        ([3, 5, 7], [0, 1, 2, 3], "does not use its table"),
    ],
)
def test_a_table_is_sorted_used_and_worth_it(table, places, problem):
    with pytest.raises(CodeError, match=problem):
        decoded(recoded(table, np.array(places)), "<f8", 20, len(table))


def test_no_bit_is_hidden_behind_the_last_place():
    good = recoded([3, 5], np.array([0, 1]))  # three bytes of places, four bits of the last one unused
    decoded(good, "<f8", 20, 2)
    for bit in range(4):
        changed = bytearray(good)
        changed[4] |= 1 << bit
        with pytest.raises(CodeError, match="bits behind its end"):
            decoded(bytes(changed), "<f8", 20, 2)
