"""The process: listens, answers, and stops without losing a request or a logged decision."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from gridcount.policy.guard import Guard
from gridcount.policy.policy import load_policy
from gridcount.service.app import Service
from gridcount.service.decision_log import DecisionLog
from gridcount.service.protocol import limited_protocol
from gridcount.service.serving import Serving
from gridcount.service.settings import Settings

DRAIN_SECONDS = 2.0  # that clients have to see `Connection: close` on their open connections
LOOK_SECONDS = 0.02  # between looks at the open connections


class DrainingServer(uvicorn.Server):
    """A server that answers what arrives on open connections before it stops."""

    def __init__(self, config: uvicorn.Config, service: Service, listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._service, self._listening = service, listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        if self.started:
            self._listening()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop gracefully at the first signal and at once at the second."""
        loop, numbers = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)
        for number in numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no connection any more, answer on the open ones, and end."""
        self._service.gate.draining = True
        for server in self.servers:
            server.close()
        for each in sockets or ():
            each.close()
        deadline = asyncio.get_running_loop().time() + DRAIN_SECONDS
        while self.server_state.connections and asyncio.get_running_loop().time() < deadline:
            if self.force_exit:
                break
            await asyncio.sleep(LOOK_SECONDS)
        await super().shutdown(sockets)


def serve(path: Path, guard: Guard, settings: Settings, listening: Callable[[str, Service], None]) -> int:
    """Serve a run or an export until a signal; returns how many decisions could not be logged.

    `listening` is called with the address when requests are accepted.
    """
    settings.validate()
    serving = Serving(load_policy(path), guard, settings.promote_from)
    log = None
    if settings.log is not None:
        log = DecisionLog(
            settings.log,
            serving.current.policy.facts,
            rows=settings.log_rows,
            seconds=settings.log_seconds,
            outcome_seconds=settings.outcome_seconds,
        )
    try:
        with _listen(settings.host, settings.port) as sock:
            service = Service(serving, settings, log)
            limits = settings.limits
            config = uvicorn.Config(
                service.gate,
                http=limited_protocol(limits),
                ws="none",
                log_level="warning",
                access_log=False,
                server_header=False,
                proxy_headers=False,  # with them a client could name another address in each request
                timeout_keep_alive=int(limits.idle_seconds),
            )
            host, port = sock.getsockname()[:2]
            address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
            DrainingServer(config, service, lambda: listening(address, service)).run([sock])
    finally:
        if log is not None:
            log.close()
    return 0 if log is None else log.dropped


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise OSError(
            f"cannot listen on {host}:{port} ({error.strerror}); another --port, or 0 for any free one"
        ) from error
