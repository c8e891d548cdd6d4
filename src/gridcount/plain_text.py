"""Escaping of untrusted text for terminals and spreadsheets."""

import re

# control characters except tab and line feed, text-direction marks, and surrogates
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # characters that start a formula in a spreadsheet


def printable(text: str) -> str:
    r"""Text whose control characters are written out, as in \x1b: a name must not control the terminal."""
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def spreadsheet_text(text: str) -> str:
    """Text of a CSV cell with an apostrophe before anything that looks like a formula."""
    return printable(f"'{text}" if text.startswith(FORMULA) else text)
