"""The report as a document: sections of words, tables and figures, written as Markdown and as one HTML file."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jinja2 import Environment, StrictUndefined

from tasks.report.picture import Picture
from tasks.report.table import Cell
from tasks.report.text import escape_markdown

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; color: #1a1a1a; background: #fff;
  max-width: 76rem; margin: 2rem auto; padding: 0 1.25rem; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid #ccc; }
p { max-width: 52rem; margin: .5rem 0; }
.lead { color: #555; margin-top: .2rem; }
nav { margin: .8rem 0; } nav a { margin-right: 1rem; color: #0a4f8f; }
.scroll { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: #555; padding-bottom: .3rem; }
th, td { padding: .25rem .6rem; text-align: right; vertical-align: top; border-bottom: 1px solid #e4e4e4; }
th { vertical-align: bottom; border-bottom: 1px solid #888; }
th:first-child, td:first-child { text-align: left; }
.words td, .words th { text-align: left; overflow-wrap: anywhere; } .words td:first-child { white-space: nowrap; }
tbody tr:hover { background: #f5f7fa; }
.note { color: #666; white-space: nowrap; } .stacked .note { display: block; font-size: .78rem; }
figure { margin: 1.2rem 0; break-inside: avoid; } figure img { max-width: 100%; height: auto; }
figcaption { max-width: 52rem; color: #444; font-size: .88rem; }
details { margin: .5rem 0; } summary { cursor: pointer; color: #0a4f8f; }
@media print {
  @page { size: A4 landscape; margin: 11mm; }
  body { font-size: 9.5pt; max-width: none; margin: 0; padding: 0; }
  nav { display: none; } .scroll { overflow: visible; } h2 { break-after: avoid; } tr { break-inside: avoid; }
  table { font-size: 7.5pt; } th, td { padding: 1.5pt 4pt; } figure img { max-height: 165mm; }
}
"""

TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>{{ style|safe }}</style>
</head>
<body>
{%- macro table(grid) %}
<div class="scroll"><table class="{{ 'words' if grid.words else 'stacked' }}">
{%- if grid.caption %}<caption>{{ grid.caption }}</caption>{% endif %}
<thead><tr>{% for head in grid.header %}<th scope="col">{{ head }}</th>{% endfor %}</tr></thead>
<tbody>
{%- for row in grid.rows %}
<tr>{% for cell in row %}<td>
{%- if cell.bold %}<strong>{{ cell.text }}</strong>{% else %}{{ cell.text }}{% endif -%}
{%- if cell.note %} <span class="note">({{ cell.note }})</span>{% endif -%}
</td>{% endfor %}</tr>
{%- endfor %}
</tbody></table></div>
{%- endmacro %}
<h1>{{ title }}</h1>
<p class="lead">{{ lead }}</p>
<nav aria-label="Sections">{% for section in sections %}<a href="#section-{{ loop.index }}">{{ section.title }}</a>
{% endfor %}</nav>
<main>
{%- for section in sections %}
<section id="section-{{ loop.index }}">
<h2>{{ section.title }}</h2>
{%- for words in section.words %}<p>{{ words }}</p>{% endfor %}
{%- for grid in section.grids if not grid.folded %}{{ table(grid) }}{% endfor %}
{%- for picture in section.pictures %}
<figure><img src="{{ inline(picture.name) }}" alt="{{ picture.alt }}">
<figcaption>{{ picture.caption }}</figcaption></figure>
{%- endfor %}
{%- for grid in section.grids if grid.folded %}
<details><summary>{{ grid.folded }}</summary>{{ table(grid) }}</details>{% endfor %}
</section>
{%- endfor %}
</main>
</body>
</html>
"""


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
    """A part of the document: words, then tables and figures."""

    title: str
    words: Sequence[str] = ()
    grids: Sequence[Grid] = ()
    pictures: Sequence[Picture] = field(default=())


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


def html(title: str, lead: str, sections: Sequence[Section], inline: Callable[[str], str]) -> str:
    """Return the document as one HTML file that needs nothing else; all text is escaped.

    Args:
        title: its heading.
        lead: the line below.
        sections: its parts.
        inline: returns a figure's data URI by its name.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    template = environment.from_string(TEMPLATE)
    return template.render(title=title, lead=lead, sections=sections, style=STYLE, inline=inline)


def data_uri(png: bytes) -> str:
    """Return a PNG as a data URI."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
