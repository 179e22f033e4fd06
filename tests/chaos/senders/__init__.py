"""Ways into the log: the producer of Tally, a foreign client of Kafka, and the web API."""
