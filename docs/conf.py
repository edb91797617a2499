"""Configuration of the documentation site; `make docs` builds it into `.cache/docs`."""

from __future__ import annotations

from html import escape
from importlib.metadata import version as installed_version
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

project = "kshim"
author = "The kshim authors"
release = version = installed_version("kshim")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "index"
exclude_patterns = ["README.md"]  # GitHub's page of this folder

myst_enable_extensions = ["deflist"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3

smartquotes = False  # options begin with two hyphens
default_role = "code"  # docstrings quote names as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures stay readable; mypy checks the types

html_theme = "furo"
html_title = "kshim"
html_show_copyright = False
html_show_sourcelink = False

WIDE_PAGES = {"clients", "conformance", "differences", "pipeline-tables", "reference/apis", "rules"}
"""Pages whose tables need the whole width of the window."""
WIDE_STYLE = """<style>
.sidebar-drawer { width: 16em; }
.content { width: 100%; padding: 0 2em; }
td { overflow-wrap: anywhere; min-width: 6em; font-size: 0.85em; }
</style>"""


def _use_the_whole_width(_app: Any, page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    if page in WIDE_PAGES:
        context["furo_hide_toc"] = True
        context["metatags"] = context.get("metatags", "") + WIDE_STYLE


class StateDiagram(Directive):
    """A `mermaid` block as SVG: the states in a column, transitions to later ones right of it, to earlier ones left.

    GitHub draws these blocks by itself; mermaid's own script would have to be loaded from another host. Only
    `stateDiagram-v2` is understood, with lines `A --> B`.
    """

    has_content = True

    def run(self) -> list[nodes.Node]:
        """The picture."""
        kind, *lines = filter(None, map(str.strip, self.content))
        if kind != "stateDiagram-v2":
            raise self.error(f"only state diagrams are drawn, not {kind}")
        edges = [tuple(line.split(" --> ")) for line in lines]
        return [nodes.raw("", _drawn(edges), format="html")]


ROW, HEIGHT, WIDTH, MIDDLE = 56, 30, 190, 250
"""Sizes in the picture: from state to state, a state's height and width, where the column is."""


def _drawn(edges: list[tuple[str, ...]]) -> str:
    # [*] is the beginning as a source and the end as a target.
    ends = [(source, "end" if target == "[*]" else target) for source, target in edges]
    row = {name: at for at, name in enumerate(dict.fromkeys(source for source, _ in ends))}
    for _, target in ends:
        row.setdefault(target, len(row))
    y = {name: 25 + at * ROW for name, at in row.items()}
    parts = []
    for name, middle in y.items():
        if name in ("[*]", "end"):
            parts.append(f'<circle cx="{MIDDLE}" cy="{middle}" r="8" fill="currentColor"/>')
            continue
        at = f'x="{MIDDLE - WIDTH // 2}" y="{middle - HEIGHT // 2}" width="{WIDTH}" height="{HEIGHT}" rx="8"'
        parts.append(f'<rect {at} fill="none" stroke="currentColor"/>')
        parts.append(
            f'<text x="{MIDDLE}" y="{middle + 5}" text-anchor="middle" fill="currentColor">{escape(name)}</text>'
        )
    for source, target in ends:
        steps = row[target] - row[source]
        if steps == 1:
            path = f"M{MIDDLE} {y[source] + (8 if source == '[*]' else HEIGHT // 2)} V{y[target] - (10 if target == 'end' else 17)}"
        else:
            side = 1 if steps >= 0 else -1
            x = MIDDLE + side * (WIDTH // 2)
            bend = x + side * (20 + 18 * abs(steps))
            low, high = (y[source] + 6, y[target] - 6) if steps else (y[source] - 9, y[source] + 9)
            path = f"M{x} {low} C{bend} {low} {bend} {high} {x + 2 * side} {high}"
        parts.append(f'<path d="{path}" fill="none" stroke="currentColor" marker-end="url(#arrow)"/>')
    height = 50 + ROW * (len(row) - 1)
    return (
        f'<svg viewBox="0 0 {2 * MIDDLE} {height}" width="{2 * MIDDLE}" role="img" font-size="14">'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="currentColor"/></marker></defs>{"".join(parts)}</svg>'
    )


def setup(app: Any) -> None:
    """Called by Sphinx. Furo's own handler has the default priority, 500."""
    app.add_directive("mermaid", StateDiagram)
    app.connect("html-page-context", _use_the_whole_width, priority=900)
