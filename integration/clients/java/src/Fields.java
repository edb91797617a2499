import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;

/** The fields of a command, or of an object in one, read as what the contract says they are. */
public final class Fields {
    private final Map<String, Object> values;

    public Fields(Map<String, Object> values) {
        this.values = values;
    }

    public boolean has(String name) {
        return values.get(name) != null;
    }

    public Object get(String name) {
        return values.get(name);
    }

    /** A string, or null where the command has none. */
    public String string(String name) {
        return (String) values.get(name);
    }

    public boolean isTrue(String name) {
        return Boolean.TRUE.equals(values.get(name));
    }

    public int number(String name) {
        return ((Number) values.get(name)).intValue();
    }

    public long longNumber(String name) {
        return ((Number) values.get(name)).longValue();
    }

    /** A list; empty where the command has none. */
    @SuppressWarnings("unchecked")
    public List<Object> list(String name) {
        return (List<Object>) values.getOrDefault(name, List.of());
    }

    public List<String> strings(String name) {
        return list(name).stream().map(String.class::cast).toList();
    }

    public List<Integer> numbers(String name) {
        return list(name).stream().map(each -> ((Number) each).intValue()).toList();
    }

    @SuppressWarnings("unchecked")
    public List<Fields> objects(String name) {
        return list(name).stream().map(each -> new Fields((Map<String, Object>) each)).toList();
    }

    @SuppressWarnings("unchecked")
    public Fields object(String name) {
        return new Fields((Map<String, Object>) values.getOrDefault(name, Map.of()));
    }

    public Map<String, Object> map() {
        return values;
    }

    /** {@code [[topic, partition], ...]}. */
    public List<TopicPartition> partitions(String name) {
        List<TopicPartition> found = new ArrayList<>();
        for (Object each : list(name)) {
            List<?> pair = (List<?>) each;
            found.add(new TopicPartition((String) pair.get(0), ((Number) pair.get(1)).intValue()));
        }
        return found;
    }

    /** {@code [[topic, partition, offset], ...]}. */
    public Map<TopicPartition, Long> offsets(String name) {
        Map<TopicPartition, Long> found = new LinkedHashMap<>();
        for (Object each : list(name)) {
            List<?> triple = (List<?>) each;
            TopicPartition partition = new TopicPartition((String) triple.get(0), ((Number) triple.get(1)).intValue());
            found.put(partition, ((Number) triple.get(2)).longValue());
        }
        return found;
    }

    /** The contract's form of partitions, in order. */
    public static List<List<Object>> pairs(java.util.Collection<TopicPartition> partitions) {
        return partitions.stream()
            .sorted(java.util.Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition))
            .map(each -> List.<Object>of(each.topic(), each.partition()))
            .toList();
    }
}
