"""How Sphinx makes the pages; build.py puts their sources together and runs it."""

project = "minicnn"
copyright = "the authors of minicnn"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
html_theme = "furo"
html_title = "minicnn"
html_static_path = ["_static"]
html_css_files = ["annotated.css"]
html_extra_path = ["_extra"]  # whole pages of their own: the report, the explorer
html_show_sourcelink = False
html_copy_source = False
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
exclude_patterns = ["_static", "_extra"]
