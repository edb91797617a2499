import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataDelta;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.generated.ShareGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValue;
import org.apache.kafka.coordinator.group.generated.StreamsGroupTopologyValueJsonConverter;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;
import org.apache.kafka.coordinator.group.streams.StreamsTopology;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;
import org.apache.kafka.coordinator.group.streams.topics.ConfiguredTopology;
import org.apache.kafka.coordinator.group.streams.topics.InternalTopicManager;
import org.apache.kafka.timeline.SnapshotRegistry;
import org.apache.kafka.timeline.TimelineHashMap;
import org.apache.kafka.common.utils.internals.LogContext;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Asks classes of Kafka's group coordinator: a question a line, as JSON, and an answer a line. */
public final class KafkaClasses {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Logger LOG = LoggerFactory.getLogger(KafkaClasses.class);

    public static void main(String[] arguments) throws Exception {
        var questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = questions.readLine()) != null) {
            JsonNode question = JSON.readTree(line);
            ObjectNode answer = switch (question.get("about").asText()) {
                case "share members" -> assignSimply(question);
                case "streams members" -> assign(question);
                default -> configure(question);
            };
            System.out.println(JSON.writeValueAsString(answer));
            System.out.flush();
        }
    }

    private static ObjectNode assign(JsonNode question) {
        // As the coordinator does it: members from a table of timelines into a hash map, one after the other.
        var group = new TimelineHashMap<String, MemberMetadataAndStateImpl>(new SnapshotRegistry(new LogContext()), 0);
        for (JsonNode member : question.get("members")) {
            group.put(member.get("id").asText(), new MemberMetadataAndStateImpl(
                Optional.empty(), Optional.empty(), member.get("process").asText(), Map.of(),
                tasks(member.get("active")), tasks(member.get("standby")), Map.of(), offsets(member.get("offsets")), Map.of()));
        }
        var members = new HashMap<String, MemberMetadataAndStateImpl>();
        group.forEach(members::put);
        var subtopologies = new TreeMap<String, JsonNode>();
        question.get("subtopologies").fields().forEachRemaining(entry -> subtopologies.put(entry.getKey(), entry.getValue()));
        var topology = new TopologyDescriber() {
            public List<String> subtopologies() {
                return List.copyOf(subtopologies.keySet());
            }

            public int maxNumInputPartitions(String id) {
                return subtopologies.get(id).get("tasks").asInt();
            }

            public boolean isStateful(String id) {
                return subtopologies.get(id).get("stateful").asBoolean();
            }
        };
        var configs = AssignmentConfigsImpl.fromMap(Map.of("num.standby.replicas", question.get("standbys").asText()));
        var assigned = new StickyTaskAssignor().assign(new GroupSpecImpl(members, configs), topology).members();
        ObjectNode answer = JSON.createObjectNode();
        for (Map.Entry<String, MemberAssignment> entry : assigned.entrySet()) {
            ObjectNode member = answer.putObject(entry.getKey());
            write(member.putArray("active"), entry.getValue().activeTasks());
            write(member.putArray("standby"), entry.getValue().standbyTasks());
        }
        return answer;
    }

    private static ObjectNode assignSimply(JsonNode question) {
        var members = new HashMap<String, MemberSubscriptionAndAssignmentImpl>();
        var wishes = new HashSet<Set<Uuid>>();
        for (JsonNode member : question.get("members")) {
            var topics = new LinkedHashSet<Uuid>();
            member.get("topics").forEach(topic -> topics.add(Uuid.fromString(topic.asText())));
            wishes.add(topics);
            var record = new ShareGroupTargetAssignmentMemberValue();
            member.get("assigned").fields().forEachRemaining(entry -> {
                var topic = new ShareGroupTargetAssignmentMemberValue.TopicPartition().setTopicId(Uuid.fromString(entry.getKey()));
                entry.getValue().forEach(index -> topic.partitions().add(index.asInt()));
                record.topicPartitions().add(topic);
            });
            members.put(member.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), topics, Assignment.fromRecord(record)));
        }
        var assignable = new HashMap<Uuid, Set<Integer>>();
        question.get("assignable").fields().forEachRemaining(entry -> {
            var indexes = new HashSet<Integer>();
            entry.getValue().forEach(index -> indexes.add(index.asInt()));
            assignable.put(Uuid.fromString(entry.getKey()), indexes);
        });
        var topics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) {
                return question.get("count").asInt();
            }

            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of();
            }
        };
        var type = wishes.size() == 1 ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        var group = new org.apache.kafka.coordinator.group.modern.GroupSpecImpl(members, type, Map.of(), Optional.of(assignable));
        var assigned = new SimpleAssignor().assign(group, topics).members();
        ObjectNode answer = JSON.createObjectNode();
        members.keySet().forEach(id -> {
            ObjectNode member = answer.putObject(id);
            if (assigned.containsKey(id)) {
                assigned.get(id).partitions().forEach((topic, indexes) -> indexes.forEach(member.withArray(topic.toString())::add));
            }
        });
        return answer;
    }

    private static Map<String, Set<Integer>> tasks(JsonNode pairs) {
        var found = new HashMap<String, Set<Integer>>();
        pairs.forEach(pair -> found.computeIfAbsent(pair.get(0).asText(), id -> new HashSet<>()).add(pair.get(1).asInt()));
        return found;
    }

    private static Map<String, Map<Integer, Long>> offsets(JsonNode triples) {
        var found = new HashMap<String, Map<Integer, Long>>();
        triples.forEach(triple -> found.computeIfAbsent(triple.get(0).asText(), id -> new HashMap<>())
            .put(triple.get(1).asInt(), triple.get(2).asLong()));
        return found;
    }

    private static void write(ArrayNode pairs, Map<String, Set<Integer>> tasks) {
        new TreeMap<>(tasks).forEach((id, partitions) ->
            new TreeSet<>(partitions).forEach(partition -> pairs.addArray().add(id).add(partition)));
    }

    private static ObjectNode configure(JsonNode question) {
        ObjectNode answer = JSON.createObjectNode();
        ConfiguredTopology configured;
        try {
            StreamsGroupTopologyValue record = StreamsGroupTopologyValueJsonConverter.read(question.get("topology"), (short) 0);
            configured = InternalTopicManager.configureTopics(
                LOG, "group", "member", 0L, StreamsTopology.fromRecord(record), new Topics(question.get("topics")), Time.SYSTEM);
        } catch (RuntimeException error) {
            return answer.put("error", error.getClass().getSimpleName()).put("message", error.getMessage());
        }
        configured.topicConfigurationException().ifPresent(
            error -> answer.put("status", error.status().code()).put("detail", error.getMessage()));
        configured.subtopologies().ifPresent(subtopologies -> {
            ObjectNode counts = answer.putObject("tasks");
            subtopologies.forEach((id, each) -> counts.put(id, each.numberOfTasks()));
        });
        ArrayNode missing = answer.putArray("missing");
        configured.internalTopicsToBeCreated().forEach((name, topic) -> {
            ObjectNode each = missing.addObject();
            each.put("name", topic.name()).put("partitions", topic.numPartitions()).put("replicas", topic.replicationFactor());
            ArrayNode configs = each.putArray("configs");
            topic.configs().forEach(config -> configs.addArray().add(config.name()).add(config.value()));
        });
        return answer;
    }

    /** The topics that exist. */
    private static final class Topics implements CoordinatorMetadataImage {
        private final Map<String, TopicMetadata> topics = new HashMap<>();

        Topics(JsonNode counts) {
            counts.fields().forEachRemaining(entry -> topics.put(entry.getKey(), new Topic(entry.getKey(), entry.getValue().asInt())));
        }

        public Set<Uuid> topicIds() {
            throw new UnsupportedOperationException();
        }

        public Set<String> topicNames() {
            return topics.keySet();
        }

        public Optional<TopicMetadata> topicMetadata(String name) {
            return Optional.ofNullable(topics.get(name));
        }

        public Optional<TopicMetadata> topicMetadata(Uuid id) {
            throw new UnsupportedOperationException();
        }

        public CoordinatorMetadataDelta emptyDelta() {
            throw new UnsupportedOperationException();
        }

        public long version() {
            return 0;
        }

        public boolean isEmpty() {
            return topics.isEmpty();
        }
    }

    private record Topic(String name, int partitionCount) implements CoordinatorMetadataImage.TopicMetadata {
        public Uuid id() {
            return Uuid.ZERO_UUID;
        }

        public List<String> partitionRacks(int partition) {
            return new ArrayList<>();
        }
    }
}
