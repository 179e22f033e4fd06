"""For all tests: the kit's assertions explain themselves like the tests' own."""

import pytest

pytest.register_assert_rewrite("tests.kit")
