"""`tally worker`: one Faust worker."""

import typer

from pipeline.clock import SystemClock


def register(app: typer.Typer) -> None:
    app.command("worker")(worker)


def worker() -> None:
    """One worker: counts the partitions the group gives it. Run as many as you like.

    Makes the topics and the tables that are missing. Prints `worker ready` when it counts; stops
    cleanly on Ctrl-C and SIGTERM after a last checkpoint.

    Example: `TALLY_KAFKA=kafka-1:9092 TALLY_CLICKHOUSE=http://clickhouse:8123 tally worker`
    """
    from pipeline.run_worker import run_worker  # noqa: PLC0415 - brings Faust
    from schemas.settings import load_settings  # noqa: PLC0415

    run_worker(load_settings(), SystemClock())
