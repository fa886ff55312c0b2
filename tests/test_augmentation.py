"""Varied training images and texts: what may change, how often, where, and who is refused."""

from __future__ import annotations

import pytest
import torch

from conf.schema import Model
from tasks.content import Content
from tasks.train.augmentation import LEFT_OUT, augmented, without_words
from tasks.train.building import build, check_fits
from tasks.train.training import Collator, PixelCollator
from tasks.vocabulary import Vocabulary

TEXT = Content("text", ("bad", "good"), longest=150)
IMAGE = Content("image", ("3", "8"), shape=(1, 28, 28), reference=(0.1,), spread=(0.3,))
EVENTS = Content("events", ("0", "1"), longest=12)
TABLE = Content("table", ("0", "1"), features=("a", "b"))
VOCABULARY = Vocabulary(("[PAD]", "[CLS]", "[MASK]", "[UNK]", *"abcdefghij"), 0, 1, 2, 3)


@pytest.fixture(autouse=True)
def _same_draws():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


def test_words_are_left_out_whole_and_one_in_five():
    tokens, words = list(range(60)), [place // 3 for place in range(60)]
    stayed = torch.zeros(60)
    for _ in range(2000):
        left = without_words(tokens, words)
        assert left == sorted(left) and len(left) % 3 == 0
        assert all(token // 3 * 3 in left for token in left)
        stayed[left] += 1
    shares = stayed / 2000  # of 2,000 draws the deviation is 0.009
    assert torch.allclose(shares, torch.full((60,), 1 - LEFT_OUT), atol=0.045)
    assert abs(float(shares.mean()) - 0.8) < 0.01


def test_some_word_always_stays():
    assert {tuple(without_words([7, 8], [0, 0])) for _ in range(100)} == {(7, 8)}
    assert {tuple(without_words([7, 8], [0, 1])) for _ in range(300)} == {(7,), (8,), (7, 8)}


def test_texts_vary_in_training_only():
    network = build(Model(architecture="char_cnn"), TEXT, VOCABULARY)
    collator = Collator(network, (), 0, "leave_words_out")
    batch = [{"input_ids": [5, 4, 6, 4] * 20, "words": [place // 2 for place in range(80)], "labels": 1}] * 2
    network.train()
    lengths = {int(collator(batch)["attention_mask"].sum()) for _ in range(5)}
    assert len(lengths) > 1 and max(lengths) < 160
    network.eval()
    assert collator(batch)["input_ids"].tolist() == [[5, 4, 6, 4] * 20] * 2
    assert Collator(network.train(), (), 0, "none")(batch)["input_ids"].tolist() == [[5, 4, 6, 4] * 20] * 2


def test_images_move_by_two_pixels_at_most_and_mirror_where_asked():
    pixels = torch.zeros(400, 1, 28, 28)
    pixels[:, 0, 10, 12] = 1
    for kind, columns in (("shift", set(range(10, 15))), ("shift_flip", {*range(10, 15), *range(13, 18)})):
        places = augmented(pixels, kind).nonzero()
        assert len(places) == 400
        assert set(places[:, 2].tolist()) == set(range(8, 13))
        assert set(places[:, 3].tolist()) == columns
    assert augmented(pixels, "none") is pixels
    with pytest.raises(ValueError, match="'flip'; it is none, shift or shift_flip"):
        augmented(pixels, "flip")


def test_images_vary_in_training_only():
    network = build(Model(architecture="digit_cnn"), IMAGE, None)
    image = torch.randint(0, 256, (1, 28, 28), dtype=torch.uint8).numpy()
    collator = PixelCollator(network, "shift")
    still = torch.from_numpy(image).float() / 255
    network.eval()
    assert torch.equal(collator([{"pixel_values": image, "labels": 0}])["pixel_values"][0], still)
    network.train()
    found = [collator([{"pixel_values": image, "labels": 0}])["pixel_values"][0] for _ in range(5)]
    assert not all(torch.equal(each, still) for each in found)


@pytest.mark.parametrize(
    ("content", "architecture", "augment", "said"),
    [
        (TEXT, "char_cnn", "shift", "'shift', which does not vary texts; take none or leave_words_out"),
        (EVENTS, "bert", "leave_words_out", "does not vary events; take none$"),
        (IMAGE, "digit_cnn", "leave_words_out", "does not vary images; take none or shift or shift_flip$"),
        (TABLE, "mlp", "shift_flip", "does not vary a table; take none$"),
    ],
)
def test_what_cannot_be_varied_is_refused(content, architecture, augment, said):
    with pytest.raises(ValueError, match=said):
        check_fits(Model(architecture=architecture, augment=augment), content)


@pytest.mark.parametrize(("content", "architecture"), [(TEXT, "word_cnn"), (EVENTS, "char_cnn"), (IMAGE, "digit_cnn")])
def test_only_a_char_cnn_on_texts_starts_from_words(content, architecture):
    check_fits(Model(architecture="char_cnn", first_filters="word_beginnings"), TEXT)
    with pytest.raises(ValueError, match=r"model.first_filters is 'word_beginnings'.*" + architecture):
        check_fits(Model(architecture=architecture, first_filters="word_beginnings"), content)
