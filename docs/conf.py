"""Configuration of the documentation site; `make docs` builds it into `.cache/docs`."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import Any

project = "kshim"
author = "The kshim authors"
release = version = installed_version("kshim")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxcontrib.mermaid"]
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


def setup(app: Any) -> None:
    """Called by Sphinx. Furo's own handler has the default priority, 500."""
    app.connect("html-page-context", _use_the_whole_width, priority=900)
