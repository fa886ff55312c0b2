"""The registered model as MLflow runs it: a script that is copied beside the weights ("models from code").

It loads where ordeval is not installed: everything it needs travels as an artifact, served.py included.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc import PythonModel, PythonModelContext


class Classifier(PythonModel):
    """Probabilities for sequences of token ids of any length up to the model's, or for images."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load weights, content and prediction code from the artifacts model, content, code and, where there are such,
        vocabulary and network.
        """
        self.served = module_at(Path(context.artifacts["code"]))
        self.content = json.loads(Path(context.artifacts["content"]).read_text())
        if "vocabulary" in context.artifacts:
            self.special = json.loads(Path(context.artifacts["vocabulary"]).read_text())["special"]
        if "network" in context.artifacts:
            self.served.register(module_at(Path(context.artifacts["network"])))
        self.network = self.served.load_model(context.artifacts["model"], "cpu")

    def predict(
        self, context: PythonModelContext, model_input: pd.DataFrame, params: dict[str, Any] | None = None
    ) -> pd.DataFrame:
        """Return the column ``probability`` of class 1, or where there are more classes ``probability_0``, ...; of a
        table without classes the column ``prediction``.

        Args:
            context: is not needed any more.
            model_input: the column ``tokens`` (rows,) of lists of token ids without [CLS], or ``pixels`` (rows,) of
                lists of channels x height x width bytes, or ``features`` (rows,) of lists of numbers.
            params: none are known.
        """
        if self.content["kind"] == "table":
            features = np.array([list(row) for row in model_input["features"]], dtype=np.float64)
            found = self.served.predict_features(self.network, features)
        elif self.content["kind"] == "image":
            pixels = np.array([list(image) for image in model_input["pixels"]], dtype=np.uint8)
            found = self.served.predict_pixels(self.network, pixels.reshape(-1, *self.content["shape"]))
        else:
            sequences = [list(tokens) for tokens in model_input["tokens"]]
            found = self.served.predict(self.network, sequences, self.special["cls"], self.special["pad"])
        return pd.DataFrame(self.served.probability_columns(found), index=model_input.index)


def module_at(path: Path) -> ModuleType:
    """Return the module in the file ``path``, imported under a name that no installed one has."""
    name = f"ordeval_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file; log the model again")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # a dataclass looks for the module that it is defined in
    spec.loader.exec_module(module)
    return module


set_model(Classifier())
