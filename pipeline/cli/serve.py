"""`tally serve`: the web API."""

import typer

from pipeline.clock import SystemClock


def register(app: typer.Typer) -> None:
    app.command("serve")(serve)


def serve() -> None:
    """The web API: reads, writes, rankings, metrics. Run as many as you like.

    Listens on TALLY_WEB, which is loopback unless you say otherwise; an address that others reach
    needs tokens. Its description is at /docs. Prints `web ready` when it listens; stops on Ctrl-C.

    Example: `TALLY_WEB=127.0.0.1:8321 tally serve`
    """
    from pipeline.web.serve import serve as run_web  # noqa: PLC0415 - brings FastAPI
    from schemas.settings import load_settings  # noqa: PLC0415

    run_web(load_settings(), SystemClock())
