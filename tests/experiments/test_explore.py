"""The page in a real browser: it computes what minicnn computes, and does what a person asks of it."""

import base64
import contextlib
import json
import shlex
import struct
import zlib
from argparse import Namespace
from importlib.resources import files

import numpy as np
import pytest
from PIL import Image

from experiments import cifar, explore
from experiments.cli.app import UsageError
from experiments.explorer.content import content
from experiments.explorer.page import page as page_of
from experiments.train.run import open_run
from experiments.train.trained import open_trained
from minicnn.analysis.inversion import _through_pool, crelu_steps
from minicnn.backend import CPU
from minicnn.data.cifar import load
from minicnn.data.dataset import DataError
from minicnn.data.textures import textures
from minicnn.theory.operators import Convolution
from minicnn.theory.pooling import pool_signal, ratio_bounds, reconstruct_signal, theorem_matrices
from minicnn.theory.rademacher import COUNTEREXAMPLES, layer
from minicnn.theory.reconstruction import features, least_squares, responses
from minicnn.theory.subspace import mean_ratio
from minicnn.training import evaluate
from tests.experiments.browser import CHROMIUM, MEASURE, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here (apt-get install chromium)")
SMALL = shlex.split("--dataset textures --scale 0.08 --subset 300 --epochs 1 --batch 50 --device cpu")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a page, and the run that it shows."""
    root = tmp_path_factory.mktemp("explore")
    for act, width in (("crelu", "half"), ("relu", "base")):
        assert cifar.main([*SMALL, "--act", act, "--width", width, "--out", str(root / act)]) == 0
    assert (
        explore.main(["--run", str(root / "crelu"), "--beside", str(root / "relu"), "--out", str(root / "e.html")]) == 0
    )
    return root


@pytest.fixture(scope="module")
def browser(made):
    with contextlib.closing(Browser()) as found:
        yield found


@pytest.fixture(scope="module")
def run(made):
    return open_run(made / "crelu")


@pytest.fixture
def page(browser, made):
    browser.open(made / "e.html")
    settle(browser)
    yield browser
    assert browser.errors == []
    _page, *others = browser.requests
    assert [one for one in others if not one.startswith("blob:file:")] == []  # these are the reader's own files


def settle(browser):
    """Wait until what takes longest is there."""
    browser.wait_for("document.querySelectorAll('#phases-conv2 canvas, #pairs-networks table').length > 1")
    browser.wait_for("document.querySelector('[aria-busy]') === null")


def array(browser, script):
    return np.array(browser.run(f"Array.from({script})"), np.float64)


def put(browser, name, values):
    """A global of the page with these numbers, as minicnn has them."""
    data = base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()
    browser.run(
        f"globalThis.{name} = new Float32Array(Uint8Array.from(atob('{data}'), c => c.charCodeAt(0)).buffer); 0"
    )


def put_map(browser, name, values):
    _, height, width, channels = values.shape
    put(browser, "numbers", values)
    size = f"height: {height}, width: {width}, channels: {channels}"
    browser.run(f"globalThis.{name} = {{{size}, data: numbers}}; 0")


# It computes what minicnn computes.


def probabilities(browser, images):
    """(of the page's network for these images, how many milliseconds each took)."""
    data = base64.b64encode(images.tobytes()).decode()
    browser.run(f"globalThis.all = Uint8Array.from(atob('{data}'), c => c.charCodeAt(0)); 0")
    found = [
        browser.run(
            f"""(() => {{ const since = performance.now(), n = 32 * 32 * 3, bytes = all.slice({i} * n, {i + 1} * n);
            const found = forward(page.content.layers, normalise(bytes, page.content));
            return [softmax(found[found.length - 1].y.data), performance.now() - since]; }})()"""
        )
        for i in range(len(images))
    ]
    return [p for p, _ in found], [time for _, time in found]


def test_probabilities_are_those_of_the_library(page, run):
    data = textures()
    images = data.test_images[:100]
    found, _ = probabilities(page, images)
    expected = evaluate(run.model(CPU), images, data.test_labels[:100], run.normaliser(data), device=CPU)
    expected = expected.probabilities
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.ptp(expected, axis=0).max() > 0.01  # the images are not all alike to it


class Masked:
    """A convolution of which only some responses are known."""

    def __init__(self, conv, known):
        self.conv, self.known, self.input_shape = conv, known, conv.input_shape

    def analysis(self, x):
        return self.known * self.conv.analysis(x)

    def synthesis(self, r):
        return self.conv.synthesis(self.known * r)


@pytest.mark.parametrize("keep", ["all", "positive", "even filters"])
def test_least_squares_are_those_of_the_library(page, run, keep):
    data = textures()
    x = run.normaliser(data)(data.test_images[:1])
    step = crelu_steps(run.model(CPU))[0]
    y = features(x, [step.layer])
    z = responses(y, step.layer.b)
    w, _, stride, pad = step.layer
    filters = np.arange(w.shape[3])
    plus = np.ones_like(filters, bool) if keep != "even filters" else filters % 2 == 0
    minus = np.zeros_like(plus) if keep == "positive" else plus
    raw = z + step.layer.b
    known = np.where(raw > 0, plus, np.where(raw < 0, minus, plus & minus)).astype(x.dtype)
    expected = least_squares(
        Masked(Convolution(w, (32, 32), stride=stride, pad=pad), known), known * z, iterations=15, tolerance=0.0
    ).x
    put_map(page, "x", x)
    rule = {"all": "true", "positive": "sign > 0", "even filters": "f % 2 === 0"}[keep]
    page.run("globalThis.conv1 = page.content.layers[0]; globalThis.y = crelu(conv2d(x, conv1)); 0")
    solution = f"leastSquares(conv1, responses(y, conv1), knownResponses(y, (f, sign) => {rule}), 32, 32, 15)"
    found = array(page, f"[...{solution}].pop().data").reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=1e-3 * abs(expected).max())
    assert page.run(f"ratio(x, [...{solution}].pop())") == pytest.approx(
        float(np.linalg.norm(x - expected) / np.linalg.norm(x)), abs=1e-3
    )


