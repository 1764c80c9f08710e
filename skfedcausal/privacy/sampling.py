"""Noise, and the numbers it is added to, on a grid.

The doubles near a value depend on the value, so that adding noise to it can leave its last bits in the
result [1]_. Both the value and the result are therefore rounded to a grid much finer than the noise. This
removes what is known of the attack; it is no proof for the doubles behind a normal generator, which the
exact sampler of the optional package OpenDP has.

References
----------
.. [1] Mironov (2012), On significance of the least significant bits for differential privacy, ACM CCS.
"""

import secrets

import numpy as np

from ..optional import import_optional

_GRID_BITS = 20
SAMPLERS = ("float-grid", "opendp")


def grid_of(std):
    """Spacing of the grid for noise of standard deviation `std`: a power of two of about a millionth."""
    return np.ldexp(1.0, int(np.floor(np.log2(std))) - _GRID_BITS)


def on_grid(values, grid):
    """Values rounded to multiples of the grid."""
    return np.round(values / grid) * grid


def generator(random_state, *names):
    """Source of noise: the operating system's entropy, or a stream of its own for every name.

    Parameters
    ----------
    random_state : None, int or RandomState
        None is the only one that keeps a secret.
    *names : str or int
        Streams of different names are independent.
    """
    if random_state is None:
        return np.random.default_rng(secrets.randbits(256))
    if not isinstance(random_state, int | np.integer):
        random_state = random_state.randint(2**31 - 1)
    words = [int.from_bytes(str(name).encode(), "little") for name in names]
    return np.random.default_rng([int(random_state), *words])


def normal_noise(shape, std, rng, sampler="float-grid"):
    """White Gaussian noise on the grid.

    Parameters
    ----------
    shape : tuple of int
    std : float
    rng : numpy.random.Generator
        Not used by the sampler "opendp", which has the operating system's entropy only.
    sampler : {"float-grid", "opendp"}

    Returns
    -------
    ndarray
    """
    grid = grid_of(std)
    if sampler == "float-grid":
        return on_grid(std * rng.standard_normal(shape), grid)
    dp = import_optional(
        "opendp.prelude", extra="privacy-secure", purpose="The exact discrete Gaussian sampler"
    )
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    measure = space >> dp.m.then_gaussian(std / grid)
    zeros = np.zeros(int(np.prod(shape)), dtype=int)
    return grid * np.asarray(measure(zeros.tolist()), dtype=float).reshape(shape)
