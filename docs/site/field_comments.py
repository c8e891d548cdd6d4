"""A field's comment is its help on the command line; here it becomes the field's description in the API
reference."""

import ast
from pathlib import Path
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Describe each dataclass field by the comment behind it, or else above it."""

    def on_attribute_instance(
        self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, **kwargs: Any
    ) -> None:
        """Take the comment on the field's own line, or the comment lines above it."""
        path, line_number = attr.filepath, attr.lineno
        if (
            attr.docstring is None
            and isinstance(attr.parent, griffe.Class)
            and isinstance(path, Path)
            and line_number is not None
        ):
            lines = attr.lines_collection[path]
            comment = lines[line_number - 1].partition("  # ")[2] or comment_above(lines, line_number - 1)
            if comment:
                attr.docstring = griffe.Docstring(comment[0].upper() + comment[1:] + ".", parent=attr)


def comment_above(lines: list[str], place: int) -> str:
    """The comment lines directly above a line, as one text."""
    first = place
    while first and lines[first - 1].lstrip().startswith("# "):
        first -= 1
    return " ".join(line.strip().removeprefix("# ") for line in lines[first:place])
