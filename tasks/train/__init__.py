"""The train stage: a classifier of sequences or images, its test scores, and how to load and use it."""

from tasks.train.fitting import fit
from tasks.train.served import load_model, predict

__all__ = ["fit", "load_model", "predict"]
