import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Transactional producers, and the exactly-once copy. */
public final class TransactionCommands {
    private final Settings settings;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();

    TransactionCommands(Settings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, Driver.Command> commands) {
        commands.put("transactional_open", this::open);
        commands.put("transaction_begin", fields -> {
            producer(fields).beginTransaction();
            return Map.of();
        });
        commands.put("transaction_send", fields ->
            Map.of("placed", DataCommands.send(producer(fields), fields.string("topic"), fields.objects("records"))));
        commands.put("transaction_offsets", fields -> {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            fields.offsets("offsets").forEach((partition, offset) -> offsets.put(partition, new OffsetAndMetadata(offset)));
            producer(fields).sendOffsetsToTransaction(offsets, new ConsumerGroupMetadata(fields.string("group")));
            return Map.of();
        });
        commands.put("transaction_commit", fields -> {
            producer(fields).commitTransaction();
            return Map.of();
        });
        commands.put("transaction_abort", fields -> {
            producer(fields).abortTransaction();
            return Map.of();
        });
        commands.put("transactional_close", fields -> {
            producers.remove(fields.string("producer")).close();
            return Map.of();
        });
        commands.put("copy", fields -> new Copy(settings, fields).run());
    }

    private KafkaProducer<String, String> producer(Fields fields) {
        return producers.get(fields.string("producer"));
    }

    private Map<String, ?> open(Fields fields) {
        Map<String, Object> named = new HashMap<>();
        named.put("transactional.id", fields.string("transactional_id"));
        if (fields.has("timeout_ms")) {
            named.put("transaction.timeout.ms", String.valueOf(fields.number("timeout_ms")));
        }
        KafkaProducer<String, String> producer = settings.producer(named);
        try {
            producer.initTransactions();
        } catch (KafkaException refused) {
            producer.close(Duration.ZERO);
            throw refused;
        }
        producers.put(fields.string("producer"), producer);
        return Map.of();
    }

    /** The loop of an application that copies a topic, each poll one transaction. */
    private static final class Copy {
        private final Settings settings;
        private final Fields fields;
        private final int abortEvery;
        private int copied;
        private int committed;
        private int aborted;

        Copy(Settings settings, Fields fields) {
            this.settings = settings;
            this.fields = fields;
            this.abortEvery = fields.has("abort_every") ? fields.number("abort_every") : 0;
        }

        Map<String, ?> run() {
            long end = System.nanoTime() + fields.longNumber("timeout_ms") * 1_000_000;
            Map<String, Object> reading = Map.of("group.id", fields.string("group"),
                "isolation.level", "read_committed", "max.poll.records", 100);
            Map<String, Object> writing = Map.of("transactional.id", fields.string("transactional_id"));
            try (KafkaConsumer<String, String> consumer = settings.consumer(reading);
                KafkaProducer<String, String> producer = settings.producer(writing)) {
                producer.initTransactions();
                consumer.subscribe(List.of(fields.string("source")));
                while (copied < fields.number("count") && System.nanoTime() < end) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                    if (!records.isEmpty()) {
                        transact(consumer, producer, records);
                    }
                }
            }
            return Map.of("copied", copied, "committed", committed, "aborted", aborted);
        }

        private void transact(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer,
            ConsumerRecords<String, String> records) {
            producer.beginTransaction();
            try {
                for (ConsumerRecord<String, String> record : records) {
                    producer.send(new ProducerRecord<>(fields.string("target"), record.key(), record.value() + "!"));
                }
                if (abortEvery > 0 && (committed + aborted + 1) % abortEvery == 0) {
                    producer.flush();
                    abort(consumer, producer);
                    return;
                }
                producer.sendOffsetsToTransaction(records.nextOffsets(), consumer.groupMetadata());
                producer.commitTransaction();
                copied += records.count();
                committed++;
            } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException fatal) {
                throw fatal;
            } catch (KafkaException abortable) {
                abortable.printStackTrace();
                abort(consumer, producer);
            }
        }

        private void abort(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer) {
            producer.abortTransaction();
            aborted++;
            Set<TopicPartition> assigned = consumer.assignment();
            Map<TopicPartition, OffsetAndMetadata> offsets = consumer.committed(assigned);
            for (TopicPartition partition : assigned) {
                OffsetAndMetadata offset = offsets.get(partition);
                if (offset == null) {
                    consumer.seekToBeginning(List.of(partition));
                } else {
                    consumer.seek(partition, offset);
                }
            }
        }
    }
}
