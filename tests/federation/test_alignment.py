"""Units are put beside each other by the times of their rows, over files and in one process, or named."""

import threading
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from skfedcausal import Communication, FederatedGrangerEstimator, LikelihoodOptions, LikelihoodServer
from skfedcausal.client.kalman import KalmanClient
from skfedcausal.client.worker import UnitWorker
from skfedcausal.datasets import make_granger_plant
from skfedcausal.federation import ClientError, FileSite, FileTransport, InProcessTransport, LostUnits
from skfedcausal.federation.content import common_grid
from skfedcausal.federation.envelope import read_key, write_key
from skfedcausal.message import StateMessage
from skfedcausal.message.clock import Clock
from skfedcausal.message.requests import FitRequest
from skfedcausal.sites.site import read_site_settings

UNITS = ("boiler", "turbine", "water")
X, TRUTH = make_granger_plant(
    3, names=UNITS, n_samples=1500, links=[(0, 1), (0, 2), (2, 1)], link_strength=0.35, random_state=0
)
TIMES = pd.date_range("2026-03-01", periods=1500, freq="10s", tz="UTC")
FOUND = {("boiler", "turbine"), ("boiler", "water"), ("water", "turbine")}


@dataclass
class Told:
    clock: np.ndarray
    lengths: tuple


def told(times, lengths=None):
    clock = Clock.of_index(times, lengths or (len(times),))
    return Told(clock.numbers, clock.lengths)


def transport(records, change=None):
    """Units that hold frames of their own; `change` may replace the index that they tell."""
    workers = {}
    for name, frame in records.items():
        index = (change or {}).get(name, frame.index)
        clock = None if index is None else Clock.of_index(index, (len(frame),))
        workers[name] = UnitWorker(name, frame.to_numpy(), None, (0,), tuple(frame), KalmanClient(), clock=clock)
    return InProcessTransport(workers)


def frames(late=0, early=0, unit="turbine"):
    """Records of the units; one has no first rows, the others have no last ones."""
    own = {name: pd.DataFrame(Y, index=TIMES) for name, Y in X.items()}
    return {
        name: frame.iloc[late:] if name == unit else frame.iloc[: len(frame) - early] for name, frame in own.items()
    }


def links(estimator):
    found = estimator.links_[estimator.links_["verdict"] == "influence"]
    return set(zip(found["cause"], found["effect"], strict=True))


def learned_from_rows(records, first, last):
    """Plant of what the units tell of their whole records, cut to some of the rows of the longest."""
    messages = {}
    for name, frame in records.items():
        worker = UnitWorker(name, frame.to_numpy(), None, (0,), tuple(frame), KalmanClient())
        message = StateMessage.from_packet(worker.handle(FitRequest().to_packet(1), {})[0])
        start = int(np.searchsorted(frame.index, TIMES[first]))
        messages[name] = message.at(np.arange(start, start + last - first), (last - first,))
    return LikelihoodServer(options=LikelihoodOptions(n_rounds=1)).fit(messages)


@pytest.mark.medium
def test_a_site_ten_minutes_late_is_aligned_and_learns_what_the_common_rows_say():
    records = frames(late=60, early=60)
    late = FederatedGrangerEstimator().fit_sites(transport(records))
    assert_array_equal(late.transition_, learned_from_rows(records, 60, 1440).transition_)
    assert links(late) == FOUND
    assert late.score_samples().shape == (1380,)  # later questions are about the same rows


@pytest.mark.medium
def test_sites_with_the_same_rows_are_not_asked_again():
    whole = FederatedGrangerEstimator().fit_sites(transport(frames()))
    assert whole.communication_["rounds"] == 1
    assert_array_equal(whole.transition_, FederatedGrangerEstimator().fit(X).transition_)


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (TIMES.tz_localize(None), "no zone"),
        (pd.date_range("2026-03-01", periods=1500, freq="30s", tz="UTC"), "every 30 s"),
        (TIMES + pd.Timedelta("4s"), "4 s beside"),
        (TIMES + pd.Timedelta("300D"), "only 0 of 1500 rows"),
        (None, "reports no times"),
    ],
)
def test_who_cannot_be_aligned_is_refused_by_name_with_both_clocks(index, reason):
    records = frames() if index is not None else frames(late=5)
    with pytest.raises(ClientError, match=f"'turbine'.*{reason}") as caught:
        FederatedGrangerEstimator().fit_sites(transport(records, {"turbine": index}))
    assert "2026-03-01 00:00:00" in str(caught.value)


def test_with_a_quorum_who_cannot_be_aligned_is_left_out_by_name():
    with pytest.warns(UserWarning, match="'turbine'"):
        rest = FederatedGrangerEstimator(communication=Communication(lost_units=LostUnits(2))).fit_sites(
            transport(frames(), {"turbine": TIMES.tz_localize(None)})
        )
    assert rest.client_names_ == ("boiler", "water")
    assert "no zone" in rest.lost_units_["reason"].iloc[0]


@pytest.mark.medium
def test_without_times_rows_must_be_as_many_as_those_of_the_others():
    nothing = dict.fromkeys(UNITS)
    same = FederatedGrangerEstimator().fit_sites(transport(frames(), nothing))
    assert_array_equal(same.transition_, FederatedGrangerEstimator().fit(X).transition_)
    with pytest.raises(ClientError, match=r"'turbine' has 1495 rows, where others have 1500 rows.*`time`"):
        FederatedGrangerEstimator().fit_sites(transport(frames(late=5), nothing))


