import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;

/** Producing and reading without groups, and loads in the background. */
public final class DataCommands {
    private final Settings settings;
    private final Map<String, Load> loads = new HashMap<>();

    DataCommands(Settings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, Driver.Command> commands) {
        commands.put("produce", this::produce);
        commands.put("read", this::read);
        commands.put("offsets", this::offsets);
        commands.put("load_start", this::startLoad);
        commands.put("load_stop", fields -> loads.remove(fields.string("load")).end());
    }

    private Map<String, ?> produce(Fields fields) throws Exception {
        Map<String, Object> named = new HashMap<>();
        if (fields.has("compression")) {
            named.put("compression.type", fields.string("compression"));
        }
        try (KafkaProducer<String, String> producer = settings.producer(idempotence(fields, named))) {
            return Map.of("placed", send(producer, fields.string("topic"), fields.objects("records")));
        }
    }

    private static Map<String, Object> idempotence(Fields fields, Map<String, Object> named) {
        if (fields.has("idempotent")) {
            named.put("enable.idempotence", fields.isTrue("idempotent"));
            named.put("acks", "all");
        }
        return named;
    }

    /** Send all, then wait for all: {@code [[partition, offset], ...]} in the order of the records. */
    static List<List<Object>> send(KafkaProducer<String, String> producer, String topic, List<Fields> records)
        throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (Fields record : records) {
            sent.add(producer.send(producerRecord(topic, record)));
        }
        producer.flush();
        List<List<Object>> placed = new ArrayList<>();
        for (Future<RecordMetadata> future : sent) {
            RecordMetadata metadata = future.get();
            placed.add(List.of(metadata.partition(), metadata.offset()));
        }
        return placed;
    }

    private static ProducerRecord<String, String> producerRecord(String topic, Fields record) {
        List<Header> headers = new ArrayList<>();
        for (Object each : record.list("headers")) {
            List<?> pair = (List<?>) each;
            headers.add(new RecordHeader((String) pair.get(0), bytes((String) pair.get(1))));
        }
        return new ProducerRecord<>(topic, record.has("partition") ? record.number("partition") : null,
            record.has("timestamp") ? record.longNumber("timestamp") : null, record.string("key"),
            record.string("value"), headers);
    }

    private static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }

    private static Map<String, Object> isolation(Fields fields) {
        return fields.has("isolation") ? Map.of("isolation.level", fields.string("isolation")) : Map.of();
    }

    private Map<String, ?> read(Fields fields) {
        int count = fields.number("count");
        long end = System.nanoTime() + fields.longNumber("timeout_ms") * 1_000_000;
        List<Object> records = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = settings.consumer(isolation(fields))) {
            Map<TopicPartition, Object> starts = new HashMap<>();
            fields.object("starts").map().forEach((partition, start) ->
                starts.put(new TopicPartition(fields.string("topic"), Integer.parseInt(partition)), start));
            consumer.assign(starts.keySet());
            starts.forEach((partition, start) -> seek(consumer, partition, start));
            while (records.size() < count && System.nanoTime() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(100))) {
                    records.add(answer(record));
                }
            }
        }
        return Map.of("records", records);
    }

    private static void seek(KafkaConsumer<String, String> consumer, TopicPartition partition, Object start) {
        if ("beginning".equals(start)) {
            consumer.seekToBeginning(List.of(partition));
        } else if ("end".equals(start)) {
            consumer.seekToEnd(List.of(partition));
        } else {
            consumer.seek(partition, ((Number) start).longValue());
        }
    }

    private static Map<String, Object> answer(ConsumerRecord<String, String> record) {
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            String value = header.value() == null ? null
                : new String(header.value(), java.nio.charset.StandardCharsets.UTF_8);
            headers.add(java.util.Arrays.asList(header.key(), value));
        }
        Map<String, Object> answer = new HashMap<>();
        answer.put("partition", record.partition());
        answer.put("offset", record.offset());
        answer.put("timestamp", record.timestamp());
        answer.put("key", record.key());
        answer.put("value", record.value());
        answer.put("headers", headers);
        return answer;
    }

    private Map<String, ?> offsets(Fields fields) {
        List<TopicPartition> partitions = fields.numbers("partitions").stream()
            .map(each -> new TopicPartition(fields.string("topic"), each)).toList();
        Map<String, Long> offsets = new HashMap<>();
        try (KafkaConsumer<String, String> consumer = settings.consumer(isolation(fields))) {
            if (fields.get("at") instanceof Number time) {
                Map<TopicPartition, Long> times = new HashMap<>();
                partitions.forEach(partition -> times.put(partition, time.longValue()));
                for (Map.Entry<TopicPartition, OffsetAndTimestamp> each : consumer.offsetsForTimes(times).entrySet()) {
                    OffsetAndTimestamp found = each.getValue();
                    offsets.put(String.valueOf(each.getKey().partition()), found == null ? null : found.offset());
                }
            } else {
                var found = "beginning".equals(fields.get("at")) ? consumer.beginningOffsets(partitions)
                    : consumer.endOffsets(partitions);
                found.forEach((partition, offset) -> offsets.put(String.valueOf(partition.partition()), offset));
            }
        }
        return Map.of("offsets", offsets);
    }

    private Map<String, ?> startLoad(Fields fields) {
        KafkaProducer<String, String> producer = settings.producer(idempotence(fields, new HashMap<>()));
        Load load = new Load(producer, fields.string("topic"), ((Number) fields.get("rate")).doubleValue());
        loads.put(fields.string("load"), load);
        load.start();
        return Map.of();
    }

    /** Produces numbers at a rate until it is stopped. */
    private static final class Load extends Thread {
        private final KafkaProducer<String, String> producer;
        private final String topic;
        private final double rate;
        private final List<Integer> acknowledged = new ArrayList<>();
        private final List<Integer> failed = new ArrayList<>();
        private volatile boolean stopped;

        Load(KafkaProducer<String, String> producer, String topic, double rate) {
            this.producer = producer;
            this.topic = topic;
            this.rate = rate;
            setDaemon(true);
        }

        @Override
        public void run() {
            long began = System.nanoTime();
            for (int number = 0; !stopped; number++) {
                LockSupport.parkNanos((long) (began + number / rate * 1e9) - System.nanoTime());
                int sent = number;
                String text = String.valueOf(number);
                try {
                    producer.send(new ProducerRecord<>(topic, text, text), (metadata, error) -> note(sent, error));
                } catch (RuntimeException refused) { // no metadata in time, or the buffer is full
                    note(sent, refused);
                }
            }
        }

        private synchronized void note(int number, Exception error) {
            (error == null ? acknowledged : failed).add(number);
        }

        Map<String, ?> end() throws InterruptedException {
            stopped = true;
            LockSupport.unpark(this);
            join();
            producer.close(); // waits for what is under way
            synchronized (this) {
                return Map.of("acknowledged", acknowledged, "failed", failed);
            }
        }
    }
}
