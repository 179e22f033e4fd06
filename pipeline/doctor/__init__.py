"""Is this machine, this Kafka and this ClickHouse fit for Tally?"""
