"""Answers on the wire: headers, compression, and a failure after the first bytes have left.

Up to HELD_BACK_BYTES are held back, so that most failures still get their HTTP status and most
answers their full summary. A later failure ends the body with ClickHouse's tagged exception, and
the connection is cut without the closing chunk: no client can take a torn answer for a whole one.
"""

import asyncio
import secrets
from pathlib import Path

from aiohttp import web

from pipeline.embedded.clickhouse.blocks import BlockEncoder
from pipeline.embedded.clickhouse.compression import Chain, Encoder, encoder, known
from pipeline.embedded.clickhouse.counts import Counts, summary
from pipeline.embedded.clickhouse.errors import ClickHouseError
from pipeline.embedded.clickhouse.execution import Answer, Execution
from pipeline.embedded.clickhouse.formats import content_type
from pipeline.embedded.clickhouse.native import REVISION_WITH_CUSTOM_SERIALIZATION, NativeEncoder
from pipeline.embedded.clickhouse.patience import taken
from pipeline.embedded.clickhouse.spool import Spool

HELD_BACK_BYTES = 1 << 20
THREADED_BYTES = 1 << 16
EXCEPTION_TAG = "X-ClickHouse-Exception-Tag"


class Reply:
    """The answer to one request. Used on the event loop; nothing here blocks it for long.

    `sent_bytes` is what of the body has left, and `is_cut` whether a failure ended it half way.
    """

    def __init__(
        self, http: web.Request, execution: Execution, version: str, timezone: str
    ) -> None:
        self._http = http
        self._execution = execution
        self._version = version
        self._headers = {
            "X-ClickHouse-Query-Id": execution.request.query_id,
            "X-ClickHouse-Timezone": timezone,
        }
        self._encoding = known(execution.request.accepted_encodings)
        self._http_encoder = encoder(self._encoding)
        self.sent_bytes = 0
        self.is_cut = False

    async def send(self, done: asyncio.Future[Answer], folder: Path) -> web.StreamResponse:
        """Send the answer of a running query; raises ClickHouseError if nothing was sent yet."""
        request = self._execution.request
        with Spool(folder) as held:
            while request.wait_end or held.size_bytes < HELD_BACK_BYTES:
                piece = await self._execution.pipe.read()
                if not piece:
                    return await self._send_whole(held, done)
                held.write(piece)
            return await self._send_streaming(held, done, Counts())

    async def _send_whole(self, held: Spool, done: asyncio.Future[Answer]) -> web.StreamResponse:
        answer = await asyncio.shield(done)
        held.write(answer.body)
        if held.size_bytes > HELD_BACK_BYTES and self._http.method != "HEAD":
            # The query is over, but its first bytes leave before the last ones are encoded, which
            # may fail.
            return await self._send_streaming(held, done, answer.counts)
        self._headers["X-ClickHouse-Summary"] = summary(answer.counts)
        coder = self._encoder(answer.format)
        body = held.reader().read()
        if body:
            body = await encoded(coder, body) + coder.finish()
        self.sent_bytes += 0 if self._http.method == "HEAD" else len(body)
        return web.Response(body=body, headers=self._all_headers(answer.format, bool(body)))

    async def _send_streaming(
        self, held: Spool, done: asyncio.Future[Answer], counts: Counts
    ) -> web.StreamResponse:
        """What is held, and what else comes from the pipe, which may be over already."""
        tag = secrets.token_hex(8)
        self._headers[EXCEPTION_TAG] = tag
        self._headers["X-ClickHouse-Summary"] = summary(counts)
        fmt = self._execution.format
        coder = self._encoder(fmt)
        response = await self._start(fmt)
        if self._http.method == "HEAD":
            return response
        try:
            await self._copy(response, coder, held)
            while piece := await self._execution.pipe.read():
                await self._write(response, await encoded(coder, piece))
            await asyncio.shield(done)
            await self._write(response, coder.finish())
        except ClickHouseError as error:
            await self._cut(response, error, tag)
        return response

    async def _cut(self, response: web.StreamResponse, error: ClickHouseError, tag: str) -> None:
        """Only HTTP's compression is left on: the exception is no block of anything."""
        self.is_cut = True
        text = error.body(self._version)
        size_bytes = len(text.encode())
        block = f"\r\n__exception__\r\n{tag}\r\n{text}{size_bytes} {tag}\r\n__exception__\r\n"
        last = self._http_encoder.compress(block.encode()) + self._http_encoder.finish()
        await self._write(response, last)
        if self._http.transport is not None:
            self._http.transport.close()

    def _encoder(self, fmt: str) -> Encoder:
        request = self._execution.request
        steps: list[Encoder] = []
        if fmt == "Native" and request.protocol_revision >= REVISION_WITH_CUSTOM_SERIALIZATION:
            steps.append(NativeEncoder())
        if request.native_out:
            steps.append(BlockEncoder())
        return Chain(*steps, self._http_encoder)

    async def _start(self, fmt: str) -> web.StreamResponse:
        response = web.StreamResponse(headers=self._all_headers(fmt, has_body=True))
        await response.prepare(self._http)
        return response

    async def _copy(self, response: web.StreamResponse, coder: Encoder, held: Spool) -> None:
        reader = held.reader()
        while piece := reader.read(HELD_BACK_BYTES):
            await self._write(response, await encoded(coder, piece))

    async def _write(self, response: web.StreamResponse, piece: bytes) -> None:
        """Raises ConnectionResetError where the client has left, or takes nothing any more."""
        if not await taken(response.write(piece)):
            self.is_cut = True
            if self._http.transport is not None:
                self._http.transport.abort()
            raise ConnectionResetError("nobody takes the answer")
        self.sent_bytes += len(piece)

    def _all_headers(self, fmt: str, has_body: bool) -> dict[str, str]:
        headers = {**self._headers, "Content-Type": content_type(fmt), "X-ClickHouse-Format": fmt}
        if self._encoding and has_body:
            headers["Content-Encoding"] = self._encoding
        return headers


async def encoded(coder: Encoder, piece: bytes) -> bytes:
    """Compression of a large piece takes tens of milliseconds, so it leaves the event loop."""
    if len(piece) < THREADED_BYTES:
        return coder.compress(piece)
    return await asyncio.to_thread(coder.compress, piece)


def error_response(error: ClickHouseError, query_id: str, version: str) -> web.Response:
    """The whole answer of a query that failed before anything was sent."""
    headers = {"X-ClickHouse-Exception-Code": str(error.code), "X-ClickHouse-Query-Id": query_id}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(error.retry_after_s)
    return web.Response(
        status=error.status,
        # What was refused may be quoted, and need not be Unicode.
        text=error.body(version).encode("utf-8", "backslashreplace").decode(),
        headers=headers,
        content_type="text/plain",
        charset="UTF-8",
    )
