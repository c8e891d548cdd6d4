"""Settings of the service, and the checks that are made before anything is served."""

import hmac
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gridcount.files import open_plain

TOKEN, PROMOTE_TOKEN = "GRIDCOUNT_TOKEN", "GRIDCOUNT_PROMOTE_TOKEN"  # environment variables
LEAST_TOKEN = 16  # characters
LONGEST_TOKEN_FILE = 4096  # bytes


@dataclass(frozen=True)
class Limits:
    """What a client may ask for; everything beyond is answered with a 4xx status."""

    body_bytes: int = 1 << 20  # of a request
    head_bytes: int = 1 << 14  # of a request's line and headers
    batch: int = 1000  # observations in a batch
    request_seconds: float = 10.0  # until a request has arrived completely
    idle_seconds: float = 30.0  # that an open connection may wait for its next request
    connections: int = 512  # open at the same time
    rate: float = 5000.0  # decisions a second from one address, on average
    burst: float = 10_000.0  # decisions at once from one address


@dataclass(frozen=True)
class Settings:
    """Where to listen, who may ask, and which folders are used."""

    host: str = "127.0.0.1"
    port: int = 8080
    token: str | None = None  # None: everyone on this machine may ask
    promote_token: str | None = None
    promote_from: Path | None = None  # the folder of runs and exports that may be promoted; None: none
    log: Path | None = None  # the folder of the decision log; None: none is kept
    log_rows: int = 50_000  # of a log file, at most
    log_seconds: float = 60.0  # after which a log file is completed
    outcome_seconds: float = 600.0  # that a decision waits for its reward
    limits: Limits = Limits()

    def validate(self) -> None:
        """Raise ValueError for settings that would be unsafe or cannot work."""
        if not is_loopback(self.host) and self.token is None:
            raise ValueError(
                f"--host {self.host} can be reached from other machines, and there is no token. Set the"
                " environment variable"
                f" {TOKEN} or --token-file, or use the default host 127.0.0.1"
            )
        if self.promote_from is not None:
            if self.promote_token is None:
                raise ValueError(
                    "--promote-from lets a client replace the policy, so it needs a token of its own: set"
                    " the environment"
                    f" variable {PROMOTE_TOKEN} or --promote-token-file"
                )
            if not self.promote_from.is_dir():
                raise ValueError(
                    f"--promote-from {self.promote_from}: there is no such folder; create it first"
                )
            if self.token is not None and hmac.compare_digest(self.token, self.promote_token):
                raise ValueError(
                    "the token and the promotion token are the same, so every client could replace the"
                    " policy; use two"
                )
        if not 0 <= self.port <= 65535:
            raise ValueError(f"--port is {self.port}; it must be between 0 and 65535 (0: any free one)")
        for name in ("rate", "batch"):
            if getattr(self.limits, name) < 1:
                raise ValueError(f"--{name} is {getattr(self.limits, name)}; it must be at least 1")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token(variable: str, file: Path | None, environment: Mapping[str, str] = os.environ) -> str | None:
    """A token from a file or else from an environment variable; None if there is neither."""
    if file is None:
        token, source = environment.get(variable), f"the environment variable {variable}"
    else:
        with open_plain(file, "rb", follow=True) as opened:
            content = opened.read(LONGEST_TOKEN_FILE)
        token, source = content.decode("ascii", "replace").strip(), str(file)
    if token is None:
        return None
    if len(token) < LEAST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            f"{source}: a token needs at least {LEAST_TOKEN} ASCII characters without spaces; make one with:"
            " openssl rand -hex 32"
        )
    return token
