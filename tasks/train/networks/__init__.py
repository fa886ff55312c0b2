"""The networks of the papers' text, image and table studies: one file each, which needs torch and transformers only.

A copy of a network's file can travel with a logged model and be loaded where there is no ordeval.
"""

from __future__ import annotations

import sys
from pathlib import Path

from transformers import PreTrainedModel

from tasks.train.networks.bilstm import BiLstm
from tasks.train.networks.char_cnn import CharCnn
from tasks.train.networks.digit_cnn import DigitCnn
from tasks.train.networks.forest import Forest
from tasks.train.networks.mlp import Mlp
from tasks.train.networks.object_cnn import ObjectCnn
from tasks.train.networks.polynomial import Polynomial
from tasks.train.networks.word_cnn import WordCnn
from tasks.train.served import register

__all__ = ["NETWORKS", "network_file", "network_named"]

NETWORKS: dict[str, type[PreTrainedModel]] = {
    "word_cnn": WordCnn,
    "char_cnn": CharCnn,
    "bilstm": BiLstm,
    "digit_cnn": DigitCnn,
    "object_cnn": ObjectCnn,
    "mlp": Mlp,
    "forest": Forest,
    "polynomial": Polynomial,
}


for network in NETWORKS.values():  # so that a saved one loads like any other classifier
    register(sys.modules[network.__module__])


def network_named(model_type: str) -> str | None:
    """Return the name of the network whose configuration has this type; None where it is none of these."""
    for name, network in NETWORKS.items():
        if network.config_class is not None and network.config_class.model_type == model_type:
            return name
    return None


def network_file(name: str) -> Path:
    """Return the source file of a network of ``NETWORKS``.

    Raises:
        ValueError: there is no network of that name.
    """
    if name not in NETWORKS:
        raise ValueError(f"there is no network {name!r}; it is one of: {', '.join(NETWORKS)}")
    return Path(str(sys.modules[NETWORKS[name].__module__].__file__))
