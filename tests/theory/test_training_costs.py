"""Counts of section 5.4 of the second paper against an algorithm that counts its own multiplications."""

import numpy as np
import pytest

from skfedcausal.theory.training_costs import multiplications


class Counted:
    """A number that counts how often numbers like it are multiplied."""

    n = 0

    def __mul__(self, other):
        Counted.n += 1
        return self

    def __add__(self, other):
        return self

    __sub__ = __rmul__ = __radd__ = __add__


def full(*shape):
    array = np.empty(shape, dtype=object)
    array.fill(Counted())
    return array


def counted(call):
    Counted.n = 0
    call()
    return Counted.n


SIZES = {
    "two units": ([2, 2], [2, 2], [8, 8], 5),
    "unequal": ([2, 1, 3], [1, 0, 2], [4, 3, 6], 3),
}


def server_round(p, k, n_pairs, penalty):
    """Equations 11, 14, 15 and the derivatives in the states, block by block and step by step."""
    units = range(len(p))
    for _ in range(n_pairs):
        h, u = [full(n, 1) for n in p], [full(n, 1) for n in k]
        for m in units:
            prediction = full(p[m], p[m]) @ h[m]
            if k[m]:
                prediction = prediction + full(p[m], k[m]) @ u[m]
            D = full(p[m], p[m]) @ full(p[m], 1) if penalty else None
            for n in units:
                if n == m:
                    continue
                _ = full(p[m], p[n]) @ h[n], prediction @ h[n].T
                if k[n]:
                    _ = full(p[m], k[n]) @ u[n], prediction @ u[n].T
                if penalty:
                    _ = D @ h[n].T
            if penalty:
                _ = full(p[m], p[m]) @ D


def client_round(p, k, d, n_pairs):
    """Equations 4 to 8 step by step."""
    for _ in range(n_pairs):
        y = full(d, 1)
        h_hat = full(p, 1) + full(p, d) @ y
        h = full(p, p) @ h_hat
        if k:
            h = h + full(p, k) @ full(k, 1)
        r = y - full(d, p) @ h
        own = full(p, p) @ (full(p, d) @ r)
        pull = full(p, p) @ full(p, 1)
        _ = own @ y.T, pull @ y.T


@pytest.mark.parametrize("penalty", [False, True])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_computation_counts_of_section_5_4(sizes, penalty):
    p, k, d, n_pairs = sizes
    told = multiplications(p, k, d, n_pairs, penalty=penalty)
    assert told["server"] == counted(lambda: server_round(p, k, n_pairs, penalty))
    clients = sum(counted(lambda m=m: client_round(p[m], k[m], d[m], n_pairs)) for m in range(len(p)))
    assert told["clients"] == clients


def test_computation_grows_with_the_square_of_the_plant_and_with_its_record():
    sizes = [([2] * m, [2] * m, [8] * m) for m in (8, 16, 32)]
    server = [multiplications(*size, 100, penalty=True)["server"] for size in sizes]
    assert server[2] / server[1] == pytest.approx(4, rel=0.1)
    assert multiplications(*sizes[0], 200, penalty=True)["server"] == 2 * server[0]
