"""Settings: recipes, names, JSON, schedules."""

import dataclasses
import json

import numpy as np
import pytest

from experiments.reproduction.steps import convpool
from experiments.train.cifar import PARTS, RECIPES, CifarSettings
from experiments.train.imagenet import ImagenetSettings
from minicnn.data.augment import Normaliser
from minicnn.data.textures import textures
from minicnn.schedule import OneCycle, Piecewise, StepDecay


def test_defaults():
    s = CifarSettings.of()
    assert (s.dataset, s.model, s.act, s.width, s.recipe, s.epochs) == (
        "cifar10",
        "convpool",
        "relu",
        "base",
        "short",
        10,
    )
    assert s.name == "cifar10-convpool-base-relu-short10-seed0"


def test_what_the_citations_say():
    s = CifarSettings.of(recipe="paper", act="crelu")
    assert (s.epochs, s.lr, s.weight_decay, s.clip, s.dropout) == (350, 0.01, 1e-3, None, (0.2, 0.5, 0.5))
    schedule = s.schedule(steps_per_epoch=391)
    assert schedule == Piecewise((200 * 391, 250 * 391, 300 * 391), (0.01, 0.01 * 0.1, 0.01 * 0.1**2, 0.01 * 0.1**3))
    v = CifarSettings.of(recipe="paper", model="vgg", act="crelu", at=(1,))
    assert (v.epochs, v.lr, v.weight_decay, v.shift, v.flip) == (300, 0.1, 5e-4, 4, True)
    assert v.schedule(391) == StepDecay(0.1, every=25 * 391, factor=0.5)


def test_short_is_one_cycle():
    assert isinstance(CifarSettings.of(epochs=3).schedule(10), OneCycle)
    assert CifarSettings.of(epochs=3).schedule(10) == OneCycle(0.04, 30, warmup=0.25)
    assert CifarSettings.of(epochs=3, warmup=0.5).schedule(10).warmup == 0.5
    optimiser = CifarSettings.of(epochs=3, scale=0.05).build_optimiser(CifarSettings.of(scale=0.05).build_model(), 10)
    assert (optimiser.momentum, optimiser.nesterov, optimiser.clip) == (0.9, True, 2.0)


def test_hour_trains_filters_with_muon_and_the_rest_with_sgd():
    s = CifarSettings.of(recipe="hour", act="crelu", width="half", epochs=3, scale=0.05)
    model = s.build_model()
    muon, sgd = s.build_optimiser(model, 10).optimisers
    own = dict(model.named_state())
    assert {id(p) for p in muon.parameters} == {id(own[f"conv{i}.weight"]) for i in range(1, 8)}
    assert {id(p) for p in sgd.parameters} == {id(own[f"conv{i}.bias"]) for i in range(1, 9)} | {
        id(own["conv8.weight"])
    }
    assert (max(map(muon.lr, range(30))), max(map(sgd.lr, range(30)))) == (
        pytest.approx(s.lr, rel=0.05),
        pytest.approx(s.sgd_lr, rel=0.05),
    )
    assert (sgd.nesterov, sgd.clip) == (True, s.clip)
    assert (muon.centred, muon.keep_norm) == (True, True)
    first, second = np.split(own["conv2.weight"].data, 2, axis=2)
    np.testing.assert_array_equal(second, -first)
    assert s.augmentation().alternate


def test_every_part_of_a_recipe_can_be_changed_and_written_as_options():
    s = CifarSettings.of(recipe="hour", act="crelu", looks_linear=False, alternate=False, smoothing=0.2)
    assert " ".join(s.as_options()) == "--act crelu --recipe hour --smoothing 0.2 --no-alternate --no-looks-linear"
    other = CifarSettings.of(recipe="hour", optimiser="sgd")
    assert (other.sgd_lr, other.keep_norm) == (None, False)
    assert (other.lr, other.momentum) == (0.04, 0.9)  # of what SGD trains in hour, and not Muon's 0.05 and 0.8
    other.check()
    with pytest.raises(ValueError, match="--keep-norm is for --optimiser muon"):
        CifarSettings.of(keep_norm=True).check()
    free = CifarSettings.of(recipe="hour", centred=False, keep_norm=False, scale=0.05)
    muon, _ = free.build_optimiser(free.build_model(), 10).optimisers
    assert (muon.centred, muon.keep_norm) == (False, False)
    CifarSettings.of(optimiser="muon").check()
    with pytest.raises(ValueError, match="--sgd-lr is for --optimiser muon"):
        CifarSettings.of(sgd_lr=0.1).check()
    with pytest.raises(ValueError, match="--smoothing must be in"):
        CifarSettings.of(smoothing=1.0).check()


