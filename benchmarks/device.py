"""Device: the OrdShap paper's Table 3, seconds a sample of each method, on whatever device there is.

`python -m benchmarks.device`. BERT of 6 heads, 3 layers, width 384 (untrained: its speed does not depend on its
weights), 150 tokens. The paper does not say with which K and L its Table 3 was made; on CUDA they are the largest of
its Table 7, on the CPU all is scaled down to end in about ten minutes, and every option is written into the result.
Seconds are wall time on CUDA, all work done, and processor time on the CPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure

from benchmarks.bare import CLS, MASK, bare_rate, now, paper_bert, sequences
from benchmarks.results import command, write
from benchmarks.threads import one_thread
from explainers import ClassifierGame, get_explainer

NAME = "device"
WARM_UP = 16  # untimed evaluations before each method
PAPER = {  # Table 3, eICU length of stay, seconds on an A100
    "deeplift": 0.02,
    "integrated_gradients": 0.13,
    "kernelshap": 0.69,
    "lime": 0.14,
    "loco": 0.57,
    "ordshap_algorithm2": 29.29,
    "ordshap_algorithm1": 2470.73,
}


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes:
        tokens: players of a sample.
        samples: timed samples of each method.
        subsets: K of both algorithms of the paper.
        permutations: L of both.
        budget: evaluations of KernelSHAP and LIME.
        ordshap: evaluations of this project's default estimator; 0 takes the least that it can use.
    """

    tokens: int
    samples: int
    subsets: int
    permutations: int
    budget: int
    ordshap: int


CPU = Scale(tokens=150, samples=2, subsets=10, permutations=10, budget=500, ordshap=0)
SAMPLING_ON_CPU = (1, 2)  # K and L of Algorithm 1, which costs 2 K L n evaluations
CUDA = Scale(tokens=150, samples=5, subsets=100, permutations=100, budget=2348, ordshap=10_000)


def main(arguments: Sequence[str] | None = None) -> None:
    """Time every method, and write table and figure."""
    options = parser().parse_args(arguments)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    with one_thread(device == "cpu"):
        measure(options, device)


def measure(options: argparse.Namespace, device: str) -> None:
    """Time every method on ``device`` as the options say."""
    scale = CUDA if device == "cuda" else CPU
    changed = {field.name: getattr(options, field.name) for field in fields(Scale)}
    scale = Scale(**{name: value if value is not None else getattr(scale, name) for name, value in changed.items()})
    sampling = (scale.subsets, scale.permutations)
    if device == "cpu" and options.subsets is None and options.permutations is None:
        sampling = SAMPLING_ON_CPU
    model = paper_bert(scale.tokens, device)
    bare, size = bare_rate(model, scale.tokens, device, options.bare_seconds)
    print(f"bare forward pass: {bare:.6g} rows a second at batches of {size}")
    rows = []
    for method in methods(scale, sampling):
        rows.append(timed(model, device, scale, method, bare))
        print(", ".join(f"{k} {v:.6g}" if isinstance(v, float) else f"{k} {v}" for k, v in rows[-1].items()))
    table = pd.DataFrame(rows)
    write(NAME, table, figure(table), facts(scale, sampling, device, bare, size), options.folder)


def parser() -> argparse.ArgumentParser:
    """Return the command's options."""
    made = command("device", __doc__)
    made.add_argument("--device", choices=["cpu", "cuda"], help="default: CUDA if there is one")
    told = {"subsets": "K, of Algorithm 1 and 2", "permutations": "L, of Algorithm 1 and 2"}
    for field in fields(Scale):
        made.add_argument(f"--{field.name}", type=int, help=told.get(field.name, field.name))
    made.add_argument("--bare-seconds", type=float, default=2.0, help="of timing the bare model, each batch size")
    return made


@dataclass(frozen=True)
class Timed:
    """A method of the table: its label, its name and options, and the options of the game."""

    label: str
    name: str
    options: dict[str, Any]
    game: dict[str, Any]


