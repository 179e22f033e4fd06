"""The HTTP shell: takes requests in, lets queries run in threads, and cleans up after both."""

import asyncio
import contextlib
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from pipeline.clock import Clock
from pipeline.embedded.clickhouse import errors
from pipeline.embedded.clickhouse.engine import Engine
from pipeline.embedded.clickhouse.entrance import Entrance
from pipeline.embedded.clickhouse.errors import ClickHouseError
from pipeline.embedded.clickhouse.execution import HEAD_BYTES_MAX, Answer, Execution
from pipeline.embedded.clickhouse.form import TABLES_BYTES_MAX, is_form, read_form
from pipeline.embedded.clickhouse.freezing_routes import Freezing
from pipeline.embedded.clickhouse.measures import QueryMeasure
from pipeline.embedded.clickhouse.patience import next_of
from pipeline.embedded.clickhouse.reading import Reading
from pipeline.embedded.clickhouse.reply import Reply, error_response
from pipeline.embedded.clickhouse.request import Request, parse_request
from pipeline.embedded.clickhouse.scope import lasting
from pipeline.embedded.clickhouse.sessions import Session, Sessions
from pipeline.embedded.clickhouse.spool import BODY_BYTES_MAX, Spool
from pipeline.embedded.clickhouse.write_gate import WriteGate
from pipeline.metrics.definitions import clickhouse as metric
from pipeline.metrics.exposition import exposition
from pipeline.metrics.values import Metrics

QUERIES_MAX = 32
QUERIES_WAITING_MAX = 256
READER_BYTES_MAX = HEAD_BYTES_MAX
"""Of the body or form of who may only read, and so sends no data: any query is shorter."""

KILL_EVERY_S = 0.1
CHUNK_BYTES = 1 << 18

_NO_SUCH_PATH = (
    "There is no handle {path}\n\nUse / or /ping for health checks.\n"
    "Send queries with POST, or with GET /?query=…\n"
)


