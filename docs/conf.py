"""Configuration of the documentation site; `make docs` builds it into `.cache/docs`."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "kshim"
author = "The kshim authors"
release = version = installed_version("kshim")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinxcontrib.mermaid"]
root_doc = "index"
exclude_patterns = ["README.md"]  # GitHub's page of this folder

myst_enable_extensions = ["deflist"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3

default_role = "code"  # docstrings quote names as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures stay readable; mypy checks the types

html_theme = "furo"
html_title = "kshim"
html_show_copyright = False
html_show_sourcelink = False
