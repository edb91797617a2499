import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

class BillingTest {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    @RegisterExtension
    static final KshimExtension kshim = new KshimExtension("--topic", "orders:1");

    private static KafkaConsumer<String, String> consumer() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", kshim.bootstrapServers());
        settings.put("group.id", "billing");
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("heartbeat.interval.ms", "100");
        KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of("orders"));
        return consumer;
    }

    private static ConsumerRecord<String, String> next(KafkaConsumer<String, String> consumer) {
        ConsumerRecords<String, String> records = ConsumerRecords.empty();
        while (records.isEmpty()) {
            records = consumer.poll(Duration.ofMillis(100));
        }
        return records.iterator().next();
    }

    @Test
    void anOrderIsBilledThoughTheCommitIsRefusedTwice() {
        kshim.produce("orders", "k", "one coffee");
        kshim.fault("{\"on\": \"OffsetCommit\", \"match\": {\"group\": \"billing\"},"
            + " \"do\": {\"error\": \"COORDINATOR_LOAD_IN_PROGRESS\"}, \"when\": {\"times\": 2}}");
        try (KafkaConsumer<String, String> consumer = consumer()) {
            assertEquals("one coffee", next(consumer).value());
            consumer.commitSync();
            kshim.waitCommitted("billing", "orders", 0, 1, PATIENCE);
        }
        kshim.assertFaultsUsed();
        kshim.waitEmpty("billing", PATIENCE);
    }

    @Test
    void aSessionOf45SecondsExpiresInMilliseconds() {
        kshim.produce("orders", "k", "one coffee");
        try (KafkaConsumer<String, String> consumer = consumer()) {
            next(consumer);
            kshim.waitStable("billing", 1, PATIENCE);
            String fired = kshim.advance(Duration.ofSeconds(46));
            assertTrue(fired.contains("\"session\""), fired);
            assertTrue(kshim.explain("billing").contains("Rebalance 1"));
            kshim.waitEmpty("billing", PATIENCE);
        }
    }

    @Test
    void whatIsWaitedForInVainIsExplained() {
        IllegalStateException error = assertThrows(
            IllegalStateException.class, () -> kshim.waitStable("nobody", 1, Duration.ofMillis(50)));
        assertTrue(error.getMessage().startsWith("group nobody is Dead"), error.getMessage());
    }
}
