"""Swim lanes: what happened to members and partitions of a group, as bars and marks on one scale of time, drawn as SVG or in characters."""

from __future__ import annotations

from kshim.drawing.characters import Cell, characters
from kshim.drawing.lanes import Band, Bar, Lane, Mark, Picture
from kshim.drawing.svg import legend, svg
from kshim.drawing.vocabulary import BarKind, MarkKind

__all__ = ["Band", "Bar", "BarKind", "Cell", "Lane", "Mark", "MarkKind", "Picture", "characters", "legend", "svg"]
