"""TLS in front of a server that has none, as a proxy gives it, in a process of its own."""

import asyncio
import contextlib
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.kit.certificates import Authority
from tests.kit.processes import Process

HOST = "127.0.0.1"


@contextlib.contextmanager
def tls_in_front_of(port: int, authority: Authority, folder: Path) -> Iterator[int]:
    """The proxy's port. It asks clients for certificates of the same authority."""
    files = [authority.ca, *authority.certificate("proxy")]
    command: list[str | Path] = [sys.executable, "-m", "tests.kit.tls_proxy", str(port), *files]
    with Process(command, output_path=folder / "proxy.txt") as process:
        yield int(process.wait_for_line(r"^proxy ready on (\d+)$").group(1))


async def serve(port: int, ca: str, cert: str, key: str) -> None:
    """Pass on what comes, for ever."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=ca)
    context.load_cert_chain(cert, key)
    context.verify_mode = ssl.CERT_REQUIRED

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection(HOST, port)
        await asyncio.gather(_copy(reader, behind_writer), _copy(behind_reader, writer))

    server = await asyncio.start_server(pass_on, HOST, 0, ssl=context)
    print(f"proxy ready on {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), *sys.argv[2:5]))
