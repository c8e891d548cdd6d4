"""Tables of the report page, as markup."""

import re
from collections.abc import Sequence
from html import escape

from gridcount.report.table import OTHER_DATA, Entry, Table


def block(table: Table, name: str, heading: str) -> str:
    """A table with a heading and a button that saves its numbers."""
    return f'<div class="sub"><h3>{escape(heading)}</h3>{_button(table, name)}</div>{_markup(table, name)}'


def folded(table: Table, name: str) -> str:
    """A table that is shown when its title is clicked."""
    inside = f"<p>{_button(table, name)}</p>{_markup(table, name)}"
    return f'<details class="deeper"><summary>{escape(table.title)}</summary><div class="inside">{inside}</div></details>'


def protocol_list(facts: Sequence[tuple[str, str]]) -> str:
    """The facts of a protocol."""
    return (
        '<dl class="protocol">'
        + "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts)
        + "</dl>"
    )


def _button(table: Table, name: str) -> str:
    label = escape(f"Download the data of: {table.title}")
    return f'<button type="button" data-table="{name}-{table.name}" aria-label="{label}">Data as CSV</button>'


def _markup(table: Table, name: str) -> str:
    heads = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    lines = []
    for row in table.rows:
        total = ' class="total"' if row[0].text == "average" else ""
        lines.append(
            f'<tr{total}><th scope="row">{escape(row[0].text)}</th>{"".join(map(_cell, row[1:]))}</tr>'
        )
    notes = f'<p class="note">{escape(" ".join(table.notes))}</p>' if table.notes else ""
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(table.title)}">'
        f'<table id="{name}-{table.name}-table"><caption><span>{escape(table.title)}</span></caption>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
        f"{protocol_list(table.protocol)}{notes}"
    )


def _cell(entry: Entry) -> str:
    if not entry.text and not entry.under:
        return '<td class="muted">&ndash;</td>'
    text = escape(_minus(entry.text))
    inside = f"<b>{text}</b>" if entry.best else text
    if entry.under:
        inside += f"<small>{escape(_minus(entry.under))}</small>"
    if entry.difference is not None:
        kind = "better" if entry.difference >= 0 else "worse"
        inside += f'<small class="{kind}">{_minus(f"{entry.difference:+.1f}")}{OTHER_DATA if entry.marked else ""}</small>'
    return f'<td class="muted">{inside}</td>' if entry.muted else f"<td>{inside}</td>"


def _minus(text: str) -> str:
    """A true minus sign before numbers."""
    return re.sub(r"(?<![\w-])-(?=\d)", "\N{MINUS SIGN}", text)
