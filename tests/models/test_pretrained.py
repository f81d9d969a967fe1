"""Trained networks by name: what is written comes back, and what is damaged, missing or exchanged is noticed."""

import hashlib
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from minicnn import nn
from minicnn.data.augment import Normaliser
from minicnn.data.cifar import load
from minicnn.data.dataset import DataError
from minicnn.data.files import cache_folder
from minicnn.models import Classifier, convpool, pretrained
from minicnn.models.pretrained import FOLDER, Card, find, names, read_card, write_pretrained
from tests.devices import on_devices

DOCUMENTS = Path(__file__).parents[2] / "docs"
NETWORK = {"act": "crelu", "width": "half", "scale": 0.05, "classes": 4}
CARD = Card(
    label="CReLU (half x0.05)", parameters=3, builder="convpool", arguments=NETWORK, dataset="textures",
    classes=["a", "b", "c", "d"], train_images=32, test_images=24, mean=[0.5, 0.25, 0.75], std=[0.5, 0.25, 1.0],
    side=32, crop=32, settings={"recipe": "short", "subset": None}, command="python -m experiments.cifar",
    seconds=90.0, computed={"device": "cpu"}, train_error=50.0, test_error=62.5, limits=["It knows nothing."],
)  # fmt: skip


@pytest.fixture
def model():
    return convpool(**NETWORK, seed=7)


@pytest.fixture
def path(tmp_path, model):
    write_pretrained(tmp_path / "tiny.npz", model.state_dict(), CARD)
    return tmp_path / "tiny.npz"


def test_a_network_comes_back(path, model):
    network = pretrained("tiny", folder=path.parent)
    x = np.random.default_rng(0).standard_normal((2, 32, 32, 3)).astype(np.float32)
    np.testing.assert_array_equal(network.model(x).numpy(), model(x).numpy())
    assert (network.classes, network.side, network.input_shape) == (("a", "b", "c", "d"), 32, (32, 32, 3))
    assert network.normalise.mean == (0.5, 0.25, 0.75)
    np.testing.assert_array_equal(pretrained(path).model(x).numpy(), model(x).numpy())
    assert names(path.parent) == ["tiny"]
    assert sorted(p.name for p in path.parent.iterdir()) == ["tiny.json", "tiny.md", "tiny.npz"]


@on_devices
def test_a_network_computes_where_it_is_put(path, device):
    network, images = (
        pretrained(path, device=device),
        np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8),
    )
    assert network.device is device
    np.testing.assert_allclose(network.probabilities(images), pretrained(path).probabilities(images), rtol=1e-4)


def test_the_card_says_what_it_is(path):
    card = read_card(path)
    assert card.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert replace(card, sha256="") == CARD
    text = path.with_suffix(".md").read_text()
    for words in (
        "62.50 % of 24 images",
        "`python -m experiments.cifar`",
        card.sha256,
        "recipe short",
        "It knows nothing",
    ):
        assert words in text
    assert "subset" not in text


def test_writing_it_again_leaves_nothing_else(path, model):
    again = write_pretrained(path, model.state_dict(), CARD)
    assert again == read_card(path)
    assert len(list(path.parent.iterdir())) == 3


def test_a_full_disk_leaves_no_weights_without_a_card(tmp_path, model, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(sys.modules["minicnn.models.pretrained"], "atomic_write_text", full)
    with pytest.raises(OSError, match="No space left"):
        write_pretrained(tmp_path / "tiny.npz", model.state_dict(), CARD)
    assert not list(tmp_path.iterdir())


def test_names_that_are_not_there_are_answered_with_those_that_are(path, tmp_path):
    with pytest.raises(DataError, match="no trained network 'huge' in .*: there are tiny.  experiments.export"):
        pretrained("huge", folder=path.parent)
    with pytest.raises(DataError, match="no trained network 'huge' in .*: there are tiny"):
        find(path.with_name("huge.npz"))
    with pytest.raises(DataError, match="there are none yet"):
        pretrained("tiny", folder=tmp_path / "nowhere")
    path.with_suffix(".json").unlink()
    with pytest.raises(DataError, match="has no card tiny.json beside it"):
        pretrained(path)
    assert names(path.parent) == []


def test_another_file_is_noticed(path, model):
    """Also one that is whole, and fits the network."""
    card = path.with_suffix(".json").read_bytes()
    write_pretrained(path, convpool(**NETWORK, seed=8).state_dict(), CARD)
    path.with_suffix(".json").write_bytes(card)
    with pytest.raises(DataError, match="not the file that its card tiny.json describes"):
        pretrained(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="not the file"):
        pretrained(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arguments": {**NETWORK, "scale": 0.1}}, "does not hold the weights of its card"),
        ({"arguments": {**NETWORK, "colour": "red"}}, "does not hold the weights of its card"),
        ({"arguments": {**NETWORK, "scale": 1e9}}, "scale is 1000000000.0"),
        ({"arguments": {**NETWORK, "scale": "wide"}}, "damaged"),
        ({"arguments": {**NETWORK, "classes": 10**9}}, "has 4 classes, its network 1000000000"),
        ({"arguments": {**NETWORK, "act": ["crelu"]}}, "does not hold the weights of its card"),
        ({"builder": "eval"}, "damaged .builder is 'eval'"),
        ({"std": [0.5, 0.0, 1.0]}, "must be finite and positive"),
        ({"mean": [0.5, 125.3, 0.5]}, "mean must be that of values 0 .. 1"),
        ({"mean": [0.5]}, "three colours"),
        ({"classes": [1, 2, 3, 4]}, "not words"),
        ({"test_error": "low"}, "test_error is 'low'"),
        ({"side": True}, "side is True"),
        ({"crop": 1, "side": 1}, "does not hold the weights of its card: max_pool2d"),
        ({"crop": -1}, "side and crop are 32 and -1"),
        ({"side": 10**6}, "side and crop are 1000000 and 32"),
        ({"more": 1}, "entries of a card"),
    ],
)
def test_cards_that_are_damaged(path, change, words):
    stored = json.loads(path.with_suffix(".json").read_text())
    path.with_suffix(".json").write_text(json.dumps(stored | change))
    with pytest.raises(DataError, match=words):
        pretrained(path)


