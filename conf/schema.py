"""What a study may say. Every field has a title, a default and a range, so that the same models make the UI's forms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from explainers import get_explainer
from metrics import get_metric

Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A part of a study: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Cohort(Section):
    """Which ICU stays take part."""

    min_age: int = Field(18, ge=0, title="Youngest age", description="Years at admission.")
    first_stay_only: bool = Field(
        True, title="First ICU stay of each hospital admission only", description="Off: every stay counts."
    )
    window_hours: float = Field(
        12.0, gt=0, le=87600, title="Observation window", description="Hours from ICU admission."
    )
    gap_hours: float = Field(
        12.0, ge=0, le=87600, title="Gap", description="A stay lasts at least window plus gap, in hours."
    )


class Tokens(Section):
    """How events and texts become tokens."""

    max_tokens: int = Field(150, ge=1, title="Longest sequence", description="Tokens, [CLS] not counted.")
    keep: Literal["last", "first"] = Field(
        "last", title="Which end of a longer window or text is kept", description="last: the newest tokens."
    )
    min_count: int = Field(
        5, ge=1, title="Rarest code", description="Training occurrences that a code or a word needs."
    )
    rare: Literal["drop", "unk"] = Field("drop", title="What becomes of rarer codes", description="Of words: [UNK].")
    abnormal_flag: bool = Field(False, title="Add a lab's abnormal flag to its code", description="MIMIC-III only.")
    duplicates: Literal["collapse", "keep"] = Field(
        "collapse", title="Repeated rows", description="What becomes of identical (stay, time, code) rows."
    )
    names: Literal["normalised", "as_written"] = Field(
        "normalised", title="Item names", description="normalised: one case, single blanks. MEDS codes stay as written."
    )


class Text(Section):
    """How texts become tokens."""

    unit: Literal["words", "characters", "pieces"] = Field(
        "words", title="Tokens are", description="pieces: those of the pretrained model's own tokenizer."
    )
    pretrained: str = Field(
        "", title="Pretrained tokenizer", description="Folder or public name of a pretrained encoder (pieces only)."
    )
    lower_case: bool = Field(True, title="Lower case", description="Of words and characters.")
    most_tokens: Count = Field(
        50_000, title="Largest vocabulary", description="The most frequent words or characters of the training part."
    )
    sentences: bool = Field(
        False, title="Find sentences", description="Of the test part, so that explain.players can be sentences."
    )

    @model_validator(mode="after")
    def _named(self) -> Self:
        if self.unit == "pieces" and not self.pretrained:
            raise ValueError("data.text.unit is 'pieces' and data.text.pretrained is empty; name an encoder")
        return self


class Split(Section):
    """How patients are divided; of texts, images and tables with a published test part, how the rest is."""

    test_share: Share = Field(0.2, title="Share of patients in the test part", description="Between 0 and 1.")
    validation_share: Share = Field(
        0.1, title="Share of training patients held out for early stopping", description="Between 0 and 1."
    )
    stratify: bool = Field(True, title="Stratify by label", description="By a patient's highest label.")
    given: bool = Field(True, title="Use a given split", description="MEDS only: metadata/subject_splits.parquet.")
    most_train: Count | None = Field(
        None, title="Most training samples", description="Texts and images: drawn from the training part; None: all."
    )
    most_test: Count | None = Field(
        None, title="Most test samples", description="Texts and images: drawn from the test part; None: all."
    )


class Table(Section):
    """How tables are made."""

    rows: Count = Field(50, title="Rows", description="Of the uniform features.")
    correlated: bool = Field(False, title="x2 = 1 - x1", description="Of the uniform features.")
    words: Count = Field(1000, title="Commonest words", description="Of movie reviews, beside ten named ones.")


class Synthetic(Section):
    """The synthetic cohort's size."""

    stays: int = Field(3000, ge=20, title="Stays", description="How many are drawn.")
    min_events: int = Field(8, ge=1, title="Fewest events a stay", description="At least 1.")
    max_events: int = Field(60, ge=1, title="Most events a stay", description="At least the fewest.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.max_events < self.min_events:
            raise ValueError(f"max_events is {self.max_events}, below min_events {self.min_events}; raise max_events")
        return self


TASKS: dict[str, tuple[str, ...]] = {
    "synthetic": ("planted",),
    "mimic3": ("mortality", "los"),
    "eicu": ("mortality", "los"),
    "meds": ("label",),
    "imdb": ("sentiment",),
    "ag_news": ("topic",),
    "yahoo_answers": ("topic",),
    "mnist": ("three_or_eight",),
    "cifar10": ("deer_or_horse",),
    "uniform": ("first", "sum", "difference"),
    "bernoulli": ("first", "sum", "product"),
    "boston": ("price",),
    "rotten_tomatoes": ("sentiment",),
}
FOLDER_NEEDED = ("mimic3", "eicu", "meds", "boston", "rotten_tomatoes")


class Data(Section):
    """The data set, its cohort and its tokens."""

    dataset: Literal[
        "synthetic",
        "mimic3",
        "eicu",
        "meds",
        "imdb",
        "ag_news",
        "yahoo_answers",
        "mnist",
        "cifar10",
        "uniform",
        "bernoulli",
        "boston",
        "rotten_tomatoes",
    ] = Field(
        "synthetic", title="Data set", description="Its options are below; those of other data sets have no effect."
    )
    path: Path | None = Field(
        None,
        title="Folder",
        description="Where the tables are. The synthetic cohort needs none; text and images without one come from "
        "their public home.",
    )
    task: Literal[
        "mortality",
        "los",
        "planted",
        "label",
        "sentiment",
        "topic",
        "three_or_eight",
        "deer_or_horse",
        "first",
        "sum",
        "difference",
        "product",
        "price",
    ] = Field(
        "planted",
        title="Task",
        description="What the label is; each data set has its own: see the data sets in the docs.",
    )
    labels_path: Path | None = Field(None, title="Label file", description="MEDS only: a parquet of the label schema.")
    los_days: float = Field(
        3.0, gt=0, le=3650, title="Long stay", description="Days from which a stay counts as long (los)."
    )
    prescriptions: Literal["admission_day", "in_window"] = Field(
        "admission_day",
        title="MIMIC-III prescriptions",
        description="They have dates only: start date on the admission day, or midnight of it inside the window.",
    )
    cancelled: Literal["drop", "keep"] = Field(
        "drop", title="Cancelled orders", description="eICU: drugordercancelled. MIMIC-III: inputs that were rewritten."
    )
    nameless_drugs: Literal["hicl", "drop"] = Field(
        "hicl", title="Drugs without a name", description="eICU only: hicl falls back to drughiclseqno."
    )
    memory_limit: str = Field(
        "4GB",
        pattern=r"^[1-9]\d*(\.\d+)? ?(MB|GB)$",
        title="Memory of the extraction",
        description="What needs more spills to disk.",
    )
    threads: int = Field(
        2, ge=1, le=256, title="Threads", description="Of the extraction; the result is the same for any number."
    )
    cohort: Cohort = Field(Cohort(), title="Cohort")
    tokens: Tokens = Field(Tokens(), title="Tokens")
    text: Text = Field(Text(), title="Text")
    table: Table = Field(Table(), title="Table")
    split: Split = Field(Split(), title="Split")
    synthetic: Synthetic = Field(Synthetic(), title="Synthetic cohort")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        tasks = TASKS[self.dataset]
        if self.task not in tasks:
            raise ValueError(f"data.task is {self.task!r}; for {self.dataset} it is one of: {', '.join(tasks)}")
        if self.dataset in FOLDER_NEEDED and self.path is None:
            raise ValueError(f"data.path is missing; give the folder of the {self.dataset} tables (data.path=FOLDER)")
        if self.dataset == "meds" and self.labels_path is None:
            raise ValueError("data.labels_path is missing; give a parquet file or folder of the MEDS label schema")
        return self


class Model(Section):
    """The classifier and its training; heads, layers and widths are those of the BERT encoder."""

    architecture: Literal[
        "bert",
        "pretrained",
        "word_cnn",
        "char_cnn",
        "bilstm",
        "digit_cnn",
        "object_cnn",
        "mlp",
        "forest",
        "polynomial",
    ] = Field(
        "bert",
        title="Architecture",
        description="pretrained: the encoder of data.text.pretrained, fine-tuned. Networks for text: word_cnn, "
        "char_cnn, bilstm; for images: digit_cnn, object_cnn; for tables: mlp (classes), forest (a number), polynomial "
        "(a known function, nothing is trained).",
    )
    heads: Count = Field(6, title="Attention heads", description="Of each layer; the width is a multiple of it.")
    layers: Count = Field(3, title="Hidden layers", description="Of the encoder.")
    width: Count = Field(384, title="Hidden width", description="Of the encoder's states.")
    feed_forward: Count = Field(
        1536, title="Feed-forward width", description="Of the layer between two attention layers."
    )
    dropout: float = Field(0.5, ge=0, lt=1, title="Dropout", description="Share of units left out in training.")
    epochs: Count = Field(20, title="Most epochs", description="Training ends there, or earlier by patience.")
    patience: Count = Field(
        3,
        title="Epochs without a better validation loss before stopping",
        description="The best epoch's weights are kept.",
    )
    batch_size: Count = Field(32, title="Training batch", description="Samples a step.")
    learning_rate: float = Field(1e-4, gt=0, title="Learning rate", description="Its peak, after the warm-up.")
    weight_decay: float = Field(0.01, ge=0, title="Weight decay", description="Of the optimizer.")
    warmup_share: float = Field(
        0.1, ge=0, lt=1, title="Share of steps that warm up", description="The learning rate rises over them."
    )
    optimizer: Literal["adamw", "rmsprop", "sgd"] = Field(
        "adamw", title="Optimizer", description="sgd has a momentum of 0.9."
    )
    augment: Literal["none", "shift", "shift_flip", "leave_words_out"] = Field(
        "none",
        title="Augmentation",
        description="Of training images: shifts by up to two pixels, and mirroring. Of training texts: "
        "leave_words_out leaves out each word with chance one fifth.",
    )
    first_filters: Literal["random", "word_beginnings"] = Field(
        "random",
        title="First filters",
        description="Of char_cnn, how its first convolution starts. word_beginnings: as those of frequent words of "
        "the training texts, for few texts.",
    )
    trees: Count = Field(100, title="Trees", description="Of a forest.")
    features_a_split: float = Field(
        1.0, gt=0, le=1, title="Features a split", description="Share of them that a split of a forest chooses among."
    )
    smallest_leaf: Count = Field(1, title="Smallest leaf", description="Training rows in a leaf of a forest.")
    class_weights: Literal["balanced", "none"] = Field(
        "balanced", title="Class weights", description="balanced weighs the loss by inverse class frequency."
    )
    bootstrap: Count = Field(1000, title="Bootstrap draws", description="For the intervals of the test scores.")

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"model.width {self.width} is not a multiple of model.heads {self.heads}")
        return self


