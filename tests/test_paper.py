"""The paper's tables: what they imply is what they say, and what they say is what the paper's source says."""

import dataclasses
import functools
import math
import re

import pytest

from reference import paper
from reference.paper import tables
from tests.outside import PAPER, needs

CLASSES = {"cifar10": 10, "cifar100": 100, "imagenet": 1000}
ARCHITECTURES = {(a.family, a.key): a for a in paper.ARCHITECTURES}
every_architecture = pytest.mark.parametrize("network", paper.ARCHITECTURES, ids=lambda a: f"{a.family} {a.key}")


def parameter_count(rows, classes, *, biases=True):
    total = 0
    for layer in rows:
        if layer.kind in ("conv", "linear"):
            sizes = [classes if size == "classes" else size for size in layer.kernel]
            total += math.prod(sizes) + biases * sizes[-1] + 2 * sizes[-1] * layer.activation.startswith("bn")
    return total


def sides(rows, image, *, ceil):
    result = []
    for layer in rows:
        if layer.kind in ("conv", "max"):
            k, width, *_ = layer.kernel
            assert k == width
            steps = (image + 2 * layer.pad - k) / layer.stride
            image = (math.ceil if ceil and layer.kind == "max" else math.floor)(steps) + 1
            result.append(image)
    return tuple(result)


def channel_breaks(rows, classes):
    """The layers that expect another number of channels than they get."""
    breaks, channels = [], 3
    for layer in rows:
        if layer.kind in ("conv", "linear"):
            expected, filters = layer.sizes(classes)[-2:]
            if expected != channels:
                breaks.append(layer.name)
            channels = 2 * filters if layer.activation == "crelu" else filters
    return breaks + ["output"] * (channels != classes)


def classes_of(network):
    return (1000,) if network.family == "imagenet" else (10, 100)


# Counts and geometry.


@pytest.mark.parametrize("row", paper.PARAMETERS, ids=lambda row: f"{row.family} {row.key} {row.dataset}")
def test_parameter_counts_follow_from_the_rows(row):
    network = ARCHITECTURES[row.family, row.key]
    assert row.corrected == parameter_count(network.corrected, CLASSES[row.dataset])
    assert row.printed == (parameter_count(network.printed, CLASSES[row.dataset]) if network.printed else None)


def test_every_architecture_is_counted():
    datasets = {1000: "imagenet", 10: "cifar10", 100: "cifar100"}
    expected = [(a.family, a.key, datasets[n]) for a in paper.ARCHITECTURES for n in classes_of(a)]
    assert sorted(map(str, expected)) == sorted(str((p.family, p.key, p.dataset)) for p in paper.PARAMETERS)
    assert all(paper.parameter_counts(*key) is not None for key in expected)
    assert paper.parameter_counts("vgg", (2,), "cifar10") is None


def test_published_counts_are_those_of_the_tables():
    cifar = {((row.act, row.width), row.dataset): row.params_millions for row in paper.TABLE_1}
    imagenet = {row.model: row.params_millions for row in paper.TABLE_5}
    for row in paper.PARAMETERS:
        if row.family.startswith("convpool"):
            assert row.published_millions == cifar[row.key, row.dataset]
        else:
            assert row.published_millions == (imagenet.get(row.key) if row.family == "imagenet" else None)


def test_which_published_counts_are_right():
    """E6: on CIFAR those of the nine convolutions, and not those that are multiples of 1.4M."""
    for row in paper.PARAMETERS:
        if row.published_millions is not None and row.dataset != "cifar100":
            right = round(row.corrected / 1e6, 1) == row.published_millions
            nine = row.family == "convpool-c" and row.key not in [("relu", "double"), ("crelu", "base")]
            assert right == (nine or row.family == "imagenet"), row


def test_crelu_all_has_half_the_weights_of_the_baseline():
    baseline, everywhere = (paper.IMAGENET[key].corrected for key in ("baseline", "crelu-all"))
    assert 2 * parameter_count(everywhere, 1000, biases=False) == parameter_count(baseline, 1000, biases=False)
    assert parameter_count(everywhere, 1000, biases=False) == 4_683_792


@every_architecture
def test_maps_have_the_sides_that_geometry_gives(network):
    geometry = paper.GEOMETRIES[network.family]
    assert sides(network.corrected, geometry.image, ceil=geometry.ceil) == geometry.sides
    final = [layer.kernel for layer in network.corrected if layer.kind == "avg"]
    assert final == ([(geometry.final,) * 2] if geometry.final else [])
    assert geometry.sides[-1] == (geometry.final or 1)
    for misfit in paper.MISFITS:
        if misfit.family == network.family:
            assert sides(network.corrected, misfit.image, ceil=misfit.ceil) == misfit.sides
            assert misfit.sides[-1] != misfit.final == geometry.final


