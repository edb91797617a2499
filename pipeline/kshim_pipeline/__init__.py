"""Why did a fleet's groups rebalance: a coordinator's history read, landed, modelled and explained with PySpark."""
