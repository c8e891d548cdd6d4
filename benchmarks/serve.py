"""The service under load on the loopback interface: python benchmarks/serve.py RUN [--fuzz] [--keep].

This process is the client. It sends one observation per request at a fixed rate, whether or not earlier
answers have arrived, and measures each answer from when its request was due. In the middle of it the same
policy is promoted again. Then it sends as fast as the service answers, and with --fuzz then requests of
all kinds (schemathesis, a bounded number).
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

RATE, SECONDS, CONNECTIONS = 1000, 5, 16
FASTEST = 5000  # requests for the highest rate
EXAMPLES = 50  # of each path, at most, that schemathesis sends
TOKEN = "a-token-of-operators"
KEPT = Path(__file__).parent.parent / "results" / "serve.json"
CLOCK = os.sysconf("SC_CLK_TCK")


class Connection:
    """One connection, with a request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        """The status and the body of an answer."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n"
        head += f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        self.writer.write(head.encode() + content)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.split(b"content-length: ")[1].split(b"\r\n")[0])
        return int(answer.split(b" ")[1]), json.loads(await self.reader.readexactly(length))


async def connect(port: int) -> list[Connection]:
    """Some connections."""
    return [Connection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(CONNECTIONS)]


async def at_a_rate(port: int, body: Any, promote: str) -> tuple[list[float], Counter[int], int]:
    """Seconds of each answer and how many had each status, while policies are promoted; returns their
    number, too."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for connection in await connect(port):
        free.put_nowait(connection)
    (operator, *_), loop = await connect(port), asyncio.get_running_loop()
    seconds, statuses, promoted = [], Counter[int](), 0
    start = loop.time() + 0.1

    async def one(due: float) -> None:
        connection = await free.get()
        status, _ = await connection.post("/decide", body)
        seconds.append(loop.time() - due)
        statuses[status] += 1
        free.put_nowait(connection)

    tasks = []
    for number in range(RATE * SECONDS):
        due = start + number / RATE
        if due > loop.time():
            await asyncio.sleep(due - loop.time())
        tasks.append(asyncio.create_task(one(due)))
        if number % (RATE * SECONDS // 4) == RATE:
            promoted += (await operator.post("/promote", {"run": promote}))[0] == 200
    await asyncio.gather(*tasks)
    return seconds, statuses, promoted


async def as_fast_as_possible(port: int, body: Any) -> float:
    """Answers a second."""
    start = time.perf_counter()

    async def client(connection: Connection) -> None:
        for _ in range(FASTEST // CONNECTIONS):
            assert (await connection.post("/decide", body))[0] == 200

    await asyncio.gather(*(client(each) for each in await connect(port)))
    return FASTEST / (time.perf_counter() - start)


def cpu_seconds(process: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK


def fuzz(address: str) -> dict[str, int]:
    """How many requests schemathesis made, and how many answers were wrong."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json", "--checks", "all"]
    command += [
        "--max-examples",
        str(EXAMPLES),
        "--seed",
        "1",
        "--header",
        f"Authorization: Bearer {TOKEN}",
        "--no-color",
    ]
    printed = subprocess.run(command, capture_output=True, text=True).stdout.rpartition("Test cases:")[2]
    made, passed = (int(printed.split(f" {word}")[0].split()[-1]) for word in ("generated", "passed"))
    return {"requests": made, "failed": made - passed}


def main(words: list[str]) -> None:
    """Print the figures of a run's service."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(Path(words[0]) / "policy", Path(folder) / "runs" / "policy")
        command = [sys.executable, "-m", "gridcount", "serve", words[0], "--port", "0", "--rate", "1000000"]
        command += ["--promote-from", f"{folder}/runs", "--log", f"{folder}/log"]
        environment = os.environ | {"GRIDCOUNT_PROMOTE_TOKEN": TOKEN}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
            assert server.stdout is not None
            address = server.stdout.readline().split(" on ")[1].split()[0]
            found = measure(address, words[0], server.pid)
            if "--fuzz" in words:
                found["fuzzing"] = fuzz(address)
            server.terminate()
    print(json.dumps(found, indent=2))
    if "--keep" in words:
        KEPT.write_text(json.dumps(found, indent=2) + "\n")


def measure(address: str, run: str, process: int) -> dict[str, Any]:
    """Latency at a rate, the highest rate, and the CPU time of a request."""
    from gridcount.policy.policy import load_policy

    policy, port = load_policy(run), int(address.rpartition(":")[2])
    assert policy.log.guard is not None
    middle = (policy.log.guard.seen.low + policy.log.guard.seen.high) / 2
    body = {"observation": dict(zip(policy.observation_names, middle.tolist(), strict=True))}
    asyncio.run(as_fast_as_possible(port, body))  # to warm up
    used = cpu_seconds(process)
    seconds, statuses, promoted = asyncio.run(at_a_rate(port, body, "policy"))
    used = cpu_seconds(process) - used
    fastest = asyncio.run(as_fast_as_possible(port, body))
    seconds.sort()
    count = len(seconds)
    return {
        "policy": repr(policy),
        "rate": RATE,
        "requests": count,
        "answered": dict(statuses),
        "promotions": promoted,
        "milliseconds": {"median": 1e3 * seconds[count // 2], "p99": 1e3 * seconds[count * 99 // 100]},
        "cpu_milliseconds": 1e3 * used / count,
        "fastest": fastest,
        "others": os.getloadavg()[0],
        "cores": os.cpu_count(),
    }


if __name__ == "__main__":
    main(sys.argv[1:])
