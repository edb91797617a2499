import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.DescribeClusterOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;

/** The admin commands, each by the call of {@code Admin} that a user would take. */
public final class AdminCommands {
    private final Settings settings;

    AdminCommands(Settings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, Driver.Command> commands) {
        commands.put("create_topics", this::createTopics);
        commands.put("create_partitions", this::createPartitions);
        commands.put("delete_topics", fields ->
            Map.of("topics", errors(admin().deleteTopics(fields.strings("topics")).topicNameValues())));
        commands.put("list_topics", fields ->
            Map.of("topics", admin().listTopics(new ListTopicsOptions().listInternal(true)).names().get()));
        commands.put("describe_topic", this::describeTopic);
        commands.put("describe_cluster", this::describeCluster);
        commands.put("describe_configs", this::describeConfigs);
        commands.put("alter_configs", this::alterConfigs);
        commands.put("delete_records", this::deleteRecords);
        commands.put("list_groups", fields ->
            Map.of("groups", admin().listGroups().all().get().stream().map(each -> each.groupId()).toList()));
        commands.put("describe_group", this::describeGroup);
        commands.put("group_offsets", this::groupOffsets);
        commands.put("alter_group_offsets", this::alterGroupOffsets);
        commands.put("delete_group_offsets", this::deleteGroupOffsets);
        commands.put("delete_groups", fields ->
            Map.of("groups", errors(admin().deleteConsumerGroups(fields.strings("groups")).deletedGroups())));
    }

    private Admin admin() {
        return settings.admin();
    }

    private Map<String, ?> createTopics(Fields fields) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (Fields topic : fields.objects("topics")) {
            Map<String, String> configs = new HashMap<>();
            topic.object("configs").map().forEach((name, value) -> configs.put(name, String.valueOf(value)));
            topics.add(new NewTopic(topic.string("name"), Optional.of(topic.number("partitions")), Optional.empty())
                .configs(configs));
        }
        return Map.of("topics", errors(admin().createTopics(topics).values()));
    }

    /** Each future's error by Kafka's name, NONE where it has a value. */
    private static Map<String, String> errors(Map<String, ? extends KafkaFuture<?>> futures) throws InterruptedException {
        Map<String, String> errors = new LinkedHashMap<>();
        for (Map.Entry<String, ? extends KafkaFuture<?>> each : futures.entrySet()) {
            try {
                each.getValue().get();
                errors.put(each.getKey(), "NONE");
            } catch (ExecutionException refused) {
                errors.put(each.getKey(), Driver.errorName(refused));
            }
        }
        return errors;
    }

    private Map<String, ?> createPartitions(Fields fields) throws Exception {
        NewPartitions total = NewPartitions.increaseTo(fields.number("count"));
        admin().createPartitions(Map.of(fields.string("topic"), total)).all().get();
        return Map.of();
    }

    private Map<String, ?> describeTopic(Fields fields) throws Exception {
        String topic = fields.string("topic");
        List<Object> partitions = new ArrayList<>();
        var described = admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic);
        for (TopicPartitionInfo partition : described.partitions()) {
            partitions.add(Map.of("partition", partition.partition(),
                "leader", partition.leader() == null ? -1 : partition.leader().id(),
                "replicas", ids(partition.replicas()), "isr", ids(partition.isr())));
        }
        return Map.of("partitions", partitions);
    }

    private static List<Integer> ids(Collection<Node> nodes) {
        return nodes.stream().map(Node::id).toList();
    }

    private Map<String, ?> describeCluster(Fields fields) throws Exception {
        var nodes = admin().describeCluster(new DescribeClusterOptions()).nodes().get();
        return Map.of("nodes", nodes.stream()
            .map(node -> Map.of("id", node.id(), "host", node.host(), "port", node.port()))
            .toList());
    }

    private Map<String, ?> describeConfigs(Fields fields) throws Exception {
        ConfigResource topic = topicResource(fields);
        Map<String, String> configs = new HashMap<>();
        for (ConfigEntry entry : admin().describeConfigs(List.of(topic)).all().get().get(topic).entries()) {
            configs.put(entry.name(), entry.value());
        }
        return Map.of("configs", configs);
    }

    private static ConfigResource topicResource(Fields fields) {
        return new ConfigResource(ConfigResource.Type.TOPIC, fields.string("topic"));
    }

    private Map<String, ?> alterConfigs(Fields fields) throws Exception {
        List<AlterConfigOp> operations = new ArrayList<>();
        fields.object("set").map().forEach((name, value) -> operations.add(
            new AlterConfigOp(new ConfigEntry(name, String.valueOf(value)), AlterConfigOp.OpType.SET)));
        for (String name : fields.strings("delete")) {
            operations.add(new AlterConfigOp(new ConfigEntry(name, null), AlterConfigOp.OpType.DELETE));
        }
        admin().incrementalAlterConfigs(Map.of(topicResource(fields), operations)).all().get();
        return Map.of();
    }

    private Map<String, ?> deleteRecords(Fields fields) throws Exception {
        Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
        fields.offsets("offsets").forEach((partition, offset) ->
            before.put(partition, RecordsToDelete.beforeOffset(offset)));
        List<Object> lowWatermarks = new ArrayList<>();
        for (var each : admin().deleteRecords(before).lowWatermarks().entrySet()) {
            TopicPartition partition = each.getKey();
            lowWatermarks.add(List.of(partition.topic(), partition.partition(), each.getValue().get().lowWatermark()));
        }
        return Map.of("low_watermarks", lowWatermarks);
    }

    private Map<String, ?> describeGroup(Fields fields) throws Exception {
        String group = fields.string("group");
        ConsumerGroupDescription described;
        try {
            described = admin().describeConsumerGroups(List.of(group)).all().get().get(group);
        } catch (ExecutionException failure) {
            if (failure.getCause() instanceof GroupIdNotFoundException) {
                return Map.of("state", "Dead", "assignor", "", "members", List.of());
            }
            throw failure;
        }
        List<Object> members = new ArrayList<>();
        for (var member : described.members()) {
            Map<String, Object> answer = new HashMap<>();
            answer.put("member_id", member.consumerId());
            answer.put("instance_id", member.groupInstanceId().orElse(null));
            answer.put("client_id", member.clientId());
            answer.put("partitions", Fields.pairs(member.assignment().topicPartitions()));
            members.add(answer);
        }
        return Map.of("state", described.groupState().toString(), "assignor", described.partitionAssignor(),
            "members", members);
    }

    private Map<String, ?> groupOffsets(Fields fields) throws Exception {
        List<Object> offsets = new ArrayList<>();
        var committed = admin().listConsumerGroupOffsets(fields.string("group")).partitionsToOffsetAndMetadata().get();
        committed.forEach((partition, offset) -> {
            if (offset != null) {
                offsets.add(List.of(partition.topic(), partition.partition(), offset.offset()));
            }
        });
        return Map.of("offsets", offsets);
    }

    private Map<String, ?> alterGroupOffsets(Fields fields) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        fields.offsets("offsets").forEach((partition, offset) -> offsets.put(partition, new OffsetAndMetadata(offset)));
        admin().alterConsumerGroupOffsets(fields.string("group"), offsets).all().get();
        return Map.of();
    }

    private Map<String, ?> deleteGroupOffsets(Fields fields) throws Exception {
        var partitions = new java.util.HashSet<>(fields.partitions("partitions"));
        admin().deleteConsumerGroupOffsets(fields.string("group"), partitions).all().get();
        return Map.of();
    }
}
