"""Parts of a batch on several ranks are together what the whole batch is on one.  Ranks are threads here."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicnn import Parameter, Stream, Tape, nn, ops
from minicnn.backend import CPU, to_host
from minicnn.cluster import ALONE, Alone, Part
from minicnn.data.augment import Augmentation, Normaliser
from minicnn.data.loader import Batches
from minicnn.data.textures import textures
from minicnn.fast.cpu import norm
from minicnn.models import convpool, vgg
from minicnn.optim import SGD
from minicnn.training import Interrupted, Trainer, evaluate
from reference.norm import batch_norm as by_loops
from tests.devices import STANDIN, on_devices
from tests.ranks import Thread, on_threads
from tests.test_training import Doubled, network

DATA = textures(37, 11)
SPLITS = [(0, 5), (2, 3), (1, 0, 4), (0, 0, 5)]  # samples of each rank


@given(start=st.integers(0, 50), length=st.integers(0, 50), size=st.integers(1, 9))
def test_shares_cover_everything_in_order_and_are_equal(start, length, size):
    shares = on_threads_without_talk(size, lambda cluster: cluster.shard(start, start + length))
    assert [i for share in shares for i in range(share.start, share.stop)] == list(range(start, start + length))
    lengths = [share.stop - share.start for share in shares]
    assert max(lengths) - min(lengths) <= 1


def on_threads_without_talk(size, work):
    return [work(Thread(rank, size, None, None)) for rank in range(size)]


def test_parts_by_hand():
    parts = on_threads(3, lambda cluster: cluster.part((4, 0, 3)[cluster.rank]))
    assert [(part.first, part.total) for part in parts] == [(0, 7), (4, 7), (4, 7)]
    assert on_threads(3, lambda cluster: cluster.any(cluster.rank == 2)) == [True] * 3
    assert on_threads(2, lambda cluster: cluster.any(False)) == [False] * 2


def test_root_first_does_the_work_once_on_root_and_then_on_the_others():
    order = []
    assert on_threads(3, lambda cluster: cluster.root_first(lambda: order.append(cluster.rank) or cluster.rank)) == [
        0,
        1,
        2,
    ]
    assert order[0] == 0
    assert sorted(order) == [0, 1, 2]


@on_devices
def test_gradients_are_summed_with_the_scalars(device):
    def work(cluster):
        shapes = [(2, 3), (4,), ()]
        parameters = [nn.Linear(1, 1).weight for _ in shapes] + [nn.Linear(1, 1).weight]
        for i, (p, shape) in enumerate(zip(parameters, shapes, strict=False)):
            p.grad = device.put(np.full(shape, 10.0**cluster.rank * (i + 1), np.float32))
        loss, wrong = cluster.sum_gradients(
            parameters, device.put(np.array(0.5 + cluster.rank, np.float32)), device.put(np.array(7 + cluster.rank))
        )
        assert parameters[-1].grad is None
        grads = [p.grad for p in parameters[:-1]]
        assert [g.shape for g in grads] == shapes
        return [float(g.reshape(-1)[0]) for g in grads], float(loss), int(wrong)

    assert on_threads(3, work) == [([111.0, 222.0, 333.0], 4.5, 24)] * 3


def test_a_loss_that_is_kept_does_not_keep_the_gradients():
    p = Parameter(STANDIN.put(np.ones(1000)))
    p.grad = STANDIN.put(np.ones(1000))

    class Two(Alone):
        size = 2

    (loss,) = Two().sum_gradients([p], STANDIN.put(np.array(3.0)))
    assert loss.base is None or loss.base.nbytes <= 8


def test_alone_nothing_is_touched():
    p = nn.Linear(2, 2).weight
    p.grad = grad = np.ones((2, 2), np.float32)
    loss = np.float32(3)
    assert ALONE.sum_gradients([p], loss)[0] is loss
    assert p.grad is grad
    assert ALONE.part(5) == Part(0, 5, ALONE.sum)


def pieces(split, array):
    return np.split(array, np.cumsum(split)[:-1])


@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("version", [ops.batch_norm.textbook, norm.batch_norm], ids=["textbook", "fast"])
def test_batch_normalisation_is_that_of_the_whole_batch(version, split):
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(2, 5, 3, 2, 4))
    gamma, beta = rng.normal(size=(2, 4))
    whole = ops.batch_norm.textbook(x, gamma, beta)[1](g)

    def work(cluster):
        own = pieces(split, x)[cluster.rank]
        y, vjp = version(own, gamma, beta, part=cluster.part(len(own)))
        return y, *vjp(pieces(split, g)[cluster.rank])

    y, gx, ggamma, gbeta = zip(*on_threads(len(split), work), strict=True)
    np.testing.assert_allclose(np.concatenate(y), by_loops(x, gamma, beta), atol=1e-12)
    np.testing.assert_allclose(np.concatenate(gx), whole[0], atol=1e-12)
    np.testing.assert_allclose(sum(ggamma), whole[1], atol=1e-12)
    np.testing.assert_allclose(sum(gbeta), whole[2], atol=1e-12)


def test_ranks_may_choose_different_versions_of_an_op():
    """A rank with few samples takes the textbook, one with many the fast version: they must talk alike."""
    rng = np.random.default_rng(1)
    x, gamma, beta = rng.normal(size=(5, 3, 4)), np.ones(4), np.zeros(4)
    whole = ops.batch_norm.textbook(x, gamma, beta)[1](x**2)[0]

    def work(cluster):
        own = pieces((1, 4), x)[cluster.rank]
        version = (ops.batch_norm.textbook, norm.batch_norm)[cluster.rank]
        return version(own, gamma, beta, part=cluster.part(len(own)))[1](own**2)[0]

    np.testing.assert_allclose(np.concatenate(on_threads(2, work)), whole, atol=1e-12)


@pytest.mark.parametrize("split", SPLITS, ids=str)
def test_the_loss_is_a_share_of_the_mean(split):
    rng = np.random.default_rng(2)
    logits, labels = rng.normal(size=(5, 3)), np.array([0, 2, 1, 1, 0])
    mean, vjp = ops.softmax_cross_entropy.pair(logits, labels)
    pairs = [
        ops.softmax_cross_entropy.pair(own, right, total=5)
        for own, right in zip(pieces(split, logits), pieces(split, labels), strict=True)
    ]
    np.testing.assert_allclose(sum(y for y, _ in pairs), mean)
    np.testing.assert_allclose(np.concatenate([own(1.0)[0] for _, own in pairs]), vjp(1.0)[0])


def make(device, cluster):
    """In float64."""
    model = network(seed=3).to(device, np.float64)
    normalise = Normaliser.of(DATA.train_images)
    batches = Batches(DATA.train_images, DATA.train_labels, 7, normalise, Augmentation(shift=2), 3, cluster)
    optimiser = SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-3, clip=1.0)
    return Trainer(model, optimiser, Doubled(batches), device=device, seed=3, cluster=cluster)


def train(device, cluster, epochs=2):
    trainer = make(device, cluster)
    totals = [trainer.finish_epoch() for _ in range(epochs)]
    return trainer.model.state_dict(), totals


@on_devices
@pytest.mark.parametrize("size", [2, 3, 9])
def test_training_is_that_of_one_process(device, size):
    """37 images in batches of 7: uneven shares, and a last batch of 2 that leaves some ranks without any."""
    expected, totals = train(CPU, ALONE)
    for weights, own in on_threads(size, lambda cluster: train(device, cluster)):
        for name, value in expected.items():
            np.testing.assert_allclose(weights[name], value, rtol=0, atol=1e-10, err_msg=name)
        for ours, theirs in zip(own, totals, strict=True):
            assert (ours.images, ours.wrong) == (theirs.images, theirs.wrong) == (37, theirs.wrong)
            assert ours.mean_loss == pytest.approx(theirs.mean_loss, abs=1e-10)


def test_without_global_statistics_it_would_differ():
    """The test above can fail: statistics of each rank's own samples give other weights."""
    expected, _ = train(CPU, ALONE, epochs=1)

    def alone(cluster):
        trainer = make(CPU, cluster)
        part = cluster.part
        cluster.part = lambda count: Part(part(count).first, max(1, count))
        trainer.finish_epoch()
        return trainer.model.state_dict()

    weights = on_threads(2, alone)[0]
    assert max(np.abs(weights[name] - value).max() for name, value in expected.items()) > 1e-3


