"""How closely a plant whose coefficients are known should follow its measurements."""

from dataclasses import replace

from .noise_share import forecast_error, smallest

FILTERED = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)  # shares of what the past leaves unpredicted


def choose_filter(record, estimate, process_covariance):
    """Share of noise with which a plant predicts a single step of its own record best.

    Forecasts over many steps ask for coefficients that carry what the inputs do, which a large share of
    noise gives; a single step is told best by following whatever else moves the measurements, as
    disturbances do that the states have no room for. So the coefficients stay, and the process noise is
    learned anew with other shares.
    """
    plants, errors = [], []
    for other in FILTERED:
        noisy = record.with_noise_share(other)
        plants.append(replace(estimate, Q=process_covariance(noisy, estimate)))
        errors.append(forecast_error(noisy, plants[-1], 1))
    best = smallest(FILTERED, errors)
    return best, plants[FILTERED.index(best)]