def test_algorithm_2_is_that_of_the_library(page, run):
    data = textures()
    x = run.normaliser(data)(data.test_images[:1])
    first, second = crelu_steps(run.model(CPU))[:2]
    entered = features(x, [first.layer])
    pooled = second.pooled()
    maps = pooled.pool(entered)
    expected = _through_pool(pooled, entered, abs(maps.values), maps)
    put_map(page, "entered", entered)
    found = array(
        page,
        """(() => { const [, , conv, act, pool] = page.content.layers;
        const { y, switches } = maxPool2d(crelu(conv2d(entered, conv)), pool);
        return throughPool(conv, pool, y, switches, 32, 32).data; })()""",
    ).reshape(expected.shape)
    np.testing.assert_allclose(found, expected, atol=1e-3 * abs(expected).max())


def test_complexities_are_exact(page):
    rng = np.random.default_rng(0)
    classes = [np.array(one.values, float) for one in COUNTEREXAMPLES.values()]
    for values in [*classes, rng.normal(size=(3, 5)), rng.normal(size=(1, 1))]:
        found = page.run(f"complexities({json.dumps(values.tolist())})")
        for activation, value in found.items():
            assert value == pytest.approx(layer(values, activation=activation).value, abs=1e-12)


def test_the_mean_ratio_is_exact(page):
    for s, D in ((1, 2), (3, 10), (10, 10), (1, 60), (59, 60), (48, 2400)):
        assert page.run(f"meanRatio({s}, {D})") == pytest.approx(mean_ratio(s, D), abs=1e-12)