def test_vgg_does_not_depend_on_rounding():
    assert sides(paper.VGG[()].corrected, 32, ceil=False) == paper.GEOMETRIES["vgg"].sides


def test_without_padding_conv7_the_map_is_not_10x10():
    """E2."""
    rows = [dataclasses.replace(r, pad=0) if r.name == "conv7" else r for r in paper.CONVPOOL["relu", "base"].corrected]
    assert sides(rows, 32, ceil=True)[-1] == 8


# Corrections.


@every_architecture
def test_channels_fit_after_correction_and_break_where_corrections_say(network):
    corrections = paper.CORRECTIONS.get((network.family, network.key), ())
    for classes in classes_of(network):
        assert channel_breaks(network.corrected, classes) == []
        if network.printed:
            assert channel_breaks(network.printed, classes) == [c.breaks for c in corrections if c.breaks]


@every_architecture
def test_corrections_are_all_the_difference(network):
    """The rows differ in the entries that CORRECTIONS names, and in the notes that name the erratum."""
    corrections = paper.CORRECTIONS.get((network.family, network.key), ())
    if not network.printed:
        assert network.table is None
        assert not corrections
        return
    found = []
    for printed, corrected in zip(network.printed, network.corrected, strict=True):
        for field in dataclasses.fields(printed):
            before, after = getattr(printed, field.name), getattr(corrected, field.name)
            if before != after and field.name != "note":
                found.append((printed.name, field.name, before, after))
        own = {c.erratum for c in corrections if c.layer == printed.name}
        assert set(re.findall(r"E\d+", corrected.note)) == own | set(re.findall(r"E\d+", printed.note))
    assert sorted(found, key=str) == sorted(((c.layer, c.field, c.printed, c.corrected) for c in corrections), key=str)


def test_corrections_name_networks_of_the_paper():
    assert all(ARCHITECTURES[at].printed for at in paper.CORRECTIONS)


def filters(rows):
    return {layer.name: layer.kernel[-1] for layer in rows if layer.kind == "conv" and layer.kernel[-1] != "classes"}


def test_half_is_half_but_for_conv3_as_printed():
    """E1: the printed table is consistent in itself; it is conv3 that is not half of the CReLU model's."""
    full, half = paper.CONVPOOL["crelu", "base"], paper.CONVPOOL["crelu", "half"]
    whole = filters(full.corrected)
    assert {name: 2 * count for name, count in filters(half.corrected).items()} == whole
    assert [name for name, count in filters(half.printed).items() if 2 * count != whole[name]] == ["conv3"]


def test_double_is_double_and_avr_is_the_baseline():
    for family in (paper.CONVPOOL, paper.CONVPOOL_C):
        base = filters(family["relu", "base"].corrected)
        assert filters(family["relu", "double"].corrected) == {name: 2 * count for name, count in base.items()}
    for family, base, names in (
        (paper.CONVPOOL, ("relu", "base"), [("avr", "base")]),
        (paper.CONVPOOL_C, ("relu", "base"), [("avr", "base")]),
        (paper.IMAGENET, "baseline", ["avr-conv1-4", "avr-conv1-7", "avr-conv1-9"]),
    ):
        kernels = [layer.kernel for layer in family[base].corrected if layer.kernel]
        for name in names:
            assert [layer.kernel for layer in family[name].corrected if layer.kernel] == kernels


def test_keys_say_where_crelu_is():
    def at(network):
        return [int(r.name.removeprefix("conv")) for r in network.corrected if r.activation in ("crelu", "avr")]

    for key, network in paper.VGG.items():
        assert at(network) == list(key)
    for key, network in paper.IMAGENET.items():
        where = key.split("-", 1)[-1].removeprefix("conv")
        expected = {"baseline": [], "all": list(range(1, 11)), "1,4,7": [1, 4, 7]}
        assert at(network) == (expected[where] if where in expected else list(range(1, int(where[-1]) + 1)))


# Lookups, and what rows say of each other.


def test_lookups():
    assert paper.cifar_result("crelu", "half", "cifar100").single == 33.68
    assert paper.vgg_result((1, 3), "cifar10").vote == 5.09
    assert paper.imagenet_result("crelu-conv1,4,7").top5_ten == 15.32
    assert paper.imagenet_recipe("crelu-all").epochs == 100
    assert paper.cifar_result("avr", "half", "cifar10") is None
    assert paper.vgg_result((2,), "cifar10") is None
    assert paper.imagenet_result("alexnet") is paper.imagenet_recipe("alexnet") is None


