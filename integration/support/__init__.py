"""What the suites need around them: the Kafka jars, a JVM, brokers of both kinds."""
