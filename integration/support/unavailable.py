"""Something outside Python that a test needs and this machine may lack."""


class Unavailable(Exception):
    """What is missing, in words that say how to get it. The fixtures turn it into a skip with this reason."""
