"""Sockets, TLS and the loops that drive a broker, with trio."""
