"""Every container gives the same arrays, and every mistake gets an answer that names it."""

import pickle
import traceback
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    parametrize_with_checks,
)
from sklearn.utils.validation import check_is_fitted

from skfedcausal.containers import (
    PlantData,
    PlantLayout,
    check_lengths,
    constant_columns,
    read_plant,
    stack_clients,
)

T = 6
TABLE = np.random.default_rng(0).normal(size=(T, 5))
TABLE[2, 1] = np.nan
A, B = TABLE[:, :2], TABLE[:, 2:]  # two units with two and three sensors
U = np.random.default_rng(1).normal(size=(T, 2))
FLAT = ["a__x0", "a__x1", "b__x0", "b__x1", "b__x2"]
TIME = pd.date_range("2024-01-01", periods=T, freq="h", tz="UTC")


def raise_import_error():
    raise ModuleNotFoundError("pyarrow")


class PolarsLike:
    """A frame of another library, as far as the reader looks at it."""

    def __init__(self, frame, has_pyarrow=True):
        self._frame, self._has_pyarrow = frame, has_pyarrow

    @property
    def columns(self):
        return list(self._frame.columns)

    def __getitem__(self, name):
        return SimpleNamespace(to_numpy=self._frame[name].to_numpy)

    def __dataframe__(self):
        raise NotImplementedError

    def to_pandas(self):
        return self._frame if self._has_pyarrow else raise_import_error()


def flat_frame(values=TABLE, columns=FLAT, index=None):
    return pd.DataFrame(values, columns=columns, index=index)


def two_levels():
    return flat_frame().set_axis(pd.MultiIndex.from_tuples([name.split("__") for name in FLAT]), axis=1)


def fit_layout(X=None, **kwargs):
    return read_plant(flat_frame() if X is None else X, **kwargs).layout


class Reader(TransformerMixin, BaseEstimator):
    """Smallest estimator that reads containers."""

    def __init__(self, client_labels="from_columns", input_columns=None):
        self.client_labels = client_labels
        self.input_columns = input_columns

    def fit(self, X, y=None, *, inputs=None):
        self.layout_ = read_plant(
            X,
            client_labels=self.client_labels,
            input_columns=self.input_columns,
            inputs=inputs,
            estimator=self,
        ).layout
        return self

    def transform(self, X, *, inputs=None):
        check_is_fitted(self)
        data = read_plant(X, inputs=inputs, layout=self.layout_, min_samples=1, estimator=self)
        return np.hstack(data.outputs)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


# --- containers ---------------------------------------------------------------------------------

