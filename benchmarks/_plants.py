"""Plants that the benchmarks share."""

import numpy as np

from skfedcausal.datasets import make_granger_plant


def weak_links(n_units, n_samples=5000, seed=0, **changes):
    """Plant with about 1.5 links per unit of norm 0.04-0.2 and sensor noise as large as state noise.

    Two states and eight sensors per unit. With sensor noise of variance about 8 the noise of the
    least-squares states ``(C'C)^-1 C'y`` has about unit variance, like the process noise.

    Returns
    -------
    X : dict of str to ndarray
    truth : PlantTruth
    """
    rng = np.random.default_rng([seed, n_units])
    options = {
        "n_samples": n_samples,
        "measurement_noise": np.sqrt(8 * rng.uniform(0.5, 1.5, n_units)).tolist(),
        "link_strength": (0.04, 0.2),
        "random_state": rng.integers(2**31),
    }
    return make_granger_plant(n_units, **{**options, **changes})


def links_of(truth):
    """Whether each ordered pair is linked, laid out like the rows of ``links_``."""
    slices = list(truth.state_slices.values())
    names = truth.names
    pairs = [(e, c) for e in range(len(names)) for c in range(len(names)) if e != c]
    return np.array([bool(np.any(truth.transition[slices[e], slices[c]])) for e, c in pairs])
