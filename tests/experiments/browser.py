"""A page in headless Chromium: how wide it is, what is visible, what went wrong; at any width, even a phone's."""

import json
import shutil
import subprocess
import tempfile
from html import unescape
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--allow-file-access-from-files",
    "--virtual-time-budget=20000",
]

# A window may not be narrower than 500 pixels, a frame may: the page is looked at in one.
WRAPPER = """<!DOCTYPE html><title>wrapper</title>
<iframe src="page.html" style="width: {width}px; height: 900px; border: 0"></iframe><pre id="found"></pre>
<script>
window.errors = [];
const frame = document.querySelector("iframe");
frame.onload = () => {{
  const page = frame.contentDocument, root = page.documentElement;
  const sizes = selector => [...page.querySelectorAll(selector)].map(e => {{
    const box = e.getBoundingClientRect(); return [Math.round(box.width), Math.round(box.height)];
  }});
  document.querySelector("#found").textContent = JSON.stringify({{
    width: frame.contentWindow.innerWidth, scroll: root.scrollWidth, client: root.clientWidth,
    tables: sizes("table"), pictures: sizes("img[src^='data:image/png']"), charts: sizes("img[src^='data:image/svg']"),
    broken: [...page.images].filter(i => !i.complete || !i.naturalWidth).length,
    beyond: [...page.querySelectorAll("body *")].filter(e => !e.closest(".box, .skip, svg")
      && e.getBoundingClientRect().right > root.clientWidth + 1).map(e => e.outerHTML.slice(0, 80)),
    errors: frame.contentWindow.errors, outside: [...page.querySelectorAll("[src], link[href], script[src]")]
      .map(e => e.src || e.href).filter(u => !u.startsWith("data:")),
  }});
}};
</script>"""
PROBE = "<script>window.errors = []; addEventListener('error', e => errors.push(String(e.message)), true);</script>"


def look_at(page, width):
    """Measure an HTML file in a frame of this width; a copy of the file reports its errors."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(page).read_text().replace("<head>", f"<head>{PROBE}", 1)
        Path(folder, "page.html").write_text(text.replace(' loading="lazy"', ""))
        Path(folder, "wrapper.html").write_text(WRAPPER.format(width=width))
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder}/profile", "--window-size=1400,1000", "--dump-dom"]
        done = subprocess.run(
            [*command, f"file://{folder}/wrapper.html"], capture_output=True, text=True, timeout=300, check=True
        )
    return json.loads(unescape(done.stdout.partition('<pre id="found">')[2].partition("</pre>")[0]))
