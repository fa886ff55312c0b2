"""The documentation holds: its links, commands, code, names, options and defaults are those of the project."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
import yaml
from pydantic import BaseModel

from conf import Study, load_study
from explainers import explainers
from explainers.logits import CPU_BATCH_TOKENS, CUDA_BATCH_TOKENS
from flows.cli import app, catalogue
from metrics import metrics
from tasks.preprocess import synthetic
from tests.conftest import ROOT
from tests.documented import FENCE, PAGES, inline_code, named, prose, shell_lines

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OPTION_ROW = re.compile(r"^\| `([\w.]+)` \| ([^|]*) \|", re.MULTILINE)


def slug(heading: str) -> str:
    """Return a heading's anchor as MkDocs and GitHub make it."""
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.replace("`", "").lower()).strip())


def anchors(page: Path) -> set[str]:
    return {slug(heading) for heading in re.findall(r"^#+ (.+)$", prose(page.read_text()), re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_relative_links_resolve(page: Path):
    broken = []
    for target in LINK.findall(prose(page.read_text())):
        if re.match(r"\w+:", target):
            continue
        path, _, fragment = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (fragment and fragment not in anchors(there)):
            broken.append(target)
    assert broken == []


def test_navigation_names_every_page_once():
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    listed = sorted(file for entry in nav for file in files(entry))
    there = [page.relative_to(ROOT / "docs") for page in (ROOT / "docs").glob("**/*.md")]
    assert listed == sorted(str(page) for page in there if page.name != "audit.md")


def files(entry: dict[str, Any]) -> Iterator[str]:
    """Yield the pages under one entry of the navigation."""
    for inner in entry.values():
        if isinstance(inner, str):
            yield inner
        else:
            yield from (file for section in inner for file in files(section))


def ordeval_commands() -> list[Any]:
    """Return every `ordeval ...` of the pages, in console blocks and within lines, less variables before it."""
    found = [(named(page), line) for page in PAGES for line in shell_lines(page.read_text())]
    found += [(page, code) for page, code in inline_code() if not re.search(r"[|<…]|\.\.\.", code)]
    bare = [(page, re.sub(r"^([A-Z_]+=\S+ )+", "", line)) for page, line in found]
    told = dict.fromkeys((page, line) for page, line in bare if line.startswith("ordeval "))
    return [pytest.param(line, id=f"{page}: {line[:60]}") for page, line in told]


@pytest.mark.parametrize("line", ordeval_commands())
def test_commands_parse(line: str):
    group = typer.main.get_command(app)
    _, name, *arguments = shlex.split(line, comments=True)
    assert name in group.commands, f"no command {name!r}"
    if not arguments:
        return
    parameters = group.commands[name].make_context(name, arguments).params
    if "kind" in parameters:
        assert catalogue(parameters["kind"])
    if "conf" in parameters:
        study = load_study(ROOT / parameters["conf"], parameters["overrides"])
        labels = {method.label for method in study.explainers}
        method = parameters.get("method") or []
        assert set([method] if isinstance(method, str) else method) <= labels


def test_every_command_is_documented():
    group = typer.main.get_command(app)
    told = " ".join(page.read_text() for page in PAGES)
    for name in group.commands:
        assert re.search(rf"`?ordeval {name}\b", told) or f"`{name}`" in told, name


def test_make_targets_exist():
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = [line for page in PAGES for line in shell_lines(page.read_text())] + [code for _, code in inline_code()]
    named_ones = {line.split()[1] for line in lines if line.startswith("make ")}
    assert {"run", "test", "ui"} <= named_ones <= targets


def python_pages() -> list[Path]:
    return [page for page in PAGES if any(language == "python" for language, _ in FENCE.findall(page.read_text()))]


@pytest.mark.parametrize("page", python_pages(), ids=named)
def test_python_blocks_print_what_they_say(page: Path):
    blocks = [block for language, block in FENCE.findall(page.read_text()) if language == "python"]
    assert all(">>>" in block for block in blocks), "write examples as doctests: what they print is then checked"
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, named(page), named(page), 0)
    said: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert said == [], "".join(said)


def sections(text: str) -> dict[str, str]:
    """Return a page's sections by the backticked name that ends their heading."""
    parts = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)
    names = [re.search(r"`(\w+)`$", heading) for heading in parts[1::2]]
    return {name.group(1): body for name, body in zip(names, parts[2::2], strict=True) if name}


