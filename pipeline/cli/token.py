"""`tally token`: the token file, without ever keeping a token."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from pipeline.cli.output import console, print_json
from pipeline.cli.printable import printable, write_line
from pipeline.cli.times import duration_ms
from pipeline.clock import SystemClock
from pipeline.errors import OperatorError
from pipeline.reads.moments import rfc3339

if TYPE_CHECKING:
    from schemas.tokens import TokenTable

File = Annotated[
    Path | None, typer.Option("--file", help="The token file; TALLY_TOKENS if left out.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Name = Annotated[str, typer.Argument(help="Whose token it is: letters, digits, '_' and '-'.")]


def register(app: typer.Typer) -> None:
    commands = typer.Typer(
        help="Who may use the web API and the embedded ClickHouse: make, list and revoke tokens.",
        no_args_is_help=True,
    )
    commands.command("add")(add)
    commands.command("list")(list_)
    commands.command("revoke")(revoke)
    app.add_typer(commands, name="token")


def add(
    name: Name,
    read: Annotated[
        list[str] | None, typer.Option(help="A family it may read, or '*' for all; repeatable.")
    ] = None,
    write: Annotated[
        list[str] | None, typer.Option(help="A family it may write, or '*'; repeatable.")
    ] = None,
    admin: Annotated[
        list[str] | None, typer.Option(help="A family it may administer, or '*'; repeatable.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Requests a second; TALLY_RATE_MAX if left out.")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="How long it holds: 12h, 90d.")] = None,
    file: File = None,
    json: Json = False,
) -> None:
    """Make a token and print it, this once: the file keeps its hash only.

    The file is made if it is missing. Running servers know the token within two seconds.

    Example: `tally token add dashboard --read likes --read views --expires 90d`
    """
    from pipeline.access.edit import edit_tokens, with_token  # noqa: PLC0415 - brings pydantic
    from pipeline.access.tokens import digest_of, hash_text, new_token  # noqa: PLC0415

    if not (read or write or admin):
        raise typer.BadParameter("say what it may do: --read, --write or --admin, with a family")
    until_ms = None
    if expires is not None:
        # Whole seconds, as they are written.
        until_ms = (SystemClock().now_ms() + duration_ms(expires)) // 1000 * 1000
    chosen, token = _chosen(file), new_token()
    table = _table(
        name,
        hash=hash_text(digest_of(token)),
        read=read or [],
        write=write or [],
        admin=admin or [],
        rate=rate,
        expires=None if until_ms is None else rfc3339(until_ms),
    )
    edit_tokens(chosen, lambda text: with_token(text, name, table))
    if json:
        print_json({"token": token, **_document(name, table), "file": str(chosen)})
        return
    write_line(token)
    write_line(f"{name} is in {printable(str(chosen))}; its token is not shown again")


def list_(file: File = None, json: Json = False) -> None:
    """The tokens' names and rights; nobody can tell the tokens themselves.

    Example: `tally token list --file tokens.toml`
    """
    from schemas.tokens import load_tokens  # noqa: PLC0415 - brings pydantic

    chosen = _chosen(file)
    tokens = load_tokens(chosen).tokens
    if json:
        print_json({"file": str(chosen), "tokens": [_document(*one) for one in tokens.items()]})
        return
    if not tokens:
        write_line(f"{printable(str(chosen))} has no tokens: nobody is let in by it")
        return
    shown = Table("name", "read", "write", "admin", "rate", "expires", box=None)
    now_ms = SystemClock().now_ms()
    for name, token in tokens.items():
        families = (
            ", ".join(map(printable, one)) for one in (token.read, token.write, token.admin)
        )
        rate = "" if token.rate is None else f"{token.rate:g}/s"
        shown.add_row(name, *families, rate, _expires(token.expires, now_ms))
    console().print(shown)


def revoke(name: Name, file: File = None, json: Json = False) -> None:
    """Take a token out of the file. Running servers refuse it within two seconds.

    Example: `tally token revoke dashboard`
    """
    from pipeline.access.edit import edit_tokens, without_token  # noqa: PLC0415 - brings pydantic

    chosen = _chosen(file)
    edit_tokens(chosen, lambda text: without_token(text, name))
    if json:
        print_json({"name": name, "revoked": True, "file": str(chosen)})
    else:
        write_line(f"{name} is revoked: servers refuse its token within two seconds")


def _chosen(file: Path | None) -> Path:
    from schemas.settings import load_settings  # noqa: PLC0415 - brings pydantic

    chosen = file or load_settings().tokens
    if chosen is None:
        raise OperatorError("there is no token file: set TALLY_TOKENS, or give --file")
    return chosen


def _table(name: str, **fields: Any) -> "TokenTable":
    """The entry as the file's own rules have it. Wrong usage otherwise."""
    from pydantic import ValidationError  # noqa: PLC0415 - heavy

    from schemas.tokens import TokenTable, is_token_name  # noqa: PLC0415 - brings pydantic

    if not is_token_name(name):
        raise typer.BadParameter(f"{name!r}: a name is 1 to 64 letters, digits, '_' or '-'")
    given = {field: value for field, value in fields.items() if value is not None}
    try:
        return TokenTable(**given)
    except ValidationError as error:
        problem = error.errors(include_input=False)[0]
        option, reason = problem["loc"][0], problem["msg"].removeprefix("Value error, ")
    raise typer.BadParameter(f"--{option}: {reason}")


def _document(name: str, token: "TokenTable") -> dict[str, Any]:
    return {
        "name": name,
        "read": token.read,
        "write": token.write,
        "admin": token.admin,
        "rate": token.rate,
        "expires": None if token.expires is None else rfc3339(token.expires),
    }


def _expires(expires_ms: int | None, now_ms: int) -> str:
    if expires_ms is None:
        return "never"
    return rfc3339(expires_ms) + (" (expired)" if expires_ms <= now_ms else "")
