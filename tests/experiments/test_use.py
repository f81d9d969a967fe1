"""The commands that use a trained network: predict, evaluate, export; and analyses of one with a card."""

import io
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image
from safetensors.numpy import load_file, save_file

from experiments import evaluate, export, injectivity, pairing, predict, regularisation
from experiments.cli.app import UsageError
from experiments.figures.phases import responses
from experiments.train.run import open_run
from minicnn import nn
from minicnn.backend import CPU as HOST
from minicnn.checkpoint import load
from minicnn.data.augment import Normaliser
from minicnn.data.dataset import DataError
from minicnn.data.textures import textures
from minicnn.exchange import write
from minicnn.models import Classifier, convpool, pretrained
from minicnn.models.pretrained import names
from tests.data.photos import photo, write_bad_files, write_odd_files
from tests.hardening.workshop import few_textures, train

CPU = ["--device", "cpu"]


@pytest.fixture(scope="module", autouse=True)
def _few():
    with few_textures():
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A network whose logits differ enough between pictures, and the test images that it was evaluated on."""
    folder = tmp_path_factory.mktemp("use") / "run"
    train(folder, "--act", "crelu", "--scale", "0.05", "--epochs", "4", "--subset", "64")
    return folder


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


@pytest.fixture
def card(run, tmp_path):
    """The weights of the run in a file with a card."""
    assert export.main(["--run", str(run), "--to", str(tmp_path / "tiny.npz"), *CPU]) == 0
    return tmp_path / "tiny.npz"


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def picture(folder, i, name="photo.png"):
    """A test image as a file, without loss."""
    Image.fromarray(textures(64, 24).test_images[i]).save(folder / name)
    return folder / name


# --- predict ---


def test_predictions_are_those_of_the_training(run, tmp_path, capsys):
    """The run left the softmax outputs of its test images: the same are shown, the largest first."""
    p = load(run / "predictions.npz")[0]["probabilities"]
    paths = [str(picture(tmp_path, i, f"{i}.png")) for i in (3, 11)]
    assert predict.main([*paths, "--run", str(run), "--top", "3", *CPU]) == 0
    head, *lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert head == "run: CReLU (base x0.05), trained on textures"
    classes = textures(64, 24).classes
    for i, path, shown in ((3, paths[0], lines[:4]), (11, paths[1], lines[4:])):
        assert shown[0] == path
        for line, label in zip(shown[1:], np.argsort(-p[i])[:3], strict=True):
            name, bar, share = re.fullmatch(r"  (\w[\w ]*?) +(█*) +([\d.]+) %", line).groups()
            assert (name, share) == (classes[label], f"{100 * p[i, label]:.1f}")
            assert len(bar) == round(30 * p[i, label])


def test_bad_files_do_not_stop_the_others(run, tmp_path, capsys):
    bad, odd = tmp_path / "bad", tmp_path / "odd"
    bad.mkdir()
    odd.mkdir()
    reasons, count = write_bad_files(bad), write_odd_files(odd)
    Image.fromarray(photo(np.random.default_rng(0), 1, 1)).save(odd / "dot.png")
    film = [Image.fromarray(photo(np.random.default_rng(i))) for i in range(3)]
    film[0].save(odd / "film.gif", save_all=True, append_images=film[1:])
    paths = [str(path) for folder in (bad, odd) for path in sorted(folder.iterdir())]
    assert predict.main([*paths, str(tmp_path), "--run", str(run), *CPU]) == 1
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert len(lines) == len(reasons) + 1
    assert lines[-1] == f"left out: {tmp_path}: it is a folder; name the pictures in it"
    for name, reason in reasons.items():
        assert any(line.startswith("left out: ") and name in line and reason in line for line in lines)
    assert out.count(" %\n") == 5 * (count + 2)
    assert "film.gif (the first of 3 frames)" in out
    assert "dot.png (1x1 pixels, enlarged)" in out
    assert "alpha.png (transparent parts on white)" in out
    assert "n\\xefcode" in out or "nïcode" in out


def test_bars_need_no_unicode(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    assert predict.bars([("a", 0.5), ("bcd", 0.01)]).splitlines() == [
        f"  a    {'#' * 15}{' ' * 15}  50.0 %",
        f"  bcd  {' ' * 30}   1.0 %",
    ]


def test_what_conv1_sees_is_drawn(run, tmp_path, capsys):
    (tmp_path / "other").mkdir()
    paths = [str(picture(tmp_path, 0)), str(picture(tmp_path / "other", 1))]
    assert predict.main([*paths, "--run", str(run), "--out", str(tmp_path / "out" / "below"), *CPU]) == 0
    drawn = sorted(path.name for path in (tmp_path / "out" / "below").iterdir())
    assert drawn == ["photo-2-conv1.png", "photo-conv1.png"]
    with Image.open(tmp_path / "out" / "below" / "photo-conv1.png") as sheet:
        assert min(sheet.size) > 200


def test_responses_by_hand():
    """A 1x1 filter: z = w . x + b, batch normalisation included; the second convolution does not count."""
    model = nn.Sequential(
        conv1=nn.Conv2d(3, 2, 1), bn=nn.BatchNorm(2), act=nn.AVR(), conv2=nn.Conv2d(2, 2, 1), end=nn.ReLU()
    )
    model["conv1"].weight.data[0, 0] = [[1, 0], [0, 2], [-1, 0]]
    model["conv1"].bias.data[:] = [0.5, 0]
    model["bn"].gamma.data[:] = [1, 3]
    network = Classifier(model, Normaliser((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)), ("a", "b"), 2, 2)
    image = np.array([[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [0, 0, 0]]], np.uint8)
    z, filters, two_sided = responses(network, image)
    np.testing.assert_allclose(z[..., 0], [[1.5, 0.5], [-0.5, 0.5]], rtol=1e-4)
    np.testing.assert_allclose(z[..., 1], [[0, 6], [0, 0]], rtol=1e-4)
    assert filters.shape == (1, 1, 3, 2)
    assert two_sided
    with pytest.raises(ValueError, match="no convolution with an activation"):
        responses(Classifier(nn.Sequential(nn.GlobalAvgPool()), network.normalise, ("a",), 2, 2), image)


# --- a run folder holds what predictions need ---


def test_config_has_the_moments_of_the_images_and_the_classes(run):
    config, data = json.loads((run / "config.json").read_text()), textures(64, 24)
    values = data.train_images / 255.0
    np.testing.assert_allclose(config["mean"], values.mean((0, 1, 2)), rtol=1e-9)
    np.testing.assert_allclose(config["std"], values.std((0, 1, 2)), rtol=1e-9)
    assert tuple(config["classes"]) == data.classes


def test_older_runs_ask_the_data_set(copy, monkeypatch, tmp_path):
    new = open_run(copy).classifier(HOST)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(
        json.dumps({k: v for k, v in config.items() if k not in ("mean", "std", "classes")})
    )
    old = open_run(copy).classifier(HOST)
    assert (old.normalise, old.classes) == (new.normalise, new.classes)

    def offline(where):
        raise DataError("there is no textures")

    monkeypatch.setattr("experiments.train.run.load_data", lambda name, where: offline(where))
    with pytest.raises(DataError, match="from an older version, without the mean.*--data names"):
        predict.main([str(picture(tmp_path, 0)), "--run", str(copy), *CPU])


@pytest.mark.parametrize(
    "values",
    [
        {"mean": None},
        {"mean": [1, 2]},
        {"mean": [1, 1, 2]},
        {"std": [0, 1, 1]},
        {"classes": ["a"]},
        {"classes": [1] * 10},
        {"std": "x"},
    ],
)
def test_damaged_values_are_named(copy, values):
    change(copy / "config.json", **values)
    with pytest.raises(UsageError, match="config.json is damaged: it has no usable mean, std and classes"):
        open_run(copy).classifier(HOST)


# --- evaluate ---


def test_the_error_is_the_stated_one(run, card, capsys):
    stated = json.loads((run / "result.json").read_text())["test_error"]
    for options in (["--run", str(run)], ["--weights", str(card), "--card", "--against", "onnx"]):
        assert evaluate.main([*options, *CPU]) == 0
    out = capsys.readouterr().out
    assert out.count(f" {stated:.2f}     {stated:.2f}") == 2
    assert re.search(rf"with onnx +{stated:.2f} +- +0\n", out)
    assert f"| test error | {stated:.2f} % of 24 images |" in out


def test_averaged_views_stand_beside_the_plain_error(run, capsys):
    """By the definition: softmax outputs of the views, their mean, the largest; mirror images as the run says, too."""
    assert evaluate.main(["--run", str(run), "--tta", *CPU]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = {words: float(line.split(words)[1].split()[0]) for words in ("mirror images", "six views")
             for line in lines if words in line}  # fmt: skip
    data = textures(64, 24)
    network, images = open_run(run).classifier(HOST), data.test_images
    padded = {flip: np.pad(images[:, :, :: 1 - 2 * flip], ((0, 0), (1, 1), (1, 1), (0, 0)), mode="reflect")
              for flip in (0, 1)}  # fmt: skip
    outputs = {(flip, at): network.probabilities(np.ascontiguousarray(padded[flip][:, at : at + 32, at : at + 32]))
               for flip in (0, 1) for at in (0, 1, 2)}  # fmt: skip
    for words, views in (("mirror images", [(0, 1), (1, 1)]), ("six views", list(outputs))):
        mean = sum(outputs[view] for view in views)
        assert found[words] == pytest.approx(100 * (mean.argmax(axis=1) != data.test_labels).mean(), abs=0.006)
    stated = json.loads((run / "result.json").read_text())["test_error_mirrored"]
    assert found["mirror images"] == pytest.approx(stated, abs=0.006)


@pytest.mark.parametrize(("rival", "missing"), [("onnx", "onnxruntime"), ("onnx", "onnx"), ("torch", "torch")])
def test_a_missing_program_is_named_before_anything_is_computed(rival, missing, run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=rf"--against {rival} needs .*: pip install .*\b{missing}\b"):
        evaluate.main(["--run", str(run), "--against", rival, *CPU])
    assert "test images" not in capsys.readouterr().err


def test_another_error_is_a_failure(copy, card, capsys):
    result = json.loads((copy / "result.json").read_text())
    change(copy / "result.json", test_error=result["test_error"] + 4.0)
    assert evaluate.main(["--run", str(copy), *CPU]) == 1
    assert "differ by more than 0.1 points" in capsys.readouterr().out
    with pytest.raises(UsageError, match="but its weights have"):
        export.main(["--run", str(copy), "--to", str(copy / "new.npz"), *CPU])
    assert not (copy / "new.npz").exists()
    change(card.with_suffix(".json"), test_error=result["test_error"] - 4.0)
    assert evaluate.main(["--weights", str(card), *CPU]) == 1
    assert evaluate.main(["--weights", str(card), "--subset", "5", *CPU]) == 0  # which states nothing


def test_a_run_has_no_card(run):
    with pytest.raises(UsageError, match="--card is for --weights"):
        evaluate.main(["--run", str(run), "--card", *CPU])


def test_classes_of_another_data_set_are_refused(copy):
    change(copy / "config.json", classes=[f"class {i}" for i in range(10)])
    with pytest.raises(UsageError, match="the classes of textures are not those of run"):
        evaluate.main(["--run", str(copy), *CPU])


def test_a_damaged_run_is_not_blamed_on_an_option(copy):
    (copy / "config.json").write_text("{half")
    with pytest.raises(UsageError, match=r"config.json is damaged \(.*\); get a new copy of it, or remove its folder$"):
        predict.main(["x.jpg", "--run", str(copy), *CPU])


def test_a_web_address_is_no_file(ends):
    code, err = ends(predict.main, "experiments.predict", "https://host/cat.jpg", *CPU)
    assert code == 2
    assert "error: argument FILE: https://host/cat.jpg is a web address: download the picture first" in err


def test_a_picture_that_is_missing_is_not_suspected_of_being_a_link(run, tmp_path, ends):
    (tmp_path / "link.jpg").symlink_to(tmp_path / "nowhere")
    for name, why in (("missing.jpg", "there is no such file"), ("link.jpg", "it is a link that leads nowhere")):
        code, err = ends(predict.main, "experiments.predict", str(tmp_path / name), "--run", str(run), *CPU)
        assert (code, err) == (1, f"left out: {tmp_path / name}: {why}\n")


def test_one_network_at_a_time(copy, tmp_path):
    for i in (1, 2):
        shutil.copytree(copy, tmp_path / "folds" / f"fold{i}")
    with pytest.raises(UsageError, match=r"holds 2 networks; name one of them: --run .*fold1"):
        evaluate.main(["--run", str(tmp_path / "folds"), *CPU])


def test_weights_that_are_not_there(tmp_path, ends):
    """A name is answered with the names that are here, a file with its path; nothing is offered that is not here."""
    code, err = ends(evaluate.main, "experiments.evaluate", "--weights", "nobody", *CPU)
    assert code == 1
    assert "no trained network 'nobody'" in err
    assert f"\n--weights takes a name ({', '.join(names())}) or a file NAME.npz; --run takes the folder" in err
    code, err = ends(predict.main, "experiments.predict", "x.jpg", "--weights", str(tmp_path / "crelu.npz"), *CPU)
    assert code == 1
    assert err == f"error: there is no file {tmp_path / 'crelu.npz'}\n"


def test_weights_that_are_misspelt(tmp_path, ends, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.npz").touch()
    for command in (evaluate, injectivity, pairing):
        for name, meant in (("creluhalf", "crelu-half"), ("mine", "mine.npz")):
            code, err = ends(command.main, command.MODULE, "--weights", name, *CPU)
            assert code == 1
            assert err.startswith(f"error: there is no trained network '{name}'; did you mean {meant}?\n")


def test_only_networks_that_are_there_are_offered(tmp_path, ends, monkeypatch):
    monkeypatch.setattr(sys.modules["minicnn.models.pretrained"], "FOLDER", tmp_path)
    err = ends(evaluate.main, "experiments.evaluate", "--weights", "nobody", *CPU)[1]
    assert "--weights takes a file NAME.npz;" in err
    missing = "crelu-base is not here yet: python -m experiments.cifar --act crelu --recipe hour --epochs 8 trains it"
    assert f"\n{missing}\n" in err


def test_how_to_train_what_has_a_name(tmp_path, ends, monkeypatch):
    monkeypatch.setattr(sys.modules["minicnn.models.pretrained"], "FOLDER", tmp_path)  # a function hides the module
    code, err = ends(predict.main, "experiments.predict", "x.jpg", *CPU)
    assert code == 1
    assert "no trained network 'crelu-half'" in err
    assert "python -m experiments.cifar --act crelu --width half --recipe hour --out runs/crelu-half\n" in err
    assert "python -m experiments.export --run runs/crelu-half --to" in err


# --- export ---


def test_onnx_files_give_the_predictions_of_the_run(run, tmp_path, capsys):
    assert export.main(["--run", str(run), "--to", str(tmp_path / "m.onnx"), *CPU]) == 0
    assert "images  (N, 3, 32, 32) float32, (value / 255 - mean) / std" in capsys.readouterr().out
    found = {p.key: p.value for p in onnx.load(tmp_path / "m.onnx").metadata_props}
    mean, std = (np.array(json.loads(found[key])) for key in ("mean", "std"))
    assert tuple(json.loads(found["classes"])) == textures(64, 24).classes
    x = ((textures(64, 24).test_images / 255 - mean) / std).astype(np.float32).transpose(0, 3, 1, 2)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"images": np.ascontiguousarray(x)})
    e = np.exp(logits - logits.max(axis=1, keepdims=True))
    expected = load(run / "predictions.npz")[0]["probabilities"]
    np.testing.assert_allclose(e / e.sum(axis=1, keepdims=True), expected, rtol=1e-3, atol=1e-6)


def test_weights_go_out_and_come_back(run, card, tmp_path, capsys):
    """Changed by another program on the way: the network that comes back is the changed one, and its card says so."""
    out, changed, back = tmp_path / "m.safetensors", tmp_path / "theirs.safetensors", tmp_path / "back.npz"
    assert export.main(["--run", str(run), "--to", str(out), *CPU]) == 0
    arrays = load_file(out)
    assert arrays["conv1.weight"].shape[1:] == (3, 3, 3)
    arrays["conv8.bias"] = arrays["conv8.bias"].copy()
    arrays["conv8.bias"][7] += 100  # now everything is class 7
    save_file({name.replace("conv", "layer"): array for name, array in sorted(arrays.items())}, changed)
    options = ["--run", str(run), "--from", str(changed), "--to", str(back), *CPU]
    with pytest.raises(UsageError, match="missing: conv1.weight"):
        export.main(options)
    assert not back.exists()
    assert export.main([*options, "--by-order"]) == 0
    network = pretrained(back)
    assert (network.probabilities(textures(64, 24).test_images).argmax(axis=1) == 7).all()
    stored = json.loads(back.with_suffix(".json").read_text())
    assert stored["test_error"] == pytest.approx(100 * (textures(64, 24).test_labels != 7).mean())
    assert "--by-order" in stored["command"]
    assert any("Another program trained it (theirs.safetensors)" in limit for limit in stored["limits"])


def test_the_card_is_made_from_the_run(run, card, capsys):
    stored, result = json.loads(card.with_suffix(".json").read_text()), json.loads((run / "result.json").read_text())
    assert (stored["test_error"], stored["train_error"]) == (result["test_error"], result["train_error"])
    assert stored["train_images"] == 64
    assert stored["computed"]["device"] == "cpu"
    assert any("textures is not CIFAR, width x0.05, 64 images" in limit for limit in stored["limits"])
    image = textures(64, 24).test_images[:2]
    expected = load(run / "predictions.npz")[0]["probabilities"][:2]
    np.testing.assert_allclose(pretrained(card).probabilities(image), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--to", "m.h5", "--run", "RUN"], "written to .onnx, .safetensors, .pt, .pth or .npz files"),
        (["--to", "nowhere/m.onnx", "--run", "RUN"], "there is no folder nowhere; make it first"),
        (["--to", "there.onnx", "--run", "RUN"], "there.onnx is there already"),
        (["--to", "m.npz", "--weights", "crelu-half"], "makes a card from a run"),
        (["--to", "m.onnx", "--run", "RUN", "--by-order"], "name their file with --from"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_read(options, words, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.onnx").write_text("precious")
    with pytest.raises(UsageError, match=words):
        export.main([str(run) if word == "RUN" else word for word in options])


def test_groups_are_pairs_of_names_and_numbers(ends, run):
    code, err = ends(export.main, "experiments.export", "--run", str(run), "--to", "x.onnx", "--groups", "conv2")
    assert code == 2
    assert "such as conv2=2,conv4=2" in err


# --- docs/use.md ---


def test_the_examples_of_the_documentation_run(run, card, tmp_path, monkeypatch, capsys):
    """All of its Python, in a folder that has what they name."""
    text = (Path(__file__).parents[2] / "docs" / "use.md").read_text()
    named, own, with_onnx, from_pytorch = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len([line for line in named.splitlines() if line]) <= 5
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.modules["minicnn.models.pretrained"], "FOLDER", tmp_path)
    for suffix in ("npz", "json", "md"):
        shutil.copy(card.with_suffix(f".{suffix}"), tmp_path / f"crelu-half.{suffix}")
    shutil.copytree(run, tmp_path / "runs" / "crelu")
    wide = np.concatenate([textures(64, 24).test_images[i] for i in (10, 11, 12)], axis=1)  # the centre is seen
    Image.fromarray(wide).save("photo.jpg", format="png")  # without loss, whatever it is called
    assert export.main(["--run", str(run), "--to", "crelu.onnx", *CPU]) == 0
    write(convpool("crelu", "half", scale=0.05), (32, 32, 3), "theirs.safetensors")
    capsys.readouterr()
    p, classes = load(run / "predictions.npz")[0]["probabilities"][11], textures(64, 24).classes
    best = classes[p.argmax()]
    exec(compile(named, "docs/use.md", "exec"), {})
    assert re.match(rf"{best} +{100 * p.max():.1f}%\n", capsys.readouterr().out)
    exec(compile(own, "docs/use.md", "exec"), {})
    assert capsys.readouterr().out.startswith(f"[('{best}', ")
    exec(compile(with_onnx, "docs/use.md", "exec"), {})
    assert capsys.readouterr().out == f"{best}\n"
    exec(compile(from_pytorch, "docs/use.md", "exec"), {})


# --- analyses of a network with a card ---


def test_analyses_take_a_run_or_its_weights(run, card, tmp_path):
    """The same network, as a run and by its file, is measured alike; only the name differs."""
    rows = {}
    for name, source in (("run", ["--run", str(run)]), ("tiny", ["--weights", str(card)])):
        out = tmp_path / f"of-{name}"
        assert injectivity.main([*source, "--subset", "4", "--windows", "5", "--out", str(out), *CPU]) == 0
        assert regularisation.main([*source, "--out", str(out), *CPU]) == 0
        rows[name] = "".join((out / file).read_text() for file in ("injectivity.csv", "gaps.csv"))
        assert name in rows[name]
    assert rows["tiny"].replace("tiny", "run") == rows["run"]


def test_pairing_of_a_card_knows_its_start(run, card, tmp_path):
    """Of a file of another program it does not: that is how the two are told apart."""
    shutil.copy(card, tmp_path / "foreign.npz")
    out = tmp_path / "out"
    options = ["--weights", str(card), str(tmp_path / "foreign.npz"), "--draws", "2", "--out", str(out), *CPU]
    assert pairing.main(options) == 0
    of_card, foreign = (json.loads((out / name / "summary.json").read_text()) for name in ("tiny", "foreign"))
    assert 0 < of_card["conv1"].pop("cosine_with_start") < 1
    assert foreign["conv1"].pop("cosine_with_start") is None
    assert of_card["conv1"] == foreign["conv1"]


def test_weights_that_cannot_be_analysed(run, card, tmp_path, ends):
    with pytest.raises(UsageError, match="nothing to look at: name a folder with --run or a network with --weights"):
        injectivity.main(CPU)
    with pytest.raises(UsageError, match="two runs are called tiny"):
        injectivity.main(["--weights", str(card), str(card), *CPU])
    code, err = ends(injectivity.main, "experiments.injectivity", "--weights", "nobody", *CPU)
    assert code == 1
    assert "there is no trained network 'nobody'" in err
    change(card.with_suffix(".json"), settings={})  # as of weights that another program trained
    with pytest.raises(UsageError, match="does not say how we trained it on small images; name its run"):
        injectivity.main(["--weights", str(card), *CPU])
