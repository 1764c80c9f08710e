"""Messages judged by what they say: what no sensors can say is a problem, what they hardly say a warning."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from skfedcausal import KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import load_batadal, load_tep, make_granger_plant
from skfedcausal.federation import LostUnits
from skfedcausal.federation.content import Expected, unusable
from skfedcausal.message import StateMessage
from skfedcausal.message.requests import FitRequest

from ._lies import CONTENT_LEARNED, ODD


def message(Y, monitor=False):
    columns = tuple(f"s{k}" for k in range(Y.shape[1]))
    worker = UnitWorker("unit", Y, None, (0,), columns, KalmanClient())
    return StateMessage.from_packet(worker.handle(FitRequest(monitor=monitor, const=True).to_packet(1), {})[0])


def problems(messages, monitor=False):
    requests = dict.fromkeys(messages, FitRequest(monitor=monitor, const=True))
    return unusable(messages, requests, Expected(), LostUnits())


FOLDER = Path(os.environ.get("SKFEDCAUSAL_DATA", "missing"))
HONEST = message(make_granger_plant(2, n_samples=600, n_links=1, random_state=4)[0]["unit0"])


@pytest.mark.parametrize("lie", CONTENT_LEARNED)
def test_no_combination_of_states_varies_less_than_its_noise(lie):
    found = problems({"a": HONEST, "b": CONTENT_LEARNED[lie](HONEST)})
    assert set(found) == {"b"}
    assert "stand still or determine each other" in found["b"]


def test_of_an_honest_message_every_combination_varies_by_its_noise_at_least():
    """cov(z) = J cov(x) J + J; of 600 rows the least eigenvalue of white noise is above 1 - 2 sqrt(2 / 600)."""
    J = HONEST.patterns[0]
    white = np.linalg.solve(np.linalg.cholesky(J), (HONEST.z - HONEST.z.mean(axis=0)).T)
    assert np.linalg.eigvalsh(white @ white.T / 600)[0] > 1 - 2 * np.sqrt(2 / 600)
    assert problems({"a": HONEST}) == {}


@pytest.mark.parametrize(
    ("lie", "odd"),
    [("nearly all values zero", r"99\.\d% of the values of a state"), ("rows of any size", r"6 of 600 rows hold 9\d")],
)
def test_what_looks_wrong_and_might_be_so_is_named_and_taken(lie, odd):
    lying = ODD[lie](HONEST)
    scaled = StateMessage(1e3 * lying.z, lying.patterns, lengths=lying.lengths)  # precise enough for few rows
    with pytest.warns(UserWarning, match=f"What unit 'b' sent looks wrong and was taken: {odd}"):
        assert problems({"a": HONEST, "b": scaled}) == {}


@pytest.mark.medium
@pytest.mark.skipif(not (FOLDER / "tep").is_dir(), reason="set SKFEDCAUSAL_DATA to the folder of records")
@pytest.mark.parametrize("monitor", [False, True])
def test_units_of_recorded_plants_are_taken_without_a_word(monitor):
    for record in (load_tep(FOLDER / "tep"), load_batadal(FOLDER / "batadal", "train_attacks")):
        units = record.data.columns.str.split("__").str[0]
        tables = {unit: record.data.loc[:, units == unit].to_numpy(float) for unit in dict.fromkeys(units)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of constant and frozen tags, which honest units have
            messages = {unit: message(Y, monitor) for unit, Y in tables.items()}
        assert problems(messages, monitor) == {}
