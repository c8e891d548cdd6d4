"""How much each address may ask for: a bucket of tokens that fills at a steady rate."""

import time
from collections import OrderedDict
from collections.abc import Callable

MOST_ADDRESSES = 10_000  # that are remembered


class Rates:
    """A bucket per address, in bounded memory."""

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self._clock = rate, max(burst, 1.0), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens, and when

    def wait(self, address: str, cost: float) -> float:
        """Take tokens; returns 0, or the seconds after which an address may ask again."""
        now = self._clock()
        tokens, since = self._buckets.pop(address, (self.burst, now))
        tokens = min(self.burst, tokens + (now - since) * self.rate)
        # a batch larger than the bucket needs a full one, less its request, and leaves a debt
        needed = min(cost, max(self.burst - 1, 1.0))
        allowed = tokens >= needed
        self._buckets[address] = (tokens - cost if allowed else tokens, now)
        if len(self._buckets) > MOST_ADDRESSES:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (needed - tokens) / self.rate
