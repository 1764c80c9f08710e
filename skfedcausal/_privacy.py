"""Between the estimators and the mechanism: the record as others see it, and the promise on the estimator."""

from dataclasses import replace

import numpy as np

from .client.kalman import KalmanClient
from .privacy import PrivacyAccountant, PrivacySpent
from .privacy.statement import NOT_PRIVATE


def check_noise_can_be_told(templates):
    """Refuse before anything is spent what could not take the noise into account.

    Parameters
    ----------
    templates : dict of str to object
        Each unit's client.
    """
    for name, client in templates.items():
        if not isinstance(client, KalmanClient):
            raise TypeError(
                f"The client of unit {name!r} is a {type(client).__name__}. Only a KalmanClient can be told "
                "how much noise a privacy mechanism added to its measurements; give it C and R there."
            )


def released(mechanism, data):
    """A record with noise, and the variance of the noise in each unit's columns.

    Parameters
    ----------
    mechanism : GaussianMechanism or None
        None releases the record as it is.
    data : PlantData

    Returns
    -------
    data : PlantData
    noise : dict of str to ndarray
        Empty without a mechanism.
    """
    if mechanism is None:
        return data, {}
    releases = mechanism.release(dict(zip(data.names, data.outputs, strict=True)), data.lengths)
    outputs = tuple(releases[name].values for name in data.names)
    return replace(data, outputs=outputs), {name: release.variance for name, release in releases.items()}


def promise(mechanism, data):
    """What has been spent on a record's units, the ledger behind it and the promise in words.

    Returns
    -------
    dict of str to object
        The estimators' attributes ``privacy_spent_, privacy_ledger_, privacy_statement_``.
    """
    if mechanism is None:
        spent, table, statement = (
            PrivacySpent(np.inf, 0.0, np.inf, "none"),
            PrivacyAccountant().table,
            NOT_PRIVATE,
        )
    else:
        spent = mechanism.account.spent(mechanism.delta, data.names)
        table = mechanism.account.table
        statement = mechanism.statement(spent, data.names, data.n_samples)
    return {"privacy_spent_": spent, "privacy_ledger_": table, "privacy_statement_": statement}
