"""What MLflow shows of runs and experiments: Markdown that tells nothing of where raw files lie, and colours."""

from __future__ import annotations

from conf.schema import Method, Study
from explainers import get_explainer
from tasks.report.picture import PALETTE

NOTE = "mlflow.note.content"
COLOUR = "mlflow.runColor"  # of a run's lines; MLflow's own choice gives several methods of one study the same
MORE_COLOURS = ("#882255", "#999933", "#44AA99", "#661100", "#332288", "#AA4499", "#888888", "#117733")
STAGES = {
    "preprocess": "Raw tables to tokens, a vocabulary and an audit (`audit.md` among the artifacts).",
    "train": "The model that is explained: its scores on the test part with intervals, its history by epoch, its "
    "calibration, and the registered model.",
}


def experiment_note(study: Study) -> str:
    """Return what a study is, and how to look at it."""
    methods = ", ".join(method.label for method in study.explainers)
    return (
        f"**{study.name}**: {study.data.task} on {study.data.dataset}, {study.explain.samples} explained samples, "
        f"{len(study.explainers)} methods ({methods}).\n\n"
        "Compare the methods: filter by `tags.stage = 'method' and tags.latest = 'true'`, then open the chart view; "
        "`curve/NAME` is a metric's mean curve, its step the percent of the players. The newest run with "
        "`tags.stage = 'summary'` has the table, the ranks and the report."
    )


def stage_note(study: Study, stage: str) -> str:
    """Return what a preprocess or train run is."""
    return f"{STAGES[stage]}\n\nStudy `{study.name}`: {study.data.task} on {study.data.dataset}, seed {study.seed}."


def method_note(study: Study, method: Method) -> str:
    """Return what a method's run is: the method, its options, what it explained."""
    explainer = get_explainer(method.method, **method.options)
    about = (type(explainer).__doc__ or method.method).strip().splitlines()[0]
    options = ", ".join(f"{name} = {value}" for name, value in method.options.items()) or "defaults"
    return (
        f"**{method.label}** (`{method.method}`): {about}\n\nOptions: {options}. {study.explain.samples} samples of "
        f"{study.data.task} on {study.data.dataset}, output {study.explain.output}, seed {study.seed}.\n\n"
        "`attributions.csv` has one row a player, `scores.csv` one a metric and sample; `stderr/NAME` is the standard "
        "error of the mean `NAME`, `curve/NAME` the curve behind it."
    )


def method_colour(study: Study, method: Method) -> str:
    """Return the colour of a method's run: as in the report, and different for each of fifteen methods."""
    colours = PALETTE + MORE_COLOURS
    labels = [known.label for known in study.explainers]
    place = labels.index(method.label) if method.label in labels else len(labels)
    return colours[place % len(colours)].lower()
