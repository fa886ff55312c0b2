"""Explanation methods over one batched game (see docs/architecture.md)."""

from explainers.base import Explainer, Explanation
from explainers.classifier import ClassifierGame
from explainers.game import Game
from explainers.pixels import PixelGame
from explainers.registry import explainers, get_explainer

__all__ = ["ClassifierGame", "Explainer", "Explanation", "Game", "PixelGame", "explainers", "get_explainer"]
