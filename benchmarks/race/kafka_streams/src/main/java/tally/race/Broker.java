package tally.race;

import java.util.Collection;
import java.util.IntSummaryStatistics;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;

/** What is asked of the broker beside Kafka Streams itself. Calls block and throw its errors. */
final class Broker implements AutoCloseable {
    private final Admin admin;
    private final Settings settings;

    Broker(Settings settings) {
        this.settings = settings;
        Properties all = new Properties();
        all.put(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, settings.kafka());
        admin = Admin.create(all);
    }

    /** The offset after the last event, by partition. */
    Map<Integer, Long> ends() throws ExecutionException, InterruptedException {
        Map<TopicPartition, OffsetSpec> asked =
                IntStream.range(0, settings.partitions())
                        .mapToObj(number -> new TopicPartition(settings.topic(), number))
                        .collect(Collectors.toMap(Function.identity(), one -> OffsetSpec.latest()));
        return admin.listOffsets(asked).all().get().entrySet().stream()
                .collect(Collectors.toMap(e -> e.getKey().partition(), e -> e.getValue().offset()));
    }

    /** Whether each thread has its part of the partitions, and nobody is about to join. */
    boolean isShared() throws ExecutionException, InterruptedException {
        ConsumerGroupDescription group;
        try {
            group =
                    admin.describeConsumerGroups(List.of(settings.name()))
                            .describedGroups()
                            .get(settings.name())
                            .get();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof GroupIdNotFoundException) {
                return false;
            }
            throw error;
        }
        IntSummaryStatistics parts =
                group.members().stream()
                        .mapToInt(member -> member.assignment().topicPartitions().size())
                        .summaryStatistics();
        return group.groupState() == GroupState.STABLE
                && parts.getCount() == Settings.THREADS
                && parts.getSum() == settings.partitions()
                && parts.getMin() == settings.partitions() / Settings.THREADS;
    }

    /** Whether the group has committed all of it: then the changelog has every count. */
    boolean committed(Map<Integer, Long> ends) throws ExecutionException, InterruptedException {
        Map<TopicPartition, OffsetAndMetadata> found =
                admin.listConsumerGroupOffsets(settings.name()).partitionsToOffsetAndMetadata().get();
        return ends.entrySet().stream()
                .filter(end -> end.getValue() > 0)
                .allMatch(
                        end -> {
                            OffsetAndMetadata one =
                                    found.get(new TopicPartition(settings.topic(), end.getKey()));
                            return one != null && one.offset() >= end.getValue();
                        });
    }

    /** Deletes the topics and the group of this run: the next contestant has the same broker. */
    void forget() throws ExecutionException, InterruptedException {
        Collection<String> topics =
                admin.listTopics().names().get().stream()
                        .filter(name -> name.startsWith(settings.name()))
                        .toList();
        admin.deleteTopics(topics).all().get();
        admin.deleteConsumerGroups(List.of(settings.name())).all().get();
    }

    @Override
    public void close() {
        admin.close();
    }
}
