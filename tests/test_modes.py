"""Operating modes that a column tells the detector: how it is said, what is known, modes that are new."""

from io import StringIO

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from skfedcausal import Baseline, FederatedRCADetector, stack_clients
from skfedcausal.containers.arrays import mode_codes, modes_in, plain_modes

from .test_campaigns import at_level
from .test_rca import simulate

pytestmark = pytest.mark.medium

MODE = np.arange(2500) // 250 % 2
WORDS = np.array(["summer", "winter", "cleaning"])


def plant(mode, seed, **fault):
    """A plant whose units have another level in mode 1, and one of its own in mode 2."""
    return at_level(simulate(len(mode), seed=seed, **fault), np.array([0.0, 1.0, -1.5])[mode])


def of_plant(X, mode):
    """A table with a column of modes that belongs to no unit."""
    return stack_clients(X).assign(recipe=WORDS[mode])


def of_unit(X, mode):
    """A table with a column of modes of one unit."""
    return stack_clients(X).assign(unit2__recipe=WORDS[mode])


@pytest.fixture(scope="module")
def detector():
    return FederatedRCADetector(baseline=Baseline(mode="recipe")).fit(of_plant(plant(MODE, 1), MODE))


@pytest.fixture(scope="module")
def unit_detector():
    return FederatedRCADetector(baseline=Baseline(mode="unit2__recipe")).fit(of_unit(plant(MODE, 1), MODE))


@pytest.fixture(scope="module")
def switching():
    mode = ((np.arange(900) >= 200) & (np.arange(900) < 500)).astype(int)
    return plant(mode, 7), mode


def share_in_alarm(detector, mode, table):
    """Share of rows in alarm in ten nominal records, in which one alarm per 1000 rows is asked for."""
    return np.mean([detector.predict(table(plant(mode, seed), mode)) == -1 for seed in range(7, 17)])


# -- what is found -------------------------------------------------------------------------------------


def test_a_switch_between_modes_is_no_incident_and_is_one_where_nothing_tells(detector, switching):
    X, mode = switching
    assert share_in_alarm(detector, mode, of_plant) <= 0.01
    one_mode = of_plant(X, np.zeros(900, dtype=int))
    assert detector.incidents(one_mode).detected.between(200, 210).any()


@pytest.mark.parametrize("mode", [0, 1])
def test_a_fault_in_either_mode_is_named(detector, mode):
    modes, found = np.where(np.arange(600) < 200, 1 - mode, mode), []
    for seed in range(20, 24):
        X = of_plant(plant(modes, seed, fault=1, at=400), modes)
        found += detector.incidents(X).query("detected >= 400").root.tolist()[:1]
        assert detector.attribute(X, start=400).client.iloc[0] == "unit1"
    assert found.count("unit1") >= 3


def test_the_same_modes_said_in_other_ways_give_the_same_answer(detector, unit_detector, switching):
    X, mode = switching
    expected = detector.transform(of_plant(X, mode))
    beside = FederatedRCADetector(baseline=Baseline(mode="recipe")).fit(plant(MODE, 1) | {"recipe": WORDS[MODE]})
    assert_array_equal(beside.transform(X | {"recipe": WORDS[mode]}), expected)
    numbers = FederatedRCADetector(baseline=Baseline(mode="recipe")).fit(
        stack_clients(plant(MODE, 1)).assign(recipe=MODE)
    )
    assert_array_equal(numbers.transform(stack_clients(X).assign(recipe=mode)), expected)
    expected = unit_detector.transform(of_unit(X, mode))
    inputs = {"unit2": pd.DataFrame({"recipe": WORDS[MODE]})}
    given = FederatedRCADetector(baseline=Baseline(mode="unit2__recipe")).fit(plant(MODE, 1), inputs=inputs)
    assert_array_equal(given.transform(X, inputs={"unit2": pd.DataFrame({"recipe": WORDS[mode]})}), expected)
    as_input = FederatedRCADetector().fit(plant(MODE, 1), inputs={"unit2": MODE[:, None].astype(float)})
    assert_array_equal(as_input.transform(X, inputs={"unit2": mode[:, None].astype(float)}), expected)


def test_a_column_that_every_unit_has_counts_once(unit_detector, switching):
    def everywhere(X, mode):
        return stack_clients(X).assign(**{f"{name}__recipe": WORDS[mode] for name in X})

    X, mode = switching
    told = FederatedRCADetector(baseline=Baseline(mode="recipe")).fit(everywhere(plant(MODE, 1), MODE))
    assert share_in_alarm(told, mode, everywhere) <= 0.01
    assert [U is None for U in told._seen_by_units(told._read(everywhere(X, mode))).inputs].count(False) == 1
    other = everywhere(X, mode)
    other.loc[600:620, "unit3__recipe"] = "winter"
    seen = told._seen_by_units(told._read(other))
    assert np.isnan(seen.outputs[3][600:621]).all()
    assert np.isfinite(seen.outputs[3][:600]).all()


