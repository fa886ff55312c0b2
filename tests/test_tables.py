"""Tables through preprocess, train and explain: parts, words, forests, known functions, bad input, Tables 3 to 6."""

from __future__ import annotations

import json
from fractions import Fraction as F

import numpy as np
import pandas as pd
import pytest
from datasets import load_from_disk

from conf.load import ConfError, check_study
from conf.schema import Model
from flows import steps
from flows.context import open_context
from tasks.content import Content, read_content
from tasks.evaluate import check_metrics
from tasks.explain import check_methods
from tasks.preprocess.boston import FEATURES, PRICE
from tasks.preprocess.errors import DataError
from tasks.preprocess.rotten_tomatoes import NAMED, SHOWN, feature_words, words
from tasks.sets import over_samples
from tasks.subject import Subject
from tasks.train.building import check_fits
from tests.conftest import ROOT
from tests.naive_sets import as_fractions


@pytest.fixture(scope="module")
def storage(tmp_path_factory):
    """Return one store for all tests: making MLflow's database takes longer than the rest."""
    return tmp_path_factory.mktemp("store")


def table_study(storage, dataset: str, task: str, architecture: str, **changes):
    data = {"dataset": dataset, "task": task, **changes.pop("data", {})}
    raw = {
        "name": "table",
        "device": "cpu",
        "storage": str(storage),
        "data": data,
        "model": {"architecture": architecture, "bootstrap": 20, **changes.pop("model", {})},
        "explainers": ["random"],
        "explain": {"samples": 2},
        "evaluate": {"metrics": ["ins_auc_fixed", "del_auc_fixed"]},
    }
    return check_study({**raw, **changes}, "table")


def made(study):
    """Return the context, the preprocess and the train output of a study."""
    context = open_context(study)
    data = steps.preprocess(context).output
    return context, data, steps.train(context, data).output


def write_boston(folder, rows: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, len(FEATURES))), columns=list(FEATURES))
    frame[PRICE] = 20 + 3 * frame["RM"] - 2 * frame["LSTAT"]
    frame.to_csv(folder / "boston_housing.csv", index=False)
    return frame


def write_reviews(folder, rows: int = 60) -> None:
    texts = [*SHOWN, *(f"a film number {'good' if row % 2 else 'bad'} {row} ." for row in range(rows))]
    labels = [1, 0, 1, 0, 1] + [row % 2 for row in range(rows)]
    pd.DataFrame({"text": texts, "label": labels}).to_parquet(folder / "all.parquet")


# --- known functions -----------------------------------------------------------------------------------------------


def test_coins_are_all_outcomes_and_their_global_values_are_those_of_table_3(storage, tmp_path):
    """f4 = x1 x2: 5/42, 5/42, 0, 1/14, 1/42, 1/42, 3/112."""
    method = {"method": "joint_shapley", "order": 3, "estimator": "exact"}
    study = table_study(storage, "bernoulli", "product", "polynomial", explainers=[method], explain={"samples": 8})
    context, data, model = made(study)
    rows = load_from_disk(str(data.folder / "dataset"))
    assert {part: len(rows[part]) for part in rows} == {"train": 8, "validation": 8, "test": 8}
    run = steps.explain(context, study.explainers[0], data, model)
    folder = context.tracker.client.download_artifacts(run.run_id, "sets_global.csv", str(tmp_path))
    table = pd.read_csv(folder).set_index("set")
    found = {tuple(name.split(" & ")): value for name, value in table["presence_adjusted"].items()}
    wanted = (F(5, 42), F(5, 42), F(0), F(1, 14), F(1, 42), F(1, 42), F(3, 112))
    sets = [("x1",), ("x2",), ("x3",), ("x1", "x2"), ("x1", "x3"), ("x2", "x3"), ("x1", "x2", "x3")]
    assert as_fractions(found) == dict(zip(sets, wanted, strict=True))
    local = pd.read_csv(context.tracker.client.download_artifacts(run.run_id, "sets.csv", str(tmp_path)))
    assert len(local) == 8 * 7 and set(local["stderr"]) == {0.0}
    assert (table["samples"] == 8).all() and (table["present"] == 8).all()


def test_uniform_features_can_be_correlated_and_have_the_functions_values(storage):
    for correlated in (False, True):
        options = {"table": {"rows": 30, "correlated": correlated}}
        _, data, _ = made(table_study(storage, "uniform", "difference", "polynomial", data=options))
        rows = load_from_disk(str(data.folder / "dataset"))["test"]
        features = np.array(rows["features"][:])
        assert features.shape == (30, 3) and ((features >= 0) & (features < 1)).all()
        assert np.allclose(rows["label"][:], features[:, 0] - features[:, 1], atol=1e-12)
        assert np.allclose(features[:, 1], 1 - features[:, 0]) == correlated