def test_an_hour_beside_the_others_without_a_zone_is_not_guessed():
    local = {name: TIMES.tz_localize(None) for name in UNITS}
    local["turbine"] = local["turbine"] + pd.Timedelta("1h")
    with pytest.raises(ClientError, match=r"60 min.*another zone.*`tz`"):
        FederatedGrangerEstimator().fit_sites(transport(frames(), local))


def test_a_clock_with_a_wrong_zone_is_told_by_the_states():
    X, _ = make_granger_plant(
        3, names=UNITS, n_samples=6000, links=[(0, 1), (0, 2), (2, 1)], link_strength=0.4, random_state=1
    )
    times = pd.date_range("2026-03-01", periods=6000, freq="60s", tz="UTC")
    records = {name: pd.DataFrame(Y, index=times) for name, Y in X.items()}
    with pytest.warns(UserWarning, match=r"clock of unit 'turbine' seems to be about \+3[56]\d0 s off"):
        FederatedGrangerEstimator().fit_sites(transport(records, {"turbine": times + pd.Timedelta("1h")}))


def test_common_rows_of_records_with_gaps():
    """Brute force: the times that are in all records, as sets."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        indexes, messages = {}, {}
        for name in UNITS:
            cut = np.sort(rng.integers(20, 180, 2))
            kept = np.r_[int(rng.integers(0, 15)) : cut[0], cut[1] : 200 - int(rng.integers(0, 15))]
            lengths = [n for n in (cut[0] - kept[0], len(kept) - (cut[0] - kept[0])) if n]
            indexes[name], messages[name] = TIMES[kept], told(TIMES[kept], tuple(map(int, lengths)))
        grid, problems = common_grid(messages)
        expected = sorted(set.intersection(*(set(index) for index in indexes.values())))
        if grid is None or problems:
            continue
        for name, index in indexes.items():
            rows = Clock.of_message(messages[name]).rows(grid)
            assert len(rows) == sum(grid.lengths)
            came = list(index[rows])
            assert set(came) <= set(expected)
            assert len(expected) - len(came) <= 4  # episodes of a single row are no episodes


@pytest.mark.medium
def test_sites_over_files_one_ten_minutes_late_and_five_rows_short(tmp_path):
    records = frames(late=60, early=5)
    sites = []
    for name, frame in records.items():
        table = frame.set_axis([f"T{k}" for k in range(frame.shape[1])], axis=1)
        local = frame.index.tz_convert("Europe/Berlin").tz_localize(None)
        table.insert(0, "Zeit", local.strftime("%d.%m.%Y %H:%M:%S"))
        table.to_csv(tmp_path / f"{name}.csv", sep=";", decimal=",", index=False)
        write_key(tmp_path / f"{name}.key")
        (tmp_path / f"{name}.toml").write_text(
            f'[site]\nname = "{name}"\ndata = "{name}.csv"\nkey = "{name}.key"\nfolder = "x"\ntz = "Europe/Berlin"\n'
        )
        settings = read_site_settings(tmp_path / f"{name}.toml")
        sites.append(FileSite(settings.gate(key=settings.read_key()), settings.folder))
    threads = [threading.Thread(target=site.serve, daemon=True) for site in sites]
    for thread in threads:
        thread.start()
    keys = {name: read_key(tmp_path / f"{name}.key") for name in UNITS}
    files = FileTransport(tmp_path / "x", UNITS, "march", keys, timeout=60)
    plant = FederatedGrangerEstimator().fit_sites(files)
    files.close()
    for thread in threads:
        thread.join(timeout=20)
    assert links(plant) == FOUND
    assert_allclose(
        plant.transition_, learned_from_rows(records, 60, 1495).transition_, atol=1e-9
    )  # numbers went through text


LIES = [
    {"clock": [0.0, 1.0, 1.8e9]},
    {"clock": [10.0, 0.5, 1.8e9]},
    {"clock": [10.0, 1.0, 1e300]},
    {"clock": [10.0, 1.0]},
    {"clock": [10.0, 1.0, 1.8e9, 1.9e9]},
    {"clock": [1e-300, 1.0, 1.8e9]},
    {"clock": [10.0, 1.0, 1.8e9], "grid": [7]},
    {"clock": [10.0, 1.0, 1.8e9 + 86400.0]},
    {"clock": [10.0, 1.0, TIMES[0].timestamp() + 14500.0]},
]


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("rule", [None, LostUnits(2)])
def test_a_clock_that_cannot_be_meant_never_ends_a_fit_without_a_name(lie, rule):
    class Liar(UnitWorker):
        def handle(self, packet, state):
            answer, state = super().handle(packet, state)
            if answer.op == "states":
                digest = answer.arrays["grid"]
                if "grid" not in lie and len(lie["clock"]) == 3 and lie["clock"][0] > 1e-6 and lie["clock"][2] < 1e200:
                    digest = Clock(lie["clock"][0], bool(lie["clock"][1]), (lie["clock"][2],), (1500,)).digest
                told = {"clock": np.array(lie["clock"]), "grid": np.array(lie.get("grid", digest))}
                answer = replace(answer, arrays={**answer.arrays, **told})
            return answer, state

    workers = {}
    for name, frame in frames().items():
        kind = Liar if name == "turbine" else UnitWorker
        clock = Clock.of_index(frame.index, (len(frame),))
        workers[name] = kind(name, frame.to_numpy(), None, (0,), tuple(frame), KalmanClient(), clock=clock)
    estimator = FederatedGrangerEstimator(communication=Communication(lost_units=rule))
    if rule is None:
        with pytest.raises(ClientError, match="'turbine'"):
            estimator.fit_sites(InProcessTransport(workers))
        return
    with pytest.warns(UserWarning, match="'turbine'"):
        estimator.fit_sites(InProcessTransport(workers))
    assert estimator.client_names_ == ("boiler", "water")
