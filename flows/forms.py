"""The forms of the Prefect UI: JSON schemas in which everything is typed and chosen from lists, and what they send.

A form has no raw JSON and no choice of types: an option that may be None is a field that may be empty, a method's
options are text, ``name=value, name=value``, and whatever has a fixed set of values is a select.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

import yaml
from prefect import Flow
from pydantic.fields import FieldInfo

from conf.load import ConfError, apply_override, check_study
from conf.schema import Study
from explainers import explainers
from flows.known import known_studies, known_study
from metrics import metrics

Schema = dict[str, Any]
EMPTY: tuple[Any, ...] = (None, "", [], {})
OPTIONS_HELP = "The method's own options, such as budget=1000, estimator=algorithm2; empty: its defaults."
BETWEEN = re.compile(r"[,\n]\s*(?=[\w.]+\s*=)")


def form(flow: Flow[..., Any], storage: Path) -> Schema:
    """Return the schema of a flow's parameters as a form that a person can fill in.

    Args:
        flow: its parameters are annotated with a pydantic field each, for title and description.
        storage: whose known studies, and their methods, are offered.
    """
    shown = flow.parameters.model_dump(exclude_unset=True)
    entitle(shown["properties"], flow)
    if "anyOf" in shown["properties"]["study"]:
        shown["definitions"] = {}
        offer_known(shown["properties"], storage)
    else:
        offer_methods(shown["definitions"])
        shown["definitions"]["Evaluate"]["properties"]["metrics"]["items"] = select(list(metrics()))
    return dict(plain(shown))


def entitle(fields: Schema, flow: Flow[..., Any]) -> None:
    """Give the parameters the titles and descriptions of their annotations; Prefect takes the bare names."""
    hints = get_type_hints(flow.fn, include_extras=True)
    for name, field in fields.items():
        told = next(part for part in hints[name].__metadata__ if isinstance(part, FieldInfo))
        field |= {"title": told.title, "description": told.description}


def select(names: list[str]) -> Schema:
    """Return the schema of one of ``names``."""
    return {"type": "string", "enum": names}


def plain(schema: Any) -> Any:
    """Return a schema in which "this or None" is a field of the one type, without a default."""
    if isinstance(schema, list):
        return [plain(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kinds = [kind for kind in schema.get("anyOf", []) if kind.get("type") != "null"]
    if len(kinds) == 1 and len(kinds) < len(schema["anyOf"]):
        rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
        schema = {**kinds[0], **rest}
    if schema.get("format") == "path":
        schema = {key: value for key, value in schema.items() if key != "format"}
    return {key: plain(value) for key, value in schema.items()}


def offer_methods(definitions: Schema) -> None:
    """Make a method a select, and its options text."""
    fields = definitions["Method"]["properties"]
    fields["method"]["enum"] = list(explainers())
    fields["options"] = {"type": "string", "title": "Options", "description": OPTIONS_HELP}
    definitions["Method"]["description"] = "One explanation method."


def offer_known(fields: Schema, storage: Path) -> None:
    """Make selects of the parameters that name a known study, or methods of one."""
    names = list(known_studies(storage))
    kept = {key: value for key, value in fields["study"].items() if key != "anyOf"}
    fields["study"] = {**kept, **select(names)}
    if "method" in fields:
        fields["method"] |= select(known_labels(names, storage))
        del fields["method"]["default"]
    if "methods" in fields:
        fields["methods"]["items"] = select(known_labels(names, storage))


def known_labels(names: list[str], storage: Path) -> list[str]:
    """Return the labels of the methods of the known studies, each once; a study that cannot run here names none."""
    labels: dict[str, None] = {}
    for name in names:
        labels |= dict.fromkeys(labels_of(name, storage))
    return sorted(labels)


def labels_of(name: str, storage: Path) -> list[str]:
    """Return the labels of one known study's methods; of conf without its data folder they are known all the same."""
    try:
        study = known_study(name, storage, ["data={}"])
    except ConfError:
        return []
    return [method.label for method in study.explainers]


def from_form(raw: Any) -> Any:
    """Return the study that a form sends; what is no form's mapping is returned as it is.

    Raises:
        ConfError: it cannot run as it is written.
    """
    if not isinstance(raw, Mapping):
        return raw
    filled = without_empty(raw)
    for method in filled.get("explainers", []):
        if isinstance(method, dict) and isinstance(method.get("options"), str):
            method["options"] = read_options(method["options"])
    return check_study(filled, "the form")


def to_form(study: Study) -> dict[str, Any]:
    """Return what a form that shows this study sends."""
    raw: dict[str, Any] = without_empty(study.model_dump(mode="json"))
    for method in raw["explainers"]:
        parts = [f"{name}={yaml_text(value)}" for name, value in method.get("options", {}).items()]
        method["options"] = ", ".join(parts)
    return raw


def without_empty(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a form's mapping less the fields that were left empty: their defaults stand."""
    kept: dict[str, Any] = {}
    for key, value in raw.items():
        inner: Any = without_empty(value) if isinstance(value, Mapping) else value
        if isinstance(inner, list):
            inner = [without_empty(item) if isinstance(item, Mapping) else item for item in inner]
        if inner not in EMPTY:
            kept[key] = inner
    return kept


def read_options(text: str) -> dict[str, Any]:
    """Return the options in text such as ``budget=1000, estimator=algorithm2`` (the values are YAML).

    Raises:
        ConfError: a part is of another form.

    >>> read_options("budget=1000, shape=[2, 3]")
    {'budget': 1000, 'shape': [2, 3]}
    """
    options: dict[str, Any] = {}
    for part in read_parts(text):
        apply_override(options, part)
    return options


def read_parts(text: str) -> list[str]:
    """Return the ``key=value`` parts of text, on lines of their own or with commas between.

    >>> read_parts("explain.samples=10, evaluate.metrics=[inc_auc, exc_auc]")
    ['explain.samples=10', 'evaluate.metrics=[inc_auc, exc_auc]']
    """
    return [part.strip() for part in BETWEEN.split(text) if part.strip()]


def yaml_text(value: Any) -> str:
    """Return a value as YAML on one line."""
    return yaml.safe_dump(value, default_flow_style=True, width=10**6).removesuffix("...\n").strip()
