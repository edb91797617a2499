import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Books a courier for each order there is, and ends: a scheduler runs it every minute. */
public final class Couriers {
    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        try (Reader file = Files.newBufferedReader(Path.of(arguments[0]))) {
            config.load(file);
        }
        try {
            System.out.println(bookAll(config) + " booked");
        } catch (ApiException error) {
            System.out.println("not allowed: " + error.getClass().getSimpleName());
            System.exit(2);
        }
    }

    private static int bookAll(Properties config) {
        Properties reading = new Properties();
        reading.putAll(config);
        reading.put("group.id", "couriers");
        reading.put("auto.offset.reset", "earliest");
        reading.put("enable.auto.commit", "false");
        try (var consumer = new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer());
                var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            consumer.subscribe(List.of("orders"));
            ConsumerRecords<String, String> orders = consumer.poll(Duration.ofSeconds(10));
            for (ConsumerRecord<String, String> order : orders) {
                producer.send(new ProducerRecord<>("bookings", "courier for " + order.value()));
            }
            producer.flush();
            consumer.commitSync();
            return orders.count();
        }
    }
}