def methods(scale: Scale, sampling: tuple[int, int]) -> list[Timed]:
    """Return the methods of Table 3, and this project's default estimator, also with absent tokens dropped."""
    n, (subsets, permutations) = scale.tokens, sampling
    budget = scale.ordshap or get_explainer("ordshap", budget=1).least_budget(n)
    algorithm1 = {"estimator": "algorithm1", "subsets": subsets, "budget": 2 * subsets * permutations * n}
    evaluations = 1 + scale.permutations * (1 + scale.subsets)
    algorithm2 = {"estimator": "algorithm2", "permutations": scale.permutations, "budget": evaluations}
    kernel, dropped = max(scale.budget, 2 * n + 2), {"removal": "drop_tokens"}
    return [
        Timed("deeplift", "deeplift", {}, {}),
        Timed("integrated_gradients", "integrated_gradients", {}, {}),
        Timed("kernelshap", "kernelshap", {"budget": kernel}, {}),
        Timed("kernelshap, tokens dropped", "kernelshap", {"budget": kernel}, dropped),
        Timed("lime", "lime", {"budget": max(scale.budget, n + 1)}, {}),
        Timed("loco", "loco", {}, {}),
        Timed("ordshap_algorithm2", "ordshap", algorithm2, {}),
        Timed("ordshap_algorithm1", "ordshap", algorithm1, {}),
        Timed("ordshap", "ordshap", {"budget": budget}, {}),
        Timed("ordshap, tokens dropped", "ordshap", {"budget": budget}, dropped),
    ]


def timed(model: torch.nn.Module, device: str, scale: Scale, method: Timed, bare: float) -> dict[str, Any]:
    """Return one row: seconds and evaluations a sample, and the share of the bare forward pass's speed."""
    explainer = get_explainer(method.name, **method.options)
    untimed = ClassifierGame(model, sequences(1, scale.tokens), MASK, (CLS,), **method.game)
    untimed.evaluate(0, torch.arange(scale.tokens)[None] < torch.arange(scale.tokens)[:WARM_UP, None])
    seconds, evaluations = [], 0
    for tokens in sequences(scale.samples, scale.tokens):
        game = ClassifierGame(model, tokens[None], MASK, (CLS,), **method.game)
        begin = now(device)
        evaluations = int(explainer.explain(game).evaluations[0])
        seconds.append(now(device) - begin)
    spread = pd.Series(seconds)
    rate = evaluations / float(spread.mean())
    return {
        "method": method.label,
        "options": " ".join(f"{name}={value}" for name, value in (method.options | method.game).items()),
        "seconds": float(spread.mean()),
        "deviation": float(spread.std(ddof=1)) if len(seconds) > 1 else float("nan"),
        "evaluations": evaluations,
        "evaluations_a_second": rate,
        "share_of_bare": rate / bare,
        "paper_seconds": PAPER.get(method.label, float("nan")),
    }


def figure(table: pd.DataFrame) -> Figure:
    """Return the seconds of each method as bars, the paper's as marks."""
    made = Figure(figsize=(7.5, 0.6 + 0.32 * len(table)), layout="constrained")
    axes = made.subplots()
    places = list(range(len(table)))
    axes.barh(places, table["seconds"], color="#4477aa", label="here")
    axes.plot(table["paper_seconds"], places, "kD", markersize=4, linestyle="none", label="paper, A100")
    axes.set_yticks(places, table["method"])
    axes.invert_yaxis()
    axes.set(xscale="log", xlabel="seconds a sample")
    axes.legend(fontsize=8, frameon=False)
    return made


def facts(scale: Scale, sampling: tuple[int, int], device: str, bare: float, size: int) -> dict[str, object]:
    """Return what the table was made with."""
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else f"cpu, {torch.get_num_threads()} threads",
        "seconds are": "wall time" if device == "cuda" else "processor time",
        "model": "BERT, 6 heads, 3 layers, width 384, untrained",
        **asdict(scale),
        "K and L of Algorithm 1": sampling,
        "bare rows a second": bare,
        "bare batch": size,
        "the paper's K and L": "not stated for its Table 3; on CUDA the largest of its Table 7 (100 and 100)",
    }


if __name__ == "__main__":
    main()
