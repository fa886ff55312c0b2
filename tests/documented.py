"""The commands of the documentation as they are written there, and what becomes of each when the tests run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    page for page in (ROOT / "docs").glob("**/*.md") if page.name != "audit.md"
)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
SHELLS = ("console", "bash", "sh", "shell")
STARTS = re.compile(r"([A-Z_]+=\S+ )*(ordeval|make|python|pip|\.venv/bin/\w+|prefect|mlflow|mkdocs) ")
MENTION = re.compile(r"ordeval [\w-]+")  # the name of a command, not a line to type

SERVERS = "tests/servers.py::serving"
OWN = "tests/test_browser.py::test_a_study_runs_with_servers_of_ones_own"
RUN_BY = {
    "make ui": SERVERS,
    "ordeval ui --storage ordeval-store --prefect-port 4200 --mlflow-port 5000": SERVERS,
    "PREFECT_API_URL=http://prefect.example:4200/api python -m flows.serve": SERVERS,
    "ordeval run conf/synthetic.yaml tracking_uri=http://mlflow.example:5000": OWN,
    "PREFECT_API_URL=http://prefect.example:4200/api ordeval run conf/synthetic.yaml": OWN,
}
BENCHMARKS_RUN_BY = {
    "device": "tests/test_benchmarks.py::test_device_times_every_method_of_table_3",
    "joint_convergence": "tests/test_benchmarks_joint.py::test_convergence_is_measured_from_exact_values",
    "joint_tables": "tests/test_benchmarks_joint.py::test_tables_are_measured_and_written",
    "peers": "tests/test_benchmarks_peers.py::test_errors_and_times_are_measured_and_summarised",
    "scaling": "tests/test_benchmarks.py::test_scaling_measures_both_models_each_in_its_own_process",
    "sensitivity": "tests/test_benchmarks_sensitivity.py::test_a_small_study",
    "together": "tests/test_benchmarks.py::test_together_compares_alone_and_side_by_side",
}
NOT_RUN = {
    "make venv": "makes the environment that the tests run in",
    "make test": "is the tests",
    "make check": "is the tests, then what .ci/run does",
    "make screenshots": "takes minutes in a browser and writes into docs/images",
    "source .venv/bin/activate": "changes the shell that it is typed into",
    ".venv/bin/python -m pytest tests/test_ordshap.py": "is one file of the tests",
    "python -m pip install -c constraints.txt -e '.[peers]'": "installs packages",
}


def named(path: Path) -> str:
    """Return a page's path for people."""
    return str(path.relative_to(ROOT))


def prose(text: str) -> str:
    """Return the page without its code blocks."""
    return FENCE.sub("", text)


def inline_code() -> Iterator[tuple[str, str]]:
    """Yield page and text of all code within lines."""
    for page in PAGES:
        for code in INLINE.findall(prose(page.read_text())):
            yield named(page), code


def shell_lines(text: str) -> Iterator[str]:
    """Yield the command lines of a page's console blocks, less their comments."""
    for language, block in FENCE.findall(text):
        if language in SHELLS:
            for line in block.splitlines():
                command = re.sub(r"(^|\s+)#.*", "", line).strip()
                if command:
                    yield command


def commands() -> dict[str, str]:
    """Return every command and the page that has it first: lines of console blocks, and code within lines."""
    found: dict[str, str] = {}
    for page in PAGES:
        for line in shell_lines(page.read_text()):
            found.setdefault(line, named(page))
    for page, code in inline_code():
        if STARTS.match(code) and not MENTION.fullmatch(code) and not re.search(r"[|<…]|\.\.\.", code):
            found.setdefault(code, page)
    return found


def benchmark(command: str) -> str | None:
    """Return the name of the benchmark that a command runs; None where it runs none."""
    found = re.match(r"python -m benchmarks\.(\w+)", command)
    return found[1] if found else None