def test_nothing_is_ever_unpickled(path):
    """Weights that would run a program are refused, even with a card for them."""

    class Malice:
        def __reduce__(self):
            return sys.exit, (7,)

    np.savez(path, conv1=np.array([Malice()], dtype=object))
    stored = json.loads(path.with_suffix(".json").read_text())
    stored["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    path.with_suffix(".json").write_text(json.dumps(stored))
    with pytest.raises(DataError, match="does not hold the weights"):
        pretrained(path)


def test_those_that_come_with_minicnn_are_whole():
    assert {"avr-base", "crelu-base", "crelu-half", "crelu-sprint", "relu-base"} <= set(names())
    for name in names():
        card = read_card(find(name))
        assert (FOLDER / f"{name}.md").read_text() == card.markdown(name)
        network = pretrained(name)
        assert network.probabilities(np.zeros((1, card.side, card.side, 3), np.uint8)).shape == (1, len(card.classes))
    assert {p.stem for p in FOLDER.glob("*.npz")} == set(names())


@pytest.mark.parametrize("document", ["use.md", "findings.md"])
def test_documents_state_what_the_cards_say(document):
    """The page on use has all networks, the findings those of the paper."""
    lines = (DOCUMENTS / document).read_text().splitlines()
    rows = [re.findall(r"[^|]+", line) for line in lines if "/models/weights/" in line]
    stated = {re.search(r"\[(.+)\]", row[0])[1]: [cell.strip() for cell in row[1:]] for row in rows if len(row) == 6}
    known = {name for name in names() if document == "use.md" or read_card(find(name)).builder == "convpool"}
    assert stated.keys() == known
    for name, cells in stated.items():
        card = read_card(find(name))
        errors = [f"{error:.2f}" for error in (card.train_error, card.test_error)]
        assert cells == [card.label, f"{card.parameters:,}", str(card.settings["epochs"]), *errors]


@pytest.mark.parametrize("name", names())
def test_those_that_come_with_minicnn_are_as_good_as_their_cards_say(name):
    """On 1,000 real test images; experiments.evaluate looks at all."""
    card, count = read_card(find(name)), 1000
    try:
        data = load(card.dataset, download=False)
    except DataError:
        pytest.skip(f"{card.dataset} is not in {cache_folder()}")
    probabilities = pretrained(name).probabilities(data.test_images[:count])
    wrong, stated = (probabilities.argmax(axis=1) != data.test_labels[:count]).mean(), card.test_error / 100
    assert abs(wrong - stated) < 4 * (stated * (1 - stated) / count) ** 0.5
    assert tuple(card.classes) == data.classes


# --- the Classifier ---


def test_probabilities_by_hand(tmp_path):
    """One linear layer on the mean of the picture: softmax of the normalised means, times 2."""
    model = nn.Sequential(pool=nn.GlobalAvgPool(), fc=nn.Linear(3, 3, bias=False))
    model["fc"].weight.data[:] = 2 * np.eye(3)
    network = Classifier(model, Normaliser((0.0, 0.2, 0.4), (1.0, 0.5, 1.0)), ("red", "green", "blue"), 4, 4)
    Image.new("RGB", (9, 7), (51, 51, 204)).save(tmp_path / "x.png")  # 0.2, 0.2, 0.8
    logits = np.array([2 * 0.2, 2 * 0.0, 2 * 0.4])
    expected = np.exp(logits) / np.exp(logits).sum()
    ((first, second),) = network.predict(tmp_path / "x.png", count=2)
    assert first == ("blue", pytest.approx(expected[2], rel=1e-5))
    assert second == ("red", pytest.approx(expected[0], rel=1e-5))
    assert network.predict() == []


def test_among_equals_the_first_class_comes_first():
    network = Classifier(convpool(scale=0.02), None, ("a", "b", "c"), 32, 32)
    assert network.best(np.array([0.2, 0.4, 0.4]), 2) == [("b", 0.4), ("c", 0.4)]


@pytest.mark.parametrize(
    ("images", "error", "words"),
    [
        (np.zeros((1, 32, 32, 3)), TypeError, r"must be uint8, \(N, H, W, C\), got float64"),
        (np.zeros((32, 32, 3), np.uint8), ValueError, r"must have four axes, \(N, H, W, C\), got \(32, 32, 3\)"),
        (np.zeros((1, 3, 32, 32), np.uint8), ValueError, r"\(1, 3, 32, 32\) looks like \(N, C, H, W\)"),
        (np.zeros((1, 28, 28, 3), np.uint8), ValueError, r"shape \(N, 32, 32, 3\), got \(1, 28, 28, 3\)"),
    ],
)
def test_images_of_another_kind_are_refused(path, images, error, words):
    with pytest.raises(error, match=words):
        pretrained(path).probabilities(images)


def test_what_predict_does_not_take(path):
    network = pretrained(path)
    with pytest.raises(TypeError, match=r"takes names of files, .*, got list"):
        network.predict(["a.jpg", "b.jpg"])
    with pytest.raises(TypeError, match="got ndarray; arrays of images are for `probabilities`"):
        network.predict(np.zeros((1, 32, 32, 3), np.uint8))
    with pytest.raises(ValueError, match="count must be at least 1, got -1"):  # all but the last, for NumPy
        network.best(np.array([0.2, 0.4, 0.4]), -1)