def test_pooling_of_a_signal(page):
    """Draws of coefficients, at most one of each sign per filter."""
    rng = np.random.default_rng(1)
    filters = array(page, "FILTERS.flat()").reshape(2, 3).T  # (l, K)
    for _ in range(20):
        c = np.zeros((2, 6))
        for k, sign in ((0, 1), (0, -1), (1, 1), (1, -1)):
            if rng.random() < 0.7:
                c[k, rng.integers(6)] = sign * rng.uniform(0.1, 2)
        if not c.any():
            continue
        x = theorem_matrices(filters, c, 8).x
        pooled = pool_signal(filters, x)
        expected = reconstruct_signal(filters, pooled, 8)
        used = [{"filter": int(k), "shift": int(s), "c": float(c[k, s])} for k, s in np.argwhere(c)]
        found = page.run(
            f"""(() => {{ const x = {json.dumps(x.tolist())}, kept = poolSignal(FILTERS, x);
            return [reconstructSignal(FILTERS, kept, 8), poolingBounds(FILTERS, {json.dumps(used)}, kept, 8)]; }})()"""
        )
        np.testing.assert_allclose(found[0], expected, atol=1e-6)
        made = theorem_matrices(filters, c, 8)
        bounds = ratio_bounds(made.W_x, made.W_tilde)
        assert [found[1]["tight"] or 0, found[1]["paper"] or 0] == pytest.approx(np.nan_to_num(bounds), abs=1e-6)


def test_bytes_come_back_as_they_were(page):
    assert page.run(
        """(() => { const bytes = Uint8Array.from({length: 3072}, (_, i) => i % 256);
        return denormalise(normalise(bytes, page.content), page.content).every((v, i) => v === bytes[i]); })()"""
    )


# It does what a person asks of it.


def text(browser, name):
    return browser.run(f"document.getElementById('{name}').textContent")


def error_of(browser, name):
    return float(text(browser, name).split()[1].rstrip(","))


def test_a_click_on_a_layer_shows_its_maps(page):
    page.click("input[value=conv3]")
    assert text(page, "path-words").startswith("conv3: 8 filters, maps of 16x16;")
    assert page.run("document.querySelectorAll('#path-maps canvas').length") == 16


def test_without_the_negative_phase_less_comes_back(page):
    before = error_of(page, "phases-conv1")
    page.click("#phases-minus")
    settle(page)
    assert error_of(page, "phases-conv1") > before + 0.1
    assert "does not come back" in text(page, "phases-words")
    page.click("#phases-plus")
    settle(page)
    assert "Nothing is kept, so nothing comes back" in text(page, "phases-words")
    page.click("#phases-plus")
    page.click("#phases-minus")
    settle(page)
    assert error_of(page, "phases-conv1") == pytest.approx(before, abs=1e-3)


def test_half_of_the_filters_and_half_of_these_and_all_of_them(page):
    count = page.run("page.content.layers[0].w.filters")
    said = text(page, "phases-words")
    assert said.startswith(f"Known: {count}.0 of {count} responses per pixel")
    left = count
    while left > 1:
        page.click("#phases-half")
        settle(page)
        left = (left + 1) // 2
        assert text(page, "phases-words").startswith(f"Known: {left}.0 of {count}")
        assert page.run("document.querySelectorAll('#phases-filters [aria-pressed=true]').length") == left
    assert page.run("$('phases-half').disabled")
    page.click("#phases-all")
    settle(page)
    assert text(page, "phases-words") == said


def test_pooling_begins_with_a_signal_that_loses_something(page):
    """1 and -0.6 times [1 2 1] at 1 and 4, 0.8 times [1 0 -1] at 0, by the library."""
    filters = np.array([[1.0, 2, 1], [1, 0, -1]]).T / np.array([6**0.5, 2**0.5])
    c = np.zeros((2, 6))
    c[0, 1], c[0, 4], c[1, 0] = 1, -0.6, 0.8
    x = theorem_matrices(filters, c, 8).x
    error = np.linalg.norm(x - reconstruct_signal(filters, pool_signal(filters, x), 8)) / np.linalg.norm(x)
    assert error > 0.3
    assert page.run("document.querySelector('#pooling-bounds .ours .number').textContent") == f"{error:.3f}"
    assert "promises nothing" in text(page, "pooling-words")
    page.run("document.querySelectorAll('#pooling-sliders input').forEach((e, i) => { if (i > 1) e.value = 0; })")
    page.run("document.querySelector('#pooling-sliders input').dispatchEvent(new Event('input'))")
    assert page.run("document.querySelector('#pooling-bounds .ours .number').textContent") == "0.000"
    assert text(page, "pooling-words") == ""
    page.run("document.querySelector('#pooling-sliders input').value = 0")
    page.run("document.querySelector('#pooling-sliders input').dispatchEvent(new Event('input'))")
    assert text(page, "pooling-words") == "There is no signal: raise a strength."


