"""What an estimator does by itself about assumptions that do not hold: `remedy="auto"`."""

from sklearn.base import clone

from ..client.kalman import KalmanClient


def remedied(estimator):
    """A copy with other settings, and what was set, in words; the copy is None where nothing would help."""
    table = estimator.validity_
    failed = table[~table["passed"]]
    done: list[str] = []
    other = clone(estimator).set_params(remedy=None)
    server = clone(estimator.server_)
    if (failed["check"] == "common variance").any() and server.covariance == "information":
        other.set_params(server=server.set_params(covariance="sandwich"))
        done.append('covariance="sandwich"')
    done += _at_home(other, failed)
    return (other, tuple(done)) if done else (None, ())


def _at_home(other, failed):
    """Have every unit take off what some have; clients of other kinds and settings that were given stay."""
    client = KalmanClient() if other.client is None else other.client
    if not isinstance(client, KalmanClient):
        return []
    options = client.get_params(deep=False)
    wanted = {"no season": ("harmonics", "auto"), "no trend": ("trend", "smooth")}
    asked = {
        option: value
        for check, (option, value) in wanted.items()
        if (failed["check"] == check).any() and option in options and options[option] is None
    }
    if asked:
        other.set_params(client=clone(client).set_params(**asked))
    return [f'{option}="{value}"' for option, value in asked.items()]
