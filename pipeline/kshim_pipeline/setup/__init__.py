"""A Spark that works on a fresh machine: Java, the connector's jars, and the session that uses both."""
