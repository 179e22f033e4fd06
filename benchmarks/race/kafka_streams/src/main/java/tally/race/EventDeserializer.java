package tally.race;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.Deserializer;

/**
 * One JSON object to one event, by Jackson's streaming parser: its quickest way, since no tree and
 * no bean is made. Throws SerializationException, which ends the contestant.
 */
final class EventDeserializer implements Deserializer<Event> {
    private static final JsonFactory JSON = new JsonFactory();

    @Override
    public Event deserialize(String topic, byte[] value) {
        String counter = null;
        long delta = 1;
        long at = -1;
        try (JsonParser parser = JSON.createParser(value)) {
            if (parser.nextToken() != JsonToken.START_OBJECT) {
                throw new SerializationException("an event is a JSON object");
            }
            for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
                parser.nextToken();
                switch (name) {
                    case "counter" -> counter = parser.getText();
                    case "delta" -> delta = parser.getLongValue();
                    case "at" -> at = parser.getLongValue();
                    default -> parser.skipChildren();
                }
            }
        } catch (IOException error) {
            throw new SerializationException("an event cannot be read", error);
        }
        if (counter == null || at < 0) {
            throw new SerializationException("an event needs a counter and a time");
        }
        return new Event(counter, delta, at);
    }
}
