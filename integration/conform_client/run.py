"""`python -m integration.conform_client.run`: judge a plain consumer of each client, and write docs/clients-judged.md."""

from __future__ import annotations

import argparse
import io
import json
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from integration.clients.application import Application
from integration.clients.catalogue import Client, client_named, clients
from integration.clients.driver import ROOT
from integration.conform_client.page import Judged, markdown
from integration.support.unavailable import Unavailable
from kshim.tools.conform_client.run import run_conform_client

PAGE = ROOT / "docs" / "clients-judged.md"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 if a client could not be judged."""
    options = _parser().parse_args(arguments)
    chosen = [client_named(name) for name in options.clients.split(",")] if options.clients else clients()
    results = Path(options.results)
    results.mkdir(parents=True, exist_ok=True)
    is_complete = True
    for client in chosen if not options.page_only else ():
        try:
            judged = judge(client, jobs=options.jobs, names=options.behaviours)
        except Unavailable as missing:
            print(f"{client.name} is not judged: {missing}", flush=True)
            is_complete = False
            continue
        (results / f"{client.folder}.json").write_text(json.dumps(judged._asdict(), indent=1) + "\n")
        print(judged.summary, flush=True)
    found = [Judged(**json.loads(file.read_text())) for file in sorted(results.glob("*.json"))]
    if options.page:
        reasons = {client.name: client.judged for client in clients()}
        Path(options.page).write_text(markdown(sorted(found, key=lambda judged: judged.client), reasons))
    return 0 if is_complete else 1


def judge(client: Client, *, jobs: int, names: Sequence[str] = ()) -> Judged:
    """What conform-client says of a client. Raises Unavailable."""
    version, report = _version(client), io.StringIO()
    run_conform_client(shlex.join(client.consumer()), names=names, jobs=jobs, output="json", stream=report)
    return Judged(client.name, version, json.loads(report.getvalue())["behaviours"])


def _version(client: Client) -> str:
    with tempfile.TemporaryDirectory() as folder, client.start(Path(folder, "log")) as driver:
        version: str = Application(driver, "127.0.0.1:1").version
        return version


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="integration.conform_client.run", description=__doc__)
    parser.add_argument("--clients", help="names or folders, comma separated; all")
    parser.add_argument("--behaviours", nargs="*", default=(), help="only these")
    parser.add_argument("--jobs", type=int, default=4, help="so many behaviours at the same time")
    parser.add_argument("--results", default=str(ROOT / ".cache" / "clients-judged"), help="where results are kept")
    parser.add_argument("--page", help=f"also write the table of all results here, as {PAGE.relative_to(ROOT)}")
    parser.add_argument(
        "--page-only", action="store_true", help="judge nothing, write the page of the results that are kept"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
