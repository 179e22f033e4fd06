"""How long the supervisor waits before it starts a dead part again, and what it tells people."""

from pathlib import Path

from pipeline.local.parts import News, Output, Pace, Part

PACE = Pace(pause_min_s=0.5, pause_max_s=4.0, steady_s=60.0)


async def never(_: Output) -> bool:
    return False


def test_the_pause_doubles_up_to_its_bound() -> None:
    pauses_s = [0.0]
    for _ in range(6):
        pauses_s.append(PACE.pause_s(pauses_s[-1], up_s=1.0))
    assert pauses_s[1:] == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


def test_the_pause_starts_over_after_a_steady_while() -> None:
    assert PACE.pause_s(4.0, up_s=59.9) == 4.0
    assert PACE.pause_s(4.0, up_s=60.0) == 0.5


def test_a_line_has_name_address_state_and_detail() -> None:
    part = Part("log", ["true"], "127.0.0.1:19092", never)
    line = News(part, "healthy", "0.4 s").line()
    assert line == "log         127.0.0.1:19092   healthy   0.4 s"


def test_output_of_the_present_run_is_told_from_earlier_ones(tmp_path: Path) -> None:
    output = Output(tmp_path / "part.log")
    output.path.write_text("worker ready before\n")
    with open(output.open(), "w") as file:  # noqa: PTH123  open() takes the descriptor
        assert not output.said("worker ready")
        file.write("starting\nworker rea")
        file.flush()
        assert not output.said("worker ready")
        file.write("dy on 3 partitions")
        file.flush()
        assert not output.said("worker ready"), "half a line is not yet said"
        file.write("\nmore\n")
        file.flush()
        assert output.said("worker ready")
        assert output.since_start() == ["starting", "worker ready on 3 partitions", "more"]


def test_a_large_output_is_put_aside_at_start(tmp_path: Path) -> None:
    output = Output(tmp_path / "part.log", bytes_max=10)
    for text in ("first run\nlong\n", "second run\nlong\n", "third"):
        with open(output.open(), "w") as file:  # noqa: PTH123  open() takes the descriptor
            file.write(text)
    assert output.path.read_text() == "third"
    assert (tmp_path / "part.log.1").read_text() == "second run\nlong\n"
    assert output.since_start() == ["third"]
