"""Log and register a trained classifier in MLflow: from code and safetensors, without pickle.

Everything goes through a client with an explicit run: ``mlflow.pyfunc.log_model`` takes the active run and the global
tracking URI, which threads share.
"""

from __future__ import annotations

import json
import math
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

from tasks.content import CONTENT, TOKENS, Content, read_content
from tasks.train.networks import network_file, network_named
from tasks.vocabulary import VOCABULARY

TASKS = Path(__file__).resolve().parent
CODE = TASKS / "tracking_classifier.py"
SERVED = TASKS / "train" / "served.py"
EXAMPLE_TOKEN = 3  # [UNK], which every vocabulary has
NEEDED = ("mlflow", "numpy", "pandas", "safetensors", "torch", "transformers")


def log_classifier(run_id: str, model_dir: Path, data_dir: Path, registered_name: str, tracking_uri: str) -> str:
    """Log the classifier to a run, register a new version of it, and return the version's URI.

    It takes a DataFrame with a column ``tokens`` (lists of token ids, without [CLS]) or ``pixels`` (lists of channels x
    height x width bytes) and returns ``probability`` of class 1, or where there are more classes ``probability_0``, ...

    Args:
        run_id: the run that trained it.
        model_dir: holds config.json and model.safetensors.
        data_dir: the preprocess output that it was trained on: content.json and, of token sequences, vocabulary.json.
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
                data_dir,
                Model(model_uuid=logged.model_id, run_id=run_id, model_id=logged.model_id),
            )
            client.log_model_artifacts(logged.model_id, str(packed))
    except BaseException:
        client.finalize_logged_model(logged.model_id, "FAILED")
        raise
    client.finalize_logged_model(logged.model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
    return register(client, logged, registered_name)


def pack(folder: Path, model_dir: Path, data_dir: Path, described: Model) -> None:
    """Write an MLflow model to ``folder``: the script, and as its artifacts model, content and served.py, and where
    there are such vocabulary and the network's source.

    The requirements are the versions at hand, named and not inferred: inference loads the model in another process.
    """
    content = read_content(data_dir)
    artifacts = {"model": str(model_dir), "content": str(data_dir / CONTENT), "code": str(SERVED)}
    if content.kind in TOKENS:
        artifacts["vocabulary"] = str(data_dir / VOCABULARY)
    own = network_named(model_type(model_dir))
    if own:
        artifacts["network"] = str(network_file(own))
    mlflow.pyfunc.save_model(
        str(folder),
        python_model=str(CODE),
        artifacts=artifacts,
        signature=signature(content),
        input_example=example(content),
        pip_requirements=[f"{name}=={version(name).split('+')[0]}" for name in NEEDED],
        mlflow_model=described,
    )


def model_type(model_dir: Path) -> str:
    """Return the type of a saved model."""
    return str(json.loads((model_dir / "config.json").read_text(encoding="utf-8"))["model_type"])


def signature(content: Content) -> ModelSignature:
    """Return the columns that the model takes and gives."""
    classes = len(content.classes)
    if content.kind == "table":
        wanted = "probability" if classes else "prediction"
        return ModelSignature(
            inputs=Schema([ColSpec(Array(DataType.double), "features")]),
            outputs=Schema([ColSpec(DataType.double, wanted)]),
        )
    columns = ["probability"] if classes == 2 else [f"probability_{place}" for place in range(classes)]
    name = "tokens" if content.kind in TOKENS else "pixels"
    return ModelSignature(
        inputs=Schema([ColSpec(Array(DataType.long), name)]),
        outputs=Schema([ColSpec(DataType.double, column) for column in columns]),
    )


def example(content: Content) -> pd.DataFrame:
    """Return one input: a sequence of one token, a black image, or a row of zeros."""
    if content.kind == "table":
        return pd.DataFrame({"features": [[0.0] * len(content.features)]})
    if content.kind in TOKENS:
        return pd.DataFrame({"tokens": [[EXAMPLE_TOKEN]]})
    return pd.DataFrame({"pixels": [[0] * math.prod(content.shape)]})


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