def test_results_and_architectures_have_the_same_keys():
    cifar = {(row.act, row.width) for row in paper.TABLE_1}
    assert cifar == set(paper.CONVPOOL) == set(paper.CONVPOOL_C)
    assert {row.at for row in paper.TABLE_2} == set(paper.VGG)
    assert {row.model for row in paper.TABLE_4} == set(paper.IMAGENET)


def test_keys_are_those_that_the_labels_mean():
    names = ["Baseline", "+ (double)", "AVR", "CReLU", "+ (half)"]
    keys = [("relu", "base"), ("relu", "double"), ("avr", "base"), ("crelu", "base"), ("crelu", "half")]
    assert [(r.label, (r.act, r.width)) for r in paper.TABLE_1] == 2 * list(zip(names, keys, strict=True))
    assert [network.key for network in paper.CONVPOOL.values()] == keys
    for row in paper.TABLE_2:
        assert row.at == tuple(map(int, re.findall(r"\d", row.label)))
    for row in (*paper.TABLE_4, *paper.IMAGENET.values()):
        key = row.model if isinstance(row, paper.ImagenetRow) else row.key
        assert key == row.label.lower().replace(" (", "-").rstrip(")")


def test_table_3_compares_votes():
    """E26."""
    compared = {row.model: (row.cifar10, row.cifar100) for row in paper.TABLE_3}
    for model, rows in (("vgg", paper.TABLE_2[::4]), ("vgg-crelu", [r for r in paper.TABLE_2 if r.at])):
        votes = [min(row.vote for row in rows if row.dataset == name) for name in ("cifar10", "cifar100")]
        assert compared[model] == tuple(votes)


def test_tables_4_and_5_agree():
    for row in paper.TABLE_5:
        if (own := paper.imagenet_result(row.model)) is not None:
            assert dataclasses.astuple(row)[2:6] == dataclasses.astuple(own)[2:]


def test_recipes_have_no_gap_and_cover_every_network():
    for recipe in (paper.SGD, paper.ADAM):
        lasts = [0, *(phase.last for phase in recipe.phases)]
        assert [phase.first for phase in recipe.phases] == [last + 1 for last in lasts[:-1]]
    assert {*paper.SGD.tables, *paper.ADAM.tables} == {network.table for network in paper.IMAGENET.values()}
    assert not {*paper.SGD.tables} & {*paper.ADAM.tables}


# The paper's source. Its cells are compared as text, with blanks and type faces removed.

WORDS = {"cat": "CReLU", "abs": "AVR", "relu": "ReLU", "times": "x", "cdots": "...", "pm": "±"}


def plain(cell):
    for command, word in WORDS.items():
        cell = re.sub(rf"\\{command}\b", word, cell)
    cell = re.sub(r"\\(h|thickh)line|\\cline\{.*?\}|\\(citep|textbf|mathbf|bf|small|scriptsize)\b", "", cell)
    return re.sub(r"[\s${}]", "", cell).replace("--", "-")


@functools.cache
def source_text():
    """The paper's source without its comments."""
    return re.sub(r"(?<!\\)%.*", "", PAPER.read_text())


@functools.cache
def source_tables():
    """The tables in the order of the source: label -> rows, headings too -> cells."""
    table = r"\\label\{([\w:]+)\}(?:(?!\\label).)*?\\begin\{tabular\}[^\n]*\n(.*?)\\end\{tabular\}"
    return {
        label: [[plain(cell) for cell in row.split("&")] for row in body.split(r"\\") if "&" in row]
        for label, body in re.findall(table, source_text(), re.S)
    }


def same(cell, value):
    """A cell "10.20±0.09" is the numbers (10.2, 0.09), "9.4M" is 9.4, a dash is None."""
    texts = cell.removesuffix("M").split("±")
    return [None if text == "-" else float(text) for text in texts] == list(value)


def assert_rows(cells, rows):
    """Every row is a label and cells; of `rows`, the label and what the numbers in each cell should be."""
    assert len(cells) == len(rows)
    for (label, *texts), (own, *values) in zip(cells, rows, strict=True):
        assert label == own.replace(" ", "")
        for text, value in zip(texts, values, strict=True):
            assert same(text, value), (label, text, value)


@needs(PAPER)
def test_tables_are_numbered_as_in_the_source():
    main = "tab:cifar_results tab:VGGresult tab:cifar_compare tab:AllConvResult tab:ImageNetResult tab:correlation"
    supplement = (
        "tab:reconstructionration conpo copoc vgg vgg1 vgg3 vgg5 "
        "allconv allconc1 allconc2 allconc3 allconch allconchonly"
    )
    assert " ".join(source_tables()) == f"{main} {supplement}"


