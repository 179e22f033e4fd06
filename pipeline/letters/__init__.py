"""Dead letters after they were written: listed, read and retried."""
