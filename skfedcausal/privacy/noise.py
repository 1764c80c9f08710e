"""The ball that measurements are clipped to, and noise on a grid.

The doubles near a value depend on the value, so that adding noise to it can leave its last bits in the
result [1]_. Both the value and the result are therefore rounded to a grid much finer than the noise. This
removes what is known of the attack; it is no proof for the doubles behind a normal generator, which the
exact sampler of the optional package OpenDP has.

References
----------
.. [1] Mironov (2012), On significance of the least significant bits for differential privacy, ACM CCS.
"""

import secrets
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from ..optional import import_optional
from ..parameters import ParameterGroup
from .tuning import TUNING

_CHUNK = 2**14  # rows
SAMPLERS = ("float-grid", "opendp")


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class NoiseOptions(ParameterGroup):
    """Middle and axes of the ball that measurements are clipped to, and what draws the noise.

    Parameters
    ----------
    center : float, array-like or dict, default=0.0
        Middle of the ball: one number, one per column, or a dict of these by unit. Public, as `clip_norm`.
    scale : float, array-like or dict, default=1.0
        Units in which columns are measured against each other; the noise of a column is proportional.
        Public.
    sampler : {"auto", "float-grid", "opendp"}, default="auto"
        "opendp" draws exact discrete Gaussians with the optional package of that name, "float-grid" in floating
        point, rounded to a grid. "auto" takes the first where it is installed (66 times slower) and no
        `random_state` is given. The statement says which was used.

    Examples
    --------
    >>> from skfedcausal import GaussianMechanism
    >>> from skfedcausal.privacy import NoiseOptions
    >>> GaussianMechanism(noise=NoiseOptions(scale=[1.0, 100.0])).set_params(noise__sampler="opendp").noise
    NoiseOptions(sampler='opendp', scale=[1.0, 100.0])
    """

    center: Any = 0.0
    scale: Any = 1.0
    sampler: str = "auto"

    _parameter_constraints = {
        "center": [Real, "array-like", dict],
        "scale": [Interval(Real, 0, None, closed="neither"), "array-like", dict],
        "sampler": [StrOptions({"auto", *SAMPLERS})],
    }


@dataclass(frozen=True)
class Bounds:
    """Ball in scaled measurements, and the largest change that is protected.

    Attributes
    ----------
    center, scale : ndarray of shape (n_features,)
    clip : float
        Radius of the ball ``||(y - center) / scale||``.
    radius : float
        Largest protected change of one time step, in the same units.
    public : bool
        Whether `clip` was given; otherwise it comes from the data.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal.privacy import Bounds
    >>> Bounds(np.zeros(2), np.array([1.0, 100.0]), clip=3.0, radius=6.0).public
    True
    """

    center: np.ndarray
    scale: np.ndarray
    clip: float
    radius: float
    public: bool = True


@dataclass(frozen=True)
class UnitNoise:
    """Ball that a unit's measurements are clipped to, and the noise added to them there.

    Attributes
    ----------
    bounds : Bounds
    std : float
        Standard deviation in units of the scale of the bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from skfedcausal import GaussianMechanism
    >>> mechanism = GaussianMechanism(epsilon=6, delta=1e-6, clip_norm=25, event_radius=3)
    >>> noise = mechanism.noise_of("boiler", np.zeros((500, 2)))
    >>> noise.bounds.clip, noise.variance.shape
    (25.0, (2,))
    """

    bounds: Bounds
    std: float

    @property
    def variance(self) -> np.ndarray:
        """Of the noise in each column, shape (n_features,)."""
        return (self.std * self.bounds.scale) ** 2


def norms(Y, center, scale):
    """Euclidean norm of each row's scaled measurements, missing ones left out."""
    scaled = np.nan_to_num((Y - center) / scale, nan=0.0)
    return np.sqrt(np.einsum("ti,ti->t", scaled, scaled))


def clipped(Y, bounds):
    """Scaled measurements, rows outside the ball moved to its nearest point; NaN stays.

    The nearest-point map brings no two rows further apart: a change inside the protected radius stays inside.
    """
    scaled = (Y - bounds.center) / bounds.scale
    length = norms(Y, bounds.center, bounds.scale)
    factor = bounds.clip / np.maximum(length, bounds.clip)
    return scaled * factor[:, None]


def into_ball(Y, bounds):
    """Measurements in their own units, rows outside the ball moved to its nearest point."""
    return bounds.center + bounds.scale * clipped(Y, bounds)


def pieces(n_samples):
    """Slices of a record that are worked on one after the other: it may lie in a file."""
    return [slice(start, start + _CHUNK) for start in range(0, n_samples, _CHUNK)]


def grid_of(std):
    """Spacing of the grid for noise of standard deviation `std`: a power of two of about a millionth."""
    return np.ldexp(1.0, int(np.floor(np.log2(std))) - TUNING.noise_grid_bits)


def on_grid(values, grid):
    """Values rounded to multiples of the grid."""
    return np.round(values / grid) * grid


def generator(random_state, *names):
    """Source of noise: the operating system's entropy if `random_state` is None, else a stream per names."""
    if random_state is None:
        return np.random.default_rng(secrets.randbits(256))
    if not isinstance(random_state, int | np.integer):
        random_state = random_state.randint(2**31 - 1)
    words = [int.from_bytes(str(name).encode(), "little") for name in names]
    return np.random.default_rng([int(random_state), *words])


def normal_noise(shape, std, rng, sampler="float-grid"):
    """White Gaussian noise on the grid; "opendp" has the operating system's entropy and ignores `rng`."""
    grid = grid_of(std)
    if sampler == "float-grid":
        return on_grid(std * rng.standard_normal(shape), grid)
    dp = import_optional("opendp.prelude", extra="privacy-secure", purpose="The exact discrete Gaussian sampler")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    measure = space >> dp.m.then_gaussian(std / grid)
    zeros = np.zeros(int(np.prod(shape)), dtype=int)
    return grid * np.asarray(measure(zeros.tolist()), dtype=float).reshape(shape)
