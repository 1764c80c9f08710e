"""What is saved comes back with every bit, whatever it holds, and says by name what it cannot hold."""

import os
import warnings
from collections import OrderedDict

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor

from skfedcausal import (
    Communication,
    ExtendedKalmanClient,
    FederatedGrangerEstimator,
    FederatedRCADetector,
    GaussianMechanism,
    GradientServer,
    KalmanClient,
    RegressorServer,
    load,
    save,
)
from skfedcausal.federation import ClientError, InProcessTransport
from skfedcausal.federation.exchange import Site
from skfedcausal.saving import ModelFileError
from skfedcausal.saving.objects import class_of, places

from ..golden.compare import differing_bits
from ..golden.leaves import leaves
from ..golden.plants import Record, sites_of
from . import kept

_TIMES = pd.date_range("2024-01-01", periods=4, freq="15min", tz="Europe/Rome")
VALUES = {
    "numbers": [0.1, -0.0, float("inf"), float("-inf"), 10**30, True, None, 1 + 2j, b"\x00\xff", "ü"],
    "containers": {(1, "a"): {2}, None: frozenset({3}), "o": OrderedDict(b=1, a=2)},
    "places": (slice(1, None, 2), range(3, 9, 2)),
    "arrays": [np.arange(6.0).reshape(2, 3), np.asfortranarray(np.eye(3)), np.zeros((0, 2)), np.array(3, np.int8)],
    "strided": np.arange(24.0).reshape(4, 6)[::2, ::3],
    "words": [np.array(["a", "bcd"]), np.array([None, [1], "x"], dtype=object), np.array([b"ab"])],
    "scalars": [np.float32(0.1), np.bool_(True), np.str_("a"), np.datetime64("2024-01-01T00:00", "s"), np.int64(-1)],
    "times": [_TIMES, _TIMES.tz_localize(None), _TIMES[0], _TIMES[1] - _TIMES[0], pd.NaT, _TIMES - _TIMES[0]],
    "indices": [pd.RangeIndex(2, 9, 3, name="n"), pd.Index(["a", "b"]), pd.Index([1.5, 2.5]), pd.Index([1, "a"])],
    "levels": pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["unit", None]),
    "table": pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": pd.Categorical(["u", "v"])}, index=_TIMES[:2]),
    "numeric table": pd.DataFrame(np.arange(6.0).reshape(3, 2), columns=pd.MultiIndex.from_tuples([(1, 2), (1, 3)])),
    "series": pd.Series([1, 2], name="s"),
    "empty table": pd.DataFrame(columns=["a", "b"]),
    "same name twice": pd.DataFrame([[1, "a"]], columns=["x", "x"]),
    "sparse": sparse.csr_array(np.eye(3)[[0, 2]]),
    "dtype": np.dtype("float32"),
    "functions of numpy": np.tanh,
    "scikit-learn": [Ridge(alpha=2.0).fit([[0.0], [1.0]], [0.0, 1.0]), MLPRegressor((3,))],
}


@pytest.fixture
def through(tmp_path):
    """A value that an estimator holds, saved and loaded."""

    def there(value, **settings):
        client = KalmanClient()
        client.extra_ = value
        save(client, tmp_path / "client", **settings)
        return load(tmp_path / "client", **settings).extra_

    return there


def _leaves(value):
    """Leaves of a value; of what the golden run does not know, its text."""
    try:
        return leaves(value)
    except TypeError:
        return {"": repr(value)}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_comes_back_as_it_was(name, through):
    value = VALUES[name]
    came = through(value)
    assert type(came) is type(value)
    assert differing_bits(_leaves(value), _leaves(came)) is None
    assert repr(came) == repr(value)


def test_arrays_and_tables_keep_their_order_in_memory(through):
    """Of which the last digits of products depend."""
    cube = np.arange(24.0).reshape(2, 3, 4)
    for value in (cube, cube.T, cube.swapaxes(0, 1), cube[:, ::-1], cube.transpose(1, 2, 0)[::-1, :, ::-1]):
        came = through(value)
        np.testing.assert_array_equal(came, value)
        assert came.strides == value.strides
    for value in (np.asfortranarray(np.ones((3, 2))), np.ones((3, 2))):
        table = pd.DataFrame(value)
        assert through(table).to_numpy().flags.c_contiguous == table.to_numpy().flags.c_contiguous


def test_types_of_columns_and_attributes_of_tables_come_back(through):
    table = VALUES["table"].assign(t=_TIMES[:2], n=[1, 2])
    table.attrs["why"] = {"a": [1]}
    came = through(table)
    pd.testing.assert_frame_equal(came, table)
    assert came.attrs == table.attrs
    assert through(_TIMES).freq == _TIMES.freq


def test_what_is_shared_or_in_a_circle_stays_so(through):
    shared, circle = [1.0], {}
    circle["own"] = [circle, np.array([circle, None], dtype=object)]
    first, second, round_again = through((shared, shared, circle))
    assert first is second
    assert round_again["own"][0] is round_again is round_again["own"][1][0]


@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.PCG64])
def test_generators_go_on_where_they_were(bits, through):
    for make in (np.random.Generator, np.random.RandomState):
        generator = make(bits(3))
        generator.normal(size=5)
        np.testing.assert_array_equal(through(generator).normal(size=700), generator.normal(size=700))