LABELS = ["a", "a", "b", "b", "b"]
CONTAINERS = {
    "dict of arrays": ({"a": A, "b": B}, {}),
    "dict of frames": ({"a": flat_frame(A, ["x0", "x1"]), "b": flat_frame(B, FLAT[2:])}, {}),
    "dict of two-level frames": ({"a": two_levels()[["a"]], "b": two_levels()[["b"]]}, {}),
    "dict of nested lists": ({"a": A.tolist(), "b": B.tolist()}, {}),
    "flat frame": (flat_frame(), {}),
    "flat frame, time index": (flat_frame(index=TIME), {}),
    "two-level frame": (two_levels(), {}),
    "polars": (PolarsLike(flat_frame()), {}),
    "polars without pyarrow": (PolarsLike(flat_frame(), has_pyarrow=False), {}),
    "array with labels": (TABLE, {"client_labels": LABELS}),
    "array with array of labels": (TABLE, {"client_labels": np.array(LABELS)}),
    "array with callable": (TABLE, {"client_labels": lambda k: "a" if k < 2 else "b"}),
    "nested lists with labels": (TABLE.tolist(), {"client_labels": LABELS}),
    "numbered frame with labels": (pd.DataFrame(TABLE), {"client_labels": LABELS}),
    "frame with callable": (flat_frame(), {"client_labels": lambda name: name[0]}),
    "Fortran order": (np.asfortranarray(TABLE), {"client_labels": LABELS}),
    "masked array": (
        np.ma.masked_invalid(np.where(np.isnan(TABLE), np.inf, TABLE)),
        {"client_labels": LABELS},
    ),
    "object dtype": (TABLE.astype(object), {"client_labels": LABELS}),
    "one episode": ([{"a": A, "b": B}], {}),
    "episodes as dicts": ([{"a": A[:2], "b": B[:2]}, {"b": B[2:], "a": A[2:]}], {}),
    "episodes as frames": ([flat_frame()[:2], flat_frame()[2:]], {}),
    "episodes, other column order": ([flat_frame()[:2], flat_frame()[FLAT[::-1]][2:]], {}),
    "episodes as two-level frames": ([two_levels()[:2], two_levels()[2:]], {}),
    "episodes as polars": ([PolarsLike(flat_frame()[:2]), PolarsLike(flat_frame()[2:])], {}),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_gives_the_same_arrays(name):
    X, options = CONTAINERS[name]
    data = read_plant(X, **options)
    assert isinstance(data, PlantData)
    assert isinstance(data.layout, PlantLayout)
    assert data.names == ("a", "b")
    assert data.layout.outputs == (tuple(FLAT[:2]), tuple(FLAT[2:]))
    assert data.layout.inputs == ((), ())
    assert data.layout.columns == tuple(FLAT)
    assert data.layout.named
    assert data.inputs == (None, None)
    assert (data.n_units, data.n_samples, data.layout.n_columns) == (2, T, 5)
    assert sum(data.lengths) == T
    assert data.raw_bytes == TABLE.nbytes
    for read, expected in zip(data.outputs, (A, B), strict=True):
        assert read.dtype == np.float64
        np.testing.assert_array_equal(read, expected)


def test_list_of_units_is_named_by_position():
    frames = [A, flat_frame(B, ["T", "p__in", "q"]).rename(columns={"p__in": "p"})]
    for X in (frames, tuple(frames), [PolarsLike(pd.DataFrame(A)), frames[1]]):
        data = read_plant(X)
        assert data.names == ("client0", "client1")
        assert data.layout.outputs[0] == ("client0__x0", "client0__x1")
        assert data.layout.outputs[1] == ("client1__T", "client1__p", "client1__q")
        assert not data.layout.named
        np.testing.assert_array_equal(data.outputs[1], B)


def test_series_are_units_with_one_sensor():
    frame = flat_frame(index=TIME)
    data = read_plant({"a": frame["a__x0"], "b": frame["b__x0"].rename("T"), "c": pd.Series(A[:, 1], index=TIME)})
    assert data.layout.outputs == (("a__x0",), ("b__T",), ("c__x0",))
    assert data.index.equals(TIME)
    foreign = SimpleNamespace(name="T", to_numpy=lambda: A[:, 0], to_pandas=raise_import_error)
    assert read_plant({"a": foreign}).layout.outputs == (("a__T",),)
    two = two_levels()
    assert read_plant({"a": two[("a", "x0")]}).layout.outputs == (("a__x0",),)


@pytest.mark.parametrize("X", [TABLE, TABLE.tolist()], ids=["array", "nested lists"])
def test_every_column_of_a_plain_array_is_a_unit(X):
    layout = read_plant(X).layout
    assert layout.names == tuple(f"client{k}" for k in range(5))
    assert layout.outputs == tuple((name,) for name in layout.names)
    assert not layout.named


@pytest.mark.parametrize(
    ("columns", "names"),
    [(list("vwxyz"), tuple("vwxyz")), (range(5), tuple(f"client{k}" for k in range(5)))],
)
def test_frame_without_units_warns(columns, names):
    with pytest.warns(UserWarning, match="every column becomes a unit of its own") as record:
        data = read_plant(flat_frame(columns=columns))
    assert record[0].filename == __file__
    assert data.names == names
    assert data.layout.outputs == tuple((name,) for name in names)


def test_labelled_frame_keeps_its_column_names():
    frame = flat_frame(columns=["FIT101", "LIT301", "P102", "DPIT301", "AIT1"])
    layout = read_plant(frame, client_labels=lambda name: "P" + name.strip("FITLADP")[0]).layout
    assert layout.names == ("P1", "P3")
    assert layout.outputs == (("FIT101", "P102", "AIT1"), ("LIT301", "DPIT301"))
    assert layout.output_positions == ((0, 2, 4), (1, 3))
    assert layout.owner("DPIT301") == "P3"
    with pytest.raises(ValueError, match="unknown column 'x'"):
        layout.owner("x")


def test_flat_names_split_at_the_first_separator():
    layout = read_plant(flat_frame(columns=["a__x__0", "a___y", "b__z", "b_b__z", "a__w"])).layout
    assert layout.names == ("a", "b", "b_b")
    assert layout.outputs[0] == ("a__x__0", "a___y", "a__w")
    assert layout.output_positions == ((0, 1, 4), (2,), (3,))


@pytest.mark.parametrize(
    "values",
    [
        TABLE.astype(np.float32),
        np.arange(30).reshape(T, 5),
        TABLE > 0,
        flat_frame(np.arange(30).reshape(T, 5)),
        flat_frame(TABLE > 0).astype({"a__x0": float}),
    ],
    ids=["float32", "int", "bool", "int frame", "mixed frame"],
)
def test_numbers_become_float64(values):
    data = read_plant(values, client_labels=LABELS)
    assert all(array.dtype == np.float64 for array in data.outputs)
    np.testing.assert_array_equal(np.hstack(data.outputs), np.asarray(values, dtype=float))


@pytest.mark.parametrize("in_dict", [False, True])
@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("Float64", [1.5, None, 2.5]),
        ("Int64", [1, None, 2]),
        ("boolean", [True, None, False]),
        (object, [1.0, None, 2.0]),
    ],
)
def test_missing_values_of_nullable_dtypes_become_nan(dtype, values, in_dict):
    frame = pd.DataFrame({"a__x": pd.array(values, dtype=dtype), "a__y": [1.0, 2.0, 3.0]})
    data = read_plant({"a": frame} if in_dict else frame)
    expected = np.array([np.nan if value is None else value for value in values], dtype=float)
    np.testing.assert_array_equal(data.outputs[0][:, 0], expected)


