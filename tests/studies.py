"""A study small enough for tests, and the outputs of its first stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from conf.load import check_study
from conf.schema import Study

TINY: dict[str, Any] = {
    "name": "tiny",
    "device": "cpu",
    "data": {"dataset": "synthetic", "task": "planted", "synthetic": {"stays": 300, "max_events": 12}},
    "model": {
        "heads": 2,
        "layers": 1,
        "width": 16,
        "feed_forward": 32,
        "dropout": 0.1,
        "epochs": 2,
        "learning_rate": 0.003,
        "bootstrap": 50,
    },
    "explainers": [
        {"method": "ordshap", "budget": 120},
        {"method": "kernelshap", "budget": 120},
        "integrated_gradients",
        "random",
    ],
    "explain": {"samples": 6, "shard_size": 2},
    "evaluate": {"metrics": ["inc_auc", "exc_auc", "perm_auc"], "grid_step": 25, "permutations": 2},
    "timing": {"samples": 2},
}


def tiny_study(storage: Path, **changes: Any) -> Study:
    """Return the tiny study with its outputs in ``storage``; ``changes`` replace whole sections."""
    return check_study({**TINY, "storage": str(storage), **changes}, "tiny")
