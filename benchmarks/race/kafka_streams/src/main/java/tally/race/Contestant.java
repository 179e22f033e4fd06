package tally.race;

import java.io.IOException;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.AutoOffsetReset;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.Stores;

/**
 * Kafka Streams as a contestant: the whole topic into a RocksDB window store with its changelog.
 *
 * <p>The clock runs from the first event processed until the group has committed the last one, when
 * store and changelog have every count. Tasks are shared out among the threads before, while
 * processing is paused. The counts are then read by an interactive query.
 */
public final class Contestant {
    private static final Duration SILENCE = Duration.ofSeconds(60);
    private static final long POLL_MS = 5;

    /** Long enough that no event is too late for its window. */
    private static final Duration RETENTION = Duration.ofDays(1);

    private final Settings settings;
    private final Progress progress = new Progress();
    private final AtomicReference<Throwable> failure = new AtomicReference<>();

    private Contestant(Settings settings) {
        this.settings = settings;
    }

    public static void main(String[] arguments) {
        Settings settings;
        try {
            settings = Settings.fromEnvironment();
        } catch (IllegalArgumentException error) {
            System.err.println(error.getMessage());
            System.exit(2);
            return;
        }
        try {
            new Contestant(settings).run();
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private void run() throws Exception {
        try (Broker broker = new Broker(settings)) {
            Map<Integer, Long> ends = broker.ends();
            try (KafkaStreams streams = new KafkaStreams(topology(ends), settings.forStreams())) {
                streams.setUncaughtExceptionHandler(
                        error -> {
                            failure.set(error);
                            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
                        });
                streams.pause();
                streams.start();
                await("the threads share the tasks", broker::isShared);
                streams.resume();
                await("all events are processed", () -> progress.events() >= settings.events());
                await("all is committed", () -> broker.committed(ends));
                write(streams, progress.secondsUntil(System.nanoTime()));
                streams.close(
                        CloseOptions.timeout(SILENCE)
                                .withGroupMembershipOperation(GroupMembershipOperation.LEAVE_GROUP));
            }
            broker.forget();
        }
    }

    private Topology topology(Map<Integer, Long> ends) {
        Duration window = Duration.ofMillis(CountProcessor.WINDOW_MS);
        return new Topology()
                .addSource(
                        AutoOffsetReset.earliest(),
                        "events",
                        (record, partitionTime) -> ((Event) record.value()).at(),
                        new ByteArrayDeserializer(),
                        new EventDeserializer(),
                        settings.topic())
                .addProcessor("count", () -> new CountProcessor(progress, ends), "events")
                .addStateStore(
                        Stores.windowStoreBuilder(
                                        Stores.persistentWindowStore(
                                                CountProcessor.STORE, RETENTION, window, false),
                                        Serdes.String(),
                                        Serdes.Long())
                                .withCachingEnabled(),
                        "count");
    }

    private void write(KafkaStreams streams, double seconds) throws IOException {
        var counts =
                streams.store(
                        StoreQueryParameters.fromNameAndType(
                                CountProcessor.STORE, QueryableStoreTypes.<String, Long>windowStore()));
        // The first event starts the clock, so it is in nobody's time.
        Result.write(settings.result(), progress.events() - 1, seconds, progress.beganS(), counts);
    }

    private interface Condition {
        boolean holds() throws ExecutionException, InterruptedException;
    }

    /** Blocks until it holds; throws what a thread of Kafka Streams died of, or a time-out. */
    private void await(String what, Condition condition) throws Exception {
        long seen = progress.events();
        long deadlineNs = System.nanoTime() + SILENCE.toNanos();
        while (!condition.holds()) {
            if (failure.get() != null) {
                throw new IllegalStateException("Kafka Streams ended", failure.get());
            }
            if (progress.events() != seen) {
                seen = progress.events();
                deadlineNs = System.nanoTime() + SILENCE.toNanos();
            }
            if (System.nanoTime() > deadlineNs) {
                throw new TimeoutException(
                        "waited " + SILENCE.toSeconds() + " s in vain: " + what);
            }
            Thread.sleep(POLL_MS);
        }
    }
}