def test_avr_by_hour_has_a_gain_of_its_own():
    """1, which is better on held-out images (docs/recipes.md).  Others, and former runs, have He's."""
    gains = {act: CifarSettings.of(recipe="hour", act=act).gain for act in ("relu", "crelu", "avr")}
    assert gains == {"relu": 2**0.5, "crelu": 2**0.5, "avr": 1.0}
    assert CifarSettings.of(act="avr").gain == 2**0.5
    avr, relu = (CifarSettings.of(recipe="hour", act=act) for act in ("avr", "relu"))
    assert (avr.trained_alike, avr.changed) == (relu.trained_alike, [])
    stored = {key: value for key, value in avr.as_json().items() if key != "gain"}
    former = CifarSettings.from_json(stored)
    assert former == CifarSettings.of(recipe="hour", act="avr", gain=2**0.5)
    assert former.trained_alike != relu.trained_alike
    assert former.changed == ["gain 1.414"]
    assert former.as_options() == ["--act", "avr", "--recipe", "hour", "--gain", str(2**0.5)]
    w, smaller = (one.build_model()["conv4"].weight.data for one in (former, avr))
    np.testing.assert_allclose(smaller, w / 2**0.5, rtol=1e-6)


def test_a_short_paper_schedule_keeps_its_shape():
    assert CifarSettings.of(recipe="paper", epochs=7).schedule(10).boundaries == (40, 50, 60)
    assert CifarSettings.of(recipe="paper", epochs=1).schedule(1).boundaries == (1, 2, 3)


def test_vgg_has_layers_by_default():
    assert CifarSettings.of(model="vgg", act="crelu").at == (1, 3, 5)
    assert CifarSettings.of(model="vgg").at == ()
    assert CifarSettings.of(model="vgg", act="crelu", at=()).at == ()
    assert "at-1-3-5" in CifarSettings.of(model="vgg", act="crelu").name


def test_json_and_back():
    s = CifarSettings.of(act="crelu", scale=0.25, dropout=(0.1, 0.2, 0.3))
    assert CifarSettings.from_json(json.loads(json.dumps(s.as_json()))) == s
    with pytest.raises(ValueError, match="another version"):
        CifarSettings.from_json({**s.as_json(), "new": 1})


def test_models():
    assert (
        CifarSettings.of(model="convpool-c", scale=0.1, dataset="cifar100").build_model()["conv9"].weight.shape[-1]
        == 100
    )
    assert CifarSettings.of(model="vgg", scale=0.05, act="avr").build_model()["fc15"].weight.shape[-1] == 10


def test_runs_of_an_older_version_can_be_read(monkeypatch):
    """A field added since then has the value that those runs had."""
    stored = CifarSettings.of(act="crelu").as_json()
    del stored["shift"]
    with pytest.raises(ValueError, match="another version"):
        CifarSettings.from_json(stored)
    monkeypatch.setattr(CifarSettings, "ADDED", {"shift": 0})
    assert CifarSettings.from_json(stored) == CifarSettings.of(act="crelu")
    assert convpool("crelu", "base").is_mine(stored)
    assert not convpool("crelu", "base", shift=2).is_mine(stored)


def test_what_is_trained_otherwise_cannot_be_compared_with_the_paper():
    assert CifarSettings.of(recipe="paper", act="crelu").reductions == []
    assert CifarSettings.of(recipe="paper", lr=5.0, batch=64).reductions == ["lr 5", "batch 64"]
    assert ImagenetSettings.of(variant="crelu-all").reductions == []
    assert ImagenetSettings.of(variant="crelu-all", lr=5.0).reductions == ["lr 5.0"]


def test_what_is_not_as_in_the_recipe_is_said_in_words():
    changed = {"shift": 0, "looks_linear": False, "smoothing": 0.0, "weight_decay": 0.001}
    one = CifarSettings.of(recipe="hour", act="crelu", **changed)
    assert sorted(one.changed) == ["no looks-linear start", "no shifts", "no smoothed labels", "weight decay 0.001"]
    assert CifarSettings.of(centred=True, shift=2).changed == ["shift 2", "centred filters"]
    assert {one.name for one in dataclasses.fields(CifarSettings) if one.type == "bool"} - set(PARTS) == {
        "logits_act",  # those that are the network, and not how it is trained
        "bn_before_act",
    }


