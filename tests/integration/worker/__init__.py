"""Real workers, killed, frozen and misled, on the embedded log and on a real Apache Kafka."""

import pytest

pytest.register_assert_rewrite("tests.integration.worker.site", "tests.integration.worker.stream")
