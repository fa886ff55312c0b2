"""Each stage as one function: look for an intact output, else make it; log it; say where it is."""

from flows.steps.cost import timing, timing_made
from flows.steps.data import preprocess, preprocess_made
from flows.steps.explanations import explain, explain_made
from flows.steps.model import train, train_made
from flows.steps.pages import report
from flows.steps.scores import evaluate, evaluate_made
from flows.steps.shared import MethodRun, StageRun, evaluated, load_subject

__all__ = [
    "MethodRun",
    "StageRun",
    "evaluate",
    "evaluate_made",
    "evaluated",
    "explain",
    "explain_made",
    "load_subject",
    "preprocess",
    "preprocess_made",
    "report",
    "timing",
    "timing_made",
    "train",
    "train_made",
]
