"""What every request passes before the application (host, rate, token), and what is measured of it."""

import hmac
import math
import time

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gridcount.service.answers import Refused, problem
from gridcount.service.limits import Rates
from gridcount.service.metrics import Metrics
from gridcount.service.settings import Settings, is_loopback

OPEN = ("/health", "/ready")  # for load balancers, which have no token
PROMOTE = "/promote"


class Gate:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics, rates: Rates, paths: set[str]):
        self._app, self._settings, self._metrics, self._rates = app, settings, metrics, rates
        self._paths = paths
        self._only_here = is_loopback(settings.host)
        self.draining = False  # whether answers ask clients to close their connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request or pass it on."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began, status = time.perf_counter(), 0

        async def measured(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if self.draining:
                    message["headers"] = [*message.get("headers", ()), (b"connection", b"close")]
            await send(message)

        try:
            self._admit(scope)
            await self._app(scope, receive, measured)
        except Refused as refused:
            await problem(refused)(scope, receive, measured)
        except ClientDisconnect:  # it left, or was too slow; nobody waits for an answer
            status = 0
        finally:  # an error of the service is counted, too
            if status:
                path = scope["path"] if scope["path"] in self._paths else "other"
                self._metrics.requests.labels(path, str(status)).inc()
                self._metrics.seconds.labels(path).observe(time.perf_counter() - began)
        return None

    def _admit(self, scope: Scope) -> None:
        """Raise Refused for a request to another host, one too many, one without a right or of no path."""
        headers = Headers(scope=scope)
        if self._only_here and not is_loopback(_host(headers.get("host", ""))):
            raise Refused(421, "the host is not this service; a page of another site may not ask it")
        address = scope["client"][0] if scope.get("client") else ""
        if wait := self._rates.wait(address, 1):
            raise too_many(wait)
        path, given = scope["path"], _token(headers)
        if path == PROMOTE:
            self._require(given, self._settings.promote_token)
        elif path not in OPEN:
            self._require(given, self._settings.token)
        if path not in self._paths:  # the router would take "/promote%0A" for "/promote"
            raise Refused(404, "there is no such path; / lists all")

    @staticmethod
    def _require(given: bytes, token: str | None) -> None:
        """Compare a token in a time that does not depend on where it differs."""
        if token is not None and not hmac.compare_digest(given, token.encode()):
            raise Refused(401, "send the header Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"})


def too_many(wait: float) -> Refused:
    """The refusal of a client that asks too often."""
    return Refused(429, "too many requests", {"retry-after": str(math.ceil(wait))})


def _token(headers: Headers) -> bytes:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip().encode("utf-8", "surrogateescape") if scheme.lower() == "bearer" else b""


def _host(header: str) -> str:
    """The host of a Host header, without its port."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0]
