"""The site: documents, notebooks, the report, the explorer and the annotated source, as pages that need no network.

    python site/build.py OUT        (make site: into build/site)

The sources of the pages are put together in a temporary folder, at the same places as in the repository, so that links
between documents hold.  In the end all links of all pages are checked.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
SITE = Path(__file__).resolve().parent
sys.path.insert(0, str(SITE))
CARDS = "minicnn/models/weights"  # what the trained networks are
NO_PAGES = ("*.csv", "*.npz", "*.json", "*.html", "*.py", "__pycache__")
TOP = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
REPORTS = {
    ROOT / "docs" / "results" / "report.html": "report.html",
    ROOT / "docs" / "hours" / "report.html": "hours/report.html",
}
EXPLORER = ("--weights", "crelu-half", "--beside", "relu-base")  # the networks that come with minicnn
FIRST = ("tour", "architecture", "conventions", "paper_map", "reproduce", "recipes")  # documents, in this order


def main(arguments: list[str]) -> int:
    out = Path(arguments[0] if arguments else "build/site").resolve()
    shutil.rmtree(out, ignore_errors=True)
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary)
        documents = copy_documents(source)
        notebooks = write_notebooks(source)
        annotated = write_annotated(source)
        extra = write_extra(source)
        (source / "index.md").write_text(index(documents, notebooks, annotated, extra))
        sphinx(source, out)
    if broken := broken_links(out):
        print("\n".join(["links that lead nowhere:", *broken]), file=sys.stderr)
        return 1
    print(f"{out / 'index.html'}: open it in a browser")
    return 0


def sphinx(source: Path, out: Path) -> None:
    """Warnings are errors; what Sphinx keeps for the next time stays with the sources."""
    options = ["-q", "-W", "--keep-going", "-d", str(source / ".doctrees")]
    subprocess.run([sys.executable, "-m", "sphinx", *options, str(source), str(out)], check=True)


def broken_links(out: Path) -> list[str]:
    """ "page -> address" for every link or picture within the site that has no target, and every one that is fetched
    from elsewhere."""
    pages = {path: path.read_text() for path in out.rglob("*.html")}
    anchors = {path: set(re.findall(r'\bid="([^"]+)"', text)) for path, text in pages.items()}
    found = []
    for path, text in pages.items():
        for kind, address in re.findall(r'\b(href|src)="([^"]*)"', text):
            target, _, anchor = html.unescape(address).partition("#")
            if target.startswith(("mailto:", "data:")):
                continue
            if "://" in target:
                found += [f"{path.relative_to(out)} -> {address}"] if kind == "src" else []
                continue
            place = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            place = place / "index.html" if place.is_dir() else place
            missing = not place.exists() or (anchor and place in pages and unquote(anchor) not in anchors[place])
            found += [f"{path.relative_to(out)} -> {address}"] if missing else []
    return sorted(set(found))


def copy_documents(source: Path) -> list[str]:
    """All Markdown documents and the pictures that they show; their names, as pages."""
    shutil.copy(SITE / "conf.py", source)
    (source / "_static").mkdir()
    shutil.copy(SITE / "annotated.css", source / "_static")
    for folder in ("docs", CARDS):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns(*NO_PAGES))
    for name in TOP:
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    pages = sorted(source.rglob("*.md"))
    for path in pages:
        path.write_text(mended(path.read_text(), path.parent.relative_to(source)))
    readme = source / "README.md"
    readme.write_text(f"---\norphan: true\n---\n\n{readme.read_text()}")  # the first page is the same
    return [path.relative_to(source).with_suffix("").as_posix() for path in pages]


def mended(text: str, folder: Path) -> str:
    """The text without links to what is no page of the site, such as a folder: there the words stay."""

    def link(found: re.Match[str]) -> str:
        mark, words, address = found.groups()
        target = address.partition("#")[0]
        if mark or not target or "://" in target or target.startswith("mailto:"):
            return found[0]
        path = (ROOT / folder / target).resolve()
        if path in REPORTS:
            return f'<a href="{"../" * len(folder.parts)}{REPORTS[path]}">{words}</a>'
        if path.suffix == ".md" and path.exists():
            return found[0]
        return words

    return re.sub(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def write_notebooks(source: Path) -> list[str]:
    import notebook

    folder = source / "notebooks"
    folder.mkdir()
    found = sorted((ROOT / "notebooks").glob("*.ipynb"))
    for path in found:
        (folder / f"{path.stem}.md").write_text(notebook.page(path, folder, ROOT))
    return [f"notebooks/{path.stem}" for path in found]


def in_tour_order() -> list[Path]:
    """The files that docs/tour.md names, in its order, and then the other files of the library."""
    named = re.findall(r"`((?:minicnn|reference)/[\w/]+\.py)`", (ROOT / "docs" / "tour.md").read_text())
    others = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "minicnn").rglob("[!_]*.py"))
    return [ROOT / name for name in dict.fromkeys([*named, *others])]


def write_annotated(source: Path) -> list[str]:
    import annotated

    names = []
    for path in in_tour_order():
        name = f"source/{path.relative_to(ROOT).with_suffix('').as_posix()}"
        place = source / f"{name}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(annotated.page(path, ROOT))
        names.append(name)
    return names


def write_extra(source: Path) -> dict[str, str]:
    """Whole pages: {file: words}."""
    extra = source / "_extra"
    extra.mkdir()
    found = {}
    for (report, name), words in zip(REPORTS.items(), ("narrow networks", "networks of full width"), strict=True):
        folder = (extra / name).parent
        folder.mkdir(exist_ok=True)
        shutil.copy(report, folder)
        shutil.copytree(report.parent / "analyses", folder / "analyses", ignore=shutil.ignore_patterns("*.csv"))
        found[name] = f"The report on {words}: every table and figure, beside the paper's"
    made = subprocess.run(
        [sys.executable, "-m", "experiments.explore", *EXPLORER, "--out", str(extra / "explore.html")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode == 0:
        found = {"explore.html": "The explorer: a CReLU network that computes in the page", **found}
    else:
        print(f"without the explorer: {made.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    return found


def index(documents: list[str], notebooks: list[str], annotated: list[str], extra: dict[str, str]) -> str:
    """The first page: the README, and all others in groups."""
    order = {f"docs/{name}": i for i, name in enumerate(FIRST)}
    texts = sorted((name for name in documents if name != "README"), key=lambda name: (order.get(name, 99), name))
    looks = "\n".join(f'- <a href="{file}">{words}</a>' for file, words in extra.items())

    def tree(caption: str, names: list[str], depth: int = 1) -> str:
        return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n:maxdepth: {depth}\n\n" + "\n".join(names) + "\n```\n"

    trees = [tree("Notebooks", notebooks), tree("Documents", texts)]
    trees.append(tree("Source, in reading order", annotated))
    title, _, text = mended((ROOT / "README.md").read_text(), Path()).partition("\n")
    return f"{title}\n\n{looks}\n{text}\n" + "\n".join(trees)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