def test_only_networks_that_were_trained_alike_are_compared():
    relu, crelu = CifarSettings.of(), CifarSettings.of(act="crelu", width="half", seed=3)
    assert relu.trained_alike == crelu.trained_alike
    for other in ({"lr": 0.5}, {"batch": 64}, {"shift": 2}, {"clip": 1.0}, {"dropout": (0.0, 0.5, 0.5)}, {"epochs": 3}):
        assert CifarSettings.of(act="crelu", **other).trained_alike != relu.trained_alike


def test_every_recipe_is_explained():
    words = CifarSettings.options()["recipe"].help
    assert [name for name in RECIPES if f"{name}: " not in words] == []


@pytest.mark.parametrize("kind", [CifarSettings, ImagenetSettings])
def test_every_setting_has_an_option_or_is_known_to_have_none(kind):
    fields = {one.name for one in dataclasses.fields(kind)}
    assert fields - set(kind.options()) == {"flip"} | ({"classes"} if kind is ImagenetSettings else set())
    assert set(kind.options()) <= fields


def test_what_no_option_says_is_refused():
    with pytest.raises(ValueError, match="no option sets flip to False"):
        dataclasses.replace(CifarSettings.of(), flip=False).as_options()
    with pytest.raises(ValueError, match="no option sets clip to None"):
        dataclasses.replace(CifarSettings.of(), clip=None).as_options()


def test_sprint_has_a_recipe_of_its_own():
    s = CifarSettings.of(model="sprint", act="crelu", scale=0.1)
    assert (s.recipe, s.whitened, s.name) == ("sprint", True, "cifar10-sprint-crelu-x0.1-sprint10-seed0")
    assert " ".join(s.as_options()) == "--model sprint --act crelu --scale 0.1"
    learned = dataclasses.replace(s, whitened=False)
    assert learned.name == "cifar10-sprint-crelu-learned-x0.1-sprint10-seed0"
    for one, fixed in ((s, True), (learned, False)):
        model = one.build_model()
        trained = {id(p) for p in one.build_optimiser(model, 10).parameters}
        assert (id(model["conv1"].weight) in trained) != fixed
        assert trained == {id(p) for p in model.parameters()}


