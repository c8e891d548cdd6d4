"""Places for the plots of the report page and their controls, as markup; the page's script draws them."""

from collections.abc import Sequence
from html import escape

from gridcount.report.analysis import AGGREGATES
from gridcount.report.experiments import Section
from gridcount.report.page_numbers import curve_metrics, slug
from gridcount.report.page_tables import protocol_list
from gridcount.report.protocol import protocol
from gridcount.report.scores import LAST


def curves(section: Section, name: str) -> str:
    """Learning curves of each dataset, with their controls."""
    methods = list(dict.fromkeys(each.method for each in section.experiments if each.scores or each.metrics))
    metrics = "".join(
        f'<option value="{escape(metric)}">{escape(label)}</option>'
        for metric, label in curve_metrics(section)
    )
    bands = {
        "std": "± standard deviation",
        "interval": "95 % interval of the mean",
        "range": "lowest to highest",
        "seeds": "each seed",
        "none": "none",
    }
    options = "".join(f'<option value="{value}">{text}</option>' for value, text in bands.items())
    windows = "".join(
        f'<option value="{n}">{text}</option>'
        for n, text in ((1, "none"), (5, "5 evaluations"), (20, "20 evaluations"))
    )
    printed = any(
        section.published(each.dataset, each.algorithm) for each in section.scored if not each.variant
    )
    label = '<label><input type="checkbox" data-control="paper" checked> the paper&rsquo;s scores (dotted)</label>'
    paper = label if printed else ""
    panels = "".join(
        _figure(f"{name}-curve-{i}", dataset, zoom=True) for i, dataset in enumerate(section.drawn_datasets())
    )
    columns = " one" if len(section.drawn_datasets()) == 1 else ""
    return (
        f'<div class="sub"><h3>Learning curves</h3></div>{_legend(section, methods)}<div class="controls">'
        f'<label>Show <select data-control="metric">{metrics}</select></label>'
        f'<label>Band over seeds <select data-control="band">{options}</select></label>'
        f'<label>Smoothing <select data-control="smooth">{windows}</select></label>{paper}</div>'
        f'<div class="grid{columns}">{panels}</div>'
        '<p class="hint">Mean over seeds. Drag across a plot to zoom, or click it and use the wheel or the'
        " keys + and &minus;; "
        "a double click or Esc resets.</p>"
        f"{protocol_list(protocol(section.experiments))}"
    )


def ablation(section: Section, name: str) -> str:
    """Plots of the score against the setting, for each dataset."""
    panels = "".join(
        _figure(f"{name}-ablation-{i}", dataset, zoom=False)
        for i, dataset in enumerate(section.scored_datasets())
    )
    columns = "one" if len(section.scored_datasets()) == 1 else "two"
    return (
        f'<div class="sub"><h3>Score against the setting</h3></div><div class="grid {columns}">{panels}</div>'
        f'<p class="hint">Mean of the last {LAST} evaluations, bars ± standard deviation over seeds, a dot'
        " per seed.</p>"
        f"{protocol_list(protocol(section.scored))}"
    )


def aggregates(section: Section, name: str) -> str:
    """Plots of the statistics over datasets."""
    scores = section.common()
    titles = {
        "IQM": "Interquartile mean",
        "mean": "Mean",
        "optimality gap": "Optimality gap (smaller is better)",
    }
    plots = "".join(_figure(f"{name}-{slug(kind)}", titles[kind], zoom=False) for kind in AGGREGATES)
    wide = _figure(f"{name}-profile", "Performance profile: share of runs above τ", zoom=True)
    if len(scores) > 1:
        options = "".join(
            f'<option value="{section.methods.index(method)}">{escape(method)}</option>' for method in scores
        )
        pick = f' <select data-control="reference" aria-label="Method that is compared with the others">{options}</select>'
        wide += _figure(f"{name}-improvement", "Probability of improvement of", zoom=False, control=pick)
    return (
        f'<div class="sub"><h3>Over datasets</h3></div>{_legend(section, list(scores))}'
        f'<div class="grid">{plots}</div><div class="grid two" style="margin-top:1rem">{wide}</div>'
    )


def _figure(identity: str, caption: str, zoom: bool, control: str = "") -> str:
    reset = '<button type="button" class="reset" hidden>Reset zoom</button>' if zoom else ""
    label = escape(f"Download the data of this plot: {caption}")
    return (
        f'<figure id="{identity}"><figcaption><span>{escape(caption)}{control}</span><span'
        f' class="tools">{reset}'
        f'<button type="button" class="save" aria-label="{label}">CSV</button></span></figcaption><div'
        ' class="canvas"></div></figure>'
    )


def _legend(section: Section, methods: Sequence[str]) -> str:
    items = (
        '<li><button type="button" aria-pressed="true"'
        f' data-method="{section.methods.index(method)}">{escape(method)}</button></li>'
        for method in methods
    )
    return f'<ul class="legend" aria-label="Methods shown">{"".join(items)}</ul>'
