"""@platformatic/kafka, a client in JavaScript alone."""
