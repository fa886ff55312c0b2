"""CIFAR10: deer and horses (Krizhevsky 2009)."""

from __future__ import annotations

from tasks.preprocess.public import ImageSource


class Cifar10(ImageSource):
    """CIFAR10 deer vs horse: photographs of 32 x 32 pixels in three colours."""

    name = "cifar10"
    home = "uoft-cs/cifar10"
    columns = ("img", "label")
    pixels = "img"
    published = (4, 7)
    classes = ("deer", "horse")
