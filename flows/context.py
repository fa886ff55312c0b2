"""What every stage of one execution shares: the study, its store, its experiment, its device."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

import torch

from conf.schema import Study
from tasks.preprocess.source import get_source
from tasks.store import Store
from tasks.subject import check_players
from tasks.tracking import Tracker
from tasks.tracking_notes import experiment_note
from tasks.train.building import check_reads

Progress = Callable[..., None]


def silent(what: str, done: int, of: int, note: str = "") -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class Context:
    """One execution of a study or of a stage of it.

    Attributes:
        study: what is run.
        store: stage outputs on this machine.
        tracker: the study's MLflow experiment.
        device: "cpu" or "cuda".
        force: make outputs again even where intact ones are there.
        progress: called with (what, done, of) and perhaps a note on how it goes.
    """

    study: Study
    store: Store
    tracker: Tracker
    device: str
    force: bool = False
    progress: Progress = silent


def open_context(study: Study, force: bool = False, progress: Progress = silent, prefect_run: str = "") -> Context:
    """Check what a study needs of this machine and return its context.

    Raises:
        DataError: there is no such data set, or it has no such option.
        ValueError: the model does not read this kind of data, a sample of it has no such players, or CUDA is asked
            for and there is none.
        TrackingError: the tracking server does not answer.
    """
    kind = get_source(study.data).kind
    check_reads(study.model, kind)
    check_players(kind, study.explain)
    device = resolve_device(study.device)
    store = Store(study.storage)
    tags = {
        "study": study.name,
        "study_run": uuid.uuid4().hex[:12],
        "dataset": study.data.dataset,
        "task": study.data.task,
        "seed": str(study.seed),
        "device": device_name(device),
    }
    if prefect_run:
        tags["prefect_run"] = prefect_run
    tracker = Tracker.connect(study.tracking_uri, store.root, study.name, tags)
    tracker.describe(experiment_note(study))
    return Context(study, store, tracker, device, force, progress)


def resolve_device(wanted: str) -> str:
    """Return "cuda" or "cpu".

    Raises:
        ValueError: CUDA is asked for and there is none.
    """
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise ValueError("device is 'cuda' and this machine has no CUDA device; set device=auto or device=cpu")
    return "cuda" if there and wanted != "cpu" else "cpu"


def device_name(device: str) -> str:
    """Return the device's name for people: the GPU's model, or the CPU and its threads."""
    if device == "cuda":
        return f"cuda ({torch.cuda.get_device_name()})"
    return f"cpu ({torch.get_num_threads()} threads)"
