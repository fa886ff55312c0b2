"""Global values: what a set is worth over all samples of a table of local values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    import torch


def mean_absolute(sets: pd.DataFrame) -> pd.DataFrame:
    """Return the mean magnitude of each set's value over the samples: columns ``set``, ``value``.

    Sampling error does not cancel in a magnitude: with sampled values the mean is too high by up to their errors.

    Args:
        sets: an explanation's ``sets``, with the columns ``sample``, ``set``, ``value``.

    Raises:
        ValueError: a set has no value in some sample.

    Source: joint Shapley paper, section 4.2.
    """
    return mean_over_samples(sets, sets["value"].abs().to_numpy())


def presence_adjusted(sets: pd.DataFrame, features: np.ndarray | torch.Tensor) -> pd.DataFrame:
    """Return the mean value of each set with its sign turned where a feature of the set is absent: Eq. 8.

    Args:
        sets: an explanation's ``sets``, with the columns ``sample``, ``set``, ``value``.
        features: (b, n) the explained samples; 1 is present, 0 absent.

    Returns:
        Columns ``set``, ``value``.

    Raises:
        ValueError: a feature is neither 0 nor 1, ``features`` has not the table's samples or too few columns, or a set
            has no value in some sample.

    Source: joint Shapley paper, Eq. 8.
    """
    rows = binary(np.asarray(features))
    samples = sets["sample"].to_numpy()
    there = np.unique(samples)
    if not np.array_equal(there, np.arange(len(rows))):
        raise ValueError(f"features has {len(rows)} rows and the table {len(there)} samples; give one row a sample")
    largest = max((max(members) for members in sets["set"]), default=-1)
    if largest >= rows.shape[1]:
        raise ValueError(f"features has {rows.shape[1]} columns and a set names player {largest}; give one a player")
    present = np.array(
        [rows[sample, list(members)].all() for sample, members in zip(samples, sets["set"], strict=True)], dtype=bool
    )
    return mean_over_samples(sets, np.where(present, 1, -1) * sets["value"].to_numpy())


def binary(features: np.ndarray) -> np.ndarray:
    """Return the features as booleans, or raise ValueError with the first value that is neither 0 nor 1."""
    if features.ndim != 2:
        raise ValueError(f"features has shape {features.shape}; give (samples, players)")
    other = np.argwhere((features != 0) & (features != 1))
    if len(other):
        sample, player = other[0]
        raise ValueError(
            f"feature {player} of sample {sample} is {features[sample, player]}; presence-adjusted values are for "
            "features of 0 and 1, take mean_absolute for others"
        )
    return features.astype(bool)


def mean_over_samples(sets: pd.DataFrame, values: np.ndarray) -> pd.DataFrame:
    """Return the mean of ``values`` by set, in the order in which the sets come first."""
    samples = sets["sample"].nunique()
    grouped = sets.assign(value=values).groupby("set", sort=False)["value"]
    counts = grouped.size()
    if (counts != samples).any():
        members = counts.index[counts != samples][0]
        raise ValueError(
            f"set {members} has a value in {counts[members]} of {samples} samples, and a global value needs all; "
            "explain all sets or the same given ones, of samples with equally many players"
        )
    return grouped.mean().reset_index()
