import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.protocol.Errors;

/**
 * Apache Kafka's Java client behind the driver contract of docs/design/clients.md: one JSON object a line in, one out.
 *
 * <p>Threads: commands are carried out by the main thread; every member and every load has a thread of its own.
 */
public final class Driver {
    private final Map<String, Command> commands = new java.util.HashMap<>();

    /** What a command does: its fields in, the fields of its answer out. */
    @FunctionalInterface
    public interface Command {
        Map<String, ?> run(Fields fields) throws Exception;
    }

    /** Something that this client cannot express. The message goes on the page. */
    @SuppressWarnings("serial")
    public static final class Unsupported extends RuntimeException {
        public Unsupported(String reason) {
            super(reason);
        }
    }

    /** A driver with the commands of the contract, and those that {@code more} adds. */
    Driver(java.util.function.BiConsumer<Map<String, Command>, Settings> more) {
        Settings settings = new Settings();
        commands.put("open", settings::open);
        new AdminCommands(settings).addTo(commands);
        new DataCommands(settings).addTo(commands);
        new MemberCommands(settings).addTo(commands);
        new TransactionCommands(settings).addTo(commands);
        more.accept(commands, settings);
    }

    public static void main(String[] arguments) throws IOException {
        new Driver((commands, settings) -> { }).serve();
    }

    /** Answer the commands of stdin until it ends, then end the process. */
    void serve() throws IOException {
        PrintStream answers = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false,
            StandardCharsets.UTF_8);
        System.setOut(System.err);
        ObjectMapper json = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            @SuppressWarnings("unchecked")
            Map<String, Object> fields = json.readValue(line, Map.class);
            answers.print(json.writeValueAsString(answer(new Fields(fields))) + "\n");
            answers.flush();
        }
        System.exit(0); // members that were never stopped poll on threads of their own
    }

    private Map<String, ?> answer(Fields fields) {
        String name = fields.string("do");
        Command command = commands.get(name);
        if (command == null) {
            return Map.of("unsupported", "kafka-clients has nothing that answers " + name);
        }
        try {
            return Map.of("ok", command.run(fields));
        } catch (Unsupported unsupported) {
            return Map.of("unsupported", unsupported.getMessage());
        } catch (Exception failure) {
            failure.printStackTrace();
            return Map.of("error", errorName(failure), "message", String.valueOf(cause(failure).getMessage()));
        }
    }

    /** Kafka's constant for an exception that stands for one, else the name of its class. */
    static String errorName(Throwable failure) {
        Throwable cause = cause(failure);
        Errors error = Errors.forException(cause);
        return error == Errors.UNKNOWN_SERVER_ERROR ? cause.getClass().getSimpleName() : error.name();
    }

    /** The exception below those that only carry another one: of futures, and Kafka's own without meaning. */
    static Throwable cause(Throwable failure) {
        Throwable cause = failure;
        while (cause.getCause() != null && (cause instanceof ExecutionException || cause instanceof CompletionException
            || cause.getClass() == KafkaException.class)) {
            cause = cause.getCause();
        }
        return cause;
    }
}
