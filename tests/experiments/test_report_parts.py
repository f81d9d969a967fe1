"""The parts of the report: HTML, charts, pictures and colours."""

import re
import sys
from pathlib import Path

import pytest

from experiments.figures.charts import Bar, Line, depth_chart, interval_chart, line_chart
from experiments.report import page
from experiments.report.context import Context, chart
from experiments.reproduction.records import Records
from experiments.reproduction.targets import Files
from experiments.tables.html import Html, escape, join, tag
from experiments.train.archive import portable
from tests.experiments.made_runs import BAD, tiny


def test_what_is_put_in_is_escaped_and_html_is_not():
    assert tag("p", "a < b & ", tag("b", "c"), class_="n") == '<p class="n">a &lt; b &amp; <b>c</b></p>\n'
    assert tag("a", BAD, href='"><script>') == f'<a href="&quot;&gt;&lt;script&gt;">{escape(BAD)}</a>'
    assert "<script" not in join([BAD, [BAD, None], 3])
    assert escape(Html("<b>")) == "<b>"
    assert tag("img", alt=BAD).count("<") == 1


def points(svg):
    """The points of the first line drawn in blue."""
    paths = re.findall(r'<path d="([^"]*)"[^>]*style="fill: none; stroke: #1f77b4', svg)
    return [tuple(map(float, point)) for point in re.findall(r"([\d.]+) ([\d.]+)", paths[0])]


def test_charts_put_points_where_they_belong():
    """Error 100 at epoch 1, 50 at epoch 3: the second is to the right, and half as high over 0, the lower edge."""
    svg = line_chart({"ReLU & b": Line([(1, 100), (3, 50)], (3, 50))}, x="epoch", y="error")
    (x1, y1), (x2, y2) = points(svg)
    bottom = max(float(y) for y in re.findall(r'id="patch_3">\s*<path d="M [\d.]+ ([\d.]+)', svg))
    assert x2 > x1
    assert (bottom - y2) / (bottom - y1) == pytest.approx(0.5, abs=0.01)
    assert "ReLU &amp; b" in svg


def test_a_kind_of_network_has_one_colour_in_every_chart():
    lines = {label: Line([(1, 9), (2, 5)], (2, 5)) for label in ("CReLU (half)", "ReLU (base)", "ReLU (double)")}
    drawn = line_chart(lines, x="epoch", y="error")
    bars = interval_chart(
        [Bar("ReLU (base)", 1, 0, 2), Bar("CReLU (half)", 1, 0, 2)], x="points", left="better", right="worse"
    )
    assert bars.index("#1f77b4") < bars.index("#ff7f0e")  # blue for ReLU, orange for CReLU
    assert drawn.index("#ff7f0e") < drawn.index("#1f77b4")
    assert "better" in bars
    assert "worse" in bars


def test_intervals_are_lines_and_a_single_network_is_a_hollow_dot():
    svg = interval_chart([Bar("ReLU", -1, -2, 0), Bar("ReLU (one)", 1, None, None)], x="points")
    (low, y), (high, _) = points(svg)
    dots = re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)" style="fill: (\S+); stroke: #1f77b4', svg)
    dots += re.findall(r'<use [^>]*x="([\d.]+)" y="([\d.]+)" style="(fill-opacity: 0); stroke: #1f77b4', svg)
    assert len(dots) == 2
    assert float(dots[0][0]) == pytest.approx((low + high) / 2, abs=0.01)
    assert float(dots[0][1]) == y
    assert "fill-opacity: 0" in svg
    assert svg == interval_chart(
        [Bar("ReLU", -1, -2, 0), Bar("ReLU (one)", 1, None, None)], x="points"
    )  # to the last byte


def test_by_depth_a_layer_has_its_mean_and_its_interval():
    """ReLU has 1 ± 1 at conv1 and 3 at conv2; 0 is at the bottom, so conv2 is three times as high."""
    bars = {
        "ReLU (base)": [Bar("conv1", 1, 0, 2), Bar("conv2", 3, None, None)],
        "random": [Bar("conv2", 0, None, None)],
    }
    svg = depth_chart(bars, y="score")
    (x1, y1), (x2, y2) = points(svg)[:2]
    assert x2 > x1
    vertical = re.findall(r'<path d="M ([\d.]+) ([\d.]+)\s+L ([\d.]+) ([\d.]+)\s*"[^>]*stroke: #1f77b4', svg)
    intervals = [tuple(map(float, one)) for one in vertical if one[0] == one[2]]
    assert len(intervals) == 1  # conv2 has none
    ((at, low, _, high),) = intervals
    assert at == pytest.approx(x1, abs=0.01)
    assert y1 == pytest.approx((low + high) / 2, abs=0.01)
    assert low - y2 == pytest.approx(3 * (low - y1), abs=0.01)
    assert svg.index("conv1") < svg.index("conv2")
    assert "#7f7f7f" in svg  # what is no network is grey


def test_a_command_in_a_report_has_no_path_of_a_machine():
    assert portable("python -m x --alexnet ../data/a.npz --out runs/x") == "python -m x --alexnet a.npz --out runs/x"
    assert portable("python -m x --data /home/me/cifar.tar.gz") == "python -m x --data cifar.tar.gz"
    assert (
        portable("python -m x --data cifar100=/home/me/c.gz --out=../y") == "python -m x --data cifar100=c.gz --out=y"
    )
    assert portable("python -m x --changes=a,b") == "python -m x --changes=a,b"


def test_without_matplotlib_a_word_stands_for_the_picture(tmp_path, monkeypatch):
    context = Context(tmp_path, tiny(), Records(tmp_path), Files())
    assert "matplotlib is installed" in context.picture(tmp_path / "histograms.png", "words")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "matplotlib is installed" in chart(interval_chart([Bar("x", -1, -2, 0)], x="points"), "words")


def luminance(colour):
    """WCAG's, of #rrggbb."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_colours_can_be_read():
    """Contrast of at least 4.5 for all colours of text and lines, light and dark."""
    css = Path(page.__file__).with_name("style.css").read_text()
    for block in re.findall(r":root \{(.*?)\}", css, re.S)[:2]:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for background in ("page", "card"):
            for name in set(colours) - {"page", "card", "line"}:
                light, dark = sorted(map(luminance, (colours[name], colours[background])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, background)
