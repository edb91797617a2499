"""Tools that speak to a broker through its protocol, or read its files."""
