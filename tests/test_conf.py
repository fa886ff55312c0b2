"""A study's YAML: what loads, and what a person is told where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from conf.load import ConfError, check_study, load_study
from tests.conftest import ROOT
from tests.studies import TINY

STUDIES = sorted((ROOT / "conf").glob("*.yaml"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_shipped_study_loads(path: Path):
    study = load_study(path, ["data.path=/somewhere"] if "synthetic" not in path.stem else [])
    assert study.name == path.stem
    assert len({method.label for method in study.explainers}) == len(study.explainers)


def faults(**changes) -> str:
    with pytest.raises(ConfError) as error:
        check_study({**TINY, **changes}, "tiny")
    return str(error.value)


def test_unknown_keys_name_the_nearest_known_one():
    assert "explian: unknown key; did you mean 'explain'?" in faults(explian={})
    assert "explain.sampels: unknown key; did you mean 'samples'?" in faults(explain={"sampels": 3})
    assert "data.cohort.min_aeg: unknown key; did you mean 'min_age'?" in faults(
        data={"dataset": "synthetic", "cohort": {"min_aeg": 3}}
    )


def test_unknown_method_option_and_metric_name_the_nearest():
    assert "unknown explainer 'ordshop': did you mean 'ordshap'?" in faults(explainers=["ordshop"])
    assert "ordshap has no option 'estimater': did you mean 'estimator'?" in faults(
        explainers=[{"method": "ordshap", "estimater": "exact"}]
    )
    assert "unknown metric 'inc_uac': did you mean 'inc_auc'?" in faults(evaluate={"metrics": ["inc_uac"]})


def test_values_out_of_range_are_shown():
    assert "explain.samples: Input should be greater than or equal to 1 (it is 0)" in faults(explain={"samples": 0})
    assert "width 10 is not a multiple of model.heads 3" in faults(model={"width": 10, "heads": 3})


def test_every_fault_is_told_at_once():
    message = faults(explain={"samples": 0}, seeed=1)
    assert "explain.samples" in message and "seeed" in message


def test_two_methods_of_one_label():
    assert "two explainers are called 'lime'" in faults(explainers=["lime", {"method": "lime", "budget": 99}])


def test_task_must_fit_the_dataset():
    assert "data.task is 'planted'; for eicu it is one of: mortality, los" in faults(
        data={"dataset": "eicu", "path": "/x"}
    )
    assert "data.path is missing" in faults(data={"dataset": "eicu", "task": "los"})


def test_overrides(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("name: s\nexplain: {samples: 3}\n")
    study = load_study(path, ["explain.samples=7", "data.tokens.keep=first", "seed=3"])
    assert (study.explain.samples, study.data.tokens.keep, study.seed) == (7, "first", 3)
    with pytest.raises(ConfError, match="not of the form key=value"):
        load_study(path, ["explain.samples"])
    with pytest.raises(ConfError, match="'name' is not a section"):
        load_study(path, ["name.x=1"])


def test_files_that_are_no_study(tmp_path):
    (tmp_path / "synthetic.yaml").write_text("name: a")
    with pytest.raises(ConfError, match=r"no study at .*sinthetic.yaml: did you mean 'synthetic.yaml'"):
        load_study(tmp_path / "sinthetic.yaml")
    (tmp_path / "list.yaml").write_text("- a")
    with pytest.raises(ConfError, match="holds list, not a mapping"):
        load_study(tmp_path / "list.yaml")
    (tmp_path / "broken.yaml").write_text("a: [")
    with pytest.raises(ConfError, match="is not YAML"):
        load_study(tmp_path / "broken.yaml")


def test_labels_are_made_from_options():
    study = check_study({**TINY, "explainers": [{"method": "ordshap", "estimator": "algorithm2"}]}, "tiny")
    assert study.explainers[0].label == "ordshap_algorithm2"
