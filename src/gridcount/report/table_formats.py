"""The report's tables written as Markdown, LaTeX and CSV."""

import csv
import io
import re
from collections.abc import Sequence

from gridcount.plain_text import printable, spreadsheet_text
from gridcount.report.table import Table


def to_markdown(table: Table) -> str:
    """A table that GitHub shows."""

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(_markdown(text) for text in texts) + " |"

    heads = [line(table.columns), "|" + "|".join(["---", *["---:"] * (len(table.columns) - 1)]) + "|"]
    body = []
    for row in table.rows:
        cells = [line([entry.plain()])[2:-2] for entry in row]
        body.append(
            "| "
            + " | ".join(
                f"**{text}**" if entry.best else text for text, entry in zip(cells, row, strict=True)
            )
            + " |"
        )
    protocol = [f"{name}: {_markdown(text)}." for name, text in table.protocol]
    return (
        "\n".join(
            [
                f"**{_markdown(table.title)}**",
                "",
                *heads,
                *body,
                "",
                " ".join([*protocol, *map(_markdown, table.notes)]),
            ]
        )
        + "\n"
    )


def to_latex(table: Table) -> str:
    """A table for booktabs."""
    heads = " & ".join(map(_latex, table.columns))
    body = []
    for row in table.rows:
        cells = [_latex(entry.plain()) for entry in row]
        body.append(
            " & ".join(
                rf"\textbf{{{text}}}" if entry.best else text for text, entry in zip(cells, row, strict=True)
            )
            + r" \\"
        )
    protocol = " ".join(f"{name}: {_latex(text)}." for name, text in table.protocol)
    notes = " ".join(map(_latex, table.notes))
    return "\n".join(
        [
            "% needs \\usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(table.title)}. {protocol} {notes}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\toprule",
            heads + r" \\",
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )


def to_csv(table: Table) -> str:
    """The numbers behind a table, unrounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    heads, lines = table.records
    writer.writerow(map(spreadsheet_text, heads))
    writer.writerows(
        [
            "" if value is None else spreadsheet_text(value) if isinstance(value, str) else value
            for value in line
        ]
        for line in lines
    )
    return out.getvalue()


def _markdown(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>|#])", r"\\\1", printable(text)).replace("\n", " ") if text else ""


def _latex(text: str) -> str:
    special = {
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "†": r"$^\dagger$",
        "·": r"$\cdot$",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
    special |= {sign: f"\\{sign}" for sign in "&%$#_{}"} | {
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "\n": " ",
    }
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", "".join(special.get(sign, sign) for sign in printable(text)))
