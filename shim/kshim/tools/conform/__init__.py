"""`kshim conform`: runs the scenarios against any broker and reports which behaviours match Kafka's."""
