package tally.race;

import java.nio.file.Path;
import java.util.Properties;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.streams.StreamsConfig;

/** What the race asks for, from its environment, and how Kafka Streams is set for it. */
record Settings(
        String kafka, String topic, long events, int partitions, Path result, Path folder, String name) {
    /** One for each core of the machine the goals are stated for. */
    static final int THREADS = 2;

    /** Throws IllegalArgumentException when a variable is missing or no number. */
    static Settings fromEnvironment() {
        return new Settings(
                variable("RACE_KAFKA"),
                variable("RACE_TOPIC"),
                Long.parseLong(variable("RACE_EVENTS")),
                Integer.parseInt(variable("RACE_PARTITIONS")),
                Path.of(variable("RACE_RESULT")).toAbsolutePath(),
                Path.of(variable("RACE_FOLDER")).toAbsolutePath(),
                "race-kafka-streams-" + UUID.randomUUID());
    }

    /**
     * As its manual advises for throughput: a record cache that holds what is live, so that RocksDB
     * and the changelog are written once per commit and not per event; at_least_once with a commit
     * every 30 s, which are the defaults; large fetches and batches. The changelog stays on.
     */
    Properties forStreams() {
        Properties all = new Properties();
        all.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        all.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, kafka);
        all.put(StreamsConfig.STATE_DIR_CONFIG, folder.toString());
        all.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, THREADS);
        all.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.AT_LEAST_ONCE);
        all.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 30_000);
        all.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 256L << 20);
        all.put(StreamsConfig.BUFFERED_RECORDS_PER_PARTITION_CONFIG, 10_000);
        all.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        all.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 10_000);
        all.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG), 4 << 20);
        all.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 100);
        all.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 256 << 10);
        return all;
    }

    private static String variable(String name) {
        String value = System.getenv(name);
        if (value == null || value.isEmpty()) {
            throw new IllegalArgumentException(name + " is not set: the race's harness sets it");
        }
        return value;
    }
}
