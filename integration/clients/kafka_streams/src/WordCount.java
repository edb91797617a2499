import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * The word count of every introduction to Kafka Streams: words of the values of a topic, counted in a store that has a
 * changelog, the counts written to another topic as text.
 */
public final class WordCount {
    private final Settings settings;
    private final Map<String, Instance> instances = new HashMap<>();

    WordCount(Settings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, Driver.Command> commands) {
        commands.put("word_count_start", this::start);
        commands.put("word_count_log", fields -> instances.get(fields.string("instance")).log());
        commands.put("word_count_stop", fields -> instances.remove(fields.string("instance")).stop());
    }

    private Map<String, ?> start(Fields fields) throws Exception {
        Instance instance = new Instance(settings, fields);
        instances.put(fields.string("instance"), instance);
        instance.streams.start();
        return Map.of();
    }

    /** One running application of the word count. Its state directory is its own and ends with it. */
    private static final class Instance {
        private final Path state = Files.createTempDirectory("word-count-");
        private final KafkaStreams streams;
        private final AtomicReference<Throwable> failure = new AtomicReference<>();

        Instance(Settings settings, Fields fields) throws Exception {
            Map<String, Object> all = settings.with(Map.of(
                StreamsConfig.APPLICATION_ID_CONFIG, fields.string("application_id"),
                StreamsConfig.PROCESSING_GUARANTEE_CONFIG, fields.string("guarantee"),
                StreamsConfig.STATE_DIR_CONFIG, state.toString(),
                StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100,
                StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest",
                StreamsConfig.consumerPrefix("session.timeout.ms"), fields.number("session_timeout_ms")));
            java.util.Properties properties = new java.util.Properties();
            properties.putAll(all);
            streams = new KafkaStreams(topology(fields.string("source"), fields.string("target")).build(), properties);
            streams.setUncaughtExceptionHandler(thrown -> {
                failure.set(thrown);
                return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
            });
        }

        private static StreamsBuilder topology(String source, String target) {
            StreamsBuilder builder = new StreamsBuilder();
            builder.stream(source, Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(Materialized.with(Serdes.String(), Serdes.Long()))
                .toStream()
                .mapValues(count -> String.valueOf(count))
                .to(target, Produced.with(Serdes.String(), Serdes.String()));
            return builder;
        }

        Map<String, ?> log() {
            Throwable thrown = failure.get();
            return Map.of("state", streams.state().toString(), "error", thrown == null ? "" : Driver.errorName(thrown));
        }

        Map<String, ?> stop() throws Exception {
            streams.close(Duration.ofSeconds(30));
            try (Stream<Path> files = Files.walk(state)) {
                for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(file);
                }
            }
            return log();
        }
    }
}