def test_a_known_function_predicts_itself(storage):
    _, data, model = made(table_study(storage, "uniform", "sum", "polynomial"))
    scores = json.loads((model.folder / "scores.json").read_text())
    assert scores["r2"] == pytest.approx(1) and scores["rmse"] == pytest.approx(0, abs=1e-6)
    assert not (model.folder / "calibration.csv").exists()
    subject = Subject.load(
        data.folder, model.folder, table_study(storage, "uniform", "sum", "polynomial").explain, "cpu"
    )
    assert subject.background is not None and len(subject.background) == 50 and subject.leaves is None


# --- boston --------------------------------------------------------------------------------------------------------


def test_a_forest_goes_through_train_and_explains_from_its_leaves(storage, tmp_path):
    frame = write_boston(tmp_path)
    options = {"data": {"path": str(tmp_path)}, "model": {"trees": 5, "smallest_leaf": 2}}
    study = table_study(storage, "boston", "price", "forest", **options)
    _, data, model = made(study)
    content = read_content(data.folder)
    assert content.features == FEATURES and content.classes == () and content.kind == "table"
    rows = load_from_disk(str(data.folder / "dataset"))
    assert {part: len(rows[part]) for part in rows} == {"train": 29, "validation": 3, "test": 8}
    names = [name for part in rows for name in rows[part]["sample"][:]]
    assert len(set(names)) == len(frame) == 40
    predictions = pd.read_csv(model.folder / "predictions.csv")
    assert list(predictions.columns) == ["sample", "split", "label", "prediction"]
    subject = Subject.load(data.folder, model.folder, study.explain, "cpu")
    assert subject.leaves is not None and subject.leaves.held.shape[0] == 29
    whole = float(subject.game(0).evaluate(0, np_true(13)))
    assert whole == pytest.approx(predictions.set_index("sample")["prediction"][subject.rows[0]["sample"]], abs=1e-5)


def np_true(n: int):
    import torch

    return torch.ones((1, n), dtype=torch.bool)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: None, "no boston_housing.csv in"),
        (
            lambda folder: write_boston(folder).drop(columns="RM").to_csv(folder / "boston_housing.csv"),
            "column RM is missing",
        ),
        (
            lambda folder: (
                write_boston(folder)
                .astype(object)
                .replace({"ZN": {0: "x"}})
                .assign(ZN="x")
                .to_csv(folder / "boston_housing.csv")
            ),
            "row 2 of boston_housing.csv is not all numbers",
        ),
    ],
    ids=["no file", "no column", "no number"],
)
def test_files_that_cannot_be_used_are_refused(storage, tmp_path, change, said):
    change(tmp_path)
    study = table_study(storage, "boston", "price", "forest", data={"path": str(tmp_path)})
    with pytest.raises(DataError, match=said):
        steps.preprocess(open_context(study))


# --- reviews -------------------------------------------------------------------------------------------------------


def test_named_words_come_first_and_then_the_commonest():
    found = feature_words([{"a", "the", "of"}, {"the", "of"}, {"of"}], 2)
    assert found == (*NAMED, "of", "the")
    assert words("It's well-made , isn't it ?") == ["it's", "well", "made", "isn't", "it"]


def test_reviews_become_the_presence_of_words_and_the_test_part_begins_with_table_5(storage, tmp_path):
    write_reviews(tmp_path)
    options = {"data": {"path": str(tmp_path), "table": {"words": 12}}, "model": {"epochs": 2, "dropout": 0.0}}
    study = table_study(storage, "rotten_tomatoes", "sentiment", "mlp", **options)
    _, data, model = made(study)
    content = read_content(data.folder)
    test = load_from_disk(str(data.folder / "dataset"))["test"]
    assert test["sample"][:5] == [f"test-{row:06d}" for row in range(5)]
    features = np.array(test["features"][:])
    assert np.isin(features, (0, 1)).all() and content.features[:10] == NAMED
    first = {name for name, there in zip(content.features, features[0], strict=True) if there}
    assert {"won't", "disappointed"} <= first <= set(words(SHOWN[0]))
    assert {"auroc", "accuracy"} <= set(json.loads((model.folder / "scores.json").read_text()))
    game = Subject.load(data.folder, model.folder, study.explain, "cpu").game(0)
    probability = pd.read_csv(model.folder / "predictions.csv").set_index("sample")["probability"]["test-000000"]
    wanted = probability if game.targets[0] == 1 else 1 - probability
    assert float(game.evaluate(0, np_true(len(content.features)))) == pytest.approx(wanted, abs=1e-6)