# --- memory -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.array, np.asfortranarray, flat_frame], ids="CFf")
def test_rows_of_a_unit_lie_together_however_the_table_came(make):
    """The same sums are then rounded alike here and where a unit's rows were sent to."""
    X = make(TABLE)
    labels = "from_columns" if isinstance(X, pd.DataFrame) else LABELS
    for y, expected in zip(read_plant(X, client_labels=labels).outputs, (A, B), strict=True):
        assert y.flags.c_contiguous
        np.testing.assert_array_equal(y, expected)


def test_units_of_a_dict_whose_rows_lie_together_are_not_copied():
    units = {"a": A.copy(), "b": B.copy()}
    for y, came in zip(read_plant(units).outputs, units.values(), strict=True):
        assert np.shares_memory(y, came)


def test_scattered_columns_and_input_are_left_alone():
    X = TABLE.copy()
    data = read_plant(X, client_labels=["a", "b", "a", "b", "a"])
    np.testing.assert_array_equal(data.outputs[0], TABLE[:, ::2])
    data.outputs[0][:] = 0.0
    np.testing.assert_array_equal(X, TABLE)
    frame = two_levels()
    read_plant(frame)
    assert frame.columns.nlevels == 2


# --- inputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "options", "names"),
    [
        (flat_frame(), {"input_columns": ["b__x2", "a__x1"]}, ("a__x1", "b__x2")),
        (flat_frame(), {"input_columns": [4, 1]}, ("a__x1", "b__x2")),
        (flat_frame(), {"input_columns": lambda c: c in ("b__x2", "a__x1")}, ("a__x1", "b__x2")),
        (two_levels(), {"input_columns": pd.Index(["a__x1", "b__x2"])}, ("a__x1", "b__x2")),
        (two_levels(), {"input_columns": [("b", "x2"), ("a", "x1")]}, ("a__x1", "b__x2")),
        (TABLE, {"input_columns": np.array([1, 4]), "client_labels": LABELS}, ("a__u0", "b__u0")),
        (TABLE, {"input_columns": lambda k: k in (1, 4), "client_labels": LABELS}, None),
        ({"a": A, "b": B}, {"input_columns": [1, 4]}, ("a__u0", "b__u0")),
        (
            {"a": flat_frame(A, ["T", "valve"]), "b": B},
            {"input_columns": ["a__valve", 4]},
            ("a__valve", "b__u0"),
        ),
    ],
)
def test_input_columns_inside_the_table(X, options, names):
    data = read_plant(X, **options)
    np.testing.assert_array_equal(data.outputs[0], A[:, :1])
    np.testing.assert_array_equal(data.outputs[1], B[:, :2])
    np.testing.assert_array_equal(data.inputs[0], A[:, 1:])
    np.testing.assert_array_equal(data.inputs[1], B[:, 2:])
    assert data.layout.inputs == tuple((name,) for name in names or ("a__u0", "b__u0"))
    assert data.layout.input_positions == ((1,), (4,))
    assert data.layout.n_columns == 5
    assert data.raw_bytes == TABLE.nbytes
    assert not data.layout.has_separate_inputs


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        ([None, U], ("b__u0", "b__u1")),
        ((np.empty((T, 0)), U), ("b__u0", "b__u1")),
        ({"b": U}, ("b__u0", "b__u1")),
        ({"b": U, "a": None}, ("b__u0", "b__u1")),
        ({"b": pd.DataFrame(U, columns=["valve", "b__pump"])}, ("b__valve", "b__pump")),
    ],
)
@pytest.mark.parametrize("X", [flat_frame(), {"a": A, "b": B}], ids=["frame", "dict"])
def test_inputs_beside_the_table(X, inputs, names):
    data = read_plant(X, inputs=inputs)
    assert data.inputs[0] is None
    np.testing.assert_array_equal(data.inputs[1], U)
    assert data.layout.inputs == ((), names)
    assert data.layout.input_positions == ((), ())
    assert data.layout.n_columns == 5
    assert data.layout.has_separate_inputs
    assert data.raw_bytes == TABLE.nbytes + U.nbytes


