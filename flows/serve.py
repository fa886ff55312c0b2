"""The deployments: the study, a rerun, and each stage, with a form each in the UI. Run as ``python -m flows.serve``."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.exceptions import TerminationSignal
from prefect.runner import Runner

from flows import stages
from flows.forms import form, to_form
from flows.known import known_studies, known_study, storage_here
from flows.study import rerun, study

FIRST = "synthetic"
NAME = "local"
LOOK_SECONDS = 2.0  # between looks for new runs and studies: also how long a stop waits for the look in work
FLOWS: tuple[Flow[..., Any], ...] = (
    study,
    rerun,
    stages.preprocess,
    stages.train,
    stages.explain,
    stages.evaluate,
    stages.timing,
    stages.report,
)


def main() -> None:
    """Serve all deployments from this process until it is stopped."""
    runner = Runner(name="ordeval", query_seconds=LOOK_SECONDS)
    served = {}
    for flow in FLOWS:
        deployment: Any = flow.to_deployment(
            name=NAME,
            description=flow.description,
            tags=["ordeval"],
            enforce_parameter_schema=False,  # until the form is there: Prefect knows the flow's own schema only
        )
        served[flow.name] = runner.add_deployment(deployment)
    stopping = threading.Event()
    threading.Thread(target=keep_forms, args=(served, stopping), daemon=True).start()
    try:
        asyncio.run(runner.start())
    except (KeyboardInterrupt, TerminationSignal):
        return
    finally:
        stopping.set()


def first_values(name: str) -> dict[str, Any]:
    """Return what the form of the flow called ``name`` shows at first: the synthetic study."""
    if name == study.name:
        storage = storage_here()
        return {"study": {**to_form(known_study(FIRST, storage)), "storage": str(storage)}}
    return {"study": FIRST}


def keep_forms(served: dict[str, UUID], stopping: threading.Event) -> None:
    """Write the forms, and again when another study is known, until ``stopping`` is set."""
    storage = storage_here()
    written: dict[str, float] = {}
    while not stopping.is_set():
        there = {str(path): path.stat().st_mtime for path in known_studies(storage).values()}
        if there != written:
            write_forms(served)
            written = there
        stopping.wait(LOOK_SECONDS)


def write_forms(served: dict[str, UUID]) -> None:
    """Give each deployment the form of its flow."""
    storage = storage_here()
    with get_client(sync_client=True) as client:
        for flow in FLOWS:
            shown = DeploymentUpdate(
                parameter_openapi_schema=form(flow, storage),
                parameters=first_values(flow.name),
                enforce_parameter_schema=True,
            )
            client.update_deployment(served[flow.name], shown)


if __name__ == "__main__":
    main()
