import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A consumer as applications have it, for {@code kshim conform-client}: automatic commits, whatever poll throws ends it. */
public final class PlainConsumer {
    private PlainConsumer() {
    }

    public static void main(String[] arguments) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", System.getenv("KSHIM_BOOTSTRAP_SERVERS"),
            "group.id", System.getenv("KSHIM_GROUP"),
            "auto.offset.reset", "earliest",
            "auto.commit.interval.ms", 500));
        String instance = System.getenv("KSHIM_INSTANCE");
        if (!instance.isEmpty()) {
            settings.put("group.instance.id", instance);
        }
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            consumer.subscribe(List.of(System.getenv("KSHIM_TOPIC")));
            while (true) {
                consumer.poll(Duration.ofSeconds(1));
            }
        }
    }
}
