"""Health, readiness and the description of the surface itself."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

from kshim.control.context import ControlContext
from kshim.control.documents import Health, Ready
from kshim.control.http import ProblemError, Response
from kshim.control.metrics import CONTENT_TYPE
from kshim.control.routing import Table
from kshim.wording import counted

TABLE = Table()


@cache
def _version() -> str:
    """The live page asks for it with each reading, and to find it takes half a millisecond."""
    return version("kshim")


@TABLE.get("/health")
def health(_context: ControlContext) -> Health:
    """Whether the process answers. Needs no token."""
    return Health()


@TABLE.get("/ready", problems=(503,))
def ready(context: ControlContext) -> Ready:
    """Whether the brokers accept connections and all coordinators have read their logs."""
    cluster = context.cluster
    if context.server is None:
        raise ProblemError(503, "the brokers do not accept connections yet")
    for host in cluster.coordinators.values():
        if host.loader.pending_count:
            raise ProblemError(
                503, f"{counted(host.loader.pending_count, 'partition')} of {host.topic_name} must still be read"
            )
    addresses = [cluster.known_node(node_id).address("PLAINTEXT") for node_id in cluster.leadership.node_ids]
    return Ready(
        bootstrap_servers=",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses),
        cluster_id=cluster.cluster_id,
        version=_version(),
    )


@TABLE.post("/v1/reset", problems=(409,))
async def reset(context: ControlContext) -> Ready:
    """Start anew with the topics and faults of the start, and nothing else.

    All connections are closed, event streams end, waits are answered 503; addresses stay. It takes some milliseconds, and is
    done when it is answered. Brokers with a data directory or a recording cannot be reset.
    """
    if context.no_reset is not None:
        raise ProblemError(409, context.no_reset)
    return ready(await context.reset())


@TABLE.get("/metrics", answers=CONTENT_TYPE)
def metrics(context: ControlContext) -> Response:
    """The metrics of the brokers and their groups, for Prometheus.

    At most 200 groups and 2,000 partitions have series of their own; `kshim_metrics_left_out` counts the others.
    """
    return Response(200, context.metrics.text(), CONTENT_TYPE)


@TABLE.get("/openapi.json")
def description(context: ControlContext) -> Response:
    """The description of everything here, as OpenAPI 3.1."""
    return Response(200, context.describe())
