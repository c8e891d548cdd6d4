"""The OpenAPI description of a service, and a page that shows it without scripts from elsewhere."""

from html import escape
from typing import Any

import msgspec

from gridcount import __version__
from gridcount.policy.store import Facts
from gridcount.service.drift import Drift
from gridcount.service.messages import Health, Messages, Problem, Promote, Promoted, Ready, Recorded

ERRORS = {
    400: "The body is not JSON",
    401: "The bearer token is missing or wrong",
    404: "There is no such thing",
    405: "The path has no such method",
    408: "The request arrived too slowly",
    409: "The policy does not fit this service",
    413: "The request is too large",
    415: "The content type is not application/json",
    421: "The host is not this service",
    422: "The body does not fit its schema",
    429: "Too many requests; Retry-After says when to ask again",
    431: "The headers are too large",
}
ALWAYS = (401, 405, 408, 421, 429, 431)
WITH_BODY = (400, 413, 415, 422)
REFERENCE = "#/components/schemas/{name}"


def describe(messages: Messages, facts: Facts, *, token: bool, log: bool, promote: bool) -> dict[str, Any]:
    """The OpenAPI document."""
    kinds = [messages.request, messages.batch, messages.answer, messages.answers]
    kinds += [Health, Ready, messages.outcome, Recorded, Promote, Promoted, Problem, Drift]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {
        "/decide": {"post": _operation("Decide at one observation", messages.request, messages.answer)},
        "/decide/batch": {"post": _operation("Decide at several", messages.batch, messages.answers)},
        "/drift": {"get": _operation("Compare the latest states with the log's", None, Drift)},
        "/health": {"get": _operation("Whether the process answers", None, Health)},
        "/ready": {"get": _operation("Whether requests should be sent here", None, Ready)},
        "/metrics": {"get": _operation("Metrics in Prometheus' format", None, None)},
    }
    if log:
        paths["/outcome"] = {"post": _operation("Report what followed", messages.outcome, Recorded, 404)}
    if promote:
        paths["/promote"] = {"post": _operation("Replace the policy", Promote, Promoted, 404, 409)}
    paths["/ready"]["get"]["responses"]["503"] = _response("Send requests elsewhere", Ready)
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": f"{facts.algorithm} on {facts.dataset}",
            "version": __version__,
            "description": "Decisions of a policy that was trained from a log, guarded by how often the log has them.",
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }
    if token or promote:
        described["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        for path, methods in paths.items():
            for operation in methods.values():
                if (token and path not in ("/health", "/ready")) or path == "/promote":
                    operation["security"] = [{"bearer": []}]
    return described


def _operation(summary: str, asks: Any, answers: Any, *errors: int) -> dict[str, Any]:
    statuses = sorted({*ALWAYS, *errors, *(WITH_BODY if asks else ())})
    responses = {"200": _response("The answer", answers)}
    responses |= {str(status): _response(ERRORS[status], Problem) for status in statuses}
    operation: dict[str, Any] = {"summary": summary, "responses": responses}
    if asks is not None:
        operation["requestBody"] = {"required": True, "content": _content(asks)}
    return operation


def _response(description: str, kind: Any) -> dict[str, Any]:
    return {"description": description, "content": _content(kind)}


def _content(kind: Any) -> dict[str, Any]:
    if kind is None:
        return {"text/plain": {"schema": {"type": "string"}}}
    return {"application/json": {"schema": {"$ref": REFERENCE.format(name=kind.__name__)}}}


def page(described: dict[str, Any]) -> str:
    """The description as one HTML page without scripts."""
    info, schemas = described["info"], described["components"]["schemas"]
    parts = [f"<h1>{escape(info['title'])}</h1><p>{escape(info['description'])}</p>"]
    parts.append("<p>The same for programs: <a href='/openapi.json'>openapi.json</a></p><h2>Requests</h2>")
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            parts.append(_operation_html(path, method, operation))
    parts.append("<h2>Types</h2>")
    for name, schema in schemas.items():
        text = msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()
        parts.append(f"<h3 id='{escape(name)}'>{escape(name)}</h3><pre>{escape(text)}</pre>")
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(info['title'])}</title>"
        f"<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>"
    )


def _operation_html(path: str, method: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {})
    asks = f"<p>Body: {_link(body)}</p>" if body else ""
    lines = "".join(
        f"<tr><td>{status}</td><td>{escape(response['description'])}</td><td>{_link(response['content'])}</td></tr>"
        for status, response in operation["responses"].items()
    )
    token = "<p>Needs a bearer token.</p>" if "security" in operation else ""
    head = f"<h3><code>{method.upper()} {escape(path)}</code> {escape(operation['summary'])}</h3>"
    return f"{head}{token}{asks}<details><summary>Answers</summary><table>{lines}</table></details>"


def _link(content: dict[str, Any]) -> str:
    schema = next(iter(content.values()))["schema"]
    name = escape(schema.get("$ref", "").rpartition("/")[2])
    return f"<a href='#{name}'>{name}</a>" if name else "text"


STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "pre{background:#f4f4f6;padding:.8rem;overflow:auto}td{padding:.1rem .8rem .1rem 0}"
    "@media(prefers-color-scheme:dark){body{background:#16181d;color:#ddd}pre{background:#22252c}a{color:#8ab4f8}}"
)