class Door:
    """ClickHouse's HTTP interface on one engine. Made and used on the event loop."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        clock: Clock,
        entrance: Entrance,
        metrics: Metrics,
        *,
        freezing: Freezing | None = None,
    ) -> None:
        """`folder` takes bodies that outgrow memory; it must exist and be empty."""
        self._engine = engine
        self._entrance = entrance
        self._reading = Reading.of(engine.table_functions)
        self._folder = folder
        self._clock = clock
        self._metrics = metrics
        self._freezing = freezing
        self._gate = WriteGate() if freezing is None else freezing.gate
        self._sessions = Sessions(engine, clock)
        self._threads = ThreadPoolExecutor(QUERIES_MAX, "query")
        # Killing must not wait behind the queries to be killed.
        self._killer = ThreadPoolExecutor(1, "kill")
        self._sending = 0
        self._running: dict[str, Execution | None] = {}
        self._asking: dict[asyncio.Task[Any], Execution] = {}
        self._finishing: set[asyncio.Task[None]] = set()
        metrics.read(metric.QUERIES_RUNNING(), self._begun)
        metrics.read(metric.QUERIES_WAITING(), lambda: len(self._running) - self._begun())
        metrics.read(metric.SESSIONS(), lambda: len(self._sessions))

    def application(self) -> web.Application:
        app = web.Application()
        for path in ("/ping", "/replicas_status"):
            app.router.add_get(path, self._ok)
        # A ClickHouse server has these under another port; one more is one more to choose.
        app.router.add_get("/metrics", self._tell)
        if self._freezing is not None:
            self._freezing.add_routes(app.router)
        app.router.add_route("*", "/", self._query)
        app.router.add_route("*", "/{path:.*}", self._no_such_path)
        app.on_shutdown.append(self._stop_reading)
        app.on_cleanup.append(self._close)
        return app

    async def _ok(self, _http: web.Request) -> web.Response:
        return web.Response(text="Ok.\n", content_type="text/html", charset="UTF-8")

    async def _tell(self, http: web.Request) -> web.Response:
        try:
            self._entrance.is_reader(http.headers, http.query)
        except ClickHouseError as error:
            return error_response(error, str(uuid.uuid4()), self._engine.version)
        found = exposition(self._metrics, http.headers.get("Accept", ""))
        return web.Response(body=found.body, headers={"Content-Type": found.content_type})

    def _begun(self) -> int:
        return sum(one is not None and one.begun for one in list(self._running.values()))

    async def _no_such_path(self, http: web.Request) -> web.Response:
        return web.Response(status=404, text=_NO_SUCH_PATH.format(path=http.path))

    async def _query(self, http: web.Request) -> web.StreamResponse:
        if http.headers.get("Sec-Fetch-Site") in ("cross-site", "same-site"):
            # A browser may need no password here, or know it already, so no page of another site
            # may ask in its reader's name.
            return web.Response(status=403, text="Queries from other sites' pages are refused.\n")
        if http.method not in ("GET", "HEAD", "POST", "PUT"):
            return web.Response(status=501, text=f"Unsupported method: {http.method}\n")
        if http.method != "POST" and not http.query_string and not http.can_read_body:
            return await self._ok(http)
        query_id = http.query.get("query_id") or str(uuid.uuid4())
        measure = QueryMeasure(self._metrics, self._clock)
        try:
            is_reader = self._entrance.is_reader(http.headers, http.query)
            with self._received():
                most = READER_BYTES_MAX if is_reader else TABLES_BYTES_MAX
                fields, files = await read_form(http, most) if is_form(http) else ({}, {})
            values = {**http.query, **fields, "query_id": query_id}
            request = parse_request(http.method, values.items(), http.headers, files)
            if is_reader:
                # A session keeps what SET and CREATE made, neither of which is for readers, and
                # one of somebody else's would come without the engine's own belt.
                request = replace(request, session=None)
            return await self._answer(http, request, self._reading if is_reader else None, measure)
        except ClickHouseError as error:
            return self._refusal(error, query_id, measure)
        except OSError as error:
            refusal = errors.refusal_of(error)
            if refusal is None:
                raise
            return self._refusal(refusal, query_id, measure)
        finally:
            measure.end()

    def _refusal(
        self, error: ClickHouseError, query_id: str, measure: QueryMeasure
    ) -> web.Response:
        refusal = error_response(error, query_id, self._engine.version)
        measure.outcome, measure.sent_bytes = "failed", len(refusal.text or "")
        return refusal

    async def _answer(
        self,
        http: web.Request,
        request: Request,
        reading: Reading | None,
        measure: QueryMeasure,
    ) -> web.StreamResponse:
        spool = Spool(self._folder, BODY_BYTES_MAX if reading is None else READER_BYTES_MAX)
        try:
            with self._received():
                await receive(http, spool)
            session = self._begin(request, is_reader=reading is not None)
        except BaseException:
            spool.close()
            raise
        finally:
            measure.received_bytes = spool.size_bytes
        try:
            execution = Execution(request, spool, session, self._folder, reading, gate=self._gate)
        except BaseException:
            # There may be no file left for its pipe; its place is not to be lost with it.
            self._let_go(request, session, spool, is_clean=False)
            raise
        measure.execution = self._running[request.query_id] = execution
        thread = self._threads.submit(execution.run)
        asking = asyncio.current_task()
        try:
            if asking is not None:
                self._asking[asking] = execution
            reply = Reply(http, execution, self._engine.version, self._engine.timezone)
            done = asyncio.wrap_future(thread)
            done.add_done_callback(_seen)
            response = await reply.send(done, self._folder)
            measure.outcome = "failed" if reply.is_cut else "answered"
            measure.sent_bytes = reply.sent_bytes
            return response
        finally:
            if asking is not None:
                self._asking.pop(asking, None)
            # The thread outlives a request that its client gave up, and so must what it uses.
            ending = asyncio.create_task(self._end(execution, thread, session, spool))
            self._finishing.add(ending)
            ending.add_done_callback(self._finishing.discard)
            await asyncio.shield(ending)

    @contextlib.contextmanager
    def _received(self) -> Iterator[None]:
        """While a query is still being sent, which takes a place as well as one that runs."""
        self._expect_room()
        self._sending += 1
        try:
            yield
        finally:
            self._sending -= 1

    def _expect_room(self) -> None:
        if len(self._running) + self._sending >= QUERIES_MAX + QUERIES_WAITING_MAX:
            raise errors.refusal(
                errors.TOO_MANY_SIMULTANEOUS_QUERIES,
                f"Too many simultaneous queries. Maximum: {QUERIES_MAX + QUERIES_WAITING_MAX}",
            )

    def _begin(self, request: Request, *, is_reader: bool) -> Session:
        self._expect_room()
        if request.query_id in self._running:
            raise errors.refusal(
                errors.QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING,
                f"Query with id = {request.query_id} is already running",
            )
        session = self._sessions.take(request.session, lasting(request, is_reader=is_reader))
        self._running[request.query_id] = None
        return session

    async def _end(
        self, execution: Execution, thread: Future[Answer], session: Session, spool: Spool
    ) -> None:
        """Waits for the thread; a reading query whose client left is killed, a writing one ends."""
        request = execution.request
        execution.pipe.close_reading()
        if thread.cancel():  # It had not begun, so nobody else ends the pipe.
            execution.pipe.close_writing()
        while not thread.done():
            if execution.only_reads:
                kill = self._killer.submit(self._engine.kill, request.query_id)
                with contextlib.suppress(ClickHouseError):
                    await asyncio.wrap_future(kill)
            # Asked for the state itself: a future of the event loop may be cancelled while it runs.
            await asyncio.sleep(0 if thread.done() else KILL_EVERY_S)
        self._let_go(request, session, spool, is_clean=execution.is_clean)

    def _let_go(self, request: Request, session: Session, spool: Spool, *, is_clean: bool) -> None:
        """Give back what `_begin` took."""
        self._running.pop(request.query_id, None)
        spool.close()
        self._sessions.give_back(
            session,
            close=request.session is not None and request.session.close,
            is_clean=is_clean,
        )

    async def _stop_reading(self, _app: web.Application) -> None:
        """A stop cuts readers off, who can ask again; inserts are answered first."""
        for asking, execution in list(self._asking.items()):
            if execution.only_reads:
                asking.cancel()

    async def _close(self, _app: web.Application) -> None:
        await asyncio.gather(*self._finishing)
        self._threads.shutdown()
        self._killer.shutdown()
        self._sessions.close()


def _seen(done: asyncio.Future[Answer]) -> None:
    """A failure that nobody waits for any more is no news for the log."""
    if not done.cancelled():
        done.exception()


async def receive(http: web.Request, spool: Spool) -> None:
    """The whole body into the spool; raises when the client leaves or is silent before its end."""
    if is_form(http):
        return
    while chunk := await next_of(http.content.read(CHUNK_BYTES)):
        if spool.in_memory:
            spool.write(chunk)
        else:
            await asyncio.to_thread(spool.write, chunk)
