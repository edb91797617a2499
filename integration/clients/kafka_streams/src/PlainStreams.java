import java.io.IOException;
import java.nio.file.Files;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;

/**
 * A stateless application of Kafka Streams, for {@code kshim conform-client}: it reads a topic, and ends when its only stream
 * thread has ended with an error, which the default handler makes of every exception.
 */
public final class PlainStreams {
    private PlainStreams() {
    }

    public static void main(String[] arguments) throws IOException, InterruptedException {
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "bootstrap.servers", System.getenv("KSHIM_BOOTSTRAP_SERVERS"),
            "application.id", System.getenv("KSHIM_GROUP"),
            "state.dir", Files.createTempDirectory("plain-streams-").toString(),
            "auto.offset.reset", "earliest",
            "commit.interval.ms", 500));
        String instance = System.getenv("KSHIM_INSTANCE");
        if (!instance.isEmpty()) {
            settings.put("main.consumer.group.instance.id", instance);
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(System.getenv("KSHIM_TOPIC"), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
            .foreach((key, value) -> { });
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        CountDownLatch failed = new CountDownLatch(1);
        streams.setStateListener((state, before) -> {
            if (state == KafkaStreams.State.ERROR) {
                failed.countDown();
            }
        });
        streams.start();
        failed.await();
        System.exit(1);
    }
}
