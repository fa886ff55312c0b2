"""What names an output: the raw files by content and place, a method by what it does."""

from __future__ import annotations

import shutil
from datetime import timedelta

from conf.load import check_study
from explainers import get_explainer
from flows import steps
from flows.context import open_context
from flows.steps.explanations import explainer_options
from tasks.store import digest_of
from tests.studies import TINY, tiny_study
from tests.test_preprocess_meds import WHEN, write_meds


def meds_digest(folder, storage, labels="labels") -> str:
    data = {"dataset": "meds", "task": "label", "path": str(folder), "labels_path": str(folder / labels)}
    context = open_context(check_study({**TINY, "data": data, "storage": str(storage)}, "meds"))
    return digest_of(steps.preprocess_made(context))


def test_an_edit_in_any_of_several_files_of_one_name_changes_the_digest(tmp_path):
    folder = tmp_path / "raw"
    write_meds(folder, [(1, WHEN - timedelta(hours=2), "A")], [(1, WHEN, True)])
    before = meds_digest(folder, tmp_path / "store")
    assert meds_digest(folder, tmp_path / "store") == before
    parts = [folder / "data" / f"part{number}" / "0.parquet" for number in (0, 1)]
    contents = [part.read_bytes() for part in parts]
    write_meds(folder, [(1, WHEN - timedelta(hours=2), "B")], [(1, WHEN, True)])
    assert parts[0].read_bytes() == contents[0] and parts[1].read_bytes() != contents[1]
    assert meds_digest(folder, tmp_path / "store") != before


def test_where_the_raw_files_lie_changes_nothing(tmp_path):
    write_meds(tmp_path / "here", labels=[(1, WHEN, True)])
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    store = tmp_path / "store"
    assert meds_digest(tmp_path / "here", store) == meds_digest(tmp_path / "there", store)
    assert meds_digest(tmp_path / "here", store, "labels/0.parquet") == meds_digest(
        tmp_path / "there", store, "labels/0.parquet"
    )


def test_saying_a_default_aloud_changes_no_digest_and_a_label_neither(tmp_path):
    context = open_context(tiny_study(tmp_path))
    data = steps.preprocess(context).output
    model = steps.train(context, data).output

    def named(**method) -> str:
        study = tiny_study(tmp_path, explainers=[method])
        return digest_of(steps.explain_made(context, study.explainers[0], data, model))

    assert named(method="ordshap") == named(method="ordshap", budget=2000, label="mine", estimator="walks")
    assert named(method="ordshap") != named(method="ordshap", budget=2001)
    assert named(method="ordshap", estimator="algorithm2") != named(method="ordshap")
    assert explainer_options(get_explainer("ordshap", estimator="algorithm1", subsets=2)) == {
        "estimator": "algorithm1",
        "subsets": 2,
    }
