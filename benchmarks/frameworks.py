"""Requests per second of CPU that each HTTP framework serves: python benchmarks/frameworks.py [--keep].

Every framework validates the same request of eight named numbers, does the same small computation and
answers in JSON, behind the same server (uvicorn with httptools and uvloop). The server's own CPU time is
measured, so a busy machine does not change the result. FastAPI and Litestar are not dependencies of
gridcount: pip install fastapi litestar.
"""

import asyncio
import importlib.util
import json
import resource
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

NAMES = [f"temp_{number}" for number in range(8)]
FRAMEWORKS = ("starlette", "litestar", "fastapi")
REQUESTS, CONNECTIONS, ROUNDS = 4000, 8, 3
KEPT = Path(__file__).parent.parent / "results" / "frameworks.json"
BODY = json.dumps({"observation": dict.fromkeys(NAMES, 20.5)}).encode()
HEAD = f"POST /decide HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"


def starlette_app() -> Any:
    """Starlette, with msgspec for the bodies."""
    import msgspec
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    observation = msgspec.defstruct("Observation", [(name, float) for name in NAMES])
    decoder = msgspec.json.Decoder(msgspec.defstruct("Ask", [("observation", observation)]))
    encoder = msgspec.json.Encoder()

    async def decide(request: Request) -> Response:
        asked: Any = decoder.decode(await request.body())
        answer = {"action": {"valve": sum(msgspec.structs.astuple(asked.observation))}}
        return Response(encoder.encode(answer), media_type="application/json")

    return Starlette(routes=[Route("/decide", decide, methods=["POST"])])


def litestar_app() -> Any:
    """Litestar, whose own serialisation is msgspec."""
    import msgspec
    from litestar import Litestar, post

    observation = msgspec.defstruct("Observation", [(name, float) for name in NAMES])
    ask = msgspec.defstruct("Ask", [("observation", observation)])

    async def decide(data: Any) -> dict[str, dict[str, float]]:
        return {"action": {"valve": sum(msgspec.structs.astuple(data.observation))}}

    decide.__annotations__["data"] = ask
    return Litestar([post("/decide", status_code=200)(decide)])


def fastapi_app() -> Any:
    """FastAPI, with pydantic models."""
    from fastapi import FastAPI
    from pydantic import create_model

    fields: dict[str, Any] = dict.fromkeys(NAMES, (float, ...))
    ask = create_model("Ask", observation=(create_model("Observation", **fields), ...))
    app = FastAPI()

    async def decide(data: Any) -> dict[str, dict[str, float]]:
        return {"action": {"valve": sum(data.observation.model_dump().values())}}

    decide.__annotations__["data"] = ask
    app.post("/decide")(decide)
    return app


def serve(name: str, descriptor: int) -> None:
    """Serve one framework on an open socket; print the CPU seconds at each line read, and end with the
    input."""
    import uvicorn
    import uvloop

    app = globals()[f"{name}_app"]()
    config = uvicorn.Config(app, http="httptools", loop="uvloop", log_level="error", access_log=False)
    server = uvicorn.Server(config)

    async def run() -> None:
        serving = asyncio.create_task(server.serve([socket.socket(fileno=descriptor)]))
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while await reader.readline():
            used = resource.getrusage(resource.RUSAGE_SELF)
            print(used.ru_utime + used.ru_stime, flush=True)
        server.should_exit = True
        await serving

    uvloop.run(run())


async def load(port: int, requests: int) -> None:
    """Send requests over a few connections, the next one on each after the answer to the last."""

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(requests // CONNECTIONS):
            writer.write(HEAD.encode() + BODY)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
        writer.close()

    await asyncio.gather(*(client() for _ in range(CONNECTIONS)))


def measure(name: str) -> float:
    """Requests per second of the server's CPU time, the best of some rounds."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    port = listening.getsockname()[1]
    command = [sys.executable, __file__, "--serve", name, str(listening.fileno())]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[listening.fileno()]
    ) as server:
        listening.close()
        assert server.stdin is not None
        assert server.stdout is not None

        def used() -> float:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write("\n")
            server.stdin.flush()
            return float(server.stdout.readline())

        asyncio.run(load(port, 400))
        rates = []
        for _ in range(ROUNDS):
            before = used()
            asyncio.run(load(port, REQUESTS))
            rates.append(REQUESTS / (used() - before))
        server.stdin.close()
    return max(rates)


def main(words: list[str]) -> None:
    """Measure each installed framework."""
    if words[:1] == ["--serve"]:
        return serve(words[1], int(words[2]))
    found = {}
    for name in FRAMEWORKS:
        if importlib.util.find_spec(name) is not None:
            found[name] = {"version": version(name), "requests_per_cpu_second": round(measure(name))}
            print(
                f"{name} {found[name]['version']}: {found[name]['requests_per_cpu_second']:,} requests per"
                " second of CPU"
            )
    if "--keep" in words:
        KEPT.write_text(json.dumps(found, indent=2) + "\n")
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
