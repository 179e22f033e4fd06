package tally.race;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/** How many events were processed by all threads together, and when the first was. */
final class Progress {
    private final AtomicLong startedNs = new AtomicLong();
    private volatile long startedMs;
    private final LongAdder events = new LongAdder();

    /** An event is in hand; the first one starts the clock. */
    void begin() {
        if (startedNs.get() == 0 && startedNs.compareAndSet(0, System.nanoTime())) {
            startedMs = System.currentTimeMillis();
        }
    }

    void counted() {
        events.increment();
    }

    long events() {
        return events.sum();
    }

    /** The time of day when the clock started. */
    double beganS() {
        return startedMs / 1e3;
    }

    double secondsUntil(long nowNs) {
        return (nowNs - startedNs.get()) / 1e9;
    }
}
