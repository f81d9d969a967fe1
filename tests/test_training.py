"""The training loop: it learns, stops where told, resumes to the last bit, and says what went wrong."""

import math
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

from minicnn import nn, ops, to_device, to_host
from minicnn.backend import CPU
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.loader import Batches
from minicnn.data.textures import textures
from minicnn.optim import SGD
from minicnn.schedule import OneCycle
from minicnn.training import (
    Interrupted,
    Totals,
    Trainer,
    TrainingError,
    check_alive,
    evaluate,
    evaluate_probabilities,
    top_error,
)
from tests.devices import STANDIN, changed_standin, on_devices
from tests.standin import launches, reset_sync_count, sync_count

DATA = textures(200, 100)


def network(seed):
    """With everything that could depend on the device, the step or the number of ranks."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, stride=2), nn.BatchNorm(6), nn.CReLU(), nn.MaxPool2d(3), nn.Dropout(0.2), nn.GlobalAvgPool(),
        nn.Linear(12, 10),
    ).initialise(seed)  # fmt: skip


class Doubled:
    """Batches in float64."""

    def __init__(self, batches):
        self._batches, self.batch = batches, batches.batch

    def __len__(self):
        return len(self._batches)

    def epoch(self, epoch, start=0):
        for x, labels in self._batches.epoch(epoch, start):
            yield x.astype(np.float64), labels


def make(device, seed=3):
    model = network(seed).to(device)
    normalise = Normaliser.of(DATA.train_images)
    batches = Batches(DATA.train_images, DATA.train_labels, 32, normalise, Augmentation(shift=2), seed)
    optimiser = SGD(model.parameters(), OneCycle(0.05, 4 * len(batches)), momentum=0.9, weight_decay=1e-3, clip=1.0)
    return Trainer(model, optimiser, batches, device=device, seed=seed)


@on_devices
def test_it_learns(device):
    trainer = make(device)
    totals = [trainer.finish_epoch() for _ in range(4)]
    assert totals[-1].mean_loss < 0.9 * totals[0].mean_loss
    assert [t.images for t in totals] == [200] * 4
    assert (trainer.epoch, trainer.step) == (4, 0)


def test_smoothed_labels_are_what_is_trained_on():
    """The first loss is that of the smoothed labels; the network then ends elsewhere."""
    sharp, smooth = make(CPU), make(CPU)
    smooth.smoothing = 0.3
    x, labels = next(sharp.batches.epoch(0))
    logits = sharp.model(x, train=True, stream=sharp.dropout.at(0))
    part = smooth.cluster.part(len(labels))
    for trainer, smoothing in ((sharp, 0.0), (smooth, 0.3)):
        loss, _ = trainer._train(x, labels, part)
        np.testing.assert_allclose(loss, ops.softmax_cross_entropy(logits, labels, smoothing=smoothing).data, rtol=1e-5)
    weights = [next(iter(trainer.model.parameters())).data for trainer in (sharp, smooth)]
    assert (weights[0] != weights[1]).any()


@on_devices
@pytest.mark.parametrize("stop_after", [1, 3, 7, 11])
def test_stopped_after_any_step_and_resumed_it_ends_in_the_same_bits(device, stop_after):
    whole = make(device)
    expected = [whole.finish_epoch() for _ in range(2)]

    first, steps = make(device), []
    totals = []
    with pytest.raises(Interrupted):
        for _ in range(2):
            totals.append(first.finish_epoch(stop=lambda: steps.append(1) or len(steps) == stop_after))
    arrays, metadata = first.state()
    second = make(device)
    second.restore(arrays, metadata)
    assert 7 * second.epoch + second.step == stop_after
    while second.epoch < 2:
        totals.append(second.finish_epoch())
    assert totals == expected
    for name, value in whole.model.state_dict().items():
        np.testing.assert_array_equal(second.model.state_dict()[name], value)
    for name, value in whole.optimiser.state_dict().items():
        np.testing.assert_array_equal(second.optimiser.state_dict()[name], value)


def test_an_average_of_weights_is_resumed_to_the_last_bit():
    def averaged():
        trainer = make(CPU)
        trainer.average = nn.EMA(trainer.model, 0.8)
        return trainer

    whole, first, second = averaged(), averaged(), averaged()
    whole.finish_epoch()
    steps = []
    with pytest.raises(Interrupted):
        first.finish_epoch(stop=lambda: steps.append(1) or len(steps) == 3)
    second.restore(*first.state())
    second.finish_epoch()
    assert whole.average.steps == second.average.steps == 7
    with whole.average.applied(), second.average.applied():
        for name, value in whole.model.state_dict().items():
            np.testing.assert_array_equal(second.model.state_dict()[name], value)
        averages = whole.model.state_dict()
    assert any((averages[name] != value).any() for name, value in whole.model.state_dict().items())


@on_devices
def test_gradients_that_the_optimiser_does_not_use_do_not_pile_up(device):
    """Whoever looks at them would see the sum of all steps; and as long as there are any, no graph is used."""
    trainer = make(device)
    head = trainer.model["6"]
    trainer.optimiser = SGD([head.weight, head.bias], 0.1)
    body = trainer.model["0"].weight
    before = to_host(body.data).copy()
    trainer.finish_epoch()
    assert [p.grad for p in trainer.model.parameters()] == [None] * 6
    np.testing.assert_array_equal(to_host(body.data), before)


def test_on_step_is_called_as_often_as_asked():
    """7 batches of 32 of 200 images: after each, after every third and at the end, or at the end alone."""
    for every, seen in ((1, [32, 64, 96, 128, 160, 192, 200]), (3, [96, 192, 200]), (20, [200])):
        images = []
        make(CPU).finish_epoch(on_step=lambda trainer, images=images: images.append(trainer.totals.images), every=every)
        assert images == seen
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        make(CPU).finish_epoch(every=0)


def test_devices_are_named():
    trainer = make("cpu")
    assert trainer.device is CPU
    trainer.finish_epoch()
    same = (trainer.model, DATA.test_images, DATA.test_labels, trainer.batches.normalise)
    assert evaluate(*same, device="cpu").loss == evaluate(*same, device=CPU).loss
    assert to_device(DATA.test_images, "cpu") is DATA.test_images
    with pytest.raises(ValueError, match="'tpu' is not a device"):
        evaluate(*same, device="tpu")


def test_a_trainer_moves_the_model_to_its_device():
    model = network(0)
    batches = Batches(DATA.train_images, DATA.train_labels, 100, Normaliser.of(DATA.train_images), Augmentation(), 0)
    trainer = Trainer(model, SGD(model.parameters(), 0.1), batches, device=STANDIN, seed=0)
    assert all(type(value.data) is STANDIN.xp.ndarray for _, value in model.named_state())
    trainer.finish_epoch()


def test_all_is_computed_while_its_gpu_is_the_current_one():
    """CuPy computes on the current GPU.  On the second of two, what is not within `active` would go wrong."""
    outside, seen, depth = [], len(launches), 0

    @contextmanager
    def active():
        nonlocal seen, depth
        if depth == 0:
            outside.extend(launches[seen:])
        depth += 1
        yield
        depth -= 1
        seen = len(launches)

    with changed_standin(active=active) as device:
        trainer = make(device)
        trainer.finish_epoch()
        evaluate(trainer.model, DATA.test_images, DATA.test_labels, trainer.batches.normalise, device=device)
        trainer.model.initialise(seed=1).to(dtype=np.float64)
    assert outside + launches[seen:] == []


def test_a_step_does_not_wait_for_the_device():
    trainer = make(STANDIN)
    x, labels = next(trainer.batches.epoch(0))
    part = trainer.cluster.part(len(labels))
    trainer._train(x, labels, part)
    reset_sync_count()
    trainer._train(x, labels, part)
    assert sync_count() == 0


def test_other_seeds_other_results():
    a, b = make(CPU, seed=1), make(CPU, seed=2)
    assert a.finish_epoch() != b.finish_epoch()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_loss_that_is_not_finite_stops_with_its_place():
    trainer = make(CPU)
    trainer.finish_epoch()
    trainer.model["0"].weight.data[:] = np.nan
    with pytest.raises(TrainingError, match=r"the loss became nan in epoch 2, step 1 of 7; .* lower learning rate"):
        trainer.finish_epoch()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_place_counts_batches_without_pictures():
    class Damaged:
        batch = 2

        def __len__(self):
            return 2

        def epoch(self, epoch, start=0):
            yield np.full((2, 32, 32, 3), np.nan, np.float32), np.array([0, 1])
            yield np.zeros((0, 32, 32, 3), np.float32), np.zeros(0, np.int64)

    trainer = make(CPU)
    trainer.batches = Damaged()
    with pytest.raises(TrainingError, match=r"the loss became nan in epoch 1, step 1 of 2; "):
        trainer.finish_epoch()


def test_dead_networks_are_recognised():
    blind = Totals()
    for _ in range(5):
        blind.add(math.log(10), 90, 100)
    with pytest.raises(TrainingError, match=r"stuck at ln\(10\) = 2\.3026.*dead ReLUs.*no ReLU on the logits"):
        check_alive(blind, 10)
    check_alive(blind, 100)
    slow = Totals()
    for loss in (2.303, 2.302, 2.3025):
        slow.add(loss, 90, 100)
    check_alive(slow, 10)


@on_devices
def test_evaluation(device):
    trainer = make(device)
    seen = []
    result = evaluate(
        trainer.model,
        DATA.test_images,
        DATA.test_labels,
        Normaliser.of(DATA.train_images),
        device=device,
        on_batch=seen.append,
    )
    assert sum(seen) == 100
    assert result.probabilities.shape == (100, 10)
    np.testing.assert_allclose(result.probabilities.sum(1), 1, rtol=1e-5)
    assert 50 < result.error <= 100


def test_probabilities_evaluated_by_hand():
    p = np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]])
    result = evaluate_probabilities(p, np.array([0, 1, 0]))
    np.testing.assert_allclose(result.error, 100 / 3)
    np.testing.assert_allclose(result.loss, -(math.log(0.5) + math.log(0.1)) / 3)
    capped = evaluate_probabilities(p, np.array([0, 0, 2])).loss  # the last image has p = 0: it counts as 2^-126
    np.testing.assert_allclose(capped, -(math.log(0.5) + math.log(0.1) - 126 * math.log(2)) / 3)


def test_outputs_that_are_no_classes_are_refused():
    match = r"the outputs of the network must be \(N, classes\), got \(100, 30, 30, 10\); end it with GlobalAvgPool, or"
    with pytest.raises(ValueError, match=match):
        evaluate(
            nn.Conv2d(3, 10, 3), DATA.test_images, DATA.test_labels, Normaliser.of(DATA.train_images), device="cpu"
        )
    for scored in (evaluate_probabilities, partial(top_error, k=2)):
        with pytest.raises(ValueError, match=r"got \(3,\); end it with"):
            scored(np.ones(3), np.array([0, 0, 0]))


@pytest.mark.parametrize(
    ("labels", "error", "words"),
    [
        ([0, 1, 0], TypeError, r"labels must be a NumPy array of integers, \(N,\), got list"),
        (np.array([[0], [1], [0]]), TypeError, r"got int64 \(3, 1\)"),  # each would be compared with all outputs
        (np.array([0, 1]), ValueError, "got 3 images and 2 labels"),
        (np.array([0, -1, 0]), ValueError, r"labels must be in 0 \.\. 2, got -1 \.\. 0"),  # the last class, for NumPy
        (np.array([0, 3, 0]), ValueError, r"labels must be in 0 \.\. 2, got 0 \.\. 3"),
    ],
)
def test_labels_that_are_no_labels_are_refused(labels, error, words):
    p = np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]])
    for scored in (evaluate_probabilities, partial(top_error, k=2)):
        with pytest.raises(error, match=words):
            scored(p, labels)


def test_labels_are_looked_at_before_the_images():
    seen = []
    with pytest.raises(TypeError, match=r"evaluate: labels must be .* got int64 \(100, 1\)"):
        evaluate(
            network(0), DATA.test_images, DATA.test_labels[:, None].astype(np.int64),
            Normaliser.of(DATA.train_images), device="cpu", on_batch=seen.append,
        )  # fmt: skip
    assert not seen


def branches(device, **changes):
    """Two layers of the same shape beside each other, that nobody initialised."""
    model = nn.Sequential(
        nn.GlobalAvgPool(), both=nn.Residual(nn.Linear(3, 3), shortcut=nn.Linear(3, 3)), out=nn.Linear(3, 10)
    ).to(device)
    for name, change in changes.items():
        change(getattr(model["both"], name))
    return model


def trainer_of(model, device):
    batches = Batches(DATA.train_images, DATA.train_labels, 32, Normaliser.of(DATA.train_images), Augmentation(), 0)
    return Trainer(model, SGD(model.parameters(), 0.1), batches, device=device, seed=0)


@on_devices
def test_layers_that_start_alike_are_refused(device):
    """They would get the same gradients, and stay alike for ever: one of them is for nothing."""
    match = r"parameters both\.body\.weight and both\.shortcut\.weight have the same values.* model\.initialise\(seed\)"
    reset_sync_count()
    with pytest.raises(ValueError, match=match):
        trainer_of(branches(device), device)
    assert sync_count() <= 2  # for a few numbers of each, then for all of these two


def changed(layer):
    layer.weight.data[2, 2] += 1


@on_devices
def test_layers_that_start_differently_are_not(device):
    """Biases are all zeros, and no matter; nor are one Parameter in two places, and frozen ones."""
    reset_sync_count()
    trainer_of(branches(device).initialise(seed=0), device)
    assert sync_count() <= 1
    trainer_of(branches(device, body=changed), device)  # one number is another
    trainer_of(branches(device, body=nn.Module.freeze), device)
    tied = branches(device)
    tied["both"].shortcut.weight = tied["both"].body.weight
    trainer_of(tied, device)


def test_the_optimiser_and_the_average_of_another_model_are_refused():
    """Else the model would stay as it is, and its loss would be that of a guess, epoch by epoch."""
    batches = Batches(
        DATA.train_images, DATA.train_labels, 32, Normaliser.of(DATA.train_images), Augmentation(), seed=0
    )
    model, words = network(0), "has parameters that the model does not have; make a new one of this model"
    with pytest.raises(ValueError, match=f"the optimiser {words}"):
        Trainer(model, SGD(network(0).parameters(), lr=0.1), batches, device="cpu", seed=0)
    optimiser = SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match=f"the average {words}"):
        Trainer(model, optimiser, batches, device="cpu", seed=0, average=nn.EMA(network(0)))
    part = SGD(model.parameters()[:1], lr=0.1)
    model.freeze()  # also after the optimiser was made
    Trainer(model, part, batches, device="cpu", seed=0)
