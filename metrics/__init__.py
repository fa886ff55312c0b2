"""Measures of explanations."""

from metrics.base import Metric, Scores
from metrics.registry import get_metric, metrics
from metrics.shared import compute_all

__all__ = ["Metric", "Scores", "compute_all", "get_metric", "metrics"]
