"""The application: what each path of the service does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from gridcount.policy.guard import Decision
from gridcount.service import decision_log, openapi
from gridcount.service.answers import Refused, answer, decoded, problem, read_body
from gridcount.service.decision_log import DecisionLog
from gridcount.service.drift import Drift, DriftMeter, RecentDrift
from gridcount.service.gate import PROMOTE, Gate, too_many
from gridcount.service.limits import Rates
from gridcount.service.messages import Health, Messages, Promote, Promoted, Ready, Recorded
from gridcount.service.metrics import Metrics
from gridcount.service.serving import Deciding, DoesNotFit, NotThere, Serving
from gridcount.service.settings import Settings

IN_A_THREAD = 64  # rows from which a batch is decided in a thread, so that other requests do not wait for it
EXPIRE_SECONDS = 5.0  # between looks for decisions whose reward is late
_promote = msgspec.json.Decoder(Promote)
Handler = Callable[[Request], Awaitable[Response]]


class Service:
    """The paths of a service, and what they share."""

    def __init__(self, serving: Serving, settings: Settings, log: DecisionLog | None) -> None:
        self.serving, self.settings, self.log = serving, settings, log
        policy = serving.current.policy
        self.messages = Messages(policy.facts, settings.limits.batch)
        self.metrics = Metrics()
        self.rates = Rates(settings.limits.rate, settings.limits.burst)
        self._watch(serving.current)
        described = openapi.describe(
            self.messages,
            policy.facts,
            token=settings.token is not None,
            log=log is not None,
            promote=settings.promote_from is not None,
        )
        self._described, self._page = msgspec.json.encode(described), openapi.page(described)
        routes = self._routes()
        app = Starlette(
            routes=routes,
            lifespan=self._lifespan,
            exception_handlers={HTTPException: _http_error, Refused: _refused, Exception: _failed},
        )
        self.gate = Gate(app, settings, self.metrics, self.rates, {route.path for route in routes})

    def _routes(self) -> list[Route]:
        posts: dict[str, Handler] = {"/decide": self.decide, "/decide/batch": self.decide_batch}
        if self.log is not None:
            posts["/outcome"] = self.outcome
        if self.settings.promote_from is not None:
            posts[PROMOTE] = self.promote
        gets: dict[str, Handler] = {
            "/": self.page,
            "/openapi.json": self.openapi,
            "/drift": self.drift,
            "/health": self.health,
            "/metrics": self.prometheus,
            "/ready": self.ready,
        }
        return [
            *(Route(path, handler, methods=["POST"]) for path, handler in posts.items()),
            *(Route(path, handler, methods=["GET"]) for path, handler in gets.items()),
        ]

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        async def expire() -> None:
            while self.log is not None:
                await asyncio.sleep(EXPIRE_SECONDS)
                self.log.expire()

        task = asyncio.create_task(expire())
        yield
        task.cancel()

    async def decide(self, request: Request) -> Response:
        """Decide at one observation."""
        body = await read_body(request, self.settings.limits.body_bytes)
        asked = decoded(self.messages.read_one, body)
        deciding, observations = self.serving.current, self.messages.observations(asked)
        return answer(self._told(deciding, asked, observations, _decisions(deciding, observations))[0])

    async def decide_batch(self, request: Request) -> Response:
        """Decide at several observations."""
        body = await read_body(request, self.settings.limits.body_bytes)
        asked = decoded(self.messages.read_many, body)
        if wait := self.rates.wait(request.client.host if request.client else "", len(asked) - 1):
            raise too_many(wait)
        deciding, observations = self.serving.current, self.messages.observations(asked)
        if len(asked) < IN_A_THREAD:
            made = _decisions(deciding, observations)
        else:
            made = await asyncio.to_thread(_decisions, deciding, observations)
        return answer({"decisions": self._told(deciding, asked, observations, made)})

    def _told(
        self, deciding: Deciding, asked: list[Any], observations: NDArray[np.float32], made: Decision
    ) -> list[Any]:
        """Log and count decisions; returns their answers."""
        name, metrics = deciding.name, self.metrics
        metrics.decisions.labels(name).inc(len(asked))
        metrics.held.labels(name).inc(int(made.held.sum()))
        for count in made.count.tolist():
            metrics.counts.observe(count)
        self.meter.add(observations)
        ids = [msgspec.UNSET] * len(asked) if self.log is None else self._logged(self.log, name, asked, made)
        return self.messages.decisions(made, name, ids)

    @staticmethod
    def _logged(log: DecisionLog, name: str, asked: list[Any], made: Decision) -> list[str]:
        ids = []
        for place, request in enumerate(asked):
            action = [None if value != value else value for value in made.action[place].tolist()]
            row = {
                "episode": "" if request.episode is msgspec.UNSET else request.episode,
                "count": int(made.count[place]),
                "uncertainty": float(made.uncertainty[place]),
                "resolution": int(made.resolution[place]),
                "held": bool(made.held[place]),
                "policy": name,
            }
            ids.append(log.add(row, msgspec.structs.astuple(request.observation), action))
        return ids

    async def outcome(self, request: Request) -> Response:
        """Add what followed from a decision to the log."""
        assert self.log is not None
        body = await read_body(request, self.settings.limits.body_bytes)
        found = decoded(self.messages.read_outcome, body)
        done = None if found.action is msgspec.UNSET else msgspec.structs.astuple(found.action)
        outcome = decision_log.Outcome(found.reward, found.terminated, found.truncated, done)
        if not self.log.outcome(found.decision, outcome):
            raise Refused(
                404,
                f"no decision '{found.decision}' waits for its outcome: it was reported before, or"
                f" {self.settings.outcome_seconds:g} seconds have passed",
            )
        return answer(Recorded(found.decision))

    async def promote(self, request: Request) -> Response:
        """Let another run take over; requests go on meanwhile."""
        body = await read_body(request, self.settings.limits.body_bytes)
        asked: Promote = decoded(_promote.decode, body)
        try:
            after, before = await asyncio.to_thread(self.serving.promote, asked.run)
        except NotThere as error:
            raise Refused(404, str(error)) from error
        except DoesNotFit as error:
            raise Refused(409, str(error)) from error
        self._watch(self.serving.current)  # another promotion may have followed
        self.metrics.promotions.inc()
        return answer(Promoted(after.name, before.name))

    async def health(self, request: Request) -> Response:
        """The process answers."""
        return answer(Health("ok"))

    async def ready(self, request: Request) -> Response:
        """Whether requests should be sent here."""
        problem = "the service is stopping" if self.gate.draining else self.log.error if self.log else ""
        return answer(Ready(not problem, self.serving.current.name, problem), status=503 if problem else 200)

    async def drift(self, request: Request) -> Response:
        """Compare the latest states with the log's."""
        return answer(await self._drift())

    async def prometheus(self, request: Request) -> Response:
        """All metrics."""
        now = await self._drift()
        self.metrics.drift.set(now.index)
        self.metrics.drift_by_chance.set(now.by_chance_95)
        self.metrics.dropped.set(self.log.dropped if self.log else 0)
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """The description of this service."""
        return Response(self._described, media_type="application/json")

    async def page(self, request: Request) -> Response:
        """The same to read."""
        return HTMLResponse(self._page)

    async def _drift(self) -> Drift:
        return await self.recent_drift()

    def _watch(self, deciding: Deciding) -> None:
        """Compare the states from now on with the log of this policy."""
        self.meter = DriftMeter(deciding.policy.log, deciding.policy.observation_names)
        self.recent_drift = RecentDrift(self.meter)


def _decisions(deciding: Deciding, observations: NDArray[np.float32]) -> Decision:
    with np.errstate(all="ignore"):  # numbers near the largest overflow in the network; the guard holds there
        return deciding(observations)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = "the path has no such method" if error.status_code == 405 else str(error.detail)
    return answer({"error": message}, error.status_code, dict(error.headers or {}))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return problem(error)


async def _failed(request: Request, error: Exception) -> Response:
    return answer({"error": "the service failed; its own log says why"}, 500)