def test_missing_inputs_stay_nan():
    gap = U.copy()
    gap[0, 0] = np.nan
    np.testing.assert_array_equal(read_plant([A, B], inputs=[gap, None]).inputs[0], gap)


# --- episodes and time --------------------------------------------------------------------------


def test_lengths_and_starts():
    data = read_plant(flat_frame(), lengths=np.array([1, 3, 2]))
    assert data.lengths == (1, 3, 2)
    assert data.starts == (0, 1, 4)
    assert read_plant(flat_frame()).lengths == (T,)
    assert check_lengths(None, 3) == (3,)


def test_episodes_know_their_lengths_inputs_and_times():
    frame = flat_frame(index=TIME)
    data = read_plant([frame[:2], frame[2:]], inputs=[{"a": U[:2]}, [U[2:], None]])
    assert data.lengths == (2, 4)
    assert data.index.equals(TIME)
    np.testing.assert_array_equal(data.inputs[0], U)
    assert data.inputs[1] is None


def test_time_index_comes_from_whoever_has_one():
    timed = flat_frame(A, ["x", "y"], index=TIME)
    for X in ([timed, B], [pd.DataFrame(B), timed], {"a": A, "b": timed}):
        assert read_plant(X).index.equals(TIME)
    assert read_plant([A, B], inputs=[None, timed]).index.equals(TIME)
    assert read_plant([A, B]).index is None
    assert read_plant(TABLE).index is None
    assert read_plant(flat_frame(index=TIME)).index.equals(TIME)
    assert read_plant([A, pd.DataFrame(B)]).index.equals(pd.RangeIndex(T))


# --- what was learned ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "X",
    [
        {"b": B, "a": A},
        {"b": flat_frame(B[:, ::-1], ["x2", "x1", "x0"]), "a": A},
        [A, B],
        TABLE,
        TABLE.tolist(),
        flat_frame(),
        flat_frame()[FLAT[::-1]],
        two_levels()[["b", "a"]],
        PolarsLike(flat_frame()),
        pd.DataFrame(TABLE),
        [{"b": B[:2], "a": A[:2]}, flat_frame()[2:]],
    ],
)
def test_later_records_come_in_the_order_that_was_learned(X):
    layout = fit_layout()
    data = read_plant(X, layout=layout)
    assert data.layout is layout
    np.testing.assert_array_equal(data.outputs[0], A)
    np.testing.assert_array_equal(data.outputs[1], B)


def test_scattered_layout_with_inputs_matches_a_dict():
    order = [3, 0, 4, 2, 1]  # b, a, b, b, a
    columns = [FLAT[k] for k in order]
    layout = fit_layout(flat_frame()[columns], input_columns=["b__x2", "a__x1"])
    assert layout.names == ("b", "a")
    named = {"a": flat_frame(A, FLAT[:2]), "b": flat_frame(B, FLAT[2:])}
    by_position = {"a": A, "b": B[:, [1, 2, 0]]}  # the unit's columns as they stood in the table
    for X in (named, by_position, flat_frame(), TABLE[:, order]):
        data = read_plant(X, layout=layout)
        np.testing.assert_array_equal(data.outputs[0], B[:, [1, 0]])
        np.testing.assert_array_equal(data.inputs[0], B[:, [2]])
        np.testing.assert_array_equal(data.outputs[1], A[:, :1])
        np.testing.assert_array_equal(data.inputs[1], A[:, 1:])


def test_layout_remembers_separate_inputs():
    frame = pd.DataFrame(U, columns=["valve", "pump"])
    layout = fit_layout(inputs={"b": frame})
    for inputs in ({"b": frame[["pump", "valve"]]}, [None, U], {"b": U}):
        data = read_plant([A, B], inputs=inputs, layout=layout)
        np.testing.assert_array_equal(data.inputs[1], U)


def test_unnamed_layout_takes_frames_by_position_unless_names_agree():
    layout = fit_layout([A, B])
    other = flat_frame(columns=list("vwxyz"))
    np.testing.assert_array_equal(read_plant(other, layout=layout).outputs[1], B)
    stacked = stack_clients([A, B])
    swapped = stacked[list(stacked)[::-1]]
    np.testing.assert_array_equal(read_plant(swapped, layout=layout).outputs[1], B)


