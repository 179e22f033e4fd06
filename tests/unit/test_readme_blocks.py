"""How the README is taken apart and compared: what may differ, and what may not."""

from tests.kit.readme import Step, agrees, steps

PAGE = """
```sh
make demo
```
```console
$ tally count likes:a
likes:a  3
  2026-11-17T13:03:00Z             3
$ true
```
```python
print(1)
```

```text
1
```
```python
pass
```
words
```text
not of it
```
```console live
$ tally top hashtag
1    hashtag:#cats    29,883
```
"""


def test_commands_programs_and_what_they_show_are_found_in_order() -> None:
    found = list(steps(PAGE))
    assert [step.text.strip() for step in found] == [
        "tally count likes:a",
        "true",
        "print(1)",
        "pass",
        "tally top hashtag",
    ]
    assert [step.shown.strip() for step in found[1:4]] == ["", "1", ""]
    assert [step.live for step in found] == [False, False, False, False, True]


def test_times_may_differ_and_counts_may_not() -> None:
    step = next(steps(PAGE))
    assert agrees(step, "likes:a  3\n  2027-01-01T00:00:00Z  3\n")
    assert not agrees(step, "likes:a  4\n  2027-01-01T00:00:00Z  3\n")
    assert not agrees(step, "likes:a  3\n")


def test_a_minute_may_end_between_two_events() -> None:
    step = next(steps(PAGE))
    two = "likes:a  3\n  2027-01-01T00:00:00Z  {}\n  2027-01-01T00:01:00Z  1\n"
    assert agrees(step, two.format(2))
    assert not agrees(step, two.format(3))


def test_of_a_live_stream_lines_must_be_there_with_other_numbers_and_names() -> None:
    step = Step("console", "tally top hashtag", "1    hashtag:#cats    29,883\n", live=True)
    assert agrees(step, "progress 3 %\n1  hashtag:#dogs  7\n")
    assert not agrees(step, "1  likes:dogs  7\n")
    assert not agrees(step, "")
