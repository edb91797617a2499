import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.FutureTask;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;

/** Members of groups, each polled by a thread of its own. */
public final class MemberCommands {
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "sticky", "org.apache.kafka.clients.consumer.StickyAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
    private static final Map<String, String> SETTINGS = Map.of(
        "group", "group.id",
        "instance_id", "group.instance.id",
        "session_timeout_ms", "session.timeout.ms",
        "heartbeat_interval_ms", "heartbeat.interval.ms",
        "metadata_max_age_ms", "metadata.max.age.ms",
        "isolation", "isolation.level");

    private final Settings settings;
    private final Map<String, Member> members = new HashMap<>();

    MemberCommands(Settings settings) {
        this.settings = settings;
    }

    void addTo(Map<String, Driver.Command> commands) {
        commands.put("member_start", this::start);
        commands.put("member_log", this::logs);
        commands.put("member_commit", fields -> {
            members.get(fields.string("member")).call(KafkaConsumer::commitSync);
            return Map.of();
        });
        commands.put("member_seek", fields -> {
            TopicPartition partition = new TopicPartition(fields.string("topic"), fields.number("partition"));
            members.get(fields.string("member")).call(each -> each.seek(partition, fields.longNumber("offset")));
            return Map.of();
        });
        commands.put("member_stop", fields -> {
            Member member = members.remove(fields.string("member"));
            return member.end(fields.isTrue("commit"));
        });
    }

    private Map<String, ?> start(Fields fields) {
        Map<String, Object> named = new HashMap<>();
        SETTINGS.forEach((field, setting) -> {
            if (fields.has(field)) {
                named.put(setting, String.valueOf(fields.get(field)));
            }
        });
        if (fields.has("assignors") && settings.hasConsumerProtocol()) {
            named.put("group.remote.assignor", fields.strings("assignors").get(0));
        } else if (fields.has("assignors")) {
            named.put("partition.assignment.strategy", fields.strings("assignors").stream().map(ASSIGNORS::get).toList());
        }
        Member member = new Member(settings.consumer(named), fields.isTrue("commit_on_revoke"));
        if (fields.has("pattern") && settings.hasConsumerProtocol()) {
            member.consumer.subscribe(new SubscriptionPattern(fields.string("pattern")), member);
        } else if (fields.has("pattern")) {
            member.consumer.subscribe(Pattern.compile(fields.string("pattern")), member);
        } else {
            member.consumer.subscribe(fields.strings("topics"), member);
        }
        members.put(fields.string("member"), member);
        member.start();
        return Map.of();
    }

    private Map<String, ?> logs(Fields fields) {
        Map<String, Object> logs = new HashMap<>();
        for (String name : fields.strings("members")) {
            logs.put(name, members.get(name).log());
        }
        return Map.of("members", logs);
    }

    /** Something to do with a consumer, on the thread that polls it. */
    @FunctionalInterface
    private interface Task {
        void run(KafkaConsumer<String, String> consumer);
    }

    private static final class Member extends Thread implements ConsumerRebalanceListener {
        private final KafkaConsumer<String, String> consumer;
        private final boolean commitsOnRevoke;
        private final BlockingQueue<FutureTask<?>> tasks = new ArrayBlockingQueue<>(1);
        private boolean stopped; // read and written by this thread only

        // What is new since the last log; guarded by this.
        private List<Object> records = new ArrayList<>();
        private List<Object> events = new ArrayList<>();
        private List<String> errors = new ArrayList<>();
        private List<List<Object>> assignment = List.of();

        Member(KafkaConsumer<String, String> consumer, boolean commitsOnRevoke) {
            this.consumer = consumer;
            this.commitsOnRevoke = commitsOnRevoke;
            setDaemon(true);
        }

        @Override
        public void run() {
            boolean failed = false;
            while (!stopped) {
                try {
                    FutureTask<?> task = failed ? tasks.take() : tasks.poll();
                    if (task != null) {
                        task.run();
                    } else {
                        poll();
                    }
                } catch (InterruptedException interrupted) {
                    return;
                } catch (Exception failure) {
                    failed = !(failure instanceof RetriableException);
                    failure.printStackTrace();
                    synchronized (this) {
                        errors.add(Driver.errorName(failure));
                    }
                }
            }
        }

        private void poll() {
            var polled = consumer.poll(Duration.ofMillis(50));
            var now = Fields.pairs(consumer.assignment());
            synchronized (this) {
                assignment = now;
                for (ConsumerRecord<String, String> record : polled) {
                    records.add(List.of(record.topic(), record.partition(), record.offset(), String.valueOf(record.value())));
                }
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            note("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            if (commitsOnRevoke) {
                consumer.commitSync();
            }
            note("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            note("lost", partitions);
        }

        private synchronized void note(String event, Collection<TopicPartition> partitions) {
            events.add(List.of(event, Fields.pairs(partitions)));
            assignment = Fields.pairs(consumer.assignment());
        }

        /** Run {@code task} between two polls and wait for it. Raises what it raises. */
        void call(Task task) throws Exception {
            FutureTask<?> future = new FutureTask<>(() -> task.run(consumer), null);
            tasks.put(future);
            future.get();
        }

        synchronized Map<String, ?> log() {
            Map<String, Object> log = Map.of("records", records, "assignment", assignment, "events", events, "errors", errors);
            records = new ArrayList<>();
            events = new ArrayList<>();
            errors = new ArrayList<>();
            return log;
        }

        Map<String, ?> end(boolean commit) throws Exception {
            call(each -> {
                stopped = true;
                try (each) {
                    if (commit) {
                        each.commitSync();
                    }
                }
            });
            join();
            return Map.of("records", log().get("records"));
        }
    }
}
