"""Requests and responses, one module an API."""
