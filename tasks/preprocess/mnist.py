"""MNIST: the digits three and eight (LeCun et al. 1998)."""

from __future__ import annotations

from tasks.preprocess.public import ImageSource


class Mnist(ImageSource):
    """MNIST 3 vs 8: handwritten digits of 28 x 28 grey pixels."""

    name = "mnist"
    home = "ylecun/mnist"
    columns = ("image", "label")
    pixels = "image"
    published = (3, 8)
    classes = ("three", "eight")