def test_sprint_has_rates_of_its_own_for_what_is_added_and_the_last_layer():
    s = CifarSettings.of(model="sprint", act="crelu", scale=0.1, sgd_lr=5.0)
    model = s.build_model()
    names = {id(p): name for name, p in model.named_state()}
    filters, betas, last = s.build_optimiser(model, 100).optimisers
    for optimiser, own, peak in (
        (filters, {f"conv{i}.weight" for i in range(2, 8)}, 0.24),
        (betas, {"conv1.bias", *(f"conv{i}_bn.beta" for i in range(2, 8))}, 5.0),
        (last, {"fc8.weight"}, 0.02),
    ):
        assert {names[id(p)] for p in optimiser.parameters} == own
        total = 100 * s.epochs
        assert [optimiser.lr(t) for t in (0, total // 2, total)] == pytest.approx([peak, peak / 2, 0])
    for optimiser in (betas, last):  # the product of rate and decay
        assert optimiser.lr(0) * optimiser.weight_decay(0) == pytest.approx(0.004)
        assert (optimiser.momentum, optimiser.nesterov) == (0.85, True)
    assert (filters.weight_decay(0), filters.momentum, filters.iterations) == (0, 0.6, 3)


def test_hour_has_one_rate_for_all_that_sgd_trains():
    s = CifarSettings.of(recipe="hour", act="crelu", scale=0.1)
    model = s.build_model()
    names = {id(p): name for name, p in model.named_state()}
    filters, rest = s.build_optimiser(model, 100).optimisers
    assert {names[id(p)] for p in filters.parameters} == {f"conv{i}.weight" for i in range(1, 8)}
    assert {names[id(p)] for p in rest.parameters} == {"conv8.weight", *(f"conv{i}.bias" for i in range(1, 9))}
    assert (filters.iterations, filters.momentum, rest.momentum, rest.weight_decay(0)) == (5, 0.8, 0.9, 0)
    assert max(rest.lr(t) for t in range(100 * s.epochs)) == pytest.approx(0.04)


def test_conv1_is_whitened_with_both_signs_where_the_activation_drops_one():
    images = textures(60, 1).train_images
    for act, both in (("relu", True), ("leaky", True), ("avr", False), ("crelu", False), ("crelu-leaky", False)):
        s = CifarSettings.of(recipe="hour", act=act, scale=0.1)
        model = s.build_model()
        s.prepare(model, images, Normaliser.of(images))
        w = model["conv1"].weight.data.reshape(27, -1)
        half = w.shape[1] // 2
        assert np.array_equal(w[:, half : 2 * half], -w[:, :half]) == both


def test_what_sprint_and_vgg_do_not_have_is_refused():
    with pytest.raises(ValueError, match="sprint has no recipe 'paper'; choose from sprint"):
        CifarSettings.of(model="sprint", recipe="paper")
    with pytest.raises(ValueError, match="convpool has no recipe 'sprint'; choose from paper, short, hour"):
        CifarSettings.of(recipe="sprint")
    with pytest.raises(ValueError, match="--whitened is for convpool and sprint"):
        CifarSettings.of(model="vgg", whitened=True).check()
    with pytest.raises(ValueError, match="--reflect mirrors what is in the image: --shift must be below 32"):
        CifarSettings.of(reflect=True, shift=32).check()
    CifarSettings.of(reflect=True, shift=31).check()
    for name in ("momentum", "warmup", "sgd_momentum"):
        with pytest.raises(ValueError, match=f"--{name.replace('_', '-')} must be in"):
            CifarSettings.of(recipe="hour", **{name: 1.0}).check()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model": "vgg", "width": "half"}, "--width is for convpool; make vgg narrower with --scale"),
        ({"model": "sprint", "dropout": (0.0, 0.1, 0.0)}, "--dropout is for convpool; the rates of sprint are fixed"),
        ({"model": "sprint", "at": (2,)}, "--at chooses where sprint has CReLU: add --act crelu"),
        ({"model": "vgg", "logits_act": True}, "--logits-act is for convpool"),
        ({"model": "vgg", "gain": 1.0}, "--gain is for convpool"),
        ({"model": "sprint", "looks_linear": True}, "--looks-linear is for convpool"),
        ({"looks_linear": True}, "--looks-linear is for --act crelu"),
        ({"model": "vgg", "centred": True}, "--centred is for convpool, or for --optimiser muon"),
        ({"bn_before_act": True}, "--bn-before-act is for vgg with --act crelu"),
        ({"model": "vgg", "bn_before_act": True}, "--bn-before-act is for vgg with --act crelu"),
        ({"recipe": "paper", "warmup": 0.5}, "--warmup is for the other recipes"),
        ({"reflect": True}, "--reflect is for images that are shifted: add --shift 2"),
        ({"sgd_lr": 0.1}, "--sgd-lr is for --optimiser muon"),
        ({"last_lr": 0.1}, "--last-lr is for --optimiser muon"),
        ({"iterations": 3}, "--iterations is for --optimiser muon"),
        ({"sgd_momentum": 0.5}, "--sgd-momentum is for --optimiser muon"),
        ({"sgd_decay": 0.1}, "--sgd-decay is for --optimiser muon"),
        ({"model": "sprint", "optimiser": "sgd"}, "--optimiser sgd is for the other networks: sprint is trained by"),
    ],
    ids=str,
)
def test_what_would_change_nothing_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        CifarSettings.of(**given).check()


@pytest.mark.parametrize(
    "given",
    [
        {"recipe": "hour"},  # it asks for a start that only CReLU has
        {"recipe": "paper", "warmup": 0.0},
        {"model": "vgg", "width": "base"},
        {"model": "vgg", "act": "crelu", "bn_before_act": True},
        {"model": "vgg", "optimiser": "muon", "centred": True},
        {"act": "crelu", "looks_linear": True},
        {"reflect": True, "shift": 2},
        {"model": "sprint", "shift": 0},  # nor do mirrored pixels move in then
        {"recipe": "hour", "optimiser": "sgd"},
        {"recipe": "hour", "last_lr": 0.01, "sgd_decay": 0.001, "iterations": 4, "sgd_momentum": 0.0},
    ],
    ids=str,
)
def test_what_has_an_effect_or_asks_for_nothing_is_not_refused(given):
    CifarSettings.of(**given, scale=0.1).check()
