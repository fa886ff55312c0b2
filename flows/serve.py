"""The deployments: the study and each stage, with a form each in the Prefect UI. Run as ``python -m flows.serve``."""

from __future__ import annotations

from typing import Any

from prefect import serve

from flows import stages
from flows.study import study


def main() -> None:
    """Serve all deployments from this process until it is stopped."""
    flows = (study, stages.preprocess, stages.train, stages.explain, stages.evaluate, stages.timing, stages.report)
    deployments: list[Any] = [
        flow.to_deployment(name="local", description=flow.description, tags=["ordeval"]) for flow in flows
    ]
    serve(*deployments)


if __name__ == "__main__":
    main()
