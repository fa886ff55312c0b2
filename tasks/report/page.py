"""The report as a document: sections of words, tables and figures, written as Markdown and as one HTML file."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tasks.report.embed import script_json
from tasks.report.picture import Picture
from tasks.report.table import Cell
from tasks.report.text import escape_markdown

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("tools.js", "charts.js", "study.js", "moving.js", "sample.js", "start.js")


@dataclass(frozen=True)
class Grid:
    """A table of a document.

    Attributes:
        header: one title a column.
        rows: one entry a column.
        caption: a line above it.
        words: whether it holds words rather than numbers.
        folded: the line to click on where it starts folded; empty where it is open.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""
    words: bool = False
    folded: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the document: words, then tables and figures.

    ``chart`` names what ``assets/start.js`` draws on the page in place of the pictures.
    """

    title: str
    words: Sequence[str] = ()
    grids: Sequence[Grid] = ()
    pictures: Sequence[Picture] = field(default=())
    chart: str = ""


def markdown_grid(grid: Grid) -> str:
    """Return a table as Markdown: the first column on the left, numbers on the right."""
    aligned = ":---" if grid.words else "---:"
    lines = [
        "| " + " | ".join(escape_markdown(head) or " " for head in grid.header) + " |",
        "| " + " | ".join([":---", *[aligned] * (len(grid.header) - 1)]) + " |",
    ]
    for row in grid.rows:
        lines.append("| " + " | ".join(markdown_cell(cell) for cell in row) + " |")
    above = grid.caption or grid.folded
    return (escape_markdown(above) + "\n\n" if above else "") + "\n".join(lines)


def markdown_cell(cell: Cell) -> str:
    """Return an entry as Markdown.

    >>> markdown_cell(Cell("0.913", "0.010", True))
    '**0.913** (0.010)'
    """
    text = escape_markdown(cell.text)
    return Cell(f"**{text}**" if cell.bold else text, cell.note).line()


def markdown(title: str, lead: str, sections: Sequence[Section]) -> str:
    """Return the document as Markdown, its figures as links into ``figures/``."""
    parts = [f"# {escape_markdown(title)}", escape_markdown(lead)]
    for section in sections:
        parts.append(f"## {escape_markdown(section.title)}")
        parts.extend(escape_markdown(words) for words in section.words)
        parts.extend(markdown_grid(grid) for grid in section.grids)
        for picture in section.pictures:
            parts.append(f"![{escape_markdown(picture.alt)}](figures/{picture.name}.png)")
            parts.append(escape_markdown(picture.caption))
    return "\n\n".join(parts) + "\n"


@dataclass(frozen=True)
class Embedded:
    """What the scripts of a page read: the study, and each sample in a script element of its own."""

    study: Mapping[str, Any]
    samples: Sequence[Mapping[str, Any]]


def html(
    title: str, lead: str, sections: Sequence[Section], embedded: Embedded, inline: Callable[[str], str] = str
) -> str:
    """Return the document as one HTML file that needs nothing else; all text is escaped.

    Args:
        title: its heading.
        lead: the line below.
        sections: its parts.
        embedded: what its charts are drawn from.
        inline: returns a figure's data URI by its name.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=FileSystemLoader(ASSETS))
    return environment.get_template("page.html.jinja").render(
        title=title,
        lead=lead,
        sections=sections,
        style=(ASSETS / "page.css").read_text(encoding="utf-8"),
        script=script(),
        study=script_json(embedded.study),
        samples=[script_json(sample) for sample in embedded.samples],
        inline=inline,
    )


def script() -> str:
    """Return the page's scripts as one, in a scope of its own."""
    parts = [(ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS]
    return '"use strict";\n(() => {\n' + "\n".join(parts) + "})();\n"


def data_uri(png: bytes) -> str:
    """Return a PNG as a data URI."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
