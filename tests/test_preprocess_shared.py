"""What all data sets share: file formats, order, vocabulary, length, split, errors, no identifiers in the output."""

from __future__ import annotations

import gzip
import hashlib
import json
from typing import get_args

import pytest

from conf.schema import Data, Split
from tasks.preprocess import DataError, check, datasets, inputs
from tasks.preprocess.split import divide
from tests.builders_ehr import (
    eicu_stay,
    eicu_tables,
    hashed,
    mimic_stay,
    mimic_tables,
    rows,
    run,
    sequences,
    settings,
    write_tables,
)

LABS = [(1, minutes, name) for minutes, name in ((30, "sodium"), (10, "glucose"), (10, "lactate"), (20, "chloride"))]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return the expected rows of one made cohort in both layouts, read from ordinary lower-case CSV."""
    folder = tmp_path_factory.mktemp("plain")
    return {name: extract(folder / name, name) for name in ("eicu", "mimic3")}


def extract(folder, name, **how):
    patient = 300_000
    tables = {
        "eicu": lambda: eicu_tables([eicu_stay(1)], LABS),
        "mimic3": lambda: mimic_tables(
            [mimic_stay(patient)], [(patient, mimic_stay(patient)["intime"], item) for item in (3, 0, 2)]
        ),
    }[name]()
    run(settings(name, write_tables(folder / "raw", tables, **how)), folder / "out")
    return sequences(folder / "out"), rows(folder / "out")


@pytest.mark.parametrize("name", ["eicu", "mimic3"])
@pytest.mark.parametrize(
    "how",
    [{"upper": True}, {"suffix": ".csv.gz", "upper": True}, {"suffix": ".parquet"}, {"shuffle": 3}],
    ids=["upper", "gz", "parquet", "shuffled"],
)
def test_format_header_case_and_row_order_do_not_matter(tmp_path, plain, name, how):
    found = extract(tmp_path, name, **how)
    assert found == plain[name]
    assert list(found[1]) == list(plain[name][1])
    assert len(found[0]) == 21


def test_parts_are_ordered_by_raw_id_and_not_by_the_hash(plain):
    for part in ("train", "validation", "test"):
        stored = [stay for stay, row in plain["eicu"][1].items() if row["part"] == part]
        raw = {hashed(str(stay)): str(stay) for stay in [1, *range(100_000, 100_020)]}
        order = sorted(stored, key=lambda stay: hashlib.sha256(f"eicu\x1f0\x1f{raw[stay]}".encode()).hexdigest())
        assert stored == order


@pytest.mark.parametrize("keep", ["last", "first"])
def test_longest_length(tmp_path, keep):
    labs = [(1, minute, "sodium" if minute < 150 else "glucose") for minute in range(160)]
    folder = write_tables(tmp_path / "raw", eicu_tables([eicu_stay(1)], labs))
    audit = run(settings("eicu", folder, tokens={"min_count": 1, "keep": keep}), tmp_path / "out")
    sodium = 140 if keep == "last" else 150
    assert sequences(tmp_path / "out")[hashed("1")] == ["LAB//sodium"] * sodium + ["LAB//glucose"] * (150 - sodium)
    assert rows(tmp_path / "out")[hashed("1")]["hours"][0] == pytest.approx((10 if keep == "last" else 0) / 60)
    assert audit["truncated"] == {"stays": 1, "share": round(1 / 21, 4), "tokens_lost": 10}


def test_vocabulary_is_of_the_training_part_alone(tmp_path):
    stays = range(100_000, 100_020)
    first = write_tables(tmp_path / "raw", eicu_tables([], []))
    run(settings("eicu", first), tmp_path / "look")
    part = {stay: rows(tmp_path / "look")[hashed(str(stay))]["part"] for stay in stays}
    labs = [(stay, 200 + k, f"only {part[stay]}") for stay in stays for k in range(6)]
    folder = write_tables(tmp_path / "raw", eicu_tables([], labs))
    audit = run(settings("eicu", folder, tokens={"min_count": 5}), tmp_path / "out")
    vocabulary = json.loads((tmp_path / "out" / "vocabulary.json").read_text())
    train = list(part.values()).count("train")
    assert vocabulary["tokens"][:5] == ["[PAD]", "[CLS]", "[MASK]", "[UNK]", "LAB//only train"]
    assert vocabulary["counts"][:5] == [0, 0, 0, 0, 6 * train]
    assert vocabulary["special"] == {"pad": 0, "cls": 1, "mask": 2, "unk": 3}
    assert not {"LAB//only validation", "LAB//only test"} & set(vocabulary["tokens"])
    assert audit["vocabulary"]["rare"]["test"]["occurrences"] >= 6 * list(part.values()).count("test") > 0
    found = sequences(tmp_path / "out")
    counted = [code for stay in stays if part[stay] == "train" for code in found[hashed(str(stay))]]
    assert {code: counted.count(code) for code in set(counted)} == dict(
        zip(vocabulary["tokens"][4:], vocabulary["counts"][4:], strict=True)
    )


@pytest.mark.parametrize(("rare", "middle"), [("drop", []), ("unk", ["[UNK]"])])
def test_rare_codes(tmp_path, rare, middle):
    labs = [(1, 10, "sodium"), (1, 20, "never seen elsewhere"), (1, 30, "glucose"), (2, 10, "nor this")]
    folder = write_tables(tmp_path / "raw", eicu_tables([eicu_stay(1), eicu_stay(2)], labs))
    audit = run(settings("eicu", folder, tokens={"min_count": 5, "rare": rare}), tmp_path / "out")
    found = sequences(tmp_path / "out")
    assert found[hashed("1")] == ["LAB//sodium", *middle, "LAB//glucose"]
    assert found.get(hashed("2"), []) == middle
    last = audit["cohort"]["steps"][-1]
    assert last == {"reason": "no known code left", "dropped": 1 - len(middle), "left": 21 + len(middle)}
    rare_stays = sum(part["occurrences"] for part in audit["vocabulary"]["rare"].values())
    assert rare_stays >= 2


def test_split_shares_strata_and_seed():
    patients = {f"p{i:04d}": int(i % 10 == 0) for i in range(1000)}
    parts = divide(patients, Split(), 0, "eicu")
    sizes = {part: list(parts.values()).count(part) for part in ("train", "validation", "test")}
    assert sizes == {"train": 720, "validation": 80, "test": 200}
    assert sum(patients[p] for p, part in parts.items() if part == "test") == 20
    assert sum(patients[p] for p, part in parts.items() if part == "validation") == 8
    assert divide(dict(reversed(patients.items())), Split(), 0, "eicu") == parts
    assert divide(patients, Split(), 1, "eicu") != parts
    few = divide({f"p{i}": int(i < 3) for i in range(30)}, Split(), 5, "eicu")
    assert {few[f"p{i}"] for i in range(3)} == {"train", "validation", "test"}


def test_no_identifier_in_any_output(tmp_path):
    patient = 313_373
    stay = mimic_stay(patient, hadm_id=717_171, icustay_id=919_191)
    folder = write_tables(tmp_path / "raw", mimic_tables([stay], [(patient, stay["intime"], 0)]))
    run(settings("mimic3", folder), tmp_path / "out")
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert {"audit.json", "audit.md", "vocabulary.json", "dataset_dict.json"} <= {path.name for path in left}
    known = [b"313373", b"717171", b"919191", *(str(offset + i).encode() for offset in (200_000, 600_000, 1_000_000)
             for i in range(20))]  # fmt: skip
    assert not [(path.name, raw) for path in left for raw in known if raw in path.read_bytes()]
    assert any(hashed("919191").encode() in path.read_bytes() for path in left)
    assert not (tmp_path / "out" / ".spill").exists()


def test_a_rerun_writes_the_same_bytes(tmp_path):
    folder = write_tables(tmp_path / "raw", eicu_tables([eicu_stay(1)], LABS))
    for out, threads in (("one", 1), ("two", 4)):
        run(settings("eicu", folder, threads=threads), tmp_path / out)
    for path in sorted((tmp_path / "one").rglob("*.*")):
        if "audit" not in path.name:
            assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes(), path.name


def test_inputs_and_registry(tmp_path):
    folder = write_tables(tmp_path / "raw", eicu_tables([], []))
    (folder / "notes.txt").write_text("")
    assert [path.name for path in inputs(settings("eicu", folder))] == [
        "infusionDrug.csv", "lab.csv", "medication.csv", "patient.csv",
    ]  # fmt: skip
    assert set(datasets()) == set(get_args(Data.model_fields["dataset"].annotation))
    assert all(len(line) > 10 for line in datasets().values())


@pytest.fixture
def folder(tmp_path):
    return write_tables(tmp_path / "raw", eicu_tables([eicu_stay(1)], LABS))


def fails(folder, *parts, where=check, **options):
    with pytest.raises(DataError) as caught:
        where(settings("eicu", folder, **options))
    for part in parts:
        assert part in str(caught.value)
    return str(caught.value)


def test_missing_folder_and_table(folder):
    fails(folder / "nowhere", "no such folder", "nowhere", "data.path=FOLDER")
    (folder / "lab.csv").rename(folder / "labs.csv")
    fails(folder, "missing table: lab in", "lab.csv or lab.csv.gz or lab.parquet", "did you mean 'labs.csv'")


def test_missing_column_names_the_nearest(folder):
    path = folder / "lab.csv"
    path.write_text(path.read_text().replace("labresultoffset", "labresult_offset", 1))
    fails(folder, "missing column in lab.csv: labresultoffset", "did you mean 'labresult_offset'?")


def test_table_twice(folder):
    (folder / "LAB.csv.gz").write_bytes(gzip.compress((folder / "lab.csv").read_bytes()))
    fails(folder, "more than once", "LAB.csv.gz, lab.csv", "keep one")


@pytest.mark.parametrize("damage", ["no gzip", "truncated", "flipped"])
def test_unreadable_gzip(folder, damage):
    text = (folder / "lab.csv").read_bytes()
    packed = bytearray(gzip.compress(text))
    packed[len(packed) // 2] ^= 255
    raw = {"no gzip": text, "truncated": gzip.compress(text)[:-300], "flipped": bytes(packed)}[damage]
    (folder / "lab.csv").unlink()
    (folder / "lab.csv.gz").write_bytes(raw)
    fails(folder, "unreadable file", "lab.csv.gz", "download or copy it again")


def test_gzip_that_breaks_late_is_named_without_its_rows(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("tasks.preprocess.tables.FULLY_READ_BYTES", 0)
    text = (folder / "lab.csv").read_bytes() + b"1,1,10,sodium,1.5\r\n" * 60_000
    (folder / "lab.csv").unlink()
    (folder / "lab.csv.gz").write_bytes(gzip.compress(text)[:-20])
    check(settings("eicu", folder))
    told = fails(folder, "unreadable table", "lab", "truncated gzip", where=lambda data: run(data, tmp_path / "out"))
    assert "sodium" not in told
    assert not (tmp_path / "out" / ".spill").exists()


def test_ragged_csv_is_told_without_its_rows(folder, tmp_path):
    with (folder / "lab.csv").open("a") as file:
        file.write("9,100003,1,secret,5,6,7,8,9\r\n")
    told = fails(folder, "unreadable table", "lab", where=lambda data: run(data, tmp_path / "out"))
    assert "secret" not in told
    assert "100003" not in told


def test_no_stay_left_gives_counts(folder, tmp_path):
    fails(
        folder, "no stay is left", "21 stays read (younger than 61 years: 21)", "data.cohort",
        where=lambda data: run(data, tmp_path / "out"), cohort={"min_age": 61},
    )  # fmt: skip


def test_one_class_gives_counts(tmp_path):
    tables = eicu_tables([], [])
    for row in tables["patient"]:
        row["hospitaldischargestatus"] = "Alive"
    folder = write_tables(tmp_path / "raw", tables)
    fails(
        folder, "one class only", "train: 14 stays of class 0, 0 of class 1", "test: 4 stays of class 0",
        where=lambda data: run(data, tmp_path / "out"),
    )  # fmt: skip


def test_empty_part(tmp_path):
    folder = write_tables(tmp_path / "raw", eicu_tables([], [], background=4))
    fails(
        folder, "the validation part is empty", "test: 1 stays of class 0, 1 of class 1", "data.split.validation_share",
        where=lambda data: run(data, tmp_path / "out"),
    )  # fmt: skip


def test_flag_without_flags(folder):
    fails(folder, "abnormal_flag", "eicu", "set it to false", tokens={"abnormal_flag": True})
