"""Settings that must stand before Prefect, MLflow or a hub client is imported: quiet, offline-friendly, patient."""

from __future__ import annotations

import os

STORAGE = "ORDEVAL_STORAGE"  # the storage folder of runs that are started from a form
MLFLOW_UI = "ORDEVAL_MLFLOW_UI"  # where `ordeval ui` shows a local MLflow database
OURS = ("flows", "tasks")  # the loggers of the project's own messages

QUIET = {
    "DO_NOT_TRACK": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_EXTRA_LOGGERS": ",".join(OURS),  # Prefect keeps what these say with the run
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    "PREFECT_CLI_PROMPT": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_WAIT_POLICY": "PASSIVE",
}


def prepare() -> None:
    """Set every variable that the user has not set."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
