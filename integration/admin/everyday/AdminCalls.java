import java.time.Duration;
import java.util.*;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.serialization.*;

/**
 * Every public call of Admin, one after the other, each with a line of what came: {@code call: facts} or {@code call:
 * Exception: message}. Names begin with the second argument, which the output shows as P.
 */
public class AdminCalls {
    interface Ask {
        Object ask() throws Exception;
    }

    private static final long PATIENCE_MS = 20_000;
    /** The timestamp of the first record. Old ones are not safe: the next check of retention deletes such records. */
    private final long begunMs = System.currentTimeMillis();
    private final String bootstrap;
    private final String prefix;
    private final Admin admin;
    private final String topic;
    private final String other;
    private final String group;
    private final TopicPartition first;

    AdminCalls(String bootstrap, String prefix) {
        this.bootstrap = bootstrap;
        this.prefix = prefix;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap, "request.timeout.ms", 10000, "default.api.timeout.ms", 15000));
        this.topic = prefix + ".topic";
        this.other = prefix + ".other";
        this.group = prefix + ".group";
        this.first = new TopicPartition(topic, 0);
    }

    public static void main(String[] arguments) throws Exception {
        AdminCalls calls = new AdminCalls(arguments[0], arguments[1]);
        calls.topics();
        calls.configs();
        calls.records();
        calls.groups();
        calls.transactions();
        calls.cluster();
        calls.security();
        calls.otherGroups();
        calls.controllers();
        calls.end();
    }

    void topics() throws Exception {
        say("createTopics", () -> {
            CreateTopicsResult made = admin.createTopics(List.of(
                new NewTopic(topic, Optional.of(3), Optional.empty()).configs(Map.of("retention.ms", "3600000")),
                new NewTopic(other, 1, (short) 1)));
            Config config = made.config(topic).get();
            return made.numPartitions(topic).get() + " " + made.replicationFactor(topic).get() + " "
                + config.get("retention.ms").value() + " " + config.entries().size();
        });
        say("createTopics again", () -> admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get());
        until(() -> admin.describeTopics(List.of(topic, other)).allTopicNames().get().size() == 2);
        say("listTopics", () -> admin.listTopics().names().get().stream().filter(name -> name.startsWith(prefix))
            .sorted().toList());
        say("describeTopics", () -> described(admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic)));
        say("describeTopics by id", () -> {
            Uuid id = id(topic);
            return described(admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id));
        });
        say("describeTopics of none", () -> admin.describeTopics(List.of(prefix + ".none")).allTopicNames().get());
        say("createPartitions", () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get());
        until(() -> admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size() == 4);
        say("createPartitions of fewer", () ->
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get());
    }

    void configs() throws Exception {
        ConfigResource of = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        say("describeConfigs", () -> configs(of, false));
        say("describeConfigs of a broker", () -> {
            Config config = admin.describeConfigs(List.of(broker())).all().get().get(broker());
            return config.entries().size() + " " + config.get("log.cleaner.threads");
        });
        say("incrementalAlterConfigs", () -> admin.incrementalAlterConfigs(Map.of(of, List.of(
            op("max.message.bytes", "5000", AlterConfigOp.OpType.SET),
            op("cleanup.policy", "compact", AlterConfigOp.OpType.APPEND),
            op("retention.ms", null, AlterConfigOp.OpType.DELETE)))).all().get());
        until(() -> admin.describeConfigs(List.of(of)).all().get().get(of).get("max.message.bytes").value().equals("5000"));
        say("describeConfigs after that", () -> configs(of, true));
        say("incrementalAlterConfigs of a broker", () -> admin.incrementalAlterConfigs(Map.of(broker(),
            List.of(op("log.cleaner.threads", "2", AlterConfigOp.OpType.SET)))).all().get());
        until(() -> value(broker(), "log.cleaner.threads").equals("2"));
        say("incrementalAlterConfigs back", () -> admin.incrementalAlterConfigs(Map.of(broker(),
            List.of(op("log.cleaner.threads", null, AlterConfigOp.OpType.DELETE)))).all().get());
        say("incrementalAlterConfigs of what is read only", () -> admin.incrementalAlterConfigs(Map.of(broker(),
            List.of(op("node.id", "7", AlterConfigOp.OpType.SET)))).all().get());
        ConfigResource ofGroup = new ConfigResource(ConfigResource.Type.GROUP, group);
        say("incrementalAlterConfigs of a group", () -> admin.incrementalAlterConfigs(Map.of(ofGroup,
            List.of(op("consumer.session.timeout.ms", "50000", AlterConfigOp.OpType.SET)))).all().get());
        until(() -> value(ofGroup, "consumer.session.timeout.ms").equals("50000"));
        say("describeConfigs of a group", () -> configs(ofGroup, false));
        say("listConfigResources", () -> admin.listConfigResources(
            Set.of(ConfigResource.Type.TOPIC, ConfigResource.Type.GROUP), new ListConfigResourcesOptions()).all().get()
            .stream().filter(each -> each.name().startsWith(prefix)).map(Object::toString).sorted().toList());
        say("listClientMetricsResources", () -> admin.listClientMetricsResources().all().get().stream()
            .filter(each -> each.name().startsWith(prefix)).toList());
    }

    void records() throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (int number = 0; number < 5; number++) {
                producer.send(new ProducerRecord<>(topic, 0, begunMs + number, "k" + number, "v")).get();
            }
        }
        for (OffsetSpec spec : List.of(OffsetSpec.earliest(), OffsetSpec.latest(), OffsetSpec.forTimestamp(begunMs + 2),
            OffsetSpec.forTimestamp(begunMs + 999), OffsetSpec.maxTimestamp(), OffsetSpec.earliestLocal(),
            OffsetSpec.latestTiered())) {
            String name = spec.getClass().getSimpleName();
            say("listOffsets " + name, () -> {
                ListOffsetsResult.ListOffsetsResultInfo found = admin.listOffsets(Map.of(first, spec)).all().get().get(first);
                long timestamp = found.timestamp() < 0 ? found.timestamp() : found.timestamp() - begunMs;
                return found.offset() + " " + timestamp + " " + found.leaderEpoch();
            });
        }
        say("listOffsets earliestPendingUpload", () ->
            admin.listOffsets(Map.of(first, OffsetSpec.earliestPendingUpload())).all().get().get(first).offset());
        say("listOffsets committed", () -> admin.listOffsets(Map.of(first, OffsetSpec.latest()),
            new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).all().get().get(first).offset());
        say("deleteRecords", () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(2))).lowWatermarks().get(first).get()
            .lowWatermark() + " " + offset(OffsetSpec.earliest()));
        say("deleteRecords too far", () -> admin.deleteRecords(Map.of(first, RecordsToDelete.beforeOffset(99))).all().get());
        say("describeLogDirs", () -> admin.describeLogDirs(List.of(node())).allDescriptions().get().get(node()).values()
            .stream().map(each -> each.error() + " " + each.replicaInfos().entrySet().stream()
                .filter(replica -> replica.getKey().topic().equals(topic))
                .map(replica -> replica.getKey() + "=" + (replica.getValue().size() > 0))
                .sorted().toList()).toList());
        say("describeReplicaLogDirs", () -> {
            TopicPartitionReplica replica = new TopicPartitionReplica(topic, 0, node());
            var found = admin.describeReplicaLogDirs(List.of(replica)).all().get().get(replica);
            return (found.getCurrentReplicaLogDir() != null) + " " + found.getFutureReplicaLogDir();
        });
    }

    void groups() throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap, "group.id", group, "group.instance.id",
            "one", "client.id", "member", "session.timeout.ms", 10000, "enable.auto.commit", false, "auto.offset.reset",
            "earliest");
        KafkaConsumer<String, String> consumer =
            new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        until(() -> !consumer.poll(Duration.ofMillis(200)).isEmpty());
        consumer.commitSync();
        say("listGroups", () -> admin.listGroups().all().get().stream().filter(each -> each.groupId().equals(group))
            .map(each -> each.groupState().get() + " " + each.type().get() + " " + each.protocol()).toList());
        say("listConsumerGroups", () -> admin.listConsumerGroups().all().get().stream()
            .filter(each -> each.groupId().equals(group)).map(each -> each.groupState().get() + " "
                + each.type().get() + " " + each.isSimpleConsumerGroup()).toList());
        say("describeConsumerGroups", () -> {
            ConsumerGroupDescription found = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            return found.groupState() + " " + found.partitionAssignor() + " " + found.coordinator().id() + " "
                + found.type() + " " + found.members().stream().map(each -> each.clientId() + " "
                + each.groupInstanceId().get() + " " + each.host() + " " + each.assignment().topicPartitions().stream()
                .map(Object::toString).sorted().toList()).toList();
        });
        say("describeClassicGroups", () -> {
            ClassicGroupDescription found = admin.describeClassicGroups(List.of(group)).all().get().get(group);
            return found.state() + " " + found.protocol() + " " + found.protocolData() + " " + found.members().size();
        });
        say("describeConsumerGroups of none", () -> admin.describeConsumerGroups(List.of(prefix + ".none")).all().get());
        say("listConsumerGroupOffsets", () -> offsets(group));
        say("deleteConsumerGroups with members", () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        say("alterConsumerGroupOffsets with members", () -> admin.alterConsumerGroupOffsets(group,
            Map.of(first, new OffsetAndMetadata(1))).all().get());
        say("removeMembersFromConsumerGroup", () -> admin.removeMembersFromConsumerGroup(group,
            new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("one")))).all().get());
        consumer.close(CloseOptions.timeout(Duration.ZERO));
        until(() -> admin.describeConsumerGroups(List.of(group)).all().get().get(group).members().isEmpty());
        say("alterConsumerGroupOffsets", () -> admin.alterConsumerGroupOffsets(group,
            Map.of(first, new OffsetAndMetadata(3, "meta"))).all().get());
        say("listConsumerGroupOffsets after that", () -> offsets(group));
        say("deleteConsumerGroupOffsets", () -> admin.deleteConsumerGroupOffsets(group, Set.of(first)).all().get());
        say("listConsumerGroupOffsets at last", () -> offsets(group));
        say("deleteConsumerGroups", () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        say("deleteConsumerGroups again", () -> admin.deleteConsumerGroups(List.of(group)).all().get());
    }

    void transactions() throws Exception {
        String id = prefix + ".transactional";
        TopicPartition place = new TopicPartition(other, 0);
        KafkaProducer<String, String> producer = producer(Map.of("transactional.id", id, "transaction.timeout.ms", 30000));
        producer.initTransactions();
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(other, 0, "k", "v")).get();
        say("listTransactions", () -> admin.listTransactions().all().get().stream()
            .filter(each -> each.transactionalId().equals(id)).map(each -> each.state()).toList());
        say("describeTransactions", () -> {
            TransactionDescription found = admin.describeTransactions(List.of(id)).all().get().get(id);
            return found.state() + " " + found.transactionTimeoutMs() + " " + found.topicPartitions() + " "
                + found.transactionStartTimeMs().isPresent() + " " + found.coordinatorId();
        });
        say("describeProducers", () -> producers(place).stream().map(each -> each.producerEpoch() + " "
            + each.lastSequence() + " " + each.currentTransactionStartOffset()).toList());
        say("fenceProducers", () -> admin.fenceProducers(List.of(id)).all().get());
        say("send when fenced", () -> {
            producer.send(new ProducerRecord<>(other, 0, "k", "v"));
            producer.commitTransaction();
            return null;
        });
        producer.close(Duration.ZERO);
        until(() -> producers(place).stream().allMatch(each -> each.currentTransactionStartOffset().isEmpty()));
        KafkaProducer<String, String> hanging = producer(Map.of("transactional.id", id + ".2"));
        hanging.initTransactions();
        hanging.beginTransaction();
        hanging.send(new ProducerRecord<>(other, 0, "k", "v")).get();
        ProducerState open = producers(place).stream().filter(each -> each.currentTransactionStartOffset().isPresent())
            .findFirst().get();
        say("abortTransaction", () -> admin.abortTransaction(new AbortTransactionSpec(place, open.producerId(),
            (short) open.producerEpoch(), open.coordinatorEpoch().orElse(0))).all().get());
        say("describeProducers after that", () -> producers(place).stream().filter(each ->
            each.currentTransactionStartOffset().isPresent()).count());
        say("forceTerminateTransaction", () -> admin.forceTerminateTransaction(id + ".2").result().get());
        hanging.close(Duration.ZERO);
        say("describeTransactions of none", () -> admin.describeTransactions(List.of(id + ".none")).all().get());
    }

    void cluster() throws Exception {
        say("describeCluster", () -> {
            DescribeClusterResult found = admin.describeCluster();
            return found.nodes().get().size() + " " + found.controller().get().id() + " "
                + !found.clusterId().get().isEmpty() + " " + found.authorizedOperations().get();
        });
        say("electLeaders", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(first)).partitions().get().get(first)
            .map(error -> error.getClass().getSimpleName()));
        say("alterPartitionReassignments", () -> admin.alterPartitionReassignments(Map.of(first,
            Optional.of(new NewPartitionReassignment(List.of(node()))))).all().get());
        say("alterPartitionReassignments to nowhere", () -> admin.alterPartitionReassignments(Map.of(first,
            Optional.of(new NewPartitionReassignment(List.of(77))))).all().get());
        say("listPartitionReassignments", () -> admin.listPartitionReassignments(Set.of(first)).reassignments().get());
        say("describeClientQuotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        say("describeFeatures", () -> !admin.describeFeatures().featureMetadata().get().supportedFeatures().isEmpty());
        say("metrics", () -> admin.metrics().isEmpty());
    }

    void security() throws Exception {
        String user = prefix + ".user";
        say("alterUserScramCredentials", () -> admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(user,
            new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))).all().get());
        until(() -> !admin.describeUserScramCredentials().users().get().stream().filter(user::equals).toList().isEmpty());
        say("describeUserScramCredentials", () -> admin.describeUserScramCredentials(List.of(user)).all().get());
        say("alterUserScramCredentials back", () -> admin.alterUserScramCredentials(List.of(
            new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256))).all().get());
        AclBinding rule = new AclBinding(new ResourcePattern(ResourceType.TOPIC, topic, PatternType.LITERAL),
            new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW));
        say("createAcls", () -> admin.createAcls(List.of(rule)).all().get());
        say("describeAcls", () -> admin.describeAcls(rule.toFilter()).values().get());
        say("deleteAcls", () -> admin.deleteAcls(List.of(rule.toFilter())).all().get());
        say("createDelegationToken", () -> admin.createDelegationToken().delegationToken().get());
        say("describeDelegationToken", () -> admin.describeDelegationToken().delegationTokens().get());
        say("renewDelegationToken", () -> admin.renewDelegationToken(new byte[1]).expiryTimestamp().get());
        say("expireDelegationToken", () -> admin.expireDelegationToken(new byte[1]).expiryTimestamp().get());
    }

    void otherGroups() {
        String none = prefix + ".none";
        say("describeShareGroups", () -> admin.describeShareGroups(List.of(none)).all().get());
        say("listShareGroupOffsets", () ->
            admin.listShareGroupOffsets(Map.of(none, new ListShareGroupOffsetsSpec())).all().get());
        say("alterShareGroupOffsets", () -> admin.alterShareGroupOffsets(none, Map.of(first, 1L)).all().get());
        say("deleteShareGroupOffsets", () -> admin.deleteShareGroupOffsets(none, Set.of(topic)).all().get());
        say("deleteShareGroups", () -> admin.deleteShareGroups(List.of(none)).all().get());
        say("describeStreamsGroups", () -> admin.describeStreamsGroups(List.of(none)).all().get());
        say("listStreamsGroupOffsets", () ->
            admin.listStreamsGroupOffsets(Map.of(none, new ListStreamsGroupOffsetsSpec())).all().get());
        say("alterStreamsGroupOffsets", () ->
            admin.alterStreamsGroupOffsets(none, Map.of(first, new OffsetAndMetadata(1))).all().get());
        say("deleteStreamsGroupOffsets", () -> admin.deleteStreamsGroupOffsets(none, Set.of(first)).all().get());
        say("deleteStreamsGroups", () -> admin.deleteStreamsGroups(List.of(none)).all().get());
    }

    void controllers() {
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of("user", prefix + ".user"));
        say("alterClientQuotas", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            user, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e9))))).all().get());
        say("alterClientQuotas back", () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(
            user, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all().get());
        say("alterReplicaLogDirs", () ->
            admin.alterReplicaLogDirs(Map.of(new TopicPartitionReplica(topic, 0, node()), "/nowhere")).all().get());
        say("describeMetadataQuorum", () -> admin.describeMetadataQuorum().quorumInfo().get().leaderId());
        say("updateFeatures", () -> admin.updateFeatures(Map.of("kraft.version", new FeatureUpdate((short) 99,
            FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()).all().get());
        say("addRaftVoter", () -> admin.addRaftVoter(77, Uuid.randomUuid(), Set.of()).all().get());
        say("removeRaftVoter", () -> admin.removeRaftVoter(77, Uuid.randomUuid()).all().get());
        say("unregisterBroker", () -> admin.unregisterBroker(77).all().get());
        say("unregisterController", () -> admin.unregisterController(77).all().get());
        say("clientInstanceId", () -> admin.clientInstanceId(Duration.ofSeconds(2)) != null);
    }

    void end() throws Exception {
        say("deleteTopics", () -> admin.deleteTopics(List.of(topic)).all().get());
        say("deleteTopics by id", () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id(other)))).all().get());
        until(() -> admin.listTopics().names().get().stream().noneMatch(name -> name.startsWith(prefix)));
        say("deleteTopics again", () -> admin.deleteTopics(List.of(topic)).all().get());
        ConfigResource ofGroup = new ConfigResource(ConfigResource.Type.GROUP, group);
        admin.incrementalAlterConfigs(Map.of(ofGroup,
            List.of(op("consumer.session.timeout.ms", null, AlterConfigOp.OpType.DELETE)))).all().get();
        say("close", () -> {
            admin.close();
            return null;
        });
    }

    private KafkaProducer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("bootstrap.servers", bootstrap);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private Collection<ProducerState> producers(TopicPartition place) throws Exception {
        return admin.describeProducers(List.of(place)).all().get().get(place).activeProducers();
    }

    private long offset(OffsetSpec spec) throws Exception {
        return admin.listOffsets(Map.of(first, spec)).all().get().get(first).offset();
    }

    private String offsets(String of) throws Exception {
        return new TreeMap<>(admin.listConsumerGroupOffsets(of).partitionsToOffsetAndMetadata().get().entrySet().stream()
            .collect(Collectors.toMap(each -> each.getKey().toString(), each -> each.getValue().offset() + " "
                + each.getValue().metadata()))).toString();
    }

    private String described(TopicDescription found) {
        return found.name() + " " + found.isInternal() + " " + found.partitions().stream().map(each -> each.partition()
            + ":" + each.leader().id() + each.replicas().stream().map(Node::id).toList()
            + each.isr().stream().map(Node::id).toList()).toList();
    }

    private String configs(ConfigResource of, boolean onlySet) throws Exception {
        return admin.describeConfigs(List.of(of), new DescribeConfigsOptions().includeSynonyms(true)).all().get().get(of)
            .entries().stream().filter(each -> !onlySet || !each.isDefault())
            .filter(each -> !each.name().equals("min.insync.replicas"))  // which Kafka sets for its cluster
            .map(each -> each.name() + "=" + each.value() + " " + each.source() + " " + each.type() + " "
                + each.isReadOnly() + " " + each.synonyms().size())
            .sorted().toList().toString();
    }

    private String value(ConfigResource of, String name) throws Exception {
        return admin.describeConfigs(List.of(of)).all().get().get(of).get(name).value();
    }

    private static AlterConfigOp op(String name, String value, AlterConfigOp.OpType type) {
        return new AlterConfigOp(new ConfigEntry(name, value), type);
    }

    private ConfigResource broker() throws Exception {
        return new ConfigResource(ConfigResource.Type.BROKER, String.valueOf(node()));
    }

    private int node() throws Exception {
        return admin.describeCluster().nodes().get().iterator().next().id();
    }

    private Uuid id(String name) throws Exception {
        return admin.describeTopics(List.of(name)).allTopicNames().get().get(name).topicId();
    }

    private void say(String call, Ask ask) {
        String text;
        try {
            text = String.valueOf(ask.ask());
        } catch (Throwable failure) {
            Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
            text = cause.getClass().getSimpleName() + ": " + cause.getMessage();
        }
        System.out.println(call + ": " + text.replace(prefix, "P").replace("\n", " "));
    }

    private static void until(Ask ask) throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (true) {
            try {
                if (Boolean.TRUE.equals(ask.ask())) {
                    return;
                }
            } catch (ExecutionException failure) {
                // not there yet
            }
            if (System.currentTimeMillis() > deadline) {
                throw new AssertionError("nothing came of it");
            }
            Thread.sleep(20);
        }
    }
}
