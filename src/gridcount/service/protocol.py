"""HTTP connections with limits: slow, oversized and too many clients get a 4xx status and are closed.

uvicorn parses the requests; it has no limits of its own for headers and for slow clients.
"""

import json
from asyncio import TimerHandle, Transport
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from gridcount.service.settings import Limits


def limited_protocol(limits: Limits) -> type[HttpToolsProtocol]:
    """uvicorn's protocol with these limits."""

    class Limited(LimitedProtocol):
        allowed = limits

    return Limited


class LimitedProtocol(HttpToolsProtocol):
    """A connection whose requests must arrive in time and stay within sizes."""

    allowed = Limits()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deadline: TimerHandle | None = None
        self._head_bytes = 0  # of this request, so far: all but its body

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > self.allowed.connections:
            self._refuse(HTTPStatus.TOO_MANY_REQUESTS, "too many open connections; close some and try again")
        else:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._stop_clock()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of the headers, and parse."""
        if self.transport.is_closing():
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > self.allowed.head_bytes:
            self._refuse(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the headers are larger than {self.allowed.head_bytes:,} bytes",
            )
        elif self._deadline is None and self.cycle is not None and self.cycle.response_complete:
            self._expect_request()  # empty lines before a request begin none, but they ended uvicorn's wait

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if self._deadline is None:
            self._expect_request()
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """A part of the body; trailers and the sizes of chunks are counted with the headers."""
        self._head_bytes = max(0, self._head_bytes - len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._stop_clock()
        self._head_bytes = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        """The client does not read its answers: it has as long as for a request."""
        super().pause_writing()
        self._stop_clock()
        self._deadline = self.loop.call_later(self.allowed.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        self._stop_clock()
        super().resume_writing()

    def _expect_request(self) -> None:
        self._stop_clock()
        self._deadline = self.loop.call_later(self.allowed.request_seconds, self._too_slow)

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        seconds = self.allowed.request_seconds
        self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"the request did not arrive within {seconds:g} seconds")

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer without the application, and close."""
        self._stop_clock()
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            body = json.dumps({"error": message}).encode()
            head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
            head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(head.encode() + body)
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # what the application still sends is dropped
            cycle.message_event.set()
        self.transport.close()
