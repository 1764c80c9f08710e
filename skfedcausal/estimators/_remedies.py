"""What an estimator does by itself about assumptions that do not hold: `remedy="auto"`."""

from typing import Any

from sklearn.base import clone

from ..client.kalman import KalmanClient
from ..server.validity.report import SHIFTS

_SHORTEST = 20  # rows that are kept between two shifts of levels
_AT_HOME = ("harmonics", "trend", "mode", "levels")


def is_driven(table):
    """Whether something that nobody measures seems to move units."""
    return bool((table["check"].eq("no shared driver") & ~table["passed"]).any())


def remedies(estimator, cut=True):
    """Settings to fit with again, what they are in words, and the stretches of rows to keep (None: all).

    The record may be cut where `cut`.
    """
    table = estimator.validity_
    failed = set(table.loc[~table["passed"], "check"])
    settings: dict[str, Any] = {}
    done: list[str] = []
    server = clone(estimator.server_)
    if "common variance" in failed and server.covariance == "information":
        settings["server"] = server.set_params(covariance="sandwich")
        done.append('covariance="sandwich"')
    client = KalmanClient() if estimator.client is None else estimator.client
    stretches = None
    if isinstance(client, KalmanClient):  # others stay
        cut = cut and "steady sensors" not in failed  # levels that wander shift everywhere
        stretches = _stretches(table, client, estimator.server_.n_samples_) if cut else None
        wanted = {"levels": "episode"} if stretches else _asked(client, failed)
        if wanted:
            settings["client"] = clone(client).set_params(**wanted)
        done += [f'{option}="{value}"' for option, value in wanted.items()]
    return settings, tuple(done), stretches


def _asked(client, failed):
    """Have every unit take off what some have; settings that were given stay. Levels that move are trends as well."""
    options = client.get_params(deep=False)
    wanders = "steady sensors" in failed and options.get("levels") is None
    slow = {"steady sensors": ("levels", "wander")} if wanders else {"no trend": ("trend", "smooth")}
    wanted = {"no season": ("harmonics", "auto"), **slow}
    asked = {option: value for check, (option, value) in wanted.items() if check in failed}
    return {option: value for option, value in asked.items() if option in options and options[option] is None}


def _stretches(table, client, n_samples):
    """Rows (start, stop) between shifts of levels, None where none were found or levels are taken off already."""
    shifts = table.attrs.get(SHIFTS)
    options = client.get_params(deep=False)
    if not shifts or any(options.get(option) is not None for option in _AT_HOME):
        return None
    edges = [0, *(row for shift in shifts for row in shift), n_samples]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a >= _SHORTEST]
