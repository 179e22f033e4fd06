"""A worker waits for what must be so before it joins its group, and for nothing else."""

import asyncio

import faust
from faust.types import StreamT

from pipeline.prompt import PromptWorker, agents_are_registered


def app_with_an_agent() -> faust.App:
    app = faust.App("prompt", broker="kafka://127.0.0.1:1", topic_disable_leader=True)

    @app.agent(app.topic("read"))
    async def agent(stream: StreamT[bytes]) -> None:
        async for _ in stream:
            pass

    return app


async def test_agents_are_registered_when_what_subscribes_knows_their_topics() -> None:
    app = app_with_an_agent()
    assert not agents_are_registered(app)
    app.topics.add(app.topic("another"))
    assert not agents_are_registered(app)
    app.topics.add(app.topic("read"))
    assert agents_are_registered(app)


async def test_a_worker_whose_tasks_have_ended_does_not_wait() -> None:
    worker = PromptWorker(app_with_an_agent())
    async with asyncio.timeout(0.5):
        await worker._sentinel_task()
