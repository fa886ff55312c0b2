"""Stage outputs on disk: named by a digest of what made them, written atomically, checked before they are reused.

Layout: ``<root>/<stage>/<digest>/`` with the stage's files and, once it is complete, ``manifest.json``.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import hmac
import importlib.util
import json
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"
DATABASE = "mlflow-database"  # the lock of whoever may be making MLflow's local database
PROJECT = ("explainers", "metrics", "tasks")
NOT_RESULTS = ("tasks.store", "tasks.tracking")


@dataclass(frozen=True)
class Output:
    """A complete stage output.

    Attributes:
        stage: its stage.
        digest: its identity.
        folder: where its files are.
        manifest: what made it (``made``), its files with sizes and sha256 (``files``).
    """

    stage: str
    digest: str
    folder: Path
    manifest: Mapping[str, Any]

    def upstream(self, stage: str) -> str:
        """Return the digest of the ``stage`` output that this one was made from."""
        return str(self.manifest["made"]["inputs"][stage])


class Store:
    """The folder of stage outputs on this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().resolve()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise ValueError(
                f"storage {self.root} cannot be written ({error.strerror}); give a folder that can: storage=FOLDER"
            ) from error

    def folder(self, stage: str, digest: str) -> Path:
        """Return where the output of ``stage`` with ``digest`` is or would be."""
        return self.root / stage / digest

    def find(self, stage: str, digest: str) -> Output | None:
        """Return the intact output, or None where there is none; a damaged one is reported and counts as none."""
        folder = self.folder(stage, digest)
        if not (folder / MANIFEST).is_file():
            return None
        manifest = read_json(folder / MANIFEST)
        for name, expected in manifest["files"].items():
            path = folder / name
            if not path.is_file() or path.stat().st_size != expected["bytes"] or sha256(path) != expected["sha256"]:
                log.warning("%s output %s is damaged (%s); it will be made again", stage, digest, name)
                return None
        return Output(stage, digest, folder, manifest)

    def make(
        self, stage: str, made: Mapping[str, Any], work: Callable[[Path], None], keep_unfinished: bool = False
    ) -> Output:
        """Run ``work`` in a folder, seal it with a manifest and return it as the output that ``made`` names.

        An earlier output stays as it is until the new one is complete.

        Args:
            stage: the stage's name.
            made: what the output is made from; its digest names the output.
            work: writes the output's files.
            keep_unfinished: leave an earlier attempt's files for ``work`` to continue from; else start clean.
        """
        digest = digest_of(made)
        final = self.folder(stage, digest)
        folder = final if keep_unfinished else final.with_name(f"{digest}.unfinished")
        if folder.exists() and not keep_unfinished:
            shutil.rmtree(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MANIFEST).unlink(missing_ok=True)
        work(folder)
        names = sorted(path for path in folder.rglob("*") if path.is_file())
        files = {
            str(path.relative_to(folder)): {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in names
        }
        manifest = {"stage": stage, "digest": digest, "made": dict(made), "files": files}
        write_json(folder / MANIFEST, manifest)
        if folder != final:
            shutil.rmtree(final, ignore_errors=True)
            folder.replace(final)
        return Output(stage, digest, final, manifest)

    @contextmanager
    def lock(self, name: str, shared: bool = False) -> Iterator[None]:
        """Hold the lock called ``name``, alone or with others that share it; whoever has to wait says so."""
        folder = self.root / "locks"
        folder.mkdir(exist_ok=True)
        with (folder / f"{name}.lock").open("w") as handle:
            kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
            try:
                fcntl.flock(handle, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                log.warning("waiting: another execution of this storage folder holds %s", name)
                fcntl.flock(handle, kind)
            yield

    def stay_hash(self) -> Callable[[str], str]:
        """Return the keyed hash that stands for a stay's identifier; its key never leaves this folder."""
        path = self.root / "stay-hash.key"
        with self.lock("stay-hash"):
            if not path.exists():
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "w") as handle:
                    handle.write(secrets.token_hex(32))
        key = bytes.fromhex(path.read_text().strip())
        return lambda stay: hmac.new(key, stay.encode(), hashlib.sha256).hexdigest()[:16]

    def file_digest(self, path: Path) -> str:
        """Return the sha256 of a raw input, remembered by size and modification time: full tables are large."""
        status = path.stat()
        key = hashlib.sha256(f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}".encode()).hexdigest()
        remembered = self.root / "input-digests" / key
        if not remembered.exists():
            write_text(remembered, sha256(path))
        return remembered.read_text().strip()


def digest_of(made: Mapping[str, Any]) -> str:
    """Return a short digest of a JSON-able mapping, the same whatever the order of its keys."""
    text = json.dumps(made, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def sha256(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write ``path`` atomically: it holds all of ``text``, or what it held before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Write JSON atomically; a NaN is an error (JSON has none)."""
    write_text(path, json.dumps(content, indent=1, sort_keys=True, allow_nan=False, default=str) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Return the mapping in a JSON file."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its place, synced to disk, if the block succeeds."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@cache
def code_digest(*roots: str) -> str:
    """Return a digest of the project's modules that ``roots`` import, directly or not: the code behind a result."""
    seen: dict[str, str] = {}
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name in seen or name in NOT_RESULTS:
            continue
        path = module_path(name)
        if path is None:
            continue
        source = path.read_text(encoding="utf-8")
        seen[name] = hashlib.sha256(source.encode()).hexdigest()
        waiting.extend(imported(ast.parse(source)))
    return digest_of(seen)


def module_path(name: str) -> Path | None:
    """Return the source of a project module; None for anything else."""
    if name.partition(".")[0] not in PROJECT:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None else None


def imported(tree: ast.AST) -> list[str]:
    """Return the names that a module imports, submodules taken as such."""
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module)
            names.extend(f"{node.module}.{alias.name}" for alias in node.names)
    return names