@needs(PAPER)
def test_results_are_those_of_the_source():
    source = source_tables()

    for dataset, at in (("cifar10", 1), ("cifar100", 5)):
        cells = [[row[0], *row[at : at + 4], row[9]] for row in source["tab:cifar_results"][3:]]
        table_1 = [
            [r.label, [r.train], [r.single], [r.average, r.average_error], [r.vote], [r.params_millions]]
            for r in paper.TABLE_1
            if r.dataset == dataset
        ]
        assert_rows(cells, table_1)

    table_2 = [[r.label, [r.single], [r.average, r.average_error], [r.vote]] for r in paper.TABLE_2]
    assert_rows([row for row in source["tab:VGGresult"] if row[-1] != "Vote"], table_2)
    assert [r.dataset for r in paper.TABLE_2] == ["cifar10"] * 4 + ["cifar100"] * 4

    assert_rows(source["tab:cifar_compare"][1:], [[r.label, [r.cifar10], [r.cifar100]] for r in paper.TABLE_3])
    for label, table in (("tab:AllConvResult", paper.TABLE_4), ("tab:ImageNetResult", paper.TABLE_5)):
        rows = [dataclasses.astuple(row) for row in table]
        assert_rows(source[label][1:], [[row[0], *([value] for value in row[2:])] for row in rows])

    table_6 = [[r.label, [r.pair, r.pair_error], [r.non_pair, r.non_pair_error]] for r in paper.TABLE_6]
    assert_rows(source["tab:correlation"][1:], table_6)

    table_s1 = [[r.label, [r.learned, r.learned_error], [r.random, r.random_error]] for r in paper.TABLE_S1]
    assert_rows([row for row in source["tab:reconstructionration"] if row[-1] != "random"], table_s1)
    assert [r.dataset for r in paper.TABLE_S1] == ["cifar10"] * 2 + ["cifar100"] * 2


def as_printed(layer, family):
    """The row of a table that a Layer stands for."""
    names = {"relu": "ReLU", "avr": "AVR", "crelu": "CReLU", "bn+relu": "BN+ReLU", "": ""}
    kernel = "x".join("10/100" if size == "classes" else str(size) for size in layer.kernel)
    if layer.kind == "dropout":
        return ["", f"dropoutwithratio{layer.rate}" if layer.rate else "nodropout", ""]
    if layer.kind == "avg" and family == "convpool":
        return [layer.name, f"{kernel}(100forCIFAR-100)", "avg"]
    if layer.kind == "avg":
        return [layer.name, f"{kernel}average-pooling", ""]
    cell = ",".join([kernel, *(str(number) for number in (layer.stride, layer.pad) if number is not None)])
    return [layer.name, cell, "max" if (layer.kind, family) == ("max", "convpool") else names[layer.activation]]


@needs(PAPER)
@pytest.mark.parametrize("network", [a for a in paper.ARCHITECTURES if a.table], ids=lambda a: f"{a.table} {a.label}")
def test_architectures_are_those_of_the_source(network):
    source = source_tables()
    number = int(re.match(r"S(\d+)", network.table)[1])
    rows = source[list(source)[5 + number]]  # six tables come before S1
    columns = slice(3, 5) if "right" in network.table else slice(1, 3)
    printed = [[r[0], *r[columns]] for r in rows if re.match("conv|pool|fc", r[0]) or "dropout" in r[1]]
    act = 1 if network.label.startswith("AVR") else 0

    def choose(cell):
        """Of "192/96" and "CReLU/AVR" the one that is of this network."""
        return re.sub(r"(ReLU|CReLU|192|512|768)/(AVR|96|256|384)", lambda m: m[act + 1], cell)

    own = [as_printed(layer, network.family) for layer in network.printed if layer.note != tables.DOTS]
    own += [[layer.name, "...", ""] for layer in network.printed if layer.note == tables.DOTS][:1]
    assert [[choose(cell) for cell in row] for row in printed] == own


@needs(PAPER)
def test_recipes_are_those_of_the_source():
    text = plain(source_text()).replace("\\mathrm", "")
    found = re.findall(r"epoch(\d+)-(\d+),(\de-\d)and(\de-\d|0)", text)
    assert [tuple(map(float, phase)) for phase in found] == [dataclasses.astuple(phase) for phase in paper.SGD.phases]
    assert f"SGDwithmini-batchsizeof{paper.SGD.batch}examplesandfixedmomentum{paper.SGD.momentum}." in text
    (adam,) = paper.ADAM.phases
    assert f"Adamwithaninitiallearningrate{adam.learning_rate}andmini-batchsizeof{paper.ADAM.batch}examples" in text
    assert f"for{paper.ADAM.epochs}epochs." in text
