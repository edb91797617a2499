import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.Collection;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.StateRestoreListener;

/**
 * One process of an application: {@code StreamsApp TOPOLOGY key=value...}, of topologies {@code word-count},
 * {@code join} and {@code windows}.
 *
 * <p>It reads topics that begin with its application id and writes {@code -out}. What happens to it goes to standard output,
 * a line each: {@code state RUNNING}, {@code tasks active=0_0,1_0 standby=}, {@code restored STORE COUNT}, {@code error
 * CLASS: MESSAGE}. It takes the commands {@code add-thread}, {@code remove-thread}, {@code close}, and closes when its input
 * ends. A record with the value {@code poison} makes it fail, and {@code poison-all} ask that all processes end.
 */
public final class StreamsApp {
    private final KafkaStreams streams;
    private String lastTasks = "";

    private StreamsApp(String topology, Properties settings) {
        String application = settings.getProperty("application.id");
        StreamsBuilder builder = new StreamsBuilder();
        switch (topology) {
            case "word-count" -> wordCount(builder, application);
            case "join" -> join(builder, application);
            case "windows" -> windows(builder, application);
            default -> throw new IllegalArgumentException(topology);
        }
        streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((state, before) -> say("state " + state));
        streams.setGlobalStateRestoreListener(new Restored());
        streams.setUncaughtExceptionHandler(thrown -> {
            Throwable cause = thrown;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            say("error " + cause.getClass().getSimpleName() + ": " + String.valueOf(cause.getMessage()).replace('\n', ' '));
            boolean all = cause instanceof Poison poison && poison.ofAll;
            return all ? StreamThreadExceptionResponse.SHUTDOWN_APPLICATION : StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    }

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (String argument : Arrays.asList(arguments).subList(1, arguments.length)) {
            String[] pair = argument.split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        new StreamsApp(arguments[0], settings).run();
    }

    private static void wordCount(StreamsBuilder builder, String application) {
        builder.<String, String>stream(application + "-in")
            .flatMapValues(StreamsApp::words)
            .groupBy((key, word) -> word, Grouped.as("words"))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(count -> String.valueOf(count))
            .to(application + "-out");
    }

    /** Orders ({@code user:amount}) are written to a repartition topic by user and joined with the names of users. */
    private static void join(StreamsBuilder builder, String application) {
        var users = builder.<String, String>table(application + "-users", Materialized.as("names"));
        builder.<String, String>stream(application + "-in")
            .selectKey((key, order) -> order.split(":")[0])
            .join(users, (order, name) -> name + ":" + order.split(":")[1], Joined.as("by-user"))
            .to(application + "-out");
    }

    private static void windows(StreamsBuilder builder, String application) {
        builder.<String, String>stream(application + "-in")
            .groupByKey()
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(10)))
            .count(Materialized.as("windows"))
            .toStream()
            .map((window, count) -> KeyValue.pair(
                window.key() + "@" + window.window().startTime().getEpochSecond(), String.valueOf(count)))
            .to(application + "-out");
    }

    private static Collection<String> words(String line) {
        if (line.startsWith("poison")) {
            throw new Poison(line.equals("poison-all"));
        }
        return Arrays.asList(line.split(" "));
    }

    private void run() throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(this::close));
        var watch = Executors.newSingleThreadScheduledExecutor(task -> {
            Thread thread = new Thread(task, "watch");
            thread.setDaemon(true);
            return thread;
        });
        streams.start();
        watch.scheduleWithFixedDelay(this::watch, 0, 100, TimeUnit.MILLISECONDS);
        var commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String command;
        while ((command = commands.readLine()) != null && !command.equals("close")) {
            switch (command) {
                case "add-thread" -> say("added " + streams.addStreamThread().orElse("nothing"));
                case "remove-thread" -> say("removed " + streams.removeStreamThread().orElse("nothing"));
                default -> throw new IllegalArgumentException(command);
            }
        }
        System.exit(0);
    }

    private void close() {
        streams.close(Duration.ofSeconds(30));
    }

    private void watch() {
        var active = new TreeSet<String>();
        var standby = new TreeSet<String>();
        for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
            for (TaskMetadata task : thread.activeTasks()) {
                active.add(task.taskId().toString());
            }
            for (TaskMetadata task : thread.standbyTasks()) {
                standby.add(task.taskId().toString());
            }
        }
        String tasks = "tasks active=" + String.join(",", active) + " standby=" + String.join(",", standby);
        if (!tasks.equals(lastTasks)) {
            lastTasks = tasks;
            say(tasks);
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }

    private static final class Poison extends RuntimeException {
        private static final long serialVersionUID = 1;
        private final boolean ofAll;

        Poison(boolean ofAll) {
            super(ofAll ? "all processes are to end" : "this process is to end");
            this.ofAll = ofAll;
        }
    }

    private static final class Restored implements StateRestoreListener {
        public void onRestoreStart(TopicPartition partition, String store, long start, long end) {
        }

        public void onBatchRestored(TopicPartition partition, String store, long end, long count) {
        }

        public void onRestoreEnd(TopicPartition partition, String store, long total) {
            say("restored " + store + "-" + partition.partition() + " " + total);
        }
    }
}
