"""The operations that a client may do, as responses show them: without ACLs all (KIP-430). Bit numbers are those of AclOperation."""

from __future__ import annotations

NOT_ASKED = -2147483648
"""The client did not ask."""
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, write, create, delete, alter, describe, describe and alter configs."""
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""Create, alter, describe, cluster action, describe and alter configs, idempotent write."""