def test_modes_stand_beside_other_inputs():
    rng = np.random.default_rng(0)
    moves = np.repeat(rng.standard_normal(50), 50)
    X = stack_clients(plant(MODE, 1)).assign(unit0__set=moves, recipe=WORDS[MODE])
    told = FederatedRCADetector(input_columns=["unit0__set"], baseline=Baseline(mode="recipe")).fit(X)
    assert told.layout_.inputs[0] == ("unit0__set", "unit0__recipe")
    assert (told.predict(X) == -1).mean() <= 0.01


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], [1, 2]),
        (["1", " 2 ", "clean "], [1, 2, "clean"]),
        ([1.0, "2.0", "02"], [1, 2, 2]),
        (["1.5", 1.5], [1.5, 1.5]),
        ([True, "False", "true"], [True, False, True]),
        ([None, np.nan, "", "  ", "nan", pd.NA], [np.nan] * 6),
        (["inf", "1_0", 10**400], ["inf", "1_0", str(10**400)]),
        (pd.Series(["1", "clean"], dtype="category"), [1, "clean"]),
    ],
)
def test_a_mode_is_read_by_itself(values, expected):
    whole = plain_modes(values)
    assert list(map(repr, whole)) == list(map(repr, expected))
    alone = [plain_modes([value]).iloc[0] for value in values]
    assert list(map(repr, alone)) == list(map(repr, expected))


@pytest.mark.parametrize("labels", [(1, 2), (1, 2, "clean"), (False, True)])
def test_codes_of_modes_do_not_depend_on_what_else_a_batch_holds(labels):
    nominal = pd.read_csv(StringIO("\n".join(["recipe", *(str(label) for label in labels for _ in range(30))])))
    known = modes_in(nominal["recipe"], "recipe")
    assert known == labels
    for told in (labels[:1], labels, (*labels, "other"), (*labels, None)):
        batch = pd.read_csv(StringIO("\n".join(["recipe,x", *(f"{'' if v is None else v},0" for v in told)])))
        expected = [labels.index(v) if v in labels else np.nan if v is None else len(labels) for v in told]
        for values in (
            batch["recipe"],
            pd.Series(told, dtype=object),
            pd.Series(told, dtype=object).map(str, "ignore"),
        ):
            codes, unknown = mode_codes(values, known)
            assert_array_equal(codes, expected)
            assert unknown == (["other"] if "other" in told else [])


def test_columns_of_one_mode_in_numbers_and_texts_follow_each_other(switching):
    X, mode = switching
    record = stack_clients(plant(MODE, 1))
    both = record.assign(unit0__recipe=MODE, unit1__recipe=MODE.astype(str))
    told = FederatedRCADetector(baseline=Baseline(mode="recipe")).fit(both)
    same = FederatedRCADetector(baseline=Baseline(mode="recipe")).fit(
        record.assign(unit0__recipe=MODE, unit1__recipe=MODE)
    )
    table = stack_clients(X)
    expected = same.transform(table.assign(unit0__recipe=mode, unit1__recipe=mode))
    assert_array_equal(told.transform(table.assign(unit0__recipe=mode.astype(str), unit1__recipe=mode)), expected)


# -- streams -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 30])
def test_streams_answer_as_the_whole_record(detector, switching, size):
    X, mode = switching
    table = of_plant(X, mode).iloc[150:260] if size == 1 else of_plant(X, mode)
    whole = detector.predict_root_cause(table)
    batches = (table.iloc[k : k + size] for k in range(0, len(table), size))
    roots = np.full(len(table), "?", dtype=object)
    for where, part in detector.predict_root_cause(batches):
        roots[where] = part
    assert_array_equal(roots.astype(str), whole)


def test_single_rows_of_a_dict_and_of_a_table_are_the_same(detector, switching):
    X, mode = switching
    table = of_plant(X, mode)
    detector.reset()
    for k in range(195, 230):
        detector.update(table.iloc[k])
    by_table = detector._stream.state.averages
    detector.reset()
    for k in range(195, 230):
        detector.update({name: Y[k] for name, Y in X.items()} | {"recipe": WORDS[mode[k]]})
    for a, b in zip(by_table, detector._stream.state.averages, strict=True):
        assert_array_equal(a, b)
    detector.reset()


