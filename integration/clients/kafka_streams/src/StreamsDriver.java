import java.io.IOException;

/** The Java driver with the commands of Kafka Streams. */
public final class StreamsDriver {
    private StreamsDriver() {
    }

    public static void main(String[] arguments) throws IOException {
        new Driver((commands, settings) -> new WordCount(settings).addTo(commands)).serve();
    }
}
