"""`kshim conform`: plays the scenarios against any broker and says what it does as Kafka does, and what not."""
