"""What the service counts, in Prometheus' text format."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

COUNTS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # limits of the buckets of counts
SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


class Metrics:
    """The metrics of one service."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.decisions = Counter("gridcount_decisions", "Decisions made", ["policy"], registry=registry)
        self.held = Counter(
            "gridcount_held", "Decisions in which the guard held", ["policy"], registry=registry
        )
        self.counts = Histogram(
            "gridcount_count",
            "How often the log has the policy's action in its state",
            buckets=COUNTS,
            registry=registry,
        )
        self.seconds = Histogram(
            "gridcount_request_seconds",
            "Seconds from a complete request to its answer",
            ["path"],
            buckets=SECONDS,
            registry=registry,
        )
        self.requests = Counter(
            "gridcount_requests", "Requests, by path and status", ["path", "status"], registry=registry
        )
        self.promotions = Counter("gridcount_promotions", "Policies promoted", registry=registry)
        self.drift = Gauge(
            "gridcount_drift_index", "Population stability index of the latest states", registry=registry
        )
        self.drift_by_chance = Gauge(
            "gridcount_drift_index_by_chance_95",
            "95 % of as many states of the log itself have a smaller index",
            registry=registry,
        )
        self.dropped = Gauge("gridcount_log_dropped", "Decisions that could not be logged", registry=registry)

    def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return generate_latest(self._registry)
