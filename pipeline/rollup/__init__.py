"""Minutes to hours to days in ClickHouse, and what is past its retention."""
