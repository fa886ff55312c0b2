"""Where a benchmark's numbers go: a CSV and a figure in `docs/results/`, with what they were measured on."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

FOLDER = Path(__file__).parent.parent / "docs" / "results"
PACKAGES = ("torch", "numpy", "transformers")


def command(name: str, doc: str | None) -> argparse.ArgumentParser:
    """Return the parser of ``python -m benchmarks.NAME``, told by the first line of its module's ``doc``."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=(doc or "").splitlines()[0])
    made.add_argument("--folder", type=Path, default=FOLDER, help="where the results go")
    return made


def write(name: str, table: pd.DataFrame, figure: Figure, facts: dict[str, object], folder: Path = FOLDER) -> None:
    """Write ``NAME.csv``, ``NAME.svg`` and ``NAME.json`` (the command, the commit, the machine, and ``facts``).

    Args:
        name: of the benchmark.
        table: one row a measurement; floats are written with six significant digits.
        figure: the picture of the table.
        facts: what a reader needs to read the table: settings and results in one number.
        folder: where the files go.
    """
    made = made_on()  # before anything is written: a new table in the tree is no change of the code
    folder.mkdir(parents=True, exist_ok=True)
    table.to_csv(folder / f"{name}.csv", index=False, float_format="%.6g")
    figure.savefig(folder / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
    text = json.dumps(facts | made, indent=2, default=str)
    (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"wrote {name}.csv, {name}.svg and {name}.json to {folder}")


def made_on() -> dict[str, object]:
    """Return the command, the commit and the machine."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return {
        "command": " ".join(["python", "-m", sys.argv[0].split("/")[-1].removesuffix(".py"), *sys.argv[1:]]).replace(
            "-m ", "-m benchmarks.", 1
        ),
        "commit": commit.stdout.strip() or "none",
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }
