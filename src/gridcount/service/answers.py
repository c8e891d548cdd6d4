"""Answers as JSON, and bodies within their limits."""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

_encode = msgspec.json.Encoder().encode


class Refused(Exception):
    """A request that is answered with a status of 4xx."""

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response with a JSON body."""
    return Response(_encode(content), status, headers, "application/json")


def problem(refused: Refused) -> Response:
    """The response to a refused request."""
    return answer({"error": str(refused)}, refused.status, refused.headers)


async def read_body(request: Request, most: int) -> bytes:
    """The body of a JSON request."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refused(415, f"the content type is '{kind[:80]}'; send application/json")
    too_large = Refused(413, f"the body is larger than {most:,} bytes", {"connection": "close"})
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large
    return bytes(body)


def decoded(read: Any, body: bytes) -> Any:
    """A body as its type; errors name the key and the value that was expected."""
    try:
        return read(body)
    except msgspec.ValidationError as error:
        raise Refused(422, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(400, f"the body is not JSON: {error}") from error
    except RecursionError as error:
        raise Refused(422, "the body is nested too deeply") from error