class Method(Section):
    """One explanation method with its options, as ``get_explainer`` takes them."""

    method: str = Field(title="Method", description="A name that `ordeval list explainers` prints.")
    label: str = Field(
        "",
        pattern=r"^[\w .-]{0,100}$",
        title="Label",
        description="Its name in tables; by default made from the method's options.",
    )
    options: dict[str, Any] = Field({}, title="Options", description="The method's own options.")

    @model_validator(mode="before")
    @classmethod
    def _fold(cls, raw: Any) -> Any:
        if isinstance(raw, str):
            raw = {"method": raw}
        if not isinstance(raw, dict):
            return raw
        known = {"method", "label", "options"}
        folded = {key: value for key, value in raw.items() if key in known}
        options = {key: value for key, value in raw.items() if key not in known}
        given = raw.get("options")
        if given is not None and not isinstance(given, dict):
            raise ValueError(f"options is {given!r}; give a mapping, or write the options beside method")
        return folded | {"options": {**(given or {}), **options}}

    @model_validator(mode="after")
    def _exists(self) -> Self:
        explainer = get_explainer(self.method, **self.options)
        if not self.label:
            object.__setattr__(self, "label", explainer.label())
        return self


def default_methods() -> tuple[Method, ...]:
    """Return the methods of a study that names none: the project's own, and chance to compare with."""
    return (Method(method="ordshap"), Method(method="random"))


