"""How many connections there may be: in all, of one listener, of one address."""

from __future__ import annotations

from kshim.server.limits import ServerLimits


class ConnectionQuotas:
    """Counts the connections that are open. Source: Kafka's ConnectionQuotas.

    Over the numbers of the broker or of a listener, new ones wait in the backlog; over that of an address they are
    taken and closed at once, so that one address cannot fill the backlog for the others.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._by_host: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self.total = 0

    def room(self, listener_name: str) -> int:
        """How many more a listener may take now, 0 or more."""
        room = self._limits.max_connections - self.total
        own = self._limits.listener_max_connections.get(listener_name)
        if own is not None:
            room = min(room, own - self._by_listener.get(listener_name, 0))
        return max(room, 0)

    def refusal(self, client_host: str) -> str | None:
        """Why a further connection of this address is not served, or None."""
        limits = self._limits
        bound = limits.max_connections_per_ip_overrides.get(client_host, limits.max_connections_per_ip)
        return f"more than {bound} connections of this address" if self.of(client_host) >= bound else None

    def of(self, client_host: str) -> int:
        """How many an address has."""
        return self._by_host.get(client_host, 0)

    def add(self, listener_name: str, client_host: str) -> None:
        """One has come."""
        self.total += 1
        self._by_listener[listener_name] = self._by_listener.get(listener_name, 0) + 1
        self._by_host[client_host] = self._by_host.get(client_host, 0) + 1

    def remove(self, listener_name: str, client_host: str) -> None:
        """One has gone."""
        self.total -= 1
        self._by_listener[listener_name] -= 1
        left = self._by_host.pop(client_host) - 1
        if left:
            self._by_host[client_host] = left
