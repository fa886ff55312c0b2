"""Values of sets of players on their way through the stages: arrays in the shards, tables with the players' names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import torch

from explainers.set_values.over_samples import presence_adjusted
from explainers.set_values.table import set_table

NAMES = ("sets.members", "sets.value", "sets.stderr")
NO_PLAYER = -1
BETWEEN = " & "
COLUMNS = ("sample", "set", "slots", "value", "stderr")


def set_arrays(table: pd.DataFrame) -> dict[str, torch.Tensor]:
    """Return one sample's table of sets as arrays: (sets, largest size) players, filled up with -1, value, stderr."""
    sets = list(table["set"])
    members = np.full((len(sets), max(map(len, sets), default=0)), NO_PLAYER, dtype=np.int32)
    for row, players in zip(members, sets, strict=True):
        row[: len(players)] = players
    columns = [members, *(table[name].to_numpy(np.float64, copy=True) for name in ("value", "stderr"))]
    return {name: torch.from_numpy(column) for name, column in zip(NAMES, columns, strict=True)}


def read_sets(arrays: Mapping[str, torch.Tensor]) -> pd.DataFrame | None:
    """Return the table ``sample`` (0), ``set``, ``value``, ``stderr`` that :func:`set_arrays` wrote, if it did."""
    if NAMES[0] not in arrays:
        return None
    members, value, stderr = (arrays[name].numpy() for name in NAMES)
    sets = [tuple(player for player in row if player != NO_PLAYER) for row in members.tolist()]
    table = set_table(sets, value, stderr)
    table.insert(0, "sample", 0)
    return table


def named_sets(sample: str, names: Sequence[str], table: pd.DataFrame) -> pd.DataFrame:
    """Return one sample's rows of ``sets.csv``: sample (its name), set (names), slots (from 1), value, stderr."""
    frame = pd.DataFrame(
        {
            "sample": sample,
            "set": [BETWEEN.join(names[player] for player in players) for players in table["set"]],
            "slots": [" ".join(str(player + 1) for player in players) for players in table["set"]],
            "value": table["value"].to_numpy(),
            "stderr": table["stderr"].to_numpy(),
        }
    )
    return frame[list(COLUMNS)]


def global_sets(samples: Sequence[tuple[Sequence[str], pd.DataFrame]]) -> pd.DataFrame:
    """Return what each set of names is worth over samples whose players differ, largest mean magnitude first.

    Players are known by name, whatever their order; a set that comes several times in a sample counts by its mean
    magnitude there, and the mean is over the samples that have a value of it. Where a method values its strongest pairs
    only, that mean is over the samples where the pair was strong: ``samples`` below ``present`` tells. Sampling error
    does not cancel in a magnitude.

    Args:
        samples: (names of the players, table of ``set`` and ``value``) of each sample.

    Returns:
        Columns ``set`` (tuple of names, sorted), ``mean_absolute``, ``mean``, ``samples`` (with a value of the set),
        ``present`` (with all the names in it).

    Source: joint Shapley paper, section 4.2, first global value; by name, because sequences have no common players.
    """
    frames = [
        pd.DataFrame({"set": [tuple(sorted(names[player] for player in players)) for players in table["set"]]})
        .assign(value=table["value"].to_numpy(), magnitude=table["value"].abs().to_numpy(), sample=place)
        .groupby(["set", "sample"], as_index=False, sort=False)[["value", "magnitude"]]
        .mean()
        for place, (names, table) in enumerate(samples)
        if len(table)
    ]
    if not frames:
        return pd.DataFrame(columns=["set", "mean_absolute", "mean", "samples", "present"])
    grouped = pd.concat(frames, ignore_index=True).groupby("set", sort=False)
    found = grouped.agg(
        mean_absolute=("magnitude", "mean"), mean=("value", "mean"), samples=("sample", "size")
    ).reset_index()
    counts = [Counter(names) for names, _ in samples]
    found["present"] = [sum(Counter(members) <= there for there in counts) for members in found["set"]]
    return found.sort_values("mean_absolute", ascending=False, kind="stable", ignore_index=True)


def over_samples(
    names: Sequence[Sequence[str]], tables: Sequence[pd.DataFrame], features: np.ndarray | None
) -> pd.DataFrame:
    """Return the rows of ``sets_global.csv``: :func:`global_sets` with its sets as text.

    Args:
        names: of the players of each sample.
        tables: the sets of each sample.
        features: (samples, players) of a table; where all are 0 or 1 and each sample has the same sets, there is a
            column ``presence_adjusted`` (Eq. 8). None for other data.
    """
    found = global_sets(list(zip(names, tables, strict=True)))
    if features is not None and np.isin(features, (0, 1)).all() and len({tuple(table["set"]) for table in tables}) == 1:
        local = pd.concat([table.assign(sample=place) for place, table in enumerate(tables)], ignore_index=True)
        adjusted = presence_adjusted(local, features)
        by_name = {tuple(sorted(names[0][i] for i in players)): v for players, v in adjusted.values.tolist()}
        found["presence_adjusted"] = [by_name[members] for members in found["set"]]
    return found.assign(set=found["set"].map(BETWEEN.join))
