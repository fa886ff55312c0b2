"""Reading a study: YAML, then `key=value` overrides, then the checks, with errors for people."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from conf.schema import Study
from explainers.registry import nearest

PLAIN = {
    "model_type": "give a mapping of its keys",
    "tuple_type": "give a list, for example [a, b]",
    "string_type": "give text, in quotes where YAML reads it as something else",
    "path_type": "give the path of a file or folder",
}


class ConfError(ValueError):
    """A study that cannot be run as it is written; the message says what, which value and what to do."""


class StudyLoader(yaml.SafeLoader):
    """YAML in which a key that is there twice is an error; YAML itself would let the last one win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping.

        Raises:
            ConstructorError: a key is there twice.
        """
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key {key.value!r} is there twice; keep one", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def load_study(path: Path, overrides: list[str] | None = None) -> Study:
    """Read the study at ``path`` and apply ``overrides`` such as ``explain.samples=10``.

    Raises:
        ConfError: no such file, not YAML, an unknown key (the nearest known one is named), or a value out of range.
    """
    raw = read_yaml(path)
    for override in overrides or []:
        apply_override(raw, override)
    return check_study(raw, str(path))


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in the YAML file at ``path``."""
    if not path.is_file():
        there = sorted(file.name for file in path.parent.glob("*.yaml"))
        raise ConfError(f"no study at {path}: {nearest(path.name, there) if there else 'give the path of a YAML file'}")
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), StudyLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfError(f"{path} is not YAML: {error}") from error
    if not isinstance(raw, dict):
        raise ConfError(f"{path} holds {type(raw).__name__}, not a mapping; a study starts with `name: ...`")
    return raw


def apply_override(raw: dict[str, Any], override: str) -> None:
    """Set one ``a.b=value`` (YAML value) in ``raw``."""
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise ConfError(f"override {override!r} is not of the form key=value, for example explain.samples=10")
    *parents, last = key.split(".")
    place = raw
    for parent in parents:
        inner = place.get(parent)
        place[parent] = {} if inner is None else inner
        place = place[parent]
        if not isinstance(place, dict):
            raise ConfError(f"override {override!r}: {parent!r} is not a section; override all of it ({parent}=...)")
    try:
        place[last] = yaml.load(text, StudyLoader)
    except yaml.YAMLError as error:
        raise ConfError(f"override {override!r}: the value is not YAML: {error}") from error


def check_study(raw: dict[str, Any], source: str) -> Study:
    """Return the checked study, or raise ConfError with every fault of it."""
    try:
        return Study.model_validate(without_empty_sections(raw, Study))
    except ValidationError as error:
        faults = [fault_line(raw, fault) for fault in error.errors()]
        raise ConfError("\n".join([f"{source} is not a study that can run:", *faults])) from error


def without_empty_sections(raw: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """Return ``raw`` less the sections that hold nothing, such as ones whose every line is commented out."""
    kept = {}
    for key, value in raw.items():
        section = section_of(model, key)
        if section is None:
            kept[key] = value
        elif value is not None:
            kept[key] = without_empty_sections(value, section) if isinstance(value, dict) else value
    return kept


def section_of(model: type[BaseModel], key: Any) -> type[BaseModel] | None:
    """Return the model of the section ``key``; None where ``key`` is a value or unknown."""
    annotation = model.model_fields[key].annotation if key in model.model_fields else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def fault_line(raw: dict[str, Any], fault: Any) -> str:
    """Say one pydantic fault as a person would: where, what value, what to do."""
    where = ".".join(str(part) for part in fault["loc"]) or "study"
    if fault["type"] == "extra_forbidden":
        return f"  {where}: unknown key; {nearest(str(fault['loc'][-1]), known_keys(fault['loc'][:-1]))}"
    if fault["type"] == "missing":
        return f"  {where}: missing; give it a value"
    message = PLAIN.get(fault["type"], str(fault["msg"]).removeprefix("Value error, "))
    value = fault.get("input")
    shown = "" if isinstance(value, dict) else f" (it is {value!r})"
    return f"  {where}: {message}{shown}"


def known_keys(place: tuple[Any, ...]) -> list[str]:
    """Return the keys that the section at ``place`` takes."""
    model: Any = Study
    for part in place:
        if isinstance(part, int):
            continue
        annotation = model.model_fields[part].annotation
        inner = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
        sections = [kind for kind in inner if issubclass(kind, BaseModel)]
        if not sections:
            break
        model = sections[0]
    return list(model.model_fields)
