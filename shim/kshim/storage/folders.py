"""Folders of logs on their way out."""

from __future__ import annotations

import os


def remove_folder(path: str) -> None:
    """Remove a folder and what is in it. Raises OSError."""
    import shutil  # brings three compression libraries along

    shutil.rmtree(path)


def free_doomed_name(path: str) -> str:
    """A name for a folder that is about to go, in the form Kafka's own start-up also recognises."""
    number = 0
    while os.path.exists(name := f"{path}.{number}-delete"):
        number += 1
    return name
