"""`kshim pipeline report`: one HTML file."""

from __future__ import annotations

import argparse
from pathlib import Path

import vl_convert

from kshim_pipeline.errors import EXIT_OK, EXIT_USAGE, PipelineError
from kshim_pipeline.report import opened
from kshim_pipeline.report.make import make_page
from kshim_pipeline.report.page import render


def run(options: argparse.Namespace) -> int:
    """Write the page. Raises PipelineError."""
    file = Path(options.out)
    if not file.parent.is_dir():
        raise PipelineError(f"There is no folder {file.parent}", EXIT_USAGE)
    with opened.opened("kshim pipeline report", options) as (_, results, progress):
        page = make_page(results, progress.say)
    javascript = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    file.write_text(render(page, javascript), encoding="utf-8")
    if options.picture is not None:
        from kshim_pipeline.report.picture import picture

        Path(options.picture).write_bytes(picture(page))
    print(f"{len(page.findings) + page.findings_omitted} findings; the report is {file}.")
    return EXIT_OK
