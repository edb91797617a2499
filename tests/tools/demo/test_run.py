"""What `kshim demo` needs. The show itself is in `integration/kafka_python/test_demo.py`: it takes half a minute."""

from __future__ import annotations

import subprocess
import sys

# As on a machine without the package: an import that fails.
WITHOUT_KAFKA = "import sys; sys.modules['kafka'] = None; from kshim.cli.main import main; sys.exit(main(['demo']))"


def test_without_kafka_python_it_says_what_to_install_and_fails() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_KAFKA], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert "pip install 'kshim[demo]'" in done.stderr
    assert done.stderr.count("\n") == 1
