"""Who asks for no security pays for none."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
import kshim.cli.serve
from tests.broker.harness import a_node
from kshim_protocol.messages.metadata import MetadataRequest
node = a_node(topics={"orders": 1})
node.client().ask(MetadataRequest(topics=None))
print([name for name in sys.modules if "authentication" in name or "authorizer" in name])
"""


def test_a_broker_without_security_loads_nothing_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout == "[]\n", done.stderr