def test_dragging_a_value_changes_both_sides(page):
    assert "1.4142 times" in text(page, "theorem-words")
    page.drag("#theorem-sliders input", -60)
    assert "1.4142 times" not in text(page, "theorem-words")
    page.click("#theorem-classes button:nth-child(2)")
    assert "The inequality holds here" in text(page, "theorem-words")
    assert text(page, "theorem-words").endswith("Drag a value below 0.")
    page.run("document.querySelectorAll('#theorem-classes button')[2].click()")  # with values below 0, and it holds
    assert "0.9428 times the paper's bound. A counterexample needs" in text(page, "theorem-words")
    page.click("#theorem-point")
    assert page.run("document.querySelectorAll('#theorem-sliders input').length") == 12


def test_the_keyboard_is_enough(page):
    page.run("document.getElementById('subspace-s').focus()")
    page.key("ArrowRight", 39)
    assert text(page, "subspace-numbers") == "s = 4, D = 10"
    page.run("document.querySelector('#pictures button:nth-child(2)').focus()")
    page.key(" ", 32)
    assert page.run("document.querySelector('#pictures button:nth-child(2)').getAttribute('aria-pressed')") == "true"


def test_pairs_are_shown_by_their_cosine(page):
    page.click("#pairs-networks section:first-child .thumb:nth-child(2)")
    shown = page.run("document.querySelector('#pairs-networks .pair').textContent")
    mu = sorted(page.run("page.content.pairs[0].mu"))
    assert f"{mu[1]:.2f}" in shown
    layers = page.run("page.content.pairs[0].layers.map(({mean, random}) => [mean, random])")
    excess = [random - mean for mean, random in layers]
    said = page.run("document.querySelector('#pairs-networks .excess').textContent")
    assert f"in conv1 by {excess[0]:.3f}, on average over the layers by {np.mean(excess):.3f}." in said


@pytest.mark.parametrize(("first", "mean"), [(0.3, 0.1), (0.3, -0.1), (-0.1, 0.2)])
def test_the_page_says_whether_its_networks_agree_with_the_paper(page, first, mean):
    """Relative to random filters, those of a ReLU network are more opposed than CReLU's by so much."""
    means = [[-0.5, -0.5], [-0.5 - first, -0.5 - (2 * mean - first)]]  # CReLU, ReLU; two layers
    networks = [
        {"label": label, "layers": [{"mean": one, "random": -0.4} for one in layers]}
        for label, layers in zip(("CReLU (half)", "ReLU (base)"), means, strict=True)
    ]
    said = page.run(f"pairsView.words({json.dumps(networks[::-1])})")
    agree, are = "agree" if first > 0 else "do not agree", "are" if mean > 0 else "are not"
    assert f"conv1 {agree} with the paper" in said
    assert said.endswith(f"On average over all layers they {are} ({0.1 + mean:.3f} and 0.100).")
    assert page.run(f"pairsView.words({json.dumps(networks[:1])})") == ""  # nothing to compare with


def test_a_picture_of_the_readers(page, tmp_path):
    Image.new("RGB", (300, 200), (250, 10, 10)).save(tmp_path / "red.png")
    page.choose_file("#file", tmp_path / "red.png")
    page.wait_for("document.querySelector('#chosen figcaption').textContent === 'red.png'")
    assert page.run("Array.from(page.state.bytes.slice(0, 3))") == [250, 10, 10]
    assert text(page, "message") == ""


def test_a_dropped_file_is_read(page):
    page.run(
        """(async () => { const made = document.createElement("canvas"); made.width = made.height = 64;
        const blob = await new Promise(resolve => made.toBlob(resolve)), data = new DataTransfer();
        data.items.add(new File([blob], "dropped.png", {type: "image/png"}));
        dispatchEvent(new DragEvent("drop", {dataTransfer: data, cancelable: true})); })()"""
    )
    page.wait_for("document.querySelector('#chosen figcaption').textContent === 'dropped.png'")
    assert page.run("Array.from(page.state.bytes.slice(0, 3))") == [255, 255, 255]  # transparent is white


