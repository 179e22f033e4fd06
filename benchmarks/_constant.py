"""The least that FastAPI can do: a constant, served as `tally serve` serves. Prints its port."""

import asyncio
import socket
import sys

import uvicorn
import uvloop
from fastapi import FastAPI

app = FastAPI()


@app.get("/constant")
async def constant() -> dict[str, object]:
    """About as long as a count."""
    return {"counter": "likes:post-42", "total": 123456, "net": 123456, "complete": True}


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    sys.stdout.write(f"constant ready {listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(app, loop="none", http="httptools", log_config=None, access_log=False)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(uvicorn.Server(config).serve([listener]))


if __name__ == "__main__":
    main()
