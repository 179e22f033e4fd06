package tally.race;

import com.fasterxml.jackson.core.JsonEncoding;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;

/** The document that the race reads. */
final class Result {
    private Result() {}

    /** Writes it whole or not at all. Throws IOException when it cannot. */
    static void write(
            Path path,
            long events,
            double seconds,
            double beganS,
            ReadOnlyWindowStore<String, Long> counts)
            throws IOException {
        Path unfinished = path.resolveSibling(path.getFileName() + ".part");
        try (JsonGenerator json =
                        new JsonFactory().createGenerator(unfinished.toFile(), JsonEncoding.UTF8);
                KeyValueIterator<Windowed<String>, Long> all = counts.all()) {
            json.writeStartObject();
            json.writeNumberField("events", events);
            json.writeNumberField("seconds", seconds);
            json.writeNumberField("began_s", beganS);
            json.writeObjectFieldStart("counts");
            while (all.hasNext()) {
                KeyValue<Windowed<String>, Long> one = all.next();
                long minute = one.key.window().start() / CountProcessor.WINDOW_MS;
                json.writeNumberField(one.key.key() + " " + minute, one.value);
            }
            json.writeEndObject();
            json.writeEndObject();
        }
        Files.move(unfinished, path, StandardCopyOption.ATOMIC_MOVE);
    }
}
