"""Between the estimators and the mechanism: the record as others see it, and the promise on the estimator."""

from dataclasses import replace

import numpy as np

from ..client.kalman import KalmanClient
from ..privacy import GaussianMechanism, PrivacyAccountant, PrivacySpent, RandomizedResponse
from ..privacy.noise import into_ball
from ..privacy.promise import NOT_PRIVATE


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


def mechanisms(privacy):
    """The mechanism for messages and the one for flags among those given, None where there is none.

    Parameters
    ----------
    privacy : None, PrivacyMechanism or list of these
        At most one of each kind.

    Returns
    -------
    messages : GaussianMechanism or None
    flags : RandomizedResponse or None
    """
    if privacy is None:
        return None, None
    given = privacy if isinstance(privacy, list | tuple) else [privacy]
    given = [mechanism for mechanism in given if mechanism is not None]
    kinds = [
        [mechanism for mechanism in given if isinstance(mechanism, kind)]
        for kind in (GaussianMechanism, RandomizedResponse)
    ]
    if sum(map(len, kinds)) != len(given) or max(map(len, kinds)) > 1:
        names = ", ".join(type(mechanism).__name__ for mechanism in given)
        raise ValueError(
            f"Got privacy=[{names}]; a list may hold one GaussianMechanism, for the messages, and one "
            "RandomizedResponse, for the flags."
        )
    return tuple(kind[0] if kind else None for kind in kinds)


def released(mechanism, data, noise=None, learning=False):
    """A record with noise, and the noise of each unit.

    Parameters
    ----------
    mechanism : GaussianMechanism or None
        None releases the record as it is; one that adds its noise later clips it at most.
    data : PlantData
    noise : dict of str to UnitNoise, default=None
        Of an earlier release, to be used again.
    learning : bool
        Whether training follows, in which a mechanism may add its noise later.

    Returns
    -------
    data : PlantData
    noise : dict of str to UnitNoise
        Empty without a mechanism.
    """
    if mechanism is None or mechanism.place == "gradients":
        return data, {}
    if mechanism.place == "messages" and learning:
        balls = {name: mechanism.bounds(name, Y) for name, Y in zip(data.names, data.outputs, strict=True)}
        inside = [into_ball(Y, balls[name]) for name, Y in zip(data.names, data.outputs, strict=True)]
        return replace(data, outputs=tuple(inside)), {}
    records = dict(zip(data.names, data.outputs, strict=True))
    releases = mechanism.release(records, data.lengths, noise=noise)
    outputs = tuple(releases[name].values for name in data.names)
    return replace(data, outputs=outputs), {name: release.noise for name, release in releases.items()}


def promise(mechanism, names, n_samples):
    """What has been spent on a record's units, the ledger behind it and the promise in words.

    Parameters
    ----------
    mechanism : PrivacyMechanism or None
    names : sequence of str
        Of the units.
    n_samples : int
        Time steps of the record, to say what the promise means for all of it.

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
        spent = mechanism.account.spent(getattr(mechanism, "delta", None), names)
        spent = replace(spent, unit=mechanism.scope.unit)  # also before anything was charged
        table = mechanism.account.table
        statement = mechanism.statement(spent, names, n_samples)
    return {"privacy_spent_": spent, "privacy_ledger_": table, "privacy_statement_": statement}
