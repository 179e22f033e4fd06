"""What a worker writes to ClickHouse, and when."""