def test_layout_is_hashable_and_pickles():
    layout = fit_layout(inputs=[U, None])
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert hash(layout) == hash(fit_layout(inputs=[U, None]))


# --- stacking -----------------------------------------------------------------------------------


@pytest.mark.parametrize("clients", [{"a": A, "b": B}, [A, B], {"a": flat_frame(A, FLAT[:2]), "b": B}])
@pytest.mark.parametrize("inputs", [None, [U, None], [U, U[:, :1]]])
def test_stack_round_trip(clients, inputs):
    there = read_plant(clients, inputs=inputs)
    frame = stack_clients(clients, inputs)
    back = read_plant(frame, input_columns=[c for unit in there.layout.inputs for c in unit])
    assert back.names == there.names
    assert back.layout.outputs == there.layout.outputs
    assert back.layout.inputs == there.layout.inputs
    for one, other in zip(back.outputs + back.inputs, there.outputs + there.inputs, strict=True):
        if other is None:
            assert one is None
        else:
            np.testing.assert_array_equal(one, other)


def test_stack_keeps_time_and_refuses_episodes():
    assert stack_clients({"a": flat_frame(A, ["x", "y"], index=TIME)}).index.equals(TIME)
    with pytest.raises(ValueError, match="list of 2 episodes; stack every episode"):
        stack_clients([{"a": A}, {"a": A}])


