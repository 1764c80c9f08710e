"""Files of other versions, and files that somebody has spoiled."""

import contextlib
import io
import json
import pickle
import random
import zipfile

import numpy as np
import pytest
from numpy.lib import format as npy

import skfedcausal
from skfedcausal import FederatedGrangerEstimator, KalmanClient, load, save
from skfedcausal.bases import InconsistentVersionWarning
from skfedcausal.datasets import make_granger_plant
from skfedcausal.saving import ModelFileError, model, objects
from skfedcausal.statespace.segments import Change

from . import kept


@pytest.fixture
def file(tmp_path):
    """A file of a client, and a function that changes its document."""
    path = tmp_path / "client.skfc"
    save(KalmanClient(n_states=2, Q=np.eye(2)), path)

    def changed(change=lambda document: document, **members):
        with zipfile.ZipFile(path) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        document = json.loads(parts["model.json"])
        parts["model.json"] = json.dumps(change(document) or document).encode()
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in {**parts, **members}.items():
                archive.writestr(name, data)
        return path

    return changed


@pytest.mark.parametrize("name", kept.MADE)
def test_a_kept_file_is_read_and_answers_as_it_did(name):
    told = json.loads((kept.FOLDER / "answers.json").read_text())[name]
    found = kept.answers(name, load(kept.FOLDER / f"{name}.skfc"))
    assert found.keys() == told.keys()
    for key, values in told.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-8, atol=1e-9)
    assert (kept.FOLDER / f"{name}.skfc").stat().st_size < 60_000


# -- other versions ----------------------------------------------------------------------------------------------------


def _later_schema(document):
    document["schema"] = 7
    document["written_by"]["skfedcausal"] = "3.2.1"


def _later_release(document):
    document["written_by"]["skfedcausal"] = "99.0"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_later_schema, "skfedcausal 3.2.1 wrote it in schema 7"),
        (_later_release, "skfedcausal 99.0 wrote it in schema 1"),
    ],
)
def test_a_file_of_a_later_version_is_refused_in_one_sentence_with_both(file, change, words):
    with pytest.raises(ModelFileError) as refused:
        load(file(change))
    text = str(refused.value)
    assert words in text
    assert f"this is skfedcausal {skfedcausal.__version__}" in text
    assert f"schemas up to {objects.SCHEMA}" in text
    assert text.count(". ") == 0
    assert text.endswith("or later.")


def test_a_later_version_reads_files_of_this_one(file, monkeypatch):
    monkeypatch.setattr(model, "__version__", "7.0.1")
    assert load(file()).n_states == 2


def test_states_and_documents_of_earlier_forms_are_brought_up_to_date(file, monkeypatch):
    def renamed(state):
        state = dict(state)
        state["n_states"] = state.pop("order")
        return state

    def with_nodes(document):
        document["nodes"] = document.pop("parts")
        return document

    def older(document):
        state = document["nodes"][0]["state"]
        state["order"] = state.pop("n_states")
        document["schema"], document["parts"] = 0, document.pop("nodes")

    monkeypatch.setitem(objects.UPGRADES, "KalmanClient", (renamed,))
    monkeypatch.setitem(objects.OLDER, 0, with_nodes)
    path = file(older)
    assert load(path).n_states == 2
    save(load(path), path)  # in the new form, which is not brought up to date again
    assert load(path).n_states == 2
    monkeypatch.delitem(objects.UPGRADES, "KalmanClient")
    with pytest.raises(ModelFileError, match="a KalmanClient in form 1, and this version reads forms up to 0"):
        load(path)


def test_a_pickle_of_another_version_warns(monkeypatch):
    estimator = FederatedGrangerEstimator()
    same = pickle.dumps(estimator)
    assert isinstance(pickle.loads(same), FederatedGrangerEstimator)
    monkeypatch.setattr("skfedcausal.bases.__version__", "0.0.7")
    other = pickle.dumps(estimator)
    monkeypatch.undo()
    with pytest.warns(
        InconsistentVersionWarning, match=rf"by skfedcausal 0\.0\.7, and this is {skfedcausal.__version__}"
    ):
        came = pickle.loads(other)
    assert vars(came) == vars(estimator)


# -- spoiled files -----------------------------------------------------------------------------------------------------


