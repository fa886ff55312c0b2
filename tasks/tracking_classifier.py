"""The registered model as MLflow runs it: a script that is copied beside the weights ("models from code").

It loads where ordeval is not installed: everything it needs travels as an artifact, served.py included.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel, PythonModelContext


class SequenceClassifier(PythonModel):
    """Probability of class 1 for sequences of token ids of any length up to the model's."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load weights, vocabulary and prediction code from the artifacts model, vocabulary and code."""
        self.served = module_at(Path(context.artifacts["code"]))
        self.special = json.loads(Path(context.artifacts["vocabulary"]).read_text())["special"]
        self.network = self.served.load_model(context.artifacts["model"], "cpu")

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Return the column ``probability`` (rows,) for the column ``tokens`` (rows,) of lists of token ids."""
        sequences = [list(tokens) for tokens in model_input["tokens"]]
        probability = self.served.predict(self.network, sequences, self.special["cls"], self.special["pad"])
        return pd.DataFrame({"probability": probability}, index=model_input.index)


def module_at(path: Path) -> ModuleType:
    """Return the module in the file ``path``, without entering it among the imported ones."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file; log the model again")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


set_model(SequenceClassifier())
