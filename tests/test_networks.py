"""The networks: parameters by hand, padding that changes nothing, both ways in, gradients, and a copy that reloads."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import PreTrainedModel

from tasks.train.networks import NETWORKS, network_file
from tasks.train.networks.bilstm import ends

CLASSES, ROWS, WORDS = 3, 4, 9
TEXT = ("word_cnn", "char_cnn", "bilstm")
IMAGES = ("digit_cnn", "object_cnn")
# forests and known functions are set, not learnt: tests/test_tables.py
SMALL: dict[str, dict[str, Any]] = {
    "word_cnn": {"vocab_size": 20, "embedding_size": 6, "filters": 12, "dense": 10, "max_position_embeddings": 40},
    "char_cnn": {
        "vocab_size": 20,
        "filters": 16,
        "dense": 24,
        "max_position_embeddings": 150,
        "initializer_range": 0.2,
    },
    "bilstm": {"vocab_size": 20, "embedding_size": 6, "hidden_size": 8, "max_position_embeddings": 40},
    "digit_cnn": {"mean": [0.2], "std": [0.4]},
    "object_cnn": {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.1]},
    "mlp": {"num_features": 7},
}


def network(name: str, **options: Any) -> PreTrainedModel:
    kind = NETWORKS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(kind.config_class(num_labels=CLASSES, **(SMALL[name] | options))).eval()


def inputs(name: str) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    if name in TEXT:
        return {"input_ids": torch.randint(1, 20, (ROWS, WORDS), generator=draw)}
    if name == "mlp":
        return {"features": torch.rand(ROWS, 7, generator=draw)}
    size = (1, 28, 28) if name == "digit_cnn" else (3, 32, 32)
    return {"pixel_values": torch.rand(ROWS, *size, generator=draw)}


def logits(model: PreTrainedModel, **given: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(**given).logits


@pytest.mark.parametrize("name", SMALL)
def test_logits_have_a_row_an_input_and_a_column_a_class(name):
    model = network(name)
    found = logits(model, **inputs(name))
    assert found.shape == (ROWS, CLASSES)
    assert len(found.unique(dim=0)) == ROWS
    for row in range(ROWS):  # rows know nothing of each other
        alone = logits(model, **{key: value[row : row + 1] for key, value in inputs(name).items()})
        torch.testing.assert_close(alone[0], found[row], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("word_cnn", {"vocab_size": 1000}, 1000 * 50 + (250 * 50 * 3 + 250) + (250 * 250 + 250) + 3 * 251),
        (
            "char_cnn",
            {"vocab_size": 70, "max_position_embeddings": 1014},
            70 * 69
            + (256 * 69 * 7 + 256)
            + (256 * 256 * 7 + 256)
            + 4 * (256 * 256 * 3 + 256)
            + (34 * 256 * 1024 + 1024)
            + (1024 * 1024 + 1024)
            + 3 * 1025,
        ),
        ("bilstm", {"vocab_size": 1000}, 1000 * 300 + 2 * 4 * (256 * 300 + 256 * 256 + 2 * 256) + 3 * 513),
        ("digit_cnn", {}, (8 * 25 + 8) + (16 * 8 * 25 + 16) + 3 * (16 * 4 * 4 + 1)),
        (
            "object_cnn",
            {},
            (48 * 3 * 9 + 48)
            + (48 * 48 * 9 + 48)
            + (96 * 48 * 9 + 96)
            + (96 * 96 * 9 + 96)
            + (192 * 96 * 9 + 192)
            + (192 * 192 * 9 + 192)
            + (192 * 4 * 4 * 512 + 512)
            + (512 * 256 + 256)
            + 3 * 257,
        ),
        ("mlp", {"num_features": 1000}, (1000 * 16 + 16) + (16 * 16 + 16) + 3 * 17),
    ],
)
def test_the_default_shape_is_the_papers(name, options, count):
    kind = NETWORKS[name]
    assert kind(kind.config_class(num_labels=CLASSES, **options)).num_parameters() == count


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("extra", [1, 2, 30])
def test_trailing_padding_changes_nothing(name, extra):
    model, tokens = network(name), inputs(name)["input_ids"]
    mask = functional.pad(torch.ones_like(tokens), (0, extra))
    padded = logits(model, input_ids=functional.pad(tokens, (0, extra)), attention_mask=mask)
    torch.testing.assert_close(padded, logits(model, input_ids=tokens))
    behind = logits(model, input_ids=functional.pad(tokens, (0, extra), value=5), attention_mask=mask)
    torch.testing.assert_close(behind, padded)


@pytest.mark.parametrize("name", ["word_cnn", "char_cnn"])
@pytest.mark.parametrize("length", [0, 1, 2, WORDS])
def test_the_convolutions_need_no_mask_and_take_texts_of_any_length(name, length):
    model, tokens = network(name), inputs(name)["input_ids"][:, :length]
    padded = logits(model, input_ids=functional.pad(tokens, (0, 17)))
    torch.testing.assert_close(logits(model, input_ids=tokens), padded)


@pytest.mark.parametrize("name", TEXT)
def test_a_batch_of_ragged_rows_equals_the_rows_alone(name):
    model, tokens = network(name), inputs(name)["input_ids"]
    lengths = torch.tensor([3, WORDS, 1, 6])
    mask = (torch.arange(WORDS) < lengths[:, None]).long()
    together = logits(model, input_ids=tokens * mask, attention_mask=mask)
    alone = torch.cat([logits(model, input_ids=tokens[row : row + 1, : lengths[row]]) for row in range(ROWS)])
    torch.testing.assert_close(together, alone)


@pytest.mark.parametrize("name", TEXT)
def test_a_word_hidden_by_the_mask_is_a_padding_word(name):
    model, tokens = network(name), inputs(name)["input_ids"]
    mask = torch.ones_like(tokens)
    mask[:, 2] = mask[:, 4] = 0
    hidden = logits(model, input_ids=tokens, attention_mask=mask)
    torch.testing.assert_close(hidden, logits(model, input_ids=tokens * mask))
    assert not torch.allclose(hidden, logits(model, input_ids=tokens))


@pytest.mark.parametrize("name", TEXT)
def test_a_text_without_words_is_one_text(name):
    model = network(name)
    none = logits(model, input_ids=torch.zeros(2, 0, dtype=torch.long))
    nothing = torch.zeros(2, 5, dtype=torch.long)
    torch.testing.assert_close(none, logits(model, input_ids=nothing, attention_mask=nothing))
    assert none.isfinite().all()


def test_where_a_text_ends():
    assert ends(torch.tensor([[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]])).tolist() == [2, 3, 1, 4]
    assert ends(torch.ones(2, 0)).tolist() == [1, 1]


@pytest.mark.parametrize("name", TEXT)
def test_embeddings_give_what_their_words_give(name):
    model, tokens = network(name), inputs(name)["input_ids"]
    mask = torch.ones_like(tokens)
    mask[1, 5:] = 0
    embeddings = model.get_input_embeddings()(tokens)
    for given in ({}, {"attention_mask": mask}):
        by_words = logits(model, input_ids=tokens, **given)
        assert torch.equal(by_words, logits(model, inputs_embeds=embeddings, **given))
    for wrong in ({}, {"input_ids": tokens, "inputs_embeds": embeddings}):
        with pytest.raises(ValueError, match="either input_ids or inputs_embeds"):
            model(**wrong)


@pytest.mark.parametrize("name", TEXT)
def test_the_gradient_reaches_every_word(name):
    model, tokens = network(name, filters=64) if name == "word_cnn" else network(name), inputs(name)["input_ids"]
    embeddings = model.get_input_embeddings()(tokens).detach().requires_grad_()
    model(inputs_embeds=embeddings).logits[:, 0].sum().backward()
    assert (embeddings.grad.abs().amax(dim=2) > 0).all()


@pytest.mark.parametrize("name", IMAGES)
def test_the_gradient_reaches_every_pixel(name):
    model, pixels = network(name), inputs(name)["pixel_values"].requires_grad_()
    model(pixel_values=pixels).logits[:, 0].sum().backward()
    assert (pixels.grad.abs().amax(dim=1) > 0).double().mean() > 0.9


@pytest.mark.parametrize("name", TEXT)
def test_the_padding_vector_is_zero_and_stays_zero(name):
    model = network(name).train()
    weight = model.get_input_embeddings().weight
    before = weight.detach().clone()
    tokens = functional.pad(inputs(name)["input_ids"], (0, 4))
    optimiser = torch.optim.RMSprop([each for each in model.parameters() if each.requires_grad], 0.1, weight_decay=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        model(input_ids=tokens, labels=torch.tensor([0, 1, 2, 0])).loss.backward()
        optimiser.step()
    assert not before[0].any()
    assert not weight[0].any()
    if name == "char_cnn":  # one-hot: characters have no weights of their own
        assert torch.equal(weight[1:], torch.eye(19))
    else:
        assert not torch.equal(weight, before)


@pytest.mark.parametrize("name", IMAGES)
def test_pixels_are_normalised_inside(name):
    model, plain = network(name), network(name, mean=[0.0] * 3, std=[1.0] * 3)
    if name == "digit_cnn":
        plain = network(name, mean=[0.0], std=[1.0])
    plain.load_state_dict(model.state_dict())
    pixels = inputs(name)["pixel_values"]
    mean, deviation = (torch.tensor(SMALL[name][key]).view(1, -1, 1, 1) for key in ("mean", "std"))
    outside = logits(plain, pixel_values=(pixels - mean) / deviation)
    torch.testing.assert_close(logits(model, pixel_values=pixels), outside)
    assert not torch.allclose(logits(plain, pixel_values=pixels), outside)


@pytest.mark.parametrize("name", SMALL)
def test_it_learns_and_its_loss_is_the_cross_entropy(name):
    quiet = {key: 0.0 for key in ("dropout", "dense_dropout") if hasattr(NETWORKS[name].config_class(), key)}
    model, given, labels = network(name, **quiet), inputs(name), torch.tensor([0, 1, 2, 0])
    loss = model(**given, labels=labels).loss
    torch.testing.assert_close(loss, functional.cross_entropy(model(**given).logits, labels))
    optimiser = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], 3e-3)
    for _ in range(200):
        optimiser.zero_grad()
        loss = model(**given, labels=labels).loss
        if loss < 0.05:
            break
        loss.backward()
        optimiser.step()
    assert logits(model, **given).argmax(1).tolist() == labels.tolist()


def test_a_char_cnns_first_filters_start_from_frequent_words():
    blank, word = 4, [5, 6, 7, 8, 9, 10]
    long, other, short = [*word, blank], [11, *word[1:], blank], [5, 6, blank]
    texts = [[*long, *other, *long, *short], [*short, *long, *other, *other, *short, *short]]
    words = [[0] * 7 + [1] * 7 + [2] * 7 + [3] * 3, [0] * 3 + [1] * 7 + [2] * 7 + [3] * 7 + [4] * 3 + [5] * 3]
    model = network("char_cnn")
    before = model.convolutions[0].weight.detach().clone()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model.start_from_words(texts, words)
    first = model.convolutions[0]
    assert torch.equal(first.weight[2:], before[2:]) and not first.bias[2:].any()  # there are two beginnings only
    with torch.no_grad():
        for beginning in ([blank, *word], [blank, 11, *word[1:]]):
            found = first(model.embedding(torch.tensor([beginning])).transpose(1, 2))[0, :2, 0]
            torch.testing.assert_close(found.sort().values, torch.tensor([4 / 3, 5 / 3]))
        half = [blank, 5, 6, 19, 19, 19, 19], [blank, 5, 19, 19, 19, 19, 19]
        ends_with_three, ends_with_two = (
            first(model.embedding(torch.tensor([given])).transpose(1, 2))[0, :2, 0].max() for given in half
        )
    torch.testing.assert_close(ends_with_three, torch.tensor(1 / 3))
    torch.testing.assert_close(ends_with_two, torch.tensor(0.0))


def test_filters_do_not_start_from_words_where_tokens_are_words():
    with pytest.raises(ValueError, match="no training text has a second word of 4 characters or more"):
        network("char_cnn").start_from_words([list(range(4, 20))], [list(range(16))])


def test_the_most_frequent_beginnings_are_drawn_from_whatever_the_texts_order():
    draw = torch.Generator().manual_seed(3)
    texts, words = [], []
    for _ in range(50):
        rows = [[*torch.randint(5, 20, (6,), generator=draw).tolist(), 4] for _ in range(15)]
        texts.append([token for row in rows for token in row])
        words.append([place for place in range(15) for _ in range(7)])
    models = [network("char_cnn"), network("char_cnn")]
    for model, step in zip(models, (1, -1), strict=True):
        with torch.random.fork_rng():
            torch.manual_seed(5)
            model.start_from_words(texts[::step], words[::step])
    weights = [model.convolutions[0].weight for model in models]
    assert torch.equal(*weights)
    torch.testing.assert_close(weights[0].sum((1, 2)), torch.full((16,), 7 / 3))
    assert len(weights[0].flatten(1).unique(dim=0)) == 16


RELOAD = """
import importlib, pathlib, sys, torch
folder = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(folder))
from safetensors.torch import load_file, save_file
for path in sorted(folder.glob("*.py")):
    kind = getattr(importlib.import_module(path.stem), (folder / path.stem / "class").read_text())
    model = kind.from_pretrained(folder / path.stem, local_files_only=True).eval()
    with torch.no_grad():
        logits = model(**load_file(folder / path.stem / "inputs")).logits
    save_file({"logits": logits}, folder / path.stem / "logits")
    assert model.config.model_type == "ordeval-" + path.stem.replace("_", "-")