def test_all_stop_after_the_same_step():
    def work(cluster):
        trainer, steps = make(CPU, cluster), []
        with pytest.raises(Interrupted):
            trainer.finish_epoch(stop=lambda: steps.append(1) or (cluster.rank == 1 and len(steps) == 3))
        return trainer.step

    assert on_threads(3, work) == [3, 3, 3]


@pytest.mark.parametrize("size", [2, 3])
def test_evaluation_has_the_bits_of_one_process(size):
    images = np.concatenate([DATA.test_images] * 60)  # three batches of 250, the last one smaller
    labels = np.concatenate([DATA.test_labels] * 60)
    model, normalise = make(CPU, ALONE).model.to(dtype=np.float32), Normaliser.of(DATA.train_images)

    def work(cluster):
        return evaluate(model, images, labels, normalise, device=CPU, cluster=cluster)

    alone = work(ALONE)
    for result in on_threads(size, work):
        assert (result.loss, result.error) == (alone.loss, alone.error)
        np.testing.assert_array_equal(result.probabilities, alone.probabilities)


@on_devices
def test_a_network_takes_an_empty_part(device):
    """Also by its fast versions, which may not expect it."""
    for model in (vgg("crelu", (1, 3), scale=0.05), convpool("crelu", "half", scale=0.05, dropout=(0.1, 0.5, 0.5))):
        model.to(device)
        x = device.put(np.zeros((0, 32, 32, 3), np.float32))
        with Tape() as tape:
            logits = model(x, train=Part(4, 4), stream=Stream(0))
            loss = ops.softmax_cross_entropy(logits, np.zeros(0, np.int64), total=4)
        tape.backward(loss)
        assert float(loss.data) == 0
        for p in model.parameters():
            assert p.grad is not None
            assert not to_host(p.grad).any()


def test_a_part_is_true_even_without_samples():
    """Layers ask `if train`: a rank without samples trains like the others."""
    assert Part(0, 0)
