"""SASL mechanisms, credentials, sessions."""