def test_presence_adjusted_values_are_told_for_features_of_0_and_1_alone():
    table = pd.DataFrame([((0,), 1.0, 0.0), ((0, 1), 4.0, 0.0)], columns=["set", "value", "stderr"])
    names = [["a", "b"]] * 2
    found = over_samples(names, [table, table.assign(value=[3.0, 2.0])], np.array([[1, 0], [0, 1]])).set_index("set")
    assert found["presence_adjusted"].to_dict() == {"a": (1 - 3) / 2, "a & b": (-4 - 2) / 2}
    for features in (None, np.array([[0.5, 0], [1, 1]])):
        assert "presence_adjusted" not in over_samples(names, [table, table], features)


# --- bad input -----------------------------------------------------------------------------------------------------


def test_an_architecture_for_another_table_is_refused(storage):
    context = open_context(table_study(storage, "uniform", "sum", "forest"))
    with pytest.raises(ValueError, match="cannot read a table of a known function; take polynomial$"):
        steps.train(context, steps.preprocess(context).output)
    with pytest.raises(ValueError, match="cannot read a table of classes; take mlp$"):
        check_fits(Model(architecture="forest"), Content("table", ("bad", "good")))
    with pytest.raises(ValueError, match="cannot read a table of numbers to predict; take forest$"):
        check_fits(Model(architecture="mlp"), Content("table", ()))


@pytest.mark.parametrize(
    ("dataset", "task", "architecture", "said"),
    [
        ("uniform", "sum", "bert", "cannot read a table; take mlp or forest or polynomial$"),
        ("synthetic", "planted", "forest", "cannot read events; take bert or word_cnn or char_cnn or bilstm$"),
    ],
)
def test_an_architecture_for_other_data_is_refused_before_there_are_data(storage, dataset, task, architecture, said):
    with pytest.raises(ValueError, match=said):
        open_context(table_study(storage, dataset, task, architecture))


def test_a_background_beyond_the_rows_and_one_for_other_data_are_refused(storage):
    study = table_study(storage, "bernoulli", "sum", "polynomial", explain={"samples": 2, "background": 9})
    _, data, model = made(study)
    with pytest.raises(ValueError, match="explain.background is 9 and the training part has 8 rows"):
        Subject.load(data.folder, model.folder, study.explain, "cpu")
    events = table_study(
        storage,
        "synthetic",
        "planted",
        "bert",
        data={"synthetic": {"stays": 60}},
        explain={"samples": 2, "background": 3},
    )
    with pytest.raises(ValueError, match="explain.background is 3, and events data have none"):
        open_context(events)
    plain = events.model_copy(update={"explain": events.explain.model_copy(update={"background": None})})
    data = steps.preprocess(open_context(plain)).output
    with pytest.raises(ValueError, match="explain.background is 3, and events data have none"):
        check_methods(data.folder, events.explain, list(events.explainers))


def test_metrics_that_read_a_class_are_refused_where_a_number_is_predicted(storage):
    study = table_study(storage, "bernoulli", "sum", "polynomial")
    data = steps.preprocess(open_context(study)).output
    check_metrics(data.folder, study.evaluate)
    for name in ("inc_auc", "perm_auc", "log_odds_drop"):
        with pytest.raises(ValueError, match=f"{name}', which reads a class, .*take ins_auc, del_auc"):
            check_metrics(data.folder, study.evaluate.model_copy(update={"metrics": (name,)}))


def test_tasks_folders_and_correlated_coins_are_told(storage):
    with pytest.raises(ConfError, match="for bernoulli it is one of: first, sum, product"):
        table_study(storage, "bernoulli", "difference", "polynomial")
    with pytest.raises(ConfError, match="data.path is missing; give the folder of the boston tables"):
        table_study(storage, "boston", "price", "forest")
    study = table_study(storage, "bernoulli", "sum", "polynomial", data={"table": {"correlated": True}})
    with pytest.raises(DataError, match="it is for uniform features"):
        steps.preprocess(open_context(study))


@pytest.mark.parametrize("name", ["uniform", "bernoulli", "boston", "rotten-tomatoes"])
def test_the_studies_are_what_the_schema_takes(name):
    from conf.load import load_study

    assert load_study(ROOT / "conf" / f"{name}.yaml", ["data.path=/nowhere"]).name == name