# --- scikit-learn -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:No column name of X:UserWarning")
@parametrize_with_checks([Reader()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:No column name of X:UserWarning")
def test_column_names_consistency():
    check_dataframe_column_names_consistency("Reader", Reader())


@pytest.mark.parametrize("first", [{"a": A, "b": B}, flat_frame(), two_levels()])
@pytest.mark.parametrize("second", [{"b": B, "a": A}, flat_frame(), two_levels(), [A, B]])
def test_fit_on_one_container_transform_another(first, second):
    reader = Reader().fit(first)
    assert reader.n_features_in_ == 5
    assert list(reader.feature_names_in_) == FLAT
    np.testing.assert_array_equal(reader.transform(second), TABLE)
    assert reader.transform(flat_frame()[:1]).shape == (1, 5)


def test_refit_on_a_list_forgets_names():
    reader = Reader().fit(flat_frame()).fit([A, B[:, :1]])
    assert reader.n_features_in_ == 3
    assert not hasattr(reader, "feature_names_in_")
    np.testing.assert_array_equal(reader.transform(TABLE[:, :3]), TABLE[:, :3])


def test_scikit_learn_refuses_columns_in_another_order():
    with pytest.raises(ValueError, match="must be in the same order"):
        Reader().fit({"a": A, "b": B}).transform(flat_frame()[FLAT[::-1]])


# --- errors -------------------------------------------------------------------------------------


def with_value(value, row=1, column=1, dtype=object):
    values = A.astype(dtype)
    values[row, column] = value
    return values


INF = with_value(np.inf, dtype=float)
WRONG = {
    # what it is
    "None": (None, {}, TypeError, "Got X of type NoneType; give a list or dict"),
    "string": ("plant.csv", {}, TypeError, "Got X of type str"),
    "number": (3.0, {}, TypeError, "Got X of type float"),
    "generator": ((a for a in [A, B]), {}, TypeError, "Got X of type generator"),
    "foreign frame": (SimpleNamespace(__dataframe__=None), {}, TypeError, "Got X of type"),
    "empty list": ([], {}, ValueError, "empty list as X; give one array per unit"),
    "empty dict": ({}, {}, ValueError, "empty dict as X"),
    "1-D array": (TABLE[0], {}, ValueError, "Expected 2D array, got 1D array"),
    "1-D list": ([1.0, 2.0], {}, ValueError, "Expected 2D array, got 1D array"),
    "1-D unit": ({"a": A, "b": B[:, 0]}, {}, ValueError, "(?s)got 1D array.*Found in unit 'b'"),
    "series": (flat_frame()["a__x0"], {}, ValueError, "one column; a plant has several units"),
    "3-D array": (TABLE[None], {}, ValueError, "dim 3.*Found in X; put episodes below each other"),
    "3-D unit": ([A, B[None]], {}, ValueError, "dim 3.*unit 'client1'; put episodes"),
    "ragged": ([[1.0, 2.0], [3.0]], {}, ValueError, "inhomogeneous"),
    "sparse": (sparse.csr_array(np.eye(4)), {}, TypeError, "(?i)sparse"),
    "sparse unit": ({"a": sparse.csr_array(np.eye(4))}, {}, TypeError, "(?is)sparse.*unit 'a'"),
    "no columns": (np.ones((T, 0)), {}, ValueError, r"0 feature\(s\) \(shape=\(6, 0\)\) while a m"),
    "frame without columns": (pd.DataFrame(index=TIME), {}, ValueError, r"0 feature\(s\)"),
    "unit without columns": ({"a": A, "b": B[:, :0]}, {}, ValueError, r"0 feature.*unit 'b'"),
    "one row": (
        TABLE[:1],
        {},
        ValueError,
        r"1 sample\(s\) \(shape=\(1, 5\)\) while a minimum of 2",
    ),
    "one row each": ([A[:1], B[:1]], {}, ValueError, "1 sample.*minimum of 2.*unit 'client0'"),
    "one row in all": (
        [{"a": A[:1]}],
        {},
        ValueError,
        r"1 sample\(s\) in total while a minimum of",
    ),
    "different lengths": (
        {"a": A, "b": B[1:]},
        {},
        ValueError,
        "different length: unit 'a': 6 rows, unit 'b': 5 rows. Give",
    ),
    "different times": (
        {"a": flat_frame(A, ["x", "y"], TIME), "b": flat_frame(B, list("xyz"), TIME.shift())},
        {},
        ValueError,
        "different time indexes in unit 'a' and unit 'b'",
    ),
    # values
    "infinite": (flat_frame(INF, FLAT[:2]), {}, ValueError, "X contains inf.*'a__x1' of unit 'a'"),
    "infinite label": (INF, {"client_labels": "ab"}, ValueError, "give 'from_columns', one label"),
    "infinite array": (INF, {}, ValueError, "Input X contains inf.*'client1' of unit 'client1'"),
    "infinite unit": ({"p": A, "q": INF}, {}, ValueError, "X contains infin.*column 1 of unit 'q'"),
    "infinite input": ([A], {"inputs": [INF]}, ValueError, "inputs contains inf.*the inputs of un"),
    "string value": (
        flat_frame(with_value("off"), FLAT[:2]),
        {},
        ValueError,
        "could not convert string to float: 'off'.*'a__x1' of unit 'a'; convert it to numbers",
    ),
    "decimal comma": (
        pd.DataFrame({"a__x": ["1,5", "2,0"], "b__x": [1.0, 2.0]}),
        {},
        ValueError,
        "'a__x' of unit 'a'; convert it to numbers .*decimal=','",
    ),
    "string column": (
        pd.DataFrame({"a__x": [1.0, 2.0], "b__mode": ["on", "off"]}),
        {},
        ValueError,
        "'b__mode' of unit 'b'",
    ),
    "time column": (
        {"a": pd.DataFrame({"time": TIME, "x": 1.0})},
        {},
        TypeError,
        "'a__time' of unit 'a'; times of rows belong in the index",
    ),
    "object value": ([A, with_value({})], {}, TypeError, "column 1 of unit 'client1'"),
    "complex": (TABLE + 1j, {}, ValueError, "(?s)Complex data not supported.*column 'client0'"),
    "complex unit": ({"a": A, "b": B * 1j}, {}, ValueError, "(?s)Complex data not supp.*unit 'b'"),
    # names
    "some without unit": (
        flat_frame(columns=["time", "a__x", "a__y", "b__x", "z"]),
        {},
        ValueError,
        r"column\(s\) 'time', 'z' without a unit",
    ),
    "no unit": (flat_frame(A, ["__x", "a__y"]), {}, ValueError, "'__x' without a unit"),
    "no sensor": (
        flat_frame(A, ["a__", "a__y"]),
        {},
        ValueError,
        "'a__' without a unit or without",
    ),
    "same column": (
        flat_frame(A, ["a__x"] * 2),
        {},
        ValueError,
        "duplicated.*'a__x' among the col",
    ),
    "same column in unit": (
        {"a": flat_frame(A, ["x", "x"])},
        {},
        ValueError,
        "duplicated.*'x' among the columns of unit 'a'",
    ),
    "same flat name": (
        {"a": flat_frame(A, ["x", "a__x"])},
        {},
        ValueError,
        "duplicated.*'a__x' among the columns of unit 'a'",
    ),
    "same unit": ({1: A, "1": B}, {}, ValueError, "duplicated.*'1' among the units"),
    "mixed names": (flat_frame(A, ["a__x", 1]), {}, TypeError, "string names. Got 1 among the col"),
    "separator in unit": ({"a__b": A}, {}, ValueError, "unit name.*'a__b'"),
    "unit ends with _": ({"a_": A}, {}, ValueError, "unit name.*'a_'; rename"),
    "unnamed unit": ({"": A}, {}, ValueError, "unit name.*must not be empty"),
    "level with separator": (
        flat_frame(A, pd.MultiIndex.from_tuples([("a__b", "x"), ("c", "x")])),
        {},
        ValueError,
        "unit name.*'a__b'",
    ),
    "three levels": (
        flat_frame(A, pd.MultiIndex.from_tuples([("a", "b", "x"), ("a", "b", "y")])),
        {},
        ValueError,
        "3 column levels; give two",
    ),
    # labels
    "label count": (
        np.ones((4, 6)),
        {"client_labels": ["a", "b", "c"]},
        ValueError,
        "Got 3 labels in `client_labels` for 6 columns; give one label per column.",
    ),
    "label missing": (A, {"client_labels": ["a", None]}, ValueError, "no label.*at position 1;"),
    "2-D labels": (A, {"client_labels": [["a", "b"]]}, ValueError, r"with 2 dimension\(s\)"),
    "no labels": (A, {"client_labels": None}, ValueError, r"with 0 dimension\(s\); give a list"),
    "labels of units": ([A, B], {"client_labels": LABELS}, ValueError, "they are for one table"),
    # inputs
    "both inputs": (
        flat_frame(),
        {"inputs": [U, None], "input_columns": ["a__x0"]},
        ValueError,
        "both `inputs` and `input_columns`",
    ),
    "inputs only": (
        flat_frame(),
        {"input_columns": FLAT[:2]},
        ValueError,
        r"only input columns for unit\(s\) 'a'; every unit needs at least one sensor",
    ),
    "plain array with inputs": (A, {"input_columns": [0]}, ValueError, "only input columns for un"),
    "unknown input": (
        flat_frame(),
        {"input_columns": ["a__u", 9]},
        ValueError,
        "Got 'a__u', 9 in `input_columns`, which X does not have.*'a__x0', 'a__x1'",
    ),
    "named input of array": (
        TABLE,
        {"client_labels": LABELS, "input_columns": ["b__x2"]},
        ValueError,
        "positions from 0 to 4 .the columns have no names here",
    ),
    "mask of inputs": (
        flat_frame(),
        {"input_columns": [True] + [False] * 4},
        ValueError,
        "Got True, False",
    ),
    "one input name": (flat_frame(), {"input_columns": "a__x0"}, ValueError, r"\['a__x0'\]"),
    "unknown unit": (
        {"a": A},
        {"inputs": {"c": U}},
        ValueError,
        "units in `inputs` that do not fit: unknown 'c'. Known are 'a'",
    ),
    "number of inputs": (
        [A, B],
        {"inputs": [U]},
        ValueError,
        r"Got 1 element\(s\) in `inputs`, exp",
    ),
    "array of inputs": (
        [A, B],
        {"inputs": U[:, :1]},
        ValueError,
        r"`inputs` of shape .*, expected as many columns for each",
    ),
    "1-D inputs": (
        [A, B],
        {"inputs": [U[:, 0], None]},
        ValueError,
        "(?s)1D.*the inputs of unit 'cl",
    ),
    "length of inputs": ([A, B], {"inputs": [U[1:], None]}, ValueError, "the inputs of.*: 5 rows"),
    "name of inputs": (
        {"a": flat_frame(A, ["u0", "x"])},
        {"inputs": [U]},
        ValueError,
        "duplicated.*'a__u0' among the columns",
    ),
    # lengths and episodes
    "sum of lengths": (A, {"lengths": [2, 3]}, ValueError, "sum to 5 for 6 rows; give the number"),
    "zero length": (A, {"lengths": [0, 6]}, ValueError, "give one positive integer per episode"),
    "float lengths": (A, {"lengths": [3.0, 3.0]}, ValueError, "one positive integer per episode"),
    "one length": (
        A,
        {"lengths": 6},
        ValueError,
        r"Got lengths=6; give .* for example lengths=\[6",
    ),
    "no lengths": (A, {"lengths": []}, ValueError, "one positive integer per episode"),
    "lengths twice": ([{"a": A}], {"lengths": [6]}, ValueError, "together with a list of episodes"),
    "unit and episode": ([flat_frame(), A], {}, ValueError, r"element\(s\) 0 name their units"),
    "episode with other columns": (
        [flat_frame(), flat_frame()[FLAT[:-1]]],
        {},
        ValueError,
        "Episode 1: Got columns of X that do not fit: missing 'b__x2'",
    ),
    "episode without unit": (
        [{"a": A, "b": B}, {"a": A}],
        {},
        ValueError,
        "Episode 1: .*miss.*'b'",
    ),
    "episode inputs": ([{"a": A}] * 2, {"inputs": {"a": U}}, ValueError, "one list, dict or None"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistake_is_named(name):
    X, options, kind, message = WRONG[name]
    with pytest.raises(kind, match=message):
        read_plant(X, **options)


MISFITS = {
    "unknown unit": ({"a": A, "c": B}, {}, "missing 'b', unknown 'c'. Known are 'a', 'b'"),
    "missing unit": ({"a": A}, {}, "units in X that do not fit: missing 'b'"),
    "number of units": (
        [A, B, A],
        {},
        r"Got 3 element\(s\) in X, expected 2; give one per unit: 'a",
    ),
    "number of columns in unit": (
        [A, A],
        {},
        r"2 column\(s\) in unit 'b', expected 3: 'b__x0', 'b",
    ),
    "column of unit": (
        {"a": flat_frame(A, ["x0", "T"]), "b": B},
        {},
        "columns of unit 'a' that do not fit: missing 'a__x1', unknown 'a__T'",
    ),
    "number of columns": (TABLE[:, :4], {}, r"4 column\(s\) in X, expected 5: 'a__x0'"),
    "columns": (flat_frame(columns=[*FLAT[:4], "b__T"]), {}, "missing 'b__x2', unknown 'b__T'"),
    "more columns": (flat_frame(columns=FLAT).assign(c__x=1.0), {}, "unknown 'c__x'"),
    "new inputs": (
        [A, B],
        {"inputs": [U, None]},
        r"2 column\(s\) in the inputs of unit 'a', expe.*none",
    ),
    "infinite, other order": (
        flat_frame(np.where(np.isnan(TABLE), np.inf, TABLE))[FLAT[::-1]],
        {},
        "contains infinity.*column 'a__x1' of unit 'a'",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_misfit_with_what_was_learned_is_named(name):
    X, options, message = MISFITS[name]
    with pytest.raises(ValueError, match=message):
        read_plant(X, layout=fit_layout(), **options)


@pytest.mark.parametrize(
    ("options", "inputs", "message"),
    [
        ({"inputs": [None, U]}, None, "Got no `inputs`, but unit.* 'b' had some in `fit`"),
        ({"inputs": [None, U]}, [None, None], "no inputs for unit 'b', expected 'b__u0', 'b__u1'"),
        ({"inputs": [None, U]}, {"b": U[:, :1]}, r"1 column\(s\) in the inputs of unit 'b', expec"),
        ({"input_columns": ["b__x2"]}, [None, U], "the inputs were columns of X"),
    ],
)
def test_misfit_of_inputs_is_named(options, inputs, message):
    with pytest.raises(ValueError, match=message):
        read_plant(flat_frame(), inputs=inputs, layout=fit_layout(**options))


# --- constant columns ---------------------------------------------------------------------------


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("n_samples", [1, 5, 5000])
def test_constant_columns(n_samples, order):
    Y = np.random.default_rng(2).normal(size=(n_samples, 6))
    Y[:, 1] = 3.0
    Y[:, 2] = np.nan
    Y[:, 3] = np.where(np.arange(n_samples) % 2, np.nan, -1.0)
    Y[:, 4] = 0.0
    Y[-1, 4] = 1.0  # changes in the last row only
    Y[0, 5] = np.nan
    expected = [n_samples == 1, True, True, True, n_samples == 1, n_samples == 1]
    np.testing.assert_array_equal(constant_columns(np.asarray(Y, order=order)), expected)


def test_constant_columns_of_integers_and_infinities():
    assert constant_columns(np.array([[1, 2], [1, 3]])).tolist() == [True, False]
    assert constant_columns(np.array([[np.inf, 0.0], [np.inf, np.inf]])).tolist() == [True, False]


@pytest.mark.parametrize("table", [np.arange(30.0), np.arange(30.0)[:, None] * 1j], ids=["1-D", "complex"])
def test_errors_quote_no_measurements(table):
    with pytest.raises(ValueError, match=r"Expected 2D|Complex data") as caught:
        read_plant({"a": table, "b": np.ones((30, 2))})
    assert "13." not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_column_of_times_is_no_measurement(alone, zone):
    times = pd.Series(pd.date_range("2026-01-01", periods=20, tz=zone))
    frame = pd.DataFrame({"b__when": times} if alone else {"a__x": np.arange(20.0), "b__when": times})
    with pytest.raises(
        TypeError, match=r"Times are not measurements\. Found in column 'b__when' of unit 'b'; times of rows"
    ):
        read_plant(frame)