@pytest.mark.parametrize("name", sorted(explainers()))
def test_every_explainer_is_documented_with_its_options_and_defaults(name: str):
    section = sections((ROOT / "docs" / "methods.md").read_text())[name]
    told = {option: default.strip() for option, default in OPTION_ROW.findall(section)}
    fields = {option: shown(field.default) for option, field in explainers()[name].model_fields.items()}
    assert {option: told.get(option) for option in fields} == fields
    assert "Source:" in section


def test_every_metric_is_documented_with_its_direction():
    text = (ROOT / "docs" / "metrics.md").read_text()
    for name, kind in metrics().items():
        direction = "up" if kind.higher_is_better else "down"
        lines = [line for line in text.splitlines() if f"`{name}`" in line]
        assert any(f"| {direction} |" in line or f"({direction})" in line for line in lines), name


def test_every_data_set_is_documented():
    text = (ROOT / "docs" / "data.md").read_text()
    for name in catalogue("datasets"):
        assert f"| `{name}` |" in text, name


def test_planted_effects_are_those_of_the_code():
    text = (ROOT / "docs" / "data.md").read_text()
    for effects in (synthetic.VALUE, synthetic.POSITION):
        told = ", ".join(f"`{code}`" for code in effects)
        assert f"| {told} | {', '.join(f'{effect:g}' for effect in effects.values())}" in text
    both = "; ".join(f"{value:g} and {position:g}" for value, position in synthetic.BOTH.values())
    assert f"{', '.join(f'`{code}`' for code in synthetic.BOTH)} | {both} |" in text
    before, after, effect = synthetic.PAIR
    assert f"`{before}`, `{after}` | {effect:g} for each" in text
    assert f"{', '.join(f'`{code}`' for code in synthetic.TWINS)} | {synthetic.TWINS['TWIN_A']:g} each" in text
    assert f"logit = {synthetic.INTERCEPT:g} + " in text and f"with chance {synthetic.PRESENT:g}" in text


def leaves(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the field of everything that a study may say."""
    for name, field in model.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))
        inner = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if inner and name != "explainers":
            yield from leaves(inner[0], f"{above}{name}.")
        else:
            yield f"{above}{name}", field


def shown(default: Any) -> str:
    """Return a default as the tables show it."""
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, float):
        return f"{default:g}"
    return {None: "none", "": "empty"}.get(default, str(default)) if not isinstance(default, tuple) else "all"


def test_every_option_of_a_study_is_documented_with_its_default():
    told = {name: default.strip() for page in PAGES for name, default in OPTION_ROW.findall(page.read_text())}
    fields = {name: field for name, field in leaves(Study) if name != "explainers"}
    wanted = {name: "required" if field.is_required() else shown(field.default) for name, field in fields.items()}
    assert {name: told.get(name) for name in wanted} == wanted


def test_dotted_options_exist():
    sections_of_study = {name.partition(".")[0] for name, _ in leaves(Study) if "." in name}
    known = {name for name, _ in leaves(Study)}
    known |= {name.rpartition(".")[0] for name in known}
    for page, code in inline_code():
        head = re.fullmatch(r"(\w+)\.([\w.]+)(=\S+)?", code)
        if head and head[1] in sections_of_study and not head[2].endswith(("csv", "html", "json", "md", "py")):
            assert f"{head[1]}.{head[2]}" in known, f"{page}: {code}"


def test_named_files_and_tests_exist():
    for page, code in inline_code():
        path, _, test = code.partition("::")
        if not re.fullmatch(r"(conf|explainers|flows|metrics|tasks|tests|docs)/[\w/.-]*", path):
            continue
        assert (ROOT / path).exists(), f"{page}: {code}"
        if test:
            assert f"def {test}(" in (ROOT / path).read_text(), f"{page}: {code}"


def test_batch_sizes_are_those_of_the_code():
    text = (ROOT / "docs" / "rerun.md").read_text()
    assert f"{CPU_BATCH_TOKENS:,} tokens" in text and f"{CUDA_BATCH_TOKENS:,} on CUDA" in text
