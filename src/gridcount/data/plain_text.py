"""Text from files, made harmless where people and their programs read it."""

import re

# control characters but tab and line feed, marks that turn the direction of text, and what no encoding has
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for the start of a formula


def printable(text: str) -> str:
    r"""Text whose control characters are written out, as in \x1b: a name must not steer the terminal it is printed on."""
    return UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def spreadsheet_text(text: str) -> str:
    """Text of a CSV cell that no spreadsheet calculates: an apostrophe comes before what looks like a formula."""
    return printable(f"'{text}" if text.startswith(FORMULA) else text)
