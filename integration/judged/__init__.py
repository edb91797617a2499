"""What somebody else did to real clients, who knew nothing of the rules of `kshim why`, and what they say of it.

The same script of 51 incidents in six groups was played once on kshim and once on Kafka 4.4, on 2026-11-29, on one machine:
kafka-python, confluent-kafka and Java, sessions of 6 to 45 s, static members, the new protocol, a pattern. `plays` has
what `kshim why --record` kept of both, and what was done. Who wrote the player also wrote which causes are right for each, before it was played.

`kshim-71` is of a second judge, with another player, from the same day, and was new to all rules: 56 incidents with aiokafka, too, drawn at random (seed 71).
"""