class Explain(Section):
    """What is explained, and how the work is cut."""

    samples: Count = Field(50, title="Explained samples", description="Stays of the test part.")
    output: Literal["probability", "log_probability", "logit"] = Field(
        "probability", title="Explained output", description="Of the predicted class: what the players share out."
    )
    players: Literal["tokens", "times", "words", "sentences"] = Field(
        "tokens",
        title="Players",
        description="times: the tokens of one hour are one player, a visit; words and sentences: of a text. Of an "
        "image the tokens are its pixels.",
    )
    removal: Literal["mask_token", "attention_mask", "drop_tokens"] = Field(
        "mask_token",
        title="Removal",
        description="What stands for an absent token: the mask token, a hidden token, or nothing.",
    )
    precision: Literal["full", "bfloat16", "float16"] = Field(
        "full", title="Precision", description="Of the evaluations; the error of mixed precision is in the audit."
    )
    budget_per_player: Count | None = Field(
        None,
        title="Evaluations a player",
        description="Every method with a budget gets this many times a sample's players; None: its own budget.",
    )
    background: Count | None = Field(
        None,
        title="Background rows",
        description="Tables: an absent feature is averaged over so many training rows; None: all.",
    )
    batch_tokens: Count | None = Field(None, title="Tokens a forward pass", description="None suits the device.")
    together: int = Field(
        1, ge=1, le=1024, title="Samples side by side", description="Of one shard; their requests share batches."
    )
    shard_size: Count = Field(8, title="Samples a shard", description="A killed run loses at most one shard a worker.")
    workers: int = Field(
        1, ge=1, le=64, title="Shards at a time", description="Threads; the result is the same for any number."
    )

    @model_validator(mode="after")
    def _one_at_a_time(self) -> Self:
        if self.budget_per_player is not None and self.together > 1:
            raise ValueError(
                f"explain.together is {self.together}, and with explain.budget_per_player each sample has a budget of "
                "its own; set explain.together=1"
            )
        return self


