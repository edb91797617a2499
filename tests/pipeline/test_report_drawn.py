"""A chart in the page: no library draws it, its colours follow light and dark, and its names are text."""

from __future__ import annotations

import re

from kshim_pipeline.report.drawn import CHART_CSS, drawn
from kshim_pipeline.report.style import INK, theme
from tests.pipeline.report_pages import CHART


def test_a_chart_is_one_picture_with_a_name_and_what_a_mark_is_appears_over_it() -> None:
    svg = drawn(CHART, "Storms: which 'groups'?", "chart-7")
    assert svg.startswith("<svg id='chart-7' class='chart' role='img' aria-label='Storms: which &#x27;groups&#x27;?'")
    assert len(re.findall(r" role=", svg)) == 1
    assert "<title>n: 5; group: billing</title>" in svg


def test_two_charts_of_a_page_have_no_element_id_in_common() -> None:
    heat = {**CHART, "encoding": {**CHART["encoding"], "color": {"field": "n", "type": "quantitative"}}}
    first, second = (re.findall(r"\bid=[\"']([^\"']+)", drawn(heat, "Heat", f"chart-{number}")) for number in (1, 2))
    assert len(first) > 1
    assert not {*first} & {*second}


def test_colours_of_text_are_those_that_the_page_changes_in_the_dark() -> None:
    svg = drawn({**CHART, "config": theme()}, "Storms", "chart-1")
    assert f'fill="{INK}"' in svg
    assert f'[fill="{INK}"] {{ fill: var(--ink); }}' in CHART_CSS
    assert "#ffffff" not in svg