assert not {"tasks", "explainers", "conf", "flows"} & set(sys.modules), "it needs ordeval"
"""


def test_copies_of_the_files_reload_in_a_process_without_ordeval(tmp_path):
    models = {name: network(name) for name in SMALL}
    for name, model in models.items():
        with torch.no_grad():  # no weight is as it was drawn, the padding vector apart
            for parameter in model.parameters():
                parameter[parameter != 0] *= 1.25
        model.save_pretrained(tmp_path / name)
        assert (tmp_path / name / "model.safetensors").is_file()
        shutil.copy(network_file(name), tmp_path)
        save_file(inputs(name), tmp_path / name / "inputs")
        (tmp_path / name / "class").write_text(type(model).__name__)
    subprocess.run([sys.executable, "-I", "-c", RELOAD, str(tmp_path)], check=True, cwd=tmp_path, timeout=300)
    for name, model in models.items():
        reloaded = load_file(tmp_path / name / "logits")["logits"]
        torch.testing.assert_close(reloaded, logits(model, **inputs(name)), rtol=1e-5, atol=1e-5)


def test_texts_and_images_of_the_wrong_size_are_refused():
    with pytest.raises(ValueError, match="151 characters and the model takes 150"):
        network("char_cnn")(input_ids=torch.ones(1, 151, dtype=torch.long))
    with pytest.raises(ValueError, match="make it 123 or more"):
        network("char_cnn", max_position_embeddings=122)
    assert network("char_cnn", max_position_embeddings=123)(input_ids=torch.ones(1, 123, dtype=torch.long))
    for name in IMAGES:
        with pytest.raises(ValueError, match=r"shape \(1, 2, 28, 28\)"):
            network(name)(pixel_values=torch.zeros(1, 2, 28, 28))
    with pytest.raises(ValueError, match="too small"):
        network("digit_cnn", height=15)
    with pytest.raises(ValueError, match="both sides are 8 or more"):
        network("object_cnn", width=7)
    with pytest.raises(ValueError, match=r"shape \(1, 6\), and the model takes \(rows, 7\)"):
        network("mlp")(features=torch.zeros(1, 6))


def test_files_are_found_by_name():
    assert {name: network_file(name).name for name in NETWORKS} == {name: f"{name}.py" for name in NETWORKS}
    with pytest.raises(ValueError, match="no network 'resnet'; it is one of: word_cnn"):
        network_file("resnet")
