"""A policy of random numbers with the counts of a small log, written as a run writes it, and a service
that decides with it."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from processes import HANG

from gridcount.policy.actor import Actor, Perceptron
from gridcount.policy.counts import LogCounts
from gridcount.policy.store import FOLDER, Facts, write_actors, write_clone, write_counts, write_facts
from gridcount.transitions import Transitions

NAMES, ACTIONS = ("temp in", "temp_out"), ("valve",)
LOW, HIGH = (0.0,), (100.0,)


def plant_log(rows: int = 4000) -> Transitions:
    """A valve between 0 and 100 that follows two temperatures around 60."""
    rng = np.random.default_rng(0)
    state = rng.normal(60, 3, (rows, 2)).astype(np.float32)
    action = np.clip((60 - state[:, :1]) / 10 + rng.normal(0, 0.1, (rows, 1)), -1, 1).astype(np.float32)
    end = np.arange(rows) % 40 == 39
    still = np.zeros(rows, np.bool_)
    bounds: dict[str, Any] = {"action_low": np.array(LOW), "action_high": np.array(HIGH)}
    return Transitions(
        state, action, np.zeros(rows, np.float32), state, still, end, "plant.csv", **bounds,
        observation_names=NAMES, action_names=ACTIONS,
    )  # fmt: skip


def random_actor(seed: int) -> Actor:
    """A small network of random weights that sees normalised temperatures."""
    rng = np.random.default_rng(seed)
    shapes = [(2, 16), (16, 16), (16, 1)]
    weights = [rng.normal(0, 0.5, shape).astype(np.float32) for shape in shapes]
    biases = [rng.normal(0, 0.1, shape[1]).astype(np.float32) for shape in shapes]
    mean, deviation = np.full(2, 60, np.float32), np.full(2, 3, np.float32)
    return Actor(Perceptron(weights, biases, [], []), None, mean, deviation)


def write_run(run: Path, seed: int = 0, names: tuple[str, ...] = NAMES, clone: bool = False) -> Path:
    """A run's folder with a policy of one seed."""
    folder = run / FOLDER
    write_counts(folder, LogCounts.fit(plant_log()))
    write_actors(folder, 100, {seed: random_actor(seed)}, keep=1)
    if clone:
        write_clone(folder, random_actor(seed + 1000))
    facts = Facts("bc", {}, "plant.csv", "0123456789abcdef", (seed,), names, ACTIONS, LOW, HIGH, "0.1.0")
    write_facts(folder, facts)
    return run


class Client:
    """A running service, and requests to it."""

    def __init__(self, process: subprocess.Popen[str], address: str, printed: str) -> None:
        self.process, self.printed = process, printed
        self.host, _, port = address.removeprefix("http://").rpartition(":")
        self.port = int(port)
        self.address = address

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """The status of an answer and its JSON, or its text."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=HANG)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(method, path, content, {"content-type": "application/json"} | (headers or {}))
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text) if answer.headers.get_content_subtype() == "json" else text

    def decide(self, temp_in: float = 60, temp_out: float = 60, **more: Any) -> dict[str, Any]:
        """A decision, which must succeed."""
        observation = {"temp in": temp_in, "temp_out": temp_out}
        status, found = self.ask("POST", "/decide", {"observation": observation} | more)
        assert status == 200, found
        return dict(found)

    def stop(self) -> str:
        """End it as an operator does; returns what it printed."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=HANG)
        assert self.process.stdout is not None
        rest = self.process.stdout.read()  # not communicate, which misses what readline has buffered
        assert self.process.returncode == 0, rest
        return self.printed + rest


START = """
import sys
for name in ("jax", "equinox", "optax", "scipy", "h5py"):  # a service needs none of them
    sys.modules[name] = None
from gridcount.cli import main
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def service(run: Path, *words: str, **environment: str) -> Iterator[Client]:
    """`gridcount serve` in a process of its own."""
    command = [sys.executable, "-c", START, "serve", str(run), "--port", "0", *words]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, env=os.environ | environment, **pipes)
    try:
        assert process.stdout is not None
        printed = process.stdout.readline()
        assert "serving" in printed, printed + process.stdout.read()
        yield Client(process, printed.split(" on ")[1].split()[0], printed)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=HANG)
