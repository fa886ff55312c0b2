"""Studies by name: as each last ran in a storage folder, or else as ``conf/NAME.yaml`` has it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import yaml

import conf
from conf.load import ConfError, apply_override, check_study, load_study, read_yaml
from conf.schema import Study
from explainers.registry import nearest
from flows.environment import STORAGE
from tasks.store import Store, write_text

FOLDER = "studies"


def storage_here() -> Path:
    """Return the storage folder of whoever serves the forms: the environment variable, else the default one."""
    return Path(os.environ.get(STORAGE) or Study.model_fields["storage"].default).expanduser().resolve()


def remember(study: Study, store: Store) -> None:
    """Keep the study's conf in the storage folder, readable by its owner only, so that it is known by its name."""
    raw = study.model_dump(mode="json", exclude={"storage"}, exclude_none=True)
    for name in ("path", "labels_path"):
        if raw["data"].get(name):
            raw["data"][name] = str(Path(raw["data"][name]).expanduser().resolve())
    write_text(store.root / FOLDER / f"{study.name}.yaml", yaml.safe_dump(raw, sort_keys=False, allow_unicode=True))


def known_studies(storage: Path) -> dict[str, Path]:
    """Return the YAML of every known study by name, sorted; what ran in ``storage`` goes before ``conf/``."""
    found = {path.stem: path for path in Path(conf.__file__).parent.glob("*.yaml")}
    found |= {path.stem: path for path in (storage / FOLDER).glob("[!.]*.yaml")}
    return dict(sorted(found.items()))


def known_study(name: str, storage: Path, changes: list[str] | None = None) -> Study:
    """Return a study by name, with its outputs in ``storage``.

    Args:
        name: of a study that ran in ``storage``, or of a file in ``conf/``.
        storage: the storage folder.
        changes: ``key=value`` overrides, as on the command line.

    Raises:
        ConfError: there is no such study (the nearest name is told), or it cannot run as it is written.
    """
    found = known_studies(storage)
    if name not in found:
        raise ConfError(f"no study is called {name!r}: {nearest(name, list(found))}")
    raw: dict[str, Any] = read_yaml(found[name])
    for change in changes or []:
        apply_override(raw, change)
    return check_study({**raw, "storage": str(storage)}, name)


def study_at(name: str, storage: Path, changes: list[str] | None = None) -> Study:
    """Return the study in the YAML file at ``name``, or else the known one of that name.

    Raises:
        ConfError: neither is there, or it cannot run as it is written.
    """
    if name.endswith((".yaml", ".yml")):
        return load_study(Path(name), changes)
    return known_study(name, storage, changes)