def test_a_mode_that_is_missing_is_that_of_the_row_before_also_over_batches(detector, switching):
    X, mode = switching
    table = of_plant(X, mode)
    gaps = table.copy()
    gaps.loc[300:330, "recipe"] = None
    assert_array_equal(detector.transform(gaps), detector.transform(table))
    detector.reset()
    told = [detector.update(gaps.iloc[k : k + 10]) for k in range(0, 400, 10)]
    assert detector._stream.n_rows == 400
    expected = detector.incidents(table.iloc[:400])
    assert {row for part in told for row in part.detected} >= set(expected.detected)
    detector.reset()


def test_a_fitted_detector_is_saved_with_its_modes(detector, switching, tmp_path):
    X, mode = switching
    joblib.dump(detector, tmp_path / "detector")
    loaded = joblib.load(tmp_path / "detector")
    assert_array_equal(loaded.transform(of_plant(X, mode)), detector.transform(of_plant(X, mode)))


def test_a_page_on_an_incident_takes_modes_in_words(detector, tmp_path):
    modes = np.where(np.arange(600) < 200, 0, 1)
    X = of_plant(plant(modes, 20, fault=1, at=400, size=2.0), modes)
    found = detector.incidents(X).query("detected >= 400")
    assert "unit1" in detector.report(found, tmp_path / "page.html", X=X).read_text()


# -- modes that are new --------------------------------------------------------------------------------


def test_a_mode_of_a_unit_that_is_new_is_named_and_the_others_are_watched(unit_detector):
    modes = np.where(np.arange(900) // 100 == 3, 2, 0)
    quiet = simulate(900, seed=11)
    faulty = simulate(900, seed=11, fault=0, at=360, size=1.5)
    moved = plant(modes, 11)
    quiet["unit2"] = faulty["unit2"] = moved["unit2"]  # nothing is known of it in the new mode
    with pytest.warns(
        UserWarning, match="mode 'cleaning' of 'unit2__recipe' was not in what was nominal: rows of unit"
    ):
        assert (unit_detector.predict(of_unit(quiet, modes)) == -1).mean() <= 0.01
    with pytest.warns(UserWarning, match="Known are 'summer', 'winter'"):
        found = unit_detector.incidents(of_unit(faulty, modes))
    assert found.query("detected >= 360").root.iloc[0] == "unit0"
    with pytest.warns(UserWarning, match="cleaning"):
        joined = pd.concat(
            list(unit_detector.incidents(of_unit(faulty, modes).iloc[k : k + 50] for k in range(0, 900, 50)))
        )
    assert joined.drop_duplicates("detected", keep="last").detected.tolist() == found.detected.tolist()


def test_a_mode_of_the_plant_that_is_new_is_named_and_learned(detector):
    modes = np.where(np.arange(900) >= 300, 2, 0)
    with pytest.warns(UserWarning, match="mode 'cleaning' of 'unit0__recipe' was not in what was nominal: nothing is"):
        assert (detector.predict(of_plant(plant(modes, 12), modes)) == -1).mean() <= 0.01
    with pytest.warns(UserWarning, match="mode 'cleaning'"):
        found = detector.incidents(of_plant(plant(modes, 12, fault=1, at=600), modes))
    assert found.query("detected >= 600").root.iloc[0] == "unit1"


# -- what is refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        (
            {},
            {"recipe": np.where(np.arange(2500) == 7, "cleaning", WORDS[MODE])},
            "Mode.s. 'cleaning' in 'unit0__recipe'",
        ),
        ({}, {"recipe": np.arange(2500)}, "2500 different values in 2500 rows: it does not name a mode"),
        ({"baseline__levels": "episode"}, {}, "mode='recipe' and levels='episode' do not go together"),
        ({"evidence": "flags"}, {}, "mode='recipe' and evidence='flags' do not go together"),
        ({}, {"recipe": [None, *WORDS[MODE[1:]]]}, "missing values at the start of an episode"),
    ],
)
def test_what_tells_no_modes_is_refused(settings, change, message):
    X = of_plant(plant(MODE, 1), MODE)
    detector = FederatedRCADetector(baseline=Baseline(mode="recipe")).set_params(**settings)
    with pytest.raises(ValueError, match=message):
        detector.fit(X.assign(**change) if change else X)


@pytest.mark.parametrize(("inputs", "where"), [(None, "X"), ({"unit2": MODE[:, None]}, "`inputs`")])
def test_a_column_that_is_not_there_is_named(inputs, where):
    with pytest.raises(ValueError, match=f"mode='recipe' is no column of {where}"):
        FederatedRCADetector(baseline=Baseline(mode="recipe")).fit(plant(MODE, 1), inputs=inputs)


def test_modes_of_sites_belong_to_their_settings():
    with pytest.raises(ValueError, match="mode cannot be given to `fit_sites`"):
        FederatedRCADetector(baseline=Baseline(mode="recipe")).fit_sites(object())
