"""A field's comment is its help on the command line; here it becomes the field's description in the API reference."""

import ast
from pathlib import Path
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Describe each dataclass field by the comment behind it."""

    def on_attribute_instance(
        self, *, node: ast.AST | griffe.ObjectNode, attr: griffe.Attribute, **kwargs: Any
    ) -> None:
        """Take the comment on the field's own line."""
        path, line_number = attr.filepath, attr.lineno
        if (
            attr.docstring is None
            and isinstance(attr.parent, griffe.Class)
            and isinstance(path, Path)
            and line_number is not None
        ):
            line = attr.lines_collection[path][line_number - 1]
            if comment := line.partition("  # ")[2]:
                attr.docstring = griffe.Docstring(comment[0].upper() + comment[1:] + ".", parent=attr)
