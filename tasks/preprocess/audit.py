"""The audit as a page to read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_audit(audit: Mapping[str, Any], out: Path) -> None:
    """Write ``audit.json`` and ``audit.md``."""
    (out / "audit.json").write_text(json.dumps(audit, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (out / "audit.md").write_text(page(audit), encoding="utf-8")


def page(audit: Mapping[str, Any]) -> str:
    """Return the audit as Markdown."""
    return event_page(audit) if "cohort" in audit else public_page(audit)


def public_page(audit: Mapping[str, Any]) -> str:
    """Return the audit of texts or images."""
    rows, parts = audit["rows"], audit["split"]["parts"]
    classes = list(next(iter(parts.values()))["labels"])
    shares = [[part, facts["samples"], *facts["labels"].values()] for part, facts in parts.items()]
    sections = [
        f"# Audit of {audit['dataset']}, task {audit['task']}, seed {audit['seed']}",
        "## Rows",
        table(["part", *next(iter(rows.values()))], [[part, *counts.values()] for part, counts in rows.items()]),
        "## Samples",
        bullets(audit["facts"]),
        "## Parts",
        f"Divided: {audit['split']['origin']}.",
        table(["part", "samples", *classes], shares),
        "## Options",
        "```json\n" + json.dumps(audit["options"], indent=2, ensure_ascii=False) + "\n```",
    ]
    return "\n\n".join(sections) + "\n"


def event_page(audit: Mapping[str, Any]) -> str:
    """Return the audit of events."""
    sections = [
        f"# Audit of {audit['dataset']}, task {audit['task']}, seed {audit['seed']}",
        "No identifier of a patient or stay is on this page.",
        "## Stays",
        f"{audit['cohort']['stays_in']} read, {audit['cohort']['stays_out']} kept; the first reason that fits counts.",
        table(["reason to leave", "dropped", "left"], [list(step.values()) for step in audit["cohort"]["steps"]]),
        "## Rows of each table",
        *(table_section(name, facts) for name, facts in audit["tables"].items()),
        "## Events and tokens",
        table(["", *audit["events_per_stay"]], [
            ["events a stay", *audit["events_per_stay"].values()],
            ["tokens a stay", *audit["tokens_per_stay"].values()],
        ]),
        bullets(event_facts(audit)),
        "## Parts",
        f"Divided: {audit['split']['origin']}. Patients in two parts: {audit['split']['patients_in_two_parts']}.",
        table(["part", "patients", "stays", "class 0", "class 1", "share of class 1"], [
            [part, facts["patients"], facts["stays"], *facts["labels"].values(), facts["positive_share"]]
            for part, facts in audit["split"]["parts"].items()
        ]),
        "## Options",
        "```json\n" + json.dumps(audit["options"], indent=2, ensure_ascii=False) + "\n```",
    ]  # fmt: skip
    return "\n\n".join(sections) + "\n"


def table_section(name: str, facts: Mapping[str, Any]) -> str:
    """Return the rows of one raw table: in, dropped by reason, out."""
    told = {"rows in": facts["rows"], **facts["dropped"], "rows in a window": facts["rows_out"]}
    told |= {"events (a row counts once for each stay)": facts["events"], **facts.get("dates_only", {})}
    return f"**{name}**\n\n" + bullets(told)


def event_facts(audit: Mapping[str, Any]) -> dict[str, Any]:
    """Return the single numbers about events, vocabulary and length."""
    vocabulary, cut = audit["vocabulary"], audit["truncated"]
    rare = sum(part["occurrences"] for part in vocabulary["rare"].values())
    return {
        "identical (stay, time, code) rows collapsed": audit["duplicates_collapsed"],
        "earliest event, hours": audit["offset_hours"]["earliest"],
        "latest event, hours": audit["offset_hours"]["latest"],
        "codes in the vocabulary (counted on the training part)": vocabulary["size"],
        f"occurrences of rarer codes ({vocabulary['rare_are']})": rare,
        "stays cut to the longest length": f"{cut['stays']} ({cut['share']:.2%}), {cut['tokens_lost']} tokens lost",
        **audit["notes"],
    }


def bullets(facts: Mapping[str, Any]) -> str:
    """Return one line a fact."""
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def table(header: list[str], rows: list[list[Any]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