def test_a_plain_path_is_written_whole_for_its_owner(tmp_path):
    path = tmp_path / "client"
    save(KalmanClient(n_states=2), path)
    before = path.read_bytes()
    save(KalmanClient(n_states=2), str(path))
    assert path.read_bytes() == before  # the same model gives the same bytes
    with pytest.raises(ModelFileError):
        save(ExtendedKalmanClient(lambda h: h, np.sin), path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["client"]
    if os.name == "posix":
        assert path.stat().st_mode & 0o077 == 0


class Mine:
    """A class that is not the library's."""

    def __init__(self, number):
        self.number = number


def _mine(h):
    return h


def test_what_cannot_stand_in_a_file_is_named_by_its_path(tmp_path):
    client = ExtendedKalmanClient(_mine, np.sin)
    with pytest.raises(
        ModelFileError, match=r"^FederatedGrangerEstimator\.client\['a'\]\.f is the function '_mine'.*own"
    ):
        save(FederatedGrangerEstimator({"a": client}), tmp_path / "x")
    with pytest.raises(ModelFileError, match=r"KalmanClient\.Q\[1\]\['q'\] is a tests\.saving\.test_saving\.Mine.*own"):
        save(KalmanClient(Q=[1, {"q": Mine(1)}]), tmp_path / "x")
    with pytest.raises(ModelFileError, match=r"client_labels is the function '_mine'"):
        save(FederatedGrangerEstimator(client_labels=_mine), tmp_path / "x")
    with pytest.raises(ModelFileError, match=r"privacy is a GaussianMechanism.*set_params\(privacy=None\)"):
        save(FederatedGrangerEstimator(privacy=GaussianMechanism(mu=1.0)), tmp_path / "x")
    with pytest.raises(ModelFileError, match=r"KalmanClient\.Q is an array of longdouble|float128|longdouble"):
        save(KalmanClient(Q=np.ones(2, np.longdouble)), tmp_path / "x")
    with pytest.raises(ModelFileError, match="not a dict"):
        save({}, tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_what_is_the_users_own_comes_back_by_its_name(through):
    own = {"mine": Mine, "map": _mine}
    came = through([Mine(3), _mine], own=own)
    assert (came[0].number, type(came[0]), came[1]) == (3, Mine, _mine)


def test_who_does_not_name_his_own_again_is_told(tmp_path):
    save(ExtendedKalmanClient(_mine, _mine), tmp_path / "x", own={"map": _mine})
    with pytest.raises(ModelFileError, match=r"your own 'map'; name it in load\(path, own="):
        load(tmp_path / "x")


def test_a_transport_is_left_out_with_a_word(tmp_path):
    estimator = FederatedGrangerEstimator(communication=Communication(transport=InProcessTransport))
    with pytest.warns(UserWarning, match="transport is not saved"):
        save(estimator, tmp_path / "x")
    assert estimator.transport is InProcessTransport
    assert load(tmp_path / "x").transport is None


@pytest.mark.parametrize("name", kept.MADE)
def test_estimators_answer_as_before(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimator = kept.MADE[name]()
    save(estimator, tmp_path / "x")
    assert kept.answers(name, load(tmp_path / "x")) == kept.answers(name, estimator)


@pytest.mark.parametrize("size", [1, 6])
def test_a_stream_goes_on_as_if_nothing_had_been_in_between(tmp_path, size):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        stayed = kept.detector()
    X, _ = kept.record(fault=True)
    save(stayed, tmp_path / "x")
    moved, told = load(tmp_path / "x"), []
    for start in range(0, kept.N_ROWS, size):
        batch = kept.rows(X, start, start + size)
        told.append(stayed.update(batch))
        pd.testing.assert_frame_equal(moved.update(batch), told[-1], check_exact=True)
        if (start + size) % 6 == 0:
            save(moved, tmp_path / "x")
            moved = load(tmp_path / "x")
    assert sum(map(len, told)) > 0
    assert moved.stream_ledger_.table.equals(stayed.stream_ledger_.table)


def test_an_estimator_of_sites_reaches_them_again(tmp_path):
    workers = sites_of(Record(kept.record()[0]))
    sites = {name: Site(worker) for name, worker in workers.items()}
    estimator = FederatedGrangerEstimator().fit_sites(InProcessTransport(sites))
    save(estimator, tmp_path / "x")
    came = load(tmp_path / "x").connect(InProcessTransport(sites))
    np.testing.assert_array_equal(came.predict(None), estimator.predict(None))
    pd.testing.assert_frame_equal(came.links_, estimator.links_, check_exact=True)
    with pytest.raises(ClientError, match="connect"):
        load(tmp_path / "x").predict(None)


def test_servers_with_regressors_come_back(tmp_path):
    X, _ = kept.record()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        estimator = FederatedRCADetector(KalmanClient(n_states=1), server=RegressorServer(Ridge())).fit(X)
    save(estimator, tmp_path / "x")
    np.testing.assert_array_equal(load(tmp_path / "x").transform(X), estimator.transform(X))


def test_every_class_is_where_the_table_says():
    for name, place in places().items():
        kind = class_of(name)
        assert f"{kind.__module__}.{kind.__qualname__}" == place
    assert len(set(places().values())) == len(places())


def test_files_name_no_module_of_the_library(tmp_path):
    import zipfile

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        save(kept.stream(), tmp_path / "x")
    text = zipfile.ZipFile(tmp_path / "x").read("model.json").decode()
    assert "skfedcausal." not in text
    assert "FederatedRCADetector" in text


def test_detectors_that_follow_nothing_hold_no_rows(tmp_path):
    """Only the last batch of a stream stays with the units."""
    assert isinstance(load(kept.FOLDER / "detector.skfc"), FederatedRCADetector)
    assert (kept.FOLDER / "detector.skfc").stat().st_size < 60_000


def test_a_plant_that_units_and_server_trained_together_comes_back(tmp_path):
    X, _ = kept.record()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = FederatedGrangerEstimator(KalmanClient(n_states=1), server=GradientServer(solve="stationary")).fit(
            X
        )
    save(estimator, tmp_path / "x")
    pd.testing.assert_frame_equal(load(tmp_path / "x").links_, estimator.links_, check_exact=True)
