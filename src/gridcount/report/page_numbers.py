"""The numbers that the report page's script plots: every suite's curves, settings and estimates."""

import base64
import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gridcount.report import statistics
from gridcount.report.experiments import Experiment, Section, in_words, other_metrics
from gridcount.report.score_tables import is_ablation

HEADLINE = "headline"  # the score, or the return where nothing normalises it
MOST = 6  # other figures kept, to keep the page small


def slug(name: str) -> str:
    """A name that files and links can have."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower() or "suite"


def page_numbers(section: Section, name: str) -> dict[str, Any]:
    """What the script draws a suite from."""
    return {
        "id": name,
        "name": section.layout.name,
        "methods": section.methods,
        "metrics": curve_metrics(section),
        "panels": [
            _panel(section, dataset, f"{name}-curve-{i}")
            for i, dataset in enumerate(section.drawn_datasets())
        ],
        "ablation": [
            _settings(section, dataset, f"{name}-ablation-{i}")
            for i, dataset in enumerate(section.scored_datasets())
        ]
        if is_ablation(section)
        else [],
        **_estimates(section, name),
    }


def _panel(section: Section, dataset: str, identity: str) -> dict[str, Any]:
    series, shown = [], []
    metric = section.shown_metric(dataset)
    more = [name for name, _ in curve_metrics(section) if name != HEADLINE]
    for index, method in enumerate(section.methods):
        cell = section.find(dataset, method)
        if cell is None or (curve := cell.curve(metric)) is None:
            continue
        band = statistics.mean_interval(curve.values)
        printed = (
            section.published(dataset, cell.algorithm) if metric == "score" and not cell.variant else None
        )
        series.append(
            {
                "m": index,
                "scored": cell.scores is not None,
                "u": _packed(curve.updates, np.int32),
                "seeds": curve.seeds,
                "v": _packed(curve.values),
                "lo": None if band is None else _packed(band[0]),
                "hi": None if band is None else _packed(band[1]),
                "paper": printed[0] if printed else None,
                "more": {
                    name: found for name in more if (found := _other(cell, name, curve.updates)) is not None
                },
            }
        )
        shown.append(method)
    alt = f"Learning curves on {dataset}: {metric} over updates, mean over seeds, of {', '.join(shown)}"
    return {"id": identity, "dataset": dataset, "metric": metric, "series": series, "alt": alt}


def _other(cell: Experiment, metric: str, updates: ArrayLike) -> dict[str, str] | None:
    curve = cell.curve(metric)
    if curve is None:
        return None
    known = np.isfinite(curve.values).any(axis=0)
    values = curve.values[:, known]
    found = {"mean": _packed(np.nanmean(values, axis=0))}
    if len(values) > 1:
        found["std"] = _packed(np.nanstd(values, axis=0))
    if not np.array_equal(curve.updates[known], updates):
        found["u"] = _packed(curve.updates[known], np.int32)
    return found


def _settings(section: Section, dataset: str, identity: str) -> dict[str, Any]:
    algorithms = list(dict.fromkeys(each.algorithm for each in section.experiments))
    points = [
        {
            "label": cell.setting,
            "a": algorithms.index(cell.algorithm),
            "algorithm": cell.algorithm,
            "mean": cell.scores.mean,
            "std": cell.scores.spread,
            "seeds": list(cell.scores.seeds.items()),
        }
        for method in section.methods
        if (cell := section.find(dataset, method)) and cell.scores
    ]
    scores_text = "; ".join(f"{point['label']} {point['mean']:.1f}" for point in points)
    return {
        "id": identity,
        "dataset": dataset,
        "points": points,
        "alt": f"Score against the setting on {dataset}: {scores_text}",
    }


def _estimates(section: Section, name: str) -> dict[str, Any]:
    scores = section.common()
    if not scores:
        return {"aggregates": [], "profile": None, "improvement": None}
    place = {method: section.methods.index(method) for method in scores}
    aggregates = []
    for kind, found in section.analysis.aggregates.items():
        rows = [{"m": place[method], **_estimate(each, 100)} for method, each in found.items()]
        alt = f"{kind}: " + "; ".join(f"{method} {100 * each.value:.1f}" for method, each in found.items())
        aggregates.append({"id": f"{name}-{slug(kind)}", "name": kind, "rows": rows, "alt": alt})
    thresholds = section.analysis.thresholds
    shares = []
    for method, (value, band) in section.analysis.profiles.items():
        low, high = (None, None) if band is None else (_rounded(band[0]), _rounded(band[1]))
        shares.append({"m": place[method], "share": _rounded(value), "low": low, "high": high})
    alt = f"Performance profiles: the share of runs above each normalised score, of {', '.join(scores)}"
    profile = {"id": f"{name}-profile", "thresholds": _rounded(100 * thresholds), "rows": shares, "alt": alt}
    pairs = [
        {"a": place[a], "b": place[b], **_estimate(each, 1)}
        for (a, b), each in section.analysis.improvements.items()
    ]
    improvement = {
        "id": f"{name}-improvement",
        "pairs": pairs,
        "alt": "Probability that a run of the chosen method scores higher than a run of each other method",
    }
    return {"aggregates": aggregates, "profile": profile, "improvement": improvement if pairs else None}


def _estimate(found: statistics.Estimate, scale: float) -> dict[str, float | None]:
    low, high = found.interval or (None, None)
    return {
        "value": scale * found.value,
        "low": None if low is None else scale * low,
        "high": None if high is None else scale * high,
    }


def curve_metrics(section: Section) -> list[tuple[str, str]]:
    """What curves can show: the headline first, then the most informative of the other figures."""
    kinds = dict.fromkeys(each.scores.metric for each in section.scored if each.scores)
    others = [name for name in other_metrics(section.experiments) if name != "return" or "score" in kinds]
    headline = (
        [(HEADLINE, " or ".join(in_words(kind) for kind in sorted(kinds, reverse=True)))] if kinds else []
    )
    return [*headline, *((name, in_words(name)) for name in others[:MOST])]


def _packed(values: ArrayLike, kind: type[np.generic] = np.float32) -> str:
    """Numbers as the script unpacks them: little-endian, base64."""
    limits: Any = np.finfo(np.float32) if kind is np.float32 else np.iinfo(np.int32)
    array = np.ascontiguousarray(np.clip(values, limits.min, limits.max), np.dtype(kind).newbyteorder("<"))
    return base64.b64encode(array.tobytes()).decode()


def _rounded(values: ArrayLike) -> list[float]:
    return [round(float(value), 4) for value in np.asarray(values)]
