"""Run the explain step of the tiny study in a process of its own and, where told, die by SIGKILL within it.

``python -m tests.killed_explain STORAGE SHARDS``: the process kills itself once SHARDS shards are written (0: never).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from flows import steps
from flows.context import open_context
from tests.studies import tiny_study


def main(storage: Path, shards: int) -> None:
    study = tiny_study(storage)

    def progress(what: str, done: int, of: int) -> None:
        if shards and what.startswith("explain") and done >= shards * study.explain.shard_size:
            os.kill(os.getpid(), signal.SIGKILL)

    context = open_context(study, progress=progress)
    data = steps.preprocess(context).output
    model = steps.train(context, data).output
    run = steps.explain(context, study.explainers[0], data, model)
    print(run.explain.folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