class Evaluate(Section):
    """The metrics and their grid."""

    metrics: tuple[str, ...] = Field(
        (
            "inc_auc",
            "exc_auc",
            "ins_auc",
            "del_auc",
            "inc_auc_fixed",
            "exc_auc_fixed",
            "ins_auc_fixed",
            "del_auc_fixed",
            "perm_auc",
            "log_odds_drop",
        ),
        min_length=1,
        title="Metrics",
        description="What the explanations are scored with.",
    )
    grid_step: int = Field(4, ge=1, le=100, title="Grid step", description="Percent of the players.")
    permutations: Count = Field(10, title="Permutations", description="Paired: the same for all methods.")

    @model_validator(mode="after")
    def _exist(self) -> Self:
        twice = sorted({name for name in self.metrics if self.metrics.count(name) > 1})
        if twice:
            raise ValueError(f"metrics names {twice[0]!r} twice; name it once")
        for name in self.metrics:
            get_metric(name, grid_step=self.grid_step, permutations=self.permutations)
        return self


class Timing(Section):
    """How cost is measured."""

    samples: Count = Field(5, title="Timed samples", description="Each timed alone, after a warm-up.")


class Report(Section):
    """What the report shows of single samples."""

    samples: int = Field(
        10, ge=0, title="Samples in detail", description="The first ones: with gamma, and tokens that can be moved."
    )
    moved_tokens: int = Field(
        10,
        ge=0,
        title="Tokens that can be moved",
        description="Of each sample in detail; a token takes as many evaluations as the sample has slots.",
    )


class Study(Section):
    """One study: data, model, explainers, metrics."""

    name: str = Field(
        title="Name", description="Names the MLflow experiment.", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$"
    )
    seed: int = Field(0, ge=0, title="Seed", description="Of every draw: split, weights, explanations, permutations.")
    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", title="Device", description="auto takes CUDA if there is one."
    )
    storage: Path = Field(
        Path("ordeval-store"), title="Storage", description="Folder of stage outputs on this machine."
    )
    tracking_uri: str = Field("", title="MLflow tracking URI", description="Empty: sqlite in the storage folder.")
    data: Data = Field(Data(), title="Data")
    model: Model = Field(Model(), title="Model")
    explainers: tuple[Method, ...] = Field(
        default_factory=default_methods,
        title="Explainers",
        description="The methods that are compared, each under its own label.",
    )
    explain: Explain = Field(Explain(), title="Explain")
    evaluate: Evaluate = Field(Evaluate(), title="Evaluate")
    timing: Timing = Field(Timing(), title="Timing")
    report: Report = Field(Report(), title="Report")

    @model_validator(mode="after")
    def _labels_differ(self) -> Self:
        labels = [method.label for method in self.explainers]
        twice = sorted({label for label in labels if labels.count(label) > 1})
        if twice:
            raise ValueError(f"two explainers are called {twice[0]!r}; give each its own label")
        if not labels:
            raise ValueError("explainers is empty; name at least one (ordeval list explainers)")
        return self
