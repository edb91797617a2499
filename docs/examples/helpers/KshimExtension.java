import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * A kshim for the tests of a class. Copy this file; it needs Java 17, JUnit 5, and {@code kshim} with its extra {@code control} on the PATH.
 *
 * <pre>
 * &#64;RegisterExtension
 * static final KshimExtension kshim = new KshimExtension("--topic", "orders:3");
 * </pre>
 *
 * Brokers start before the first test, on free ports, and are reset before each. Answers are JSON as kshim sends it; what it
 * refuses is an IllegalStateException with its sentence.
 */
public final class KshimExtension implements BeforeAllCallback, BeforeEachCallback, AfterAllCallback {
    private static final Pattern URL = Pattern.compile("Control over HTTP on (\\S+)");
    private static final Pattern DETAIL = Pattern.compile("\"detail\":\"((?:[^\"\\\\]|\\\\.)*)\"");

    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final List<String> log = Collections.synchronizedList(new ArrayList<>());
    private final String[] options;
    private Process process;
    private String url;
    private String bootstrapServers;

    /** @param options further options of {@code kshim serve} */
    public KshimExtension(String... options) {
        this.options = options;
    }

    @Override
    public void beforeAll(ExtensionContext context) throws Exception {
        List<String> command = new ArrayList<>(
            List.of("kshim", "serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"));
        command.addAll(List.of(options));
        process = new ProcessBuilder(command).start();
        CompletableFuture<String> found = new CompletableFuture<>();
        Thread reader = new Thread(() -> {
            try (BufferedReader lines = process.errorReader(StandardCharsets.UTF_8)) {
                for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                    log.add(line);
                    Matcher matcher = URL.matcher(line);
                    if (matcher.find()) {
                        found.complete(matcher.group(1));
                    }
                }
            } catch (IOException closed) {
                // The process was ended.
            }
            found.completeExceptionally(new IllegalStateException("kshim has ended:\n" + String.join("\n", log)));
        });
        reader.setDaemon(true);
        reader.start();
        url = found.get(60, TimeUnit.SECONDS);
        bootstrapServers = new BufferedReader(new InputStreamReader(process.getInputStream())).readLine();
    }

    @Override
    public void beforeEach(ExtensionContext context) {
        request("POST", "/v1/reset", null);
    }

    @Override
    public void afterAll(ExtensionContext context) throws InterruptedException {
        process.destroy();
        process.waitFor();
    }

    /** What clients call {@code bootstrap.servers}. */
    public String bootstrapServers() {
        return bootstrapServers;
    }

    /** Creates a topic. */
    public void createTopic(String name, int partitions) {
        request("POST", "/v1/topics", "{\"name\": " + quoted(name) + ", \"partitions\": " + partitions + "}");
    }

    /** Writes a record. */
    public void produce(String topic, String key, String value) {
        String record = "{\"key\": " + quoted(key) + ", \"value\": " + quoted(value) + "}";
        request("POST", "/v1/topics/" + topic + "/records", "{\"records\": [" + record + "]}");
    }

    /** Waits until a group is Stable with so many members that all have their assignment. */
    public String waitStable(String group, int members, Duration timeout) {
        return await(group, "state=Stable&members=" + members, timeout);
    }

    /** Waits until a group has no member. */
    public String waitEmpty(String group, Duration timeout) {
        return await(group, "state=Empty", timeout);
    }

    /** Waits until this offset of a partition, or a later one, is committed. */
    public String waitCommitted(String group, String topic, int partition, long offset, Duration timeout) {
        return await(group, "topic=" + topic + "&partition=" + partition + "&offset=" + offset, timeout);
    }

    /** What happened to a group, in words. */
    public String explain(String group) {
        return request("GET", path(group) + "/explain", null);
    }

    /** Removes a member by its member, instance or client id. */
    public void expel(String group, String member) {
        request("POST", path(group) + "/expel", "{\"member\": " + quoted(member) + "}");
    }

    /** Sets a fault, such as {@code {"on": "Heartbeat", "do": {"error": "NOT_COORDINATOR"}, "when": {"times": 2}}}. */
    public void fault(String rule) {
        request("POST", "/v1/faults", rule);
    }

    /** Fails unless every fault has fired. */
    public void assertFaultsUsed() {
        request("POST", "/v1/faults/assert-used", null);
    }

    /** Moves the brokers' clock ahead; the answer lists the timers that fired on the way. */
    public String advance(Duration duration) {
        return request("POST", "/v1/clock/advance", "{\"seconds\": " + duration.toMillis() / 1_000.0 + "}");
    }

    /** Stops, starts, kills or restarts a broker. */
    public void node(int id, String verb) {
        request("POST", "/v1/nodes/" + id + "/" + verb, null);
    }

    /** One request; the answer as JSON. */
    public String request(String method, String path, String body) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path));
        if (body == null) {
            request.method(method, HttpRequest.BodyPublishers.noBody());
        } else {
            request.header("Content-Type", "application/json").method(method, HttpRequest.BodyPublishers.ofString(body));
        }
        HttpResponse<String> answer;
        try {
            answer = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
        } catch (IOException error) {
            throw new IllegalStateException(method + " " + path + ": " + error + "\n" + String.join("\n", log), error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(error);
        }
        if (answer.statusCode() >= 400) {
            Matcher detail = DETAIL.matcher(answer.body());
            String sentence = detail.find() ? detail.group(1).replace("\\n", "\n").replace("\\\"", "\"") : answer.body();
            throw new IllegalStateException(sentence);
        }
        return answer.body();
    }

    private String await(String group, String what, Duration timeout) {
        return request("GET", path(group) + "/wait?" + what + "&timeout=" + timeout.toMillis() / 1_000.0, null);
    }

    private static String path(String group) {
        return "/v1/groups/" + URLEncoder.encode(group, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private static String quoted(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            quoted.append(each == '"' || each == '\\' || each < ' ' ? String.format("\\u%04x", (int) each) : each);
        }
        return quoted.append('"').toString();
    }
}
