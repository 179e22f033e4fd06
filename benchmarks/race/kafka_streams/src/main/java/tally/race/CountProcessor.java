package tally.race;

import java.util.Map;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.WindowStore;

/**
 * Sums per counter and minute in a window store.
 *
 * <p>The Processor API instead of {@code groupByKey().windowedBy(...).aggregate(...)}, which was
 * not quicker when both were tried. Each counter's events are on one
 * partition, so its sum is whole where it is read, and no repartition topic is needed.
 */
final class CountProcessor extends ContextualProcessor<byte[], Event, Void, Void> {
    static final String STORE = "counts";
    static final long WINDOW_MS = 60_000;

    private final Progress progress;
    private final Map<Integer, Long> ends;
    private WindowStore<String, Long> counts;
    private long lastOffset;

    CountProcessor(Progress progress, Map<Integer, Long> ends) {
        this.progress = progress;
        this.ends = ends;
    }

    @Override
    public void init(ProcessorContext<Void, Void> context) {
        super.init(context);
        counts = context.getStateStore(STORE);
        lastOffset = ends.get(context.taskId().partition()) - 1;
    }

    @Override
    public void process(Record<byte[], Event> record) {
        progress.begin();
        Event event = record.value();
        long window = event.at() - event.at() % WINDOW_MS;
        Long sum = counts.fetch(event.counter(), window);
        counts.put(event.counter(), sum == null ? event.delta() : sum + event.delta(), window);
        progress.counted();
        if (context().recordMetadata().orElseThrow().offset() == lastOffset) {
            context().commit();
        }
    }
}
