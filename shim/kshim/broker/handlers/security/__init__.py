"""APIs of SASL, SCRAM credentials and ACLs."""
