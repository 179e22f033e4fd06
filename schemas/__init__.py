"""All that crosses a boundary: events, frames, families, settings, SQL."""
