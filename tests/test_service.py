"""The service: real processes and real connections on the loopback interface."""

import asyncio
import concurrent.futures
import json
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
from processes import HANG, wait_for
from small_policy import Client, service, write_run

from gridcount.cli import main
from gridcount.policy.guard import Guard
from gridcount.policy.policy import load_policy
from gridcount.service import decision_log
from gridcount.service.drift import Drift, DriftMeter, RecentDrift
from gridcount.service.limits import Rates

TOKEN, PROMOTE = "a-token-of-clients", "a-token-of-operators"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs and an export, as an operator keeps them."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(folder / f"seed{seed}", seed)
    load_policy(folder / "seed1").export(folder / "exported", Guard(fallback="abstain"))
    write_run(folder / "other", 2, names=("pressure", "temp_out"))
    return folder


@pytest.fixture(scope="module")
def client(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A service with a decision log and small limits."""
    log = tmp_path_factory.mktemp("log")
    limits = ["--body-bytes", "20000", "--batch", "100", "--request-seconds", "1"]
    with service(runs / "seed0", "--log", str(log), *limits) as found:
        yield found


def body(**observation: Any) -> dict[str, Any]:
    return {"observation": {"temp in": 60.0, "temp_out": 60.0} | observation}


def test_a_decision_is_that_of_the_policy_in_the_logs_columns(client: Client, runs: Path) -> None:
    told = client.decide(61.5, 58.0)
    made = load_policy(runs / "seed0").decide([61.5, 58.0])
    assert told["action"] == {"valve": pytest.approx(float(made.action[0]), rel=1e-6)}
    assert (told["held"], told["count"], told["resolution"]) == (made.held, made.count, made.resolution)
    far = client.decide(1e38, 58.0)  # beyond all that the network can compute with
    assert far["held"]
    assert far["action"] is None  # nothing from the log fits outside of its range
    assert far["nearest_action"] is not None


def test_an_export_is_served_with_the_guard_of_its_contract(runs: Path, tmp_path: Path) -> None:
    out = load_policy(runs / "seed0").export(tmp_path / "out", Guard(fallback="abstain"))
    with service(out) as cautious:
        far = cautious.decide(500.0, 60.0)
    assert (far["held"], far["action"]) == (True, None)


def test_a_batch_answers_in_order(client: Client) -> None:
    temperatures = np.linspace(54, 66, 100).tolist()
    requests = [body(**{"temp in": value}) for value in temperatures]
    status, found = client.ask("POST", "/decide/batch", {"requests": requests})
    assert status == 200
    alone = [client.decide(value)["action"]["valve"] for value in temperatures[::20]]
    assert [each["action"]["valve"] for each in found["decisions"]][::20] == pytest.approx(alone, rel=1e-5)


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [
        (b"{", 400, "not JSON"),
        (b'{"observation": {"temp in": NaN, "temp_out": 1}}', 400, "not JSON"),
        (b'{"observation": {"temp in": 1e400, "temp_out": 1}}', 422, "out of range"),
        (body(**{"temp in": "hot"}), 422, "temp in"),
        ({"observation": {"temp in": 60.0}}, 422, "missing required field `temp_out`"),
        (body(pressure=1), 422, "unknown field `pressure`"),
        (body() | {"episode": "x" * 200}, 422, "episode"),
        ([], 422, "object"),
        (b"[" * 10_000, 422, "object"),
        (b'{"observation": ' + b'{"temp in":' * 1500, 422, "float"),
        (b" " * 30_000, 413, "larger than 20,000 bytes"),
    ],
)
def test_what_is_not_an_observation_is_refused_with_the_reason(
    client: Client, content: Any, status: int, message: str
) -> None:
    found, told = client.ask("POST", "/decide", content)
    assert (found, message in told["error"]) == (status, True), told


def test_other_mistakes_of_clients_have_their_status(client: Client) -> None:
    too_many = {"requests": [body()] * 101}
    assert client.ask("POST", "/decide/batch", too_many)[0] == 422
    assert client.ask("POST", "/decide", b"{}", {"content-type": "text/plain"})[0] == 415
    assert client.ask("GET", "/decide")[0] == 405
    assert client.ask("GET", "/nothing")[0] == 404
    assert client.ask("GET", "/health", headers={"host": "a-page-elsewhere.example"})[0] == 421
    assert client.ask("POST", "/outcome", {"decision": "never-made", "reward": 1.0})[0] == 404
    assert client.ask("POST", "/promote", {"run": "seed1"})[0] == 404  # there is no folder to promote from


def answer_to(client: Client, sent: bytes) -> bytes:
    """All that the service answers to some bytes, until it closes the connection."""
    with socket.create_connection((client.host, client.port), timeout=600) as connection:
        connection.sendall(sent)
        received = b""
        while part := connection.recv(65536):
            received += part
    return received


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 408),
        (b"POST /decide HTTP/1.1\r\nhost: localhost\r\n", 408),
        (b"POST /decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{", 408),
        (b"GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 40_000, 431),
        (b"POST /decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: " + b"y" * 40_000, 431),
        (b"\x16\x03\x01 not http\r\n\r\n", 400),
    ],
    ids=["silent", "slow headers", "slow body", "endless headers", "endless trailers", "not HTTP"],
)  # fmt: skip
def test_slow_and_endless_clients_are_answered_and_closed(client: Client, sent: bytes, status: int) -> None:
    assert answer_to(client, sent).split(b"\r\n")[0].split(b" ")[1] == str(status).encode()
    assert client.ask("GET", "/health") == (200, {"status": "ok"})


def test_empty_lines_after_an_answer_do_not_keep_a_connection_open(client: Client) -> None:
    with socket.create_connection((client.host, client.port), timeout=HANG) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        received = b""
        while b'{"status":"ok"}' not in received:
            received += connection.recv(65536)
        connection.sendall(b"\r\n")
        while part := connection.recv(65536):
            received += part
    assert b"HTTP/1.1 408 " in received


def test_a_flood_is_answered_with_429(runs: Path) -> None:
    with service(runs / "seed0", "--rate", "1") as flooded:
        batch = {"requests": [body()] * 1000}  # paid for after 1,000 seconds
        assert flooded.ask("POST", "/decide/batch", batch)[0] == 200
        for number in range(3):
            other = {"x-forwarded-for": f"10.0.0.{number}"}  # which it must not believe
            assert flooded.ask("POST", "/decide", body(), other)[0] == 429
        assert flooded.process.poll() is None


def test_an_address_may_ask_again_when_its_bucket_has_filled() -> None:
    now = [0.0]
    rates = Rates(rate=10, burst=20, clock=lambda: now[0])
    assert [rates.wait("a", 1) for _ in range(20)] == [0] * 20
    assert rates.wait("a", 1) == pytest.approx(0.1)
    assert rates.wait("b", 1) == 0
    now[0] += 0.1
    assert rates.wait("a", 1) == 0


def test_a_batch_larger_than_the_bucket_is_allowed_once_and_paid_for() -> None:
    rates = Rates(rate=1, burst=2, clock=lambda: 0.0)
    assert rates.wait("a", 1) == 0  # its request
    assert rates.wait("a", 99) == 0  # its other rows
    assert rates.wait("a", 1) == pytest.approx(99)


def test_only_who_has_the_token_is_answered(runs: Path) -> None:
    environment = {"GRIDCOUNT_TOKEN": TOKEN, "GRIDCOUNT_PROMOTE_TOKEN": PROMOTE}
    with service(runs / "seed0", "--promote-from", str(runs), **environment) as closed:
        given = {"authorization": f"Bearer {TOKEN}"}
        assert closed.ask("POST", "/decide", body())[0] == 401
        assert closed.ask("POST", "/decide", body(), {"authorization": f"Bearer {TOKEN}x"})[0] == 401
        assert closed.ask("POST", "/decide", body(), {"authorization": "Bearer \xff"})[0] == 401
        assert closed.ask("POST", "/decide", body(), given)[0] == 200
        assert closed.ask("GET", "/metrics")[0] == 401
        assert closed.ask("GET", "/ready")[0] == 200  # of load balancers
        assert closed.ask("POST", "/promote", {"run": "seed1"}, given)[0] == 401
        for path in ("/promote%0A", "/promote/", "//promote"):  # the same path only to a lenient router
            assert closed.ask("POST", path, {"run": "seed1"}, given)[0] == 404, path
        operator = {"authorization": f"Bearer {PROMOTE}"}
        outside = runs.parent / "outside"
        shutil.copytree(runs / "seed1", outside, dirs_exist_ok=True)
        (runs / "link").symlink_to(outside)
        for path in (
            "link",
            f"../{outside.name}",
            str(outside),
            "missing",
            ".",
            "x" * 250,
            "seed0/policy/0000000100.npz",
        ):
            assert closed.ask("POST", "/promote", {"run": path}, operator)[0] in (404, 409), path
        status, told = closed.ask("POST", "/promote", {"run": "other"}, operator)
        assert (status, "observation names (pressure, temp_out)" in told["error"]) == (409, True)
        assert closed.ask("POST", "/promote", {"run": "exported"}, operator)[0] == 200
        (runs / "link").unlink()
        made = load_policy(runs / "seed1").decide([60.0, 60.0])
        told = closed.ask("POST", "/decide", body(), given)[1]
        assert told["policy_action"]["valve"] == pytest.approx(float(made.policy_action[0]), rel=1e-5)
        far = closed.ask("POST", "/decide", body(temp_out=500.0), given)[1]
        assert (far["held"], far["action"]) == (True, None)  # the guard of the promoted export


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "can be reached from other machines, and there is no token"),
        (["--promote-from", "."], "a token of its own"),
        (["--fallback", "teleport"], "fallback is 'teleport'"),
        (["--min-count", "0"], "min_count is 0"),
    ],
)
def test_what_would_be_unsafe_is_not_started(
    runs: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", str(runs / "seed0"), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_promotion_under_load_and_the_end_lose_no_request_and_no_decision(
    runs: Path, tmp_path: Path
) -> None:
    words = ["--promote-from", str(runs), "--log", str(tmp_path / "log")]
    with service(runs / "seed0", *words, GRIDCOUNT_PROMOTE_TOKEN=PROMOTE) as busy:
        answered: list[str] = []
        promoted = 0

        def ask_until_closed(number: int) -> int:
            """Ask on one connection until the service asks to close it; returns how many requests were not
            answered."""
            import http.client

            connection = http.client.HTTPConnection(busy.host, busy.port, timeout=600)
            content = json.dumps(body() | {"episode": f"client {number}"})
            while True:
                connection.request("POST", "/decide", content, {"content-type": "application/json"})
                answer = connection.getresponse()
                told = json.loads(answer.read())
                if answer.status != 200:
                    return 1
                answered.append(told["policy"])
                if answer.getheader("connection") == "close":
                    return 0

        def enough_answers(count: int) -> bool:
            return len(answered) >= count or any(each.done() for each in clients)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(ask_until_closed, number) for number in range(4)]
            operator = {"authorization": f"Bearer {PROMOTE}"}
            for run in ("seed1", "exported", "seed0", "seed1"):
                promoted += busy.ask("POST", "/promote", {"run": run}, operator)[0] == 200
                enough = len(answered) + 20
                wait_for(partial(enough_answers, enough))
            printed = busy.stop()
            assert [each.result() for each in clients] == [0] * 4
        assert promoted == 4
        assert len(set(answered)) == 2
        assert "all accepted requests were answered" in printed
    tables = [parquet.read_table(file) for file in (tmp_path / "log").glob("incomplete-*.parquet")]
    logged = [name for table in tables for name in table["policy"].to_pylist()]
    assert sorted(logged) == sorted(answered)
    assert not list((tmp_path / "log").glob("*.partial"))


def test_the_decision_log_is_the_next_training_log(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    log, steps = tmp_path / "log", 30
    expected = {}
    with service(runs / "seed0", "--log", str(log)) as logging:
        rng = np.random.default_rng(0)
        for step in range(steps):
            for episode in ("a", "b"):  # interleaved, as two machines would ask
                state = rng.normal(60, 3, 2)
                made = logging.decide(*state.tolist(), episode=episode)
                outcome = {
                    "decision": made["decision"],
                    "reward": float(state[0]),
                    "truncated": step == steps - 1,
                }
                done = {"action": {"valve": 12.5}} if step == 3 else {}  # an operator did something else
                assert logging.ask("POST", "/outcome", outcome | done)[0] == 200
                assert logging.ask("POST", "/outcome", outcome)[0] == 404  # it was reported before
                valve = 12.5 if done else made["action"]["valve"]
                expected[episode, step] = (*state, valve, state[0])
        logging.decide(episode="c")  # whose outcome is never reported
        printed = logging.stop()
    (command,) = [line for line in printed.splitlines() if "gridcount data import" in line]
    _, *words = shlex.split(command)
    assert main(["next" if word == "NAME" else word for word in words]) == 0
    import gridcount

    data = gridcount.load("next")
    rows = [
        expected[episode, step] for episode in "ab" for step in range(steps - 1)
    ]  # the last has no next one
    np.testing.assert_allclose(data.observation, np.array(rows)[:, :2], rtol=1e-6)
    np.testing.assert_allclose(data.in_units(data.action)[:, 0], np.array(rows)[:, 2], atol=1e-3)
    np.testing.assert_allclose(data.reward, np.array(rows)[:, 3], rtol=1e-6)
    (rest,) = log.glob("incomplete-*.parquet")
    assert parquet.read_table(rest).num_rows == 1


def test_a_missing_outcome_and_a_restart_cut_the_episode(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No transition leads from the decision before the hole to the one after it."""
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    states = 58 + 0.1 * np.arange(12)
    for part in (states[:8], states[8:]):  # the same episode goes on after a restart
        with service(runs / "seed0", "--log", str(tmp_path / "log")) as logging:
            for state in part.tolist():
                made = logging.decide(
                    500.0 if state == states[5] else state, 60.0, episode="a"
                )  # 5: no action
                outcome = {"decision": made["decision"], "reward": 1.0}
                if state != states[2]:  # whose outcome is never reported
                    assert logging.ask("POST", "/outcome", outcome)[0] == 200
            printed = logging.stop()
    (command,) = [line for line in printed.splitlines() if "gridcount data import" in line]
    assert main(["next" if word == "NAME" else word for word in shlex.split(command)[1:]]) == 0
    assert "2 rows" in " ".join(capsys.readouterr().out.split())
    import gridcount

    data = gridcount.load("next")
    first, second = (np.round(10 * (each[:, 0] - 58)) for each in (data.observation, data.next_observation))
    assert list(zip(first, second, strict=True)) == [(0, 1), (3, 4), (6, 7), (8, 9), (9, 10), (10, 11)]


def test_a_log_that_cannot_be_written_is_said_and_decisions_go_on(runs: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with service(
        runs / "seed0", "--log", str(log), "--log-seconds", "0.05", "--outcome-seconds", "0"
    ) as full:
        log.rmdir()
        log.write_text("a file where the folder was")
        for _ in range(2):  # the second lets the first be written
            full.decide()
        wait_for(lambda: full.ask("GET", "/ready")[0] == 503)
        assert "cannot be written" in full.ask("GET", "/ready")[1]["problem"]
        full.decide()
        full.process.send_signal(signal.SIGTERM)
        printed, _ = full.process.communicate(timeout=HANG)
        assert full.process.returncode == 2
        assert "3 decisions could not be logged" in printed


def test_a_full_disk_is_not_tried_again_with_each_decision(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[Path] = []

    def full(path: Path) -> None:
        tried.append(path)
        raise OSError("no space left")

    monkeypatch.setattr(decision_log, "whole_file", full)
    facts = load_policy(runs / "seed0").facts
    log = decision_log.DecisionLog(tmp_path, facts, rows=100, seconds=1e6, outcome_seconds=600)
    for _ in range(450):
        decision = log.add({"episode": "a"}, (60.0, 60.0), [50.0])
        assert log.outcome(decision, decision_log.Outcome(1.0, False, False))
    log.close()
    assert log.dropped == 450
    assert len(tried) == 4  # with 100 rows, with 200, with 200 and at the end


def test_drift_is_told_from_chance(runs: Path) -> None:
    policy = load_policy(runs / "seed0")
    rng = np.random.default_rng(5)

    def drift(states: Any) -> Any:
        meter = DriftMeter(policy.log, policy.observation_names)
        meter.add(np.asarray(states, np.float32))
        return meter()

    same = drift(rng.normal(60, 3, (3000, 2)))
    assert same.verdict == "like the log"
    assert same.index < 2 * same.by_chance_95
    moved = drift(rng.normal(64, 3, (3000, 2)))
    assert moved.verdict == "large change"
    assert moved.index > 10 * moved.by_chance_95
    assert moved.outside["temp in"] > same.outside["temp in"]
    few = drift(rng.normal(60, 3, (50, 2)))
    assert (few.verdict, few.by_chance > same.by_chance) == ("too few states", True)
    assert drift(np.empty((0, 2))).states == 0
    assert sum(same.shares_log) == pytest.approx(1)


def test_the_oldest_states_leave_the_drift_window(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gridcount.service.drift.WINDOW", 1000)
    policy = load_policy(runs / "seed0")
    meter, rng = DriftMeter(policy.log, policy.observation_names), np.random.default_rng(0)
    states = np.concatenate([rng.normal(80, 1, (3000, 2)), rng.normal(60, 3, (1000, 2))]).astype(np.float32)
    for part in np.array_split(states, 57):
        meter.add(part)
    assert (meter().states, meter().verdict) == (1000, "like the log")
    meter.add(states[:2500])
    assert meter().verdict == "large change"


def test_a_flood_of_drift_requests_makes_one_comparison_a_second(runs: Path) -> None:
    policy = load_policy(runs / "seed0")
    meter = DriftMeter(policy.log, policy.observation_names)
    made: list[int] = []

    def slow() -> Drift:
        made.append(len(made))
        time.sleep(0.05)
        return meter()

    async def flood(recent: RecentDrift) -> None:
        await asyncio.gather(*(recent() for _ in range(200)))
        await recent()
        impatient = asyncio.create_task(recent())
        impatient.cancel()
        assert (await recent()).states == 0

    asyncio.run(flood(RecentDrift(slow)))
    assert len(made) == 1
    asyncio.run(flood(RecentDrift(slow, seconds=0.0)))
    assert len(made) > 2  # an old one is made again


def test_metrics_and_drift_are_served(client: Client) -> None:
    for _ in range(3):
        client.decide()
    status, text = client.ask("GET", "/metrics")
    assert status == 200
    decisions = [line for line in text.splitlines() if line.startswith("gridcount_decisions_total")]
    assert float(decisions[0].split()[-1]) >= 3
    for name in (
        "gridcount_held_total",
        "gridcount_count_bucket",
        "gridcount_request_seconds_bucket",
        "gridcount_drift_index",
    ):
        assert f"\n{name}" in text
    status, drift = client.ask("GET", "/drift")
    assert (status, drift["states"] >= 3) == (200, True)


def test_the_page_works_without_a_network(client: Client) -> None:
    status, page = client.ask("GET", "/")
    assert status == 200
    assert "temp in" in page
    assert not any(word in page for word in ("<script", "http://", "https://", "@import", "//cdn"))


def test_the_service_keeps_to_its_openapi_description(runs: Path, tmp_path: Path) -> None:
    """Schemathesis sends valid and invalid requests of all kinds: no status of 5xx, and no answer that is
    not described."""
    words = ["--promote-from", str(runs), "--log", str(tmp_path / "log"), "--rate", "100000"]
    with service(runs / "seed0", *words, GRIDCOUNT_PROMOTE_TOKEN=PROMOTE) as described:
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{described.address}/openapi.json"]
        command += ["--phases", "coverage", "--checks", "all", "--seed", "1", "--workers", "1", "--no-color"]
        command += ["--header", f"Authorization: Bearer {PROMOTE}", "--request-timeout", "600"]
        found = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert found.returncode == 0, found.stdout[-5000:]
        assert "8 passed" in found.stdout
