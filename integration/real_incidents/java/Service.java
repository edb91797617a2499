import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** A service that consumes with Apache Kafka's own client until it is stopped, and then closes. */
public final class Service {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "RangeAssignor",
        "roundrobin", "RoundRobinAssignor",
        "sticky", "StickyAssignor",
        "cooperative-sticky", "CooperativeStickyAssignor");
    private static final AtomicBoolean STOPPING = new AtomicBoolean();
    private static final AtomicBoolean REBALANCING = new AtomicBoolean();
    private static final AtomicInteger WORK_MS = new AtomicInteger();

    private Service() {
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.load(new StringReader(System.getenv("SERVICE").replace("\\", "\\\\")));
        int workMs = Integer.parseInt((String) settings.remove("work.ms"));
        String topics = (String) settings.remove("topics");
        String pattern = (String) settings.remove("pattern");
        settings.computeIfPresent("partition.assignment.strategy",
            (key, name) -> "org.apache.kafka.clients.consumer." + ASSIGNORS.get(name));
        Thread commands = new Thread(Service::read);
        commands.setDaemon(true);
        commands.start();
        ByteArrayDeserializer bytes = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, bytes, bytes)) {
            if (topics != null) {
                consumer.subscribe(List.of(topics.split(",")));
            } else {
                consumer.subscribe(Pattern.compile(pattern));
            }
            while (!STOPPING.get()) {
                boolean isEmpty = consumer.poll(Duration.ofMillis(500)).isEmpty();
                Thread.sleep((isEmpty ? 0 : workMs) + WORK_MS.getAndSet(0));
                if (REBALANCING.getAndSet(false)) {
                    consumer.enforceRebalance();
                }
            }
        }
    }

    private static void read() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (String line = lines.readLine(); line != null && !line.equals("stop"); line = lines.readLine()) {
                if (line.equals("rebalance")) {
                    REBALANCING.set(true);
                } else {
                    WORK_MS.set(Integer.parseInt(line.substring("work ".length())));
                }
            }
        } catch (IOException error) {
            error.printStackTrace();
        }
        STOPPING.set(true);
    }
}
