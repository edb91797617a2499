"""Bills the orders that have come since it ran last, and ends. It runs once a week."""

from confluent_kafka import Consumer, KafkaError, KafkaException


def bill_new_orders(config, bill):
    consumer = Consumer(
        {
            "group.id": "weekly-billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **config,
        }
    )
    consumer.subscribe(["orders"])
    try:
        while True:
            order = consumer.poll(60)
            if order is None:
                raise TimeoutError("Kafka did not answer for a minute")
            if order.error() is None:
                bill(order.value().decode())
                consumer.commit(order, asynchronous=False)
            elif order.error().code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise KafkaException(order.error())
    finally:
        consumer.close()
