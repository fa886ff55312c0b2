"""Log and register a trained classifier in MLflow: from code and safetensors, without pickle.

Everything goes through a client with an explicit run: ``mlflow.pyfunc.log_model`` takes the active run and the global
tracking URI, which threads share.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import mlflow
import pandas as pd
from mlflow.entities import LoggedModel, LoggedModelOutput
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, DataType, Schema
from mlflow.types.schema import Array

TASKS = Path(__file__).resolve().parent
CODE = TASKS / "tracking_classifier.py"
SERVED = TASKS / "train" / "served.py"
NEEDED = ("mlflow", "numpy", "pandas", "safetensors", "torch", "transformers")
SIGNATURE = ModelSignature(
    inputs=Schema([ColSpec(Array(DataType.long), "tokens")]),
    outputs=Schema([ColSpec(DataType.double, "probability")]),
)


def log_classifier(run_id: str, model_dir: Path, vocabulary: Path, registered_name: str, tracking_uri: str) -> str:
    """Log the classifier to a run, register a new version of it, and return the version's URI.

    It takes a DataFrame with a column ``tokens`` (lists of token ids, without [CLS]) and returns ``probability``.

    Args:
        run_id: the run that trained it.
        model_dir: holds config.json and model.safetensors.
        vocabulary: the vocabulary.json that its token ids come from.
        registered_name: the registered model's name; made where it does not exist.
        tracking_uri: of the tracking server and the registry.

    Returns:
        ``models:/NAME/VERSION``, for ``mlflow.pyfunc.load_model``.
    """
    client = mlflow.MlflowClient(tracking_uri, registry_uri=tracking_uri)
    experiment = client.get_run(run_id).info.experiment_id
    logged = client.create_logged_model(experiment, name="classifier", source_run_id=run_id, model_type="pyfunc")
    try:
        with TemporaryDirectory(prefix="ordeval-model-") as folder:
            packed = Path(folder) / "model"
            pack(
                packed,
                model_dir,
                vocabulary,
                Model(model_uuid=logged.model_id, run_id=run_id, model_id=logged.model_id),
            )
            client.log_model_artifacts(logged.model_id, str(packed))
    except BaseException:
        client.finalize_logged_model(logged.model_id, "FAILED")
        raise
    client.finalize_logged_model(logged.model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
    return register(client, logged, registered_name)


def pack(folder: Path, model_dir: Path, vocabulary: Path, described: Model) -> None:
    """Write an MLflow model to ``folder``: the script, and model, vocabulary and served.py as its artifacts.

    The requirements are the versions at hand, named and not inferred: inference loads the model in another process.
    """
    last = len(json.loads(vocabulary.read_text())["tokens"]) - 1
    mlflow.pyfunc.save_model(
        str(folder),
        python_model=str(CODE),
        artifacts={"model": str(model_dir), "vocabulary": str(vocabulary), "code": str(SERVED)},
        signature=SIGNATURE,
        input_example=pd.DataFrame({"tokens": [[last]]}),
        pip_requirements=[f"{name}=={version(name).split('+')[0]}" for name in NEEDED],
        mlflow_model=described,
    )


def register(client: mlflow.MlflowClient, logged: LoggedModel, name: str) -> str:
    """Make a new version of the registered model ``name`` out of ``logged``, and return its URI.

    The source is where the files are: a "models:/" source would be looked up at the global tracking URI.
    """
    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    made = client.create_model_version(
        name, source=logged.artifact_location, run_id=logged.source_run_id, model_id=logged.model_id
    )
    return f"models:/{name}/{made.version}"
