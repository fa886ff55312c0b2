"""Stage outputs: identity, damage, locks, keys, atomic writes."""

from __future__ import annotations

import ast
import os
import signal
import stat
import threading

import pytest
import torch

from tasks import shards
from tasks.shards import read_sample, run_shards
from tasks.store import Store, code_digest, digest_of, imported, write_json


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


MADE = {"conf": {"a": 1}, "inputs": {}, "seed": 0}


def write(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "x.txt").write_text("hello")


def test_an_output_is_found_again_by_what_made_it(store):
    made = store.make("stage", MADE, write)
    found = store.find("stage", digest_of({"seed": 0, "inputs": {}, "conf": {"a": 1}}))
    assert found == made
    assert store.find("stage", digest_of({**MADE, "seed": 1})) is None


@pytest.mark.parametrize("damage", ["changed", "shorter", "gone"])
def test_a_damaged_output_is_not_reused(store, damage, caplog):
    made = store.make("stage", MADE, write)
    path = made.folder / "sub" / "x.txt"
    if damage == "gone":
        path.unlink()
    else:
        path.write_text("hellO" if damage == "changed" else "hell")
    assert store.find("stage", made.digest) is None
    assert "damaged (sub/x.txt)" in caplog.text


def test_a_failed_attempt_leaves_no_manifest_and_the_next_starts_clean(store):
    def fail(folder):
        (folder / "half").write_text("")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        store.make("stage", MADE, fail)
    assert store.find("stage", digest_of(MADE)) is None
    made = store.make("stage", MADE, write)
    assert not (made.folder / "half").exists()


def test_stay_hash_is_keyed_private_and_stable(store, tmp_path):
    first, again = store.stay_hash()("141764"), Store(store.root).stay_hash()("141764")
    other = Store(tmp_path / "other").stay_hash()("141764")
    assert first == again != other
    assert "141764" not in first and len(first) == 16
    assert stat.S_IMODE(os.stat(store.root / "stay-hash.key").st_mode) == 0o600


def test_timing_waits_for_whoever_shares_the_device_and_says_so(store, caplog):
    """A shared holder lets another in and keeps an exclusive one out; flock is per open file, so a thread will do."""
    order = []

    def exclusive():
        with store.lock("device"):
            order.append("timing")

    with store.lock("device", shared=True), store.lock("device", shared=True):
        waiting = threading.Thread(target=exclusive)
        waiting.start()
        waiting.join(0.3)
        order.append("explain")
    waiting.join(10)
    assert order == ["explain", "timing"]
    assert caplog.messages == ["waiting: another execution of this storage folder holds device"]


def test_file_digest_notices_a_change(store, tmp_path):
    path = tmp_path / "raw.csv"
    path.write_text("a")
    before = store.file_digest(path)
    assert store.file_digest(path) == before
    path.write_text("bb")
    assert store.file_digest(path) != before


def test_nan_is_no_json(tmp_path):
    with pytest.raises(ValueError):
        write_json(tmp_path / "x.json", {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_code_digest_follows_imports_and_tells_methods_apart():
    assert code_digest("tasks.explain", "explainers.lime") != code_digest("tasks.explain", "explainers.loco")
    assert code_digest("tasks.explain") == code_digest("tasks.explain", "explainers.game", "tasks.shards")


def test_imported_names_submodules():
    tree = ast.parse("def f():\n    from tasks.train import fit\nimport explainers.game")
    assert set(imported(tree)) == {"tasks.train", "tasks.train.fit", "explainers.game"}


def test_shards_hold_each_sample_and_only_missing_or_damaged_ones_are_computed(tmp_path):
    calls = []

    def compute(index):
        calls.append(index)
        return {"x": torch.tensor([float(index), float("nan")])}

    run_shards(tmp_path, 5, 2, compute)
    assert calls == [0, 1, 2, 3, 4]
    assert read_sample(tmp_path, 2, 3)["x"][0] == 3
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    (tmp_path / "00001.safetensors").write_bytes(before["00001.safetensors"][:-3])
    (tmp_path / "00002.safetensors").unlink()
    calls.clear()
    seen = []
    run_shards(tmp_path, 5, 2, compute, progress=lambda done, of: seen.append((done, of)))
    assert calls == [2, 3, 4]
    assert seen == [(2, 5), (4, 5), (5, 5)]
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_more_workers_write_the_same_bytes(tmp_path):
    def compute(index):
        return {"x": torch.full((3,), float(index))}

    run_shards(tmp_path / "one", 9, 2, compute, workers=1)
    run_shards(tmp_path / "four", 9, 2, compute, workers=4)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "four" / path.name).read_bytes()


def test_a_failing_sample_keeps_the_finished_shards(tmp_path):
    def compute(index):
        if index == 4:
            raise RuntimeError("sample 4")
        return {"x": torch.tensor([index])}

    with pytest.raises(RuntimeError, match="sample 4"):
        run_shards(tmp_path, 6, 2, compute)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000.safetensors", "00001.safetensors"]


def test_a_stop_waits_for_the_sample_in_work_and_not_for_its_shard(tmp_path, monkeypatch):
    told, calls = threading.Event(), []
    shutdown = shards.ThreadPoolExecutor.shutdown

    def told_to_stop(pool, **options):
        told.set()
        shutdown(pool, **options)

    def compute(index):
        calls.append(index)
        if index == 3:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            assert told.wait(60), "the signal did not reach the pool"
        return {"x": torch.tensor([index])}

    monkeypatch.setattr(shards.ThreadPoolExecutor, "shutdown", told_to_stop)
    with pytest.raises(KeyboardInterrupt):
        run_shards(tmp_path, 12, 3, compute)
    assert calls == [0, 1, 2, 3]
    assert [path.name for path in tmp_path.iterdir()] == ["00000.safetensors"]
