"""`gridcount serve`: a policy over HTTP."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from gridcount.commands.guard_flags import GuardFlags
from gridcount.terminal import make_console, validate_flags

Flags = Annotated[GuardFlags, tyro.conf.arg(name="")]

if TYPE_CHECKING:  # the extra packages of a service are optional
    from gridcount.service.settings import Settings


@dataclass(frozen=True)
class Serve:
    """Answer requests for guarded decisions. Tokens: GRIDCOUNT_TOKEN, GRIDCOUNT_PROMOTE_TOKEN, or files."""

    run: tyro.conf.Positional[Path]  # a run directory, a folder policy/ copied from one, or an export
    host: str = "127.0.0.1"  # where to listen; other machines can reach only other hosts than this one
    port: int = 8080  # 0: any free one
    guard: Flags = field(default_factory=GuardFlags)  # when the guard holds; an export has its own default
    log: Path | None = None  # folder of the decision log (Parquet); by default none is kept
    log_seconds: float = 60.0  # after which a log file is completed
    outcome_seconds: float = 600.0  # that a decision waits for its reward
    promote_from: Path | None = None  # folder of runs and exports that POST /promote may let take over
    token_file: Path | None = None  # file with the bearer token of clients
    promote_token_file: Path | None = None  # file with the bearer token of promotion
    rate: float = 5000.0  # decisions a second from one address
    batch: int = 1000  # observations in a request, at most
    body_bytes: int = 1 << 20  # of a request, at most
    request_seconds: float = 10.0  # in which a request must arrive


def serve(words: list[str]) -> int:
    """Serve a policy until a signal."""
    validate_flags(words, Serve)
    options = tyro.cli(Serve, args=words, prog="gridcount serve")
    try:
        from gridcount.service.app import Service
        from gridcount.service.server import serve
    except ImportError as error:
        raise ImportError(f"serving needs more packages ({error}): pip install 'gridcount[serve]'") from error
    settings = _settings(options)
    console = make_console(soft_wrap=True)

    def listening(address: str, service: Service) -> None:
        console.print(f"serving {service.serving.current.name} on {address} (its page lists the requests)")
        if service.log is not None and settings.log is not None:
            facts = service.serving.current.policy.facts
            console.print(
                "the decision log becomes a training log with:\n "
                f" {service.log.names.import_command(settings.log, facts)}"
            )

    lost = serve(options.run, options.guard.guard(), settings, listening)
    console.print("stopped; all accepted requests were answered")
    if lost:
        raise OSError(
            f"{options.log}: {lost:,} decisions could not be logged; free disk space before the next start"
        )
    return 0


def _settings(options: Serve) -> "Settings":
    """The service's settings from the flags and the environment."""
    from gridcount.service.settings import PROMOTE_TOKEN, TOKEN, Limits, Settings, read_token

    return Settings(
        host=options.host,
        port=options.port,
        token=read_token(TOKEN, options.token_file),
        promote_token=read_token(PROMOTE_TOKEN, options.promote_token_file),
        promote_from=options.promote_from,
        log=options.log,
        log_seconds=options.log_seconds,
        outcome_seconds=options.outcome_seconds,
        limits=Limits(
            body_bytes=options.body_bytes,
            batch=options.batch,
            request_seconds=options.request_seconds,
            rate=options.rate,
            burst=2 * options.rate,
        ),
    )
