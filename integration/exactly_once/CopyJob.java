import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The job of `copy_job.py`, with Apache Kafka's own client; the same arguments, the same habits. */
public final class CopyJob {
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private final String source;
    private final String target;

    private CopyJob(String bootstrap, String source, String target, String group, String transactionalId) {
        this.source = source;
        this.target = target;
        consumer = new KafkaConsumer<>(
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "group.id", group,
                        "auto.offset.reset", "earliest",
                        "enable.auto.commit", "false",
                        "isolation.level", "read_committed",
                        "session.timeout.ms", "6000",
                        "heartbeat.interval.ms", "500",
                        "max.poll.records", "50"),
                new StringDeserializer(),
                new StringDeserializer());
        producer = new KafkaProducer<>(
                Map.of(
                        "bootstrap.servers", bootstrap,
                        "transactional.id", transactionalId,
                        "transaction.timeout.ms", "10000",
                        "linger.ms", "2"),
                new StringSerializer(),
                new StringSerializer());
    }

    private void run() {
        producer.initTransactions();
        consumer.subscribe(List.of(source));
        while (true) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
            if (records.isEmpty()) {
                continue;
            }
            try {
                copy(records);
            } catch (ProducerFencedException | InvalidProducerEpochException | AuthorizationException fatal) {
                throw fatal;
            } catch (KafkaException error) {
                System.err.println("aborting: " + error);
                producer.abortTransaction();
                goBack();
            }
        }
    }

    private void copy(ConsumerRecords<String, String> records) {
        producer.beginTransaction();
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            producer.send(new ProducerRecord<>(target, record.partition(), record.key(), "copied:" + record.value()));
            offsets.put(
                    new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (RetriableException again) {
                System.err.println("committing again: " + again);
            }
        }
    }

    private void goBack() {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition partition : consumer.assignment()) {
            OffsetAndMetadata offset = committed.get(partition);
            consumer.seek(partition, offset == null ? 0 : offset.offset());
        }
    }

    public static void main(String[] arguments) {
        new CopyJob(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4]).run();
    }
}
