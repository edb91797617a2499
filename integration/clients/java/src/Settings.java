import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What {@code open} said, and the clients made with it. */
public final class Settings {
    private final Map<String, Object> common = new HashMap<>();
    private String groupProtocol;
    private Admin admin;

    /** {@code open}: forget earlier settings; a connection is made when a client needs it. */
    Map<String, ?> open(Fields fields) throws IOException {
        common.clear();
        common.put("bootstrap.servers", fields.string("bootstrap"));
        groupProtocol = fields.has("group_protocol") ? fields.string("group_protocol") : "classic";
        if (fields.has("security")) {
            secure(fields.object("security"));
        }
        if (admin != null) {
            admin.close();
            admin = null;
        }
        return Map.of("client", "kafka-clients", "version", version());
    }

    /** Of the client, as its jar says. */
    private static String version() throws IOException {
        Properties properties = new Properties();
        try (InputStream text = KafkaConsumer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            properties.load(text);
        }
        return properties.getProperty("version");
    }

    private void secure(Fields security) throws IOException {
        common.put("security.protocol", security.string("protocol"));
        if (security.has("ca")) {
            common.put("ssl.truststore.type", "PEM");
            common.put("ssl.truststore.certificates", Files.readString(Path.of(security.string("ca"))));
        }
        if (security.has("certificate")) {
            common.put("ssl.keystore.type", "PEM");
            common.put("ssl.keystore.certificate.chain", Files.readString(Path.of(security.string("certificate"))));
            common.put("ssl.keystore.key", Files.readString(Path.of(security.string("key"))));
        }
        if (security.has("mechanism")) {
            String mechanism = security.string("mechanism");
            String module = mechanism.equals("PLAIN") ? "plain.Plain" : "scram.Scram";
            common.put("sasl.mechanism", mechanism);
            common.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + "LoginModule required username="
                + quoted(security.string("username")) + " password=" + quoted(security.string("password")) + ";");
        }
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    /** Whether groups are those of KIP-848. */
    boolean hasConsumerProtocol() {
        return groupProtocol.equals("consumer");
    }

    /** The one admin client, made on first use. */
    Admin admin() {
        if (admin == null) {
            admin = Admin.create(common);
        }
        return admin;
    }

    KafkaProducer<String, String> producer(Map<String, ?> settings) {
        return new KafkaProducer<>(with(settings), new StringSerializer(), new StringSerializer());
    }

    /** A consumer with the contract's defaults under {@code settings}. */
    KafkaConsumer<String, String> consumer(Map<String, ?> settings) {
        Map<String, Object> all = new HashMap<>();
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", false);
        all.put("allow.auto.create.topics", false);
        all.put("group.protocol", groupProtocol);
        all.putAll(settings);
        return new KafkaConsumer<>(with(all), new StringDeserializer(), new StringDeserializer());
    }

    /** What {@code open} said, with {@code settings} over it. */
    Map<String, Object> with(Map<String, ?> settings) {
        Map<String, Object> all = new HashMap<>(common);
        all.putAll(settings);
        return all;
    }
}