def test_a_pasted_picture_is_read(page):
    """The clipboard as Ctrl-V gives it: a picture, then words."""
    paste = "dispatchEvent(new ClipboardEvent('paste', {clipboardData: data}))"
    page.run(
        f"""(async () => {{ const made = document.createElement("canvas"); made.width = made.height = 40;
        const context = made.getContext("2d"); context.fillStyle = "rgb(20, 160, 90)"; context.fillRect(0, 0, 40, 40);
        const blob = await new Promise(resolve => made.toBlob(resolve)), data = new DataTransfer();
        data.items.add(new File([blob], "pasted.png", {{type: "image/png"}}));
        {paste}; }})()"""
    )
    page.wait_for("document.querySelector('#chosen figcaption').textContent === 'pasted.png'")
    assert page.run("Array.from(page.state.bytes.slice(0, 3))") == [20, 160, 90]
    page.run(f"{{ const data = new DataTransfer(); data.setData('text/plain', 'words'); {paste}; }}")
    assert text(page, "message") == "There is no picture in the clipboard."
    assert page.run("document.querySelector('#chosen figcaption').textContent") == "pasted.png"


def press_camera(made, answer):
    """A browser in which the reader has answered whether the page may use a camera, which shows a moving pattern."""
    browser = Browser("--use-fake-device-for-media-stream", answer)
    browser.open(made / "e.html")
    settle(browser)
    browser.click("#camera")
    return browser


def test_a_photograph_is_taken(made):
    with contextlib.closing(press_camera(made, "--use-fake-ui-for-media-stream")) as browser:
        browser.wait_for("document.querySelector('#chosen figcaption').textContent === 'a photograph'")
        assert browser.run("new Set(page.state.bytes).size") > 1  # not a blank
        assert text(browser, "message") == ""
        assert browser.errors == []


def test_a_reader_may_refuse_the_camera(made):
    with contextlib.closing(press_camera(made, "--deny-permission-prompts")) as browser:
        browser.wait_for("document.getElementById('message').textContent.startsWith('The camera cannot be used here')")
        assert text(browser, "chosen").startswith("test image ")  # the picture that was there
        assert browser.errors == []