def _of(kind, **fields):
    """A document whose first node is of a kind."""

    def change(document):
        document["nodes"][0] = {"kind": kind, **fields}

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda document: [document],
        lambda document: {**document, "format": "pickle"},
        lambda document: {**document, "root": [10**6]},
        lambda document: {**document, "root": {"a": 1}},
        lambda document: {**document, "nodes": "abc"},
        lambda document: {**document, "schema": "1"},
        lambda document: {**document, "schema": -3},
        lambda document: {**document, "forms": {"KalmanClient": 9}},
        lambda document: {**document, "written_by": {"skfedcausal": "soon"}},
        _of("tuple", items=[[0]]),
        _of("object", **{"class": "os.system", "state": {}}),
        _of("object", **{"class": "sklearn.externals.joblib", "state": {}}),
        _of("object", **{"class": "sklearn.svm.SVR", "state": {}}),
        _of("object", **{"class": "own.mine", "state": {}}),
        _of("record", **{"class": "KalmanClient", "state": {}}),
        _of("object", **{"class": "LedgerEntry", "state": {}}),
        _of("own", name="mine"),
        _of("ufunc", name="load"),
        _of("array", dtype="f8", shape=[2, 2], start=10**9, axes=[1, 2]),
        _of("array", dtype="f8", shape=[-2, -2], start=0, axes=[1, 2]),
        _of("array", dtype="O", shape=[10**15], items=[], axes=[1]),
        _of("array", dtype="f8", shape=[2], start=-1, axes=[1]),
        _of("array", dtype="f8", shape=[2, 2], start=0, axes=[1, 1]),
        _of("array", dtype="f8", shape=[2, 2], start=0, axes="ab"),
        _of("array", dtype="V8", shape=[2], start=0, axes=[1]),
        _of("float", text="one"),
        _of("what"),
    ],
)
def test_a_document_that_nobody_wrote_is_refused(file, change):
    with pytest.raises(ModelFileError, match=r"client\.skfc"):
        load(file(change))


def test_depth_is_no_way_in(file):
    def deep(document):
        document["nodes"] = [{"kind": "list", "items": [[k + 1]]} for k in range(100_000)]

    with pytest.raises(ModelFileError):
        load(file(deep))


def test_generators_that_would_read_beyond_their_table_are_refused(tmp_path):
    client = KalmanClient()
    client.rng_ = np.random.RandomState(0)
    save(client, tmp_path / "x")
    with zipfile.ZipFile(tmp_path / "x") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    spoiled = parts["model.json"].replace(b",624]", b",999999]")
    assert spoiled != parts["model.json"]
    with zipfile.ZipFile(tmp_path / "x", "w") as archive:
        for name, data in {**parts, "model.json": spoiled}.items():
            archive.writestr(name, data)
    with pytest.raises(ModelFileError, match="generator stands at 999999"):
        load(tmp_path / "x")


def _npy(values, **settings):
    file = io.BytesIO()
    npy.write_array(file, values, **settings)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("../evil.npy", b""),
        ("code.py", b"print()"),
        ("float64.npy", _npy(np.array([KalmanClient()], dtype=object))),
        ("float64.npy", _npy(np.zeros((2, 2)))),
        ("float64.npy", _npy(np.zeros(4, np.int8))),
        ("float64.npy", b"\x93NUMPY"),
        ("model.json", b"\xff"),
        ("model.json", b"[" * 100_000),
    ],
)
def test_members_that_nobody_wrote_are_refused(file, name, data):
    with pytest.raises(ModelFileError):
        load(file(**{name: data}))


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(tmp_path):
    client = KalmanClient(Q=np.zeros((1000, 1000)))
    save(client, tmp_path / "x")
    assert (tmp_path / "x").stat().st_size < 100_000
    with pytest.raises(ModelFileError, match=r"unpacks to \d+ bytes, more than max_bytes=1000000.*max_bytes=8\d{6}\)"):
        load(tmp_path / "x", max_bytes=10**6)


def test_what_is_no_file_at_all(tmp_path):
    (tmp_path / "x").write_bytes(pickle.dumps(KalmanClient()))
    with pytest.raises(ModelFileError, match="no model file"):
        load(tmp_path / "x")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "y")


@pytest.mark.medium
def test_whatever_is_spoiled_the_answer_is_a_model_or_one_clear_error(tmp_path):
    whole = (kept.FOLDER / "detector.skfc").read_bytes()
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    draw = random.Random(0)
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        _is_model_or_refused(tmp_path / "x", bytes(data[: draw.choice([len(data), draw.randrange(len(data))])]))
    document = json.loads(parts["model.json"])
    for _ in range(150):
        spoiled = json.loads(json.dumps(document))
        node = draw.choice(spoiled["nodes"])
        node[draw.choice(list(node))] = draw.choice([None, -1, 10**12, "O", [], {}, [3], [0], "object", 1.5, [[1], 2]])
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, content in {**parts, "model.json": json.dumps(spoiled).encode()}.items():
                archive.writestr(name, content)
        _is_model_or_refused(tmp_path / "x", file.getvalue())


def _is_model_or_refused(path, data):
    path.write_bytes(data)
    with contextlib.suppress(ModelFileError):
        load(path)


def test_rows_at_which_levels_shift_of_earlier_versions_are_sudden_changes():
    (upgrade,) = objects.UPGRADES["OperatingPoint"]
    assert upgrade({"steps": (3, 7)})["steps"] == (Change(3, 4), Change(7, 8))


def test_a_plant_whose_levels_shift_is_kept(tmp_path):
    X, _ = make_granger_plant(2, n_samples=1500, random_state=0)
    X["unit0"] = X["unit0"] + 4 * (np.arange(1500) >= 700)[:, None]
    fitted = FederatedGrangerEstimator().fit(X)
    assert len(fitted.server_.level_shifts_)
    skfedcausal.save(fitted, tmp_path / "plant.skfc")
    kept = skfedcausal.load(tmp_path / "plant.skfc")
    assert kept.links_.equals(fitted.links_)
    assert kept.score(X) == fitted.score(X)