def blank_png(side):
    """The bytes of a black picture: a few thousand for many millions of pixels."""
    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes(side * (1 + (side + 7) // 8)), 9)
    parts = [(b"IHDR", head), (b"IDAT", rows), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(d)) + kind + d + struct.pack(">I", zlib.crc32(kind + d)) for kind, d in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def pictures(folder):
    """(file, what the page says, or the colour of its first pixel): what readers may drop."""
    svg = "<svg xmlns='http://www.w3.org/2000/svg'><script>document.title='x'</script></svg>"
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 90, 3), np.uint8))
    for name in ("whole.png", "whole.jpg"):
        noise.save(folder / name)
        whole = (folder / name).read_bytes()
        (folder / name.replace("whole", "cut")).write_bytes(whole[: len(whole) // 2])
    (folder / "empty.png").write_bytes(b"")
    (folder / "words.txt").write_text("not a picture")
    (folder / "scripted.svg").write_text(svg)
    (folder / "scripted.png").write_text(svg)
    (folder / "huge.png").write_bytes(blank_png(20_000))
    with (folder / "heavy.png").open("wb") as file:
        file.truncate(60_000_000)
    Image.new("CMYK", (40, 40), (0, 255, 255, 0)).save(folder / "cmyk.jpg")
    Image.new("RGB", (1, 1), (7, 8, 9)).save(folder / "one.png")
    Image.new("RGB", (6000, 20), (7, 8, 9)).save(folder / "wide.png")
    Image.new("RGBA", (40, 40), (7, 8, 9, 0)).save(folder / "transparent.png")
    frames = [Image.new("RGB", (40, 40), colour) for colour in ("red", "blue")]
    frames[0].save(folder / "moving.gif", save_all=True, append_images=frames[1:])
    return [
        ("empty.png", "The file is empty"),
        ("cut.png", "The picture is damaged"),
        ("cut.jpg", "The picture is damaged"),
        ("words.txt", "This is not a picture"),
        ("scripted.svg", "An SVG is a drawing"),
        ("scripted.png", "The picture is damaged"),
        ("huge.png", "The picture has more than 100 million pixels"),
        ("heavy.png", "The file is larger than 50 MB"),
        ("cmyk.jpg", (255, 0, 0)),
        ("one.png", (7, 8, 9)),
        ("wide.png", (7, 8, 9)),
        ("transparent.png", (255, 255, 255)),
        ("moving.gif", (255, 0, 0)),
    ]


def test_bad_pictures_are_a_sentence_and_nothing_is_lost(page, tmp_path):
    before = text(page, "chosen")
    for name, expected in pictures(tmp_path):
        page.run("page.say('')")
        page.choose_file("#file", tmp_path / name)
        if isinstance(expected, tuple):
            page.wait_for(f"document.querySelector('#chosen figcaption').textContent === '{name}'")
            np.testing.assert_allclose(page.run("Array.from(page.state.bytes.slice(0, 3))"), expected, atol=2)
            before = name
        else:
            page.wait_for(f"document.getElementById('message').textContent.startsWith('{expected}')")
            assert text(page, "chosen") == before
    assert page.run("document.title") == "CReLU, to look at and to play with"


# It can be looked at.


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_nothing_is_wider_than_the_window(browser, made, width):
    browser.open(made / "e.html", width)
    settle(browser)
    found = browser.run(MEASURE)
    assert found["beyond"] == []
    assert found["scroll"] <= width
    assert browser.errors == []


@pytest.mark.parametrize("dark", [False, True])
def test_an_accessibility_engine_finds_nothing(browser, made, dark):
    source = files(pytest.importorskip("axe_core_python", reason="pip install axe-core-python")).joinpath("axe.min.js")
    browser.open(made / "e.html", dark=dark)
    settle(browser)
    browser.run(source.read_text() + "; 0")
    found = browser.run("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'best-practice']})")
    problems = [(one["id"], [node["html"] for node in one["nodes"]][:3]) for one in found["violations"]]
    assert problems == []
    assert len(found["passes"]) > 10


@pytest.mark.slow
def test_the_full_width_networks_that_come_with_minicnn(browser, tmp_path):
    """100 test images; of CIFAR-10 where it is at hand, of textures elsewhere: any pictures will do."""
    network, beside = (
        open_trained(Namespace(run=None, weights=name, data=None), CPU) for name in ("crelu-half", "relu-base")
    )
    try:
        data = load(network.dataset, download=False)
    except DataError:
        data = textures()
    made, arrays = content(network, [beside], data, 10)
    (tmp_path / "full.html").write_text(page_of(made, arrays, label=network.label, run=network.name))
    browser.open(tmp_path / "full.html")
    settle(browser)
    assert error_of(browser, "phases-conv1") < 0.01  # both phases: nothing is lost
    found, milliseconds = probabilities(browser, data.test_images[:100])
    np.testing.assert_allclose(found, network.classifier.probabilities(data.test_images[:100]), atol=1e-4)
    assert min(milliseconds) < 2000
    x = network.classifier.normalise(data.test_images[:1])
    for at, step in enumerate(crelu_steps(network.classifier.model)[:2]):
        w, b, stride, pad = step.layer
        y = features(x, [step.layer])
        conv = Convolution(w, (32, 32), stride=stride, pad=pad)
        expected = least_squares(conv, responses(y, b), iterations=15, tolerance=0.0).x
        put_map(browser, "y", y)
        layer_of = f"page.content.layers[{2 * at}]"
        solution = f"[...leastSquares({layer_of}, responses(y, {layer_of}), null, 32, 32, 15)].pop().data"
        found = array(browser, solution).reshape(expected.shape)
        np.testing.assert_allclose(found, expected, atol=1e-3 * abs(expected).max())
        x = y
    assert browser.errors == []


def test_other_networks_are_refused(made, tmp_path):
    with pytest.raises(UsageError, match="begin with two convolutions, each followed by CReLU"):
        explore.main(["--run", str(made / "relu"), "--out", str(tmp_path / "e.html")])
    assert not (tmp_path / "e.html").exists()
