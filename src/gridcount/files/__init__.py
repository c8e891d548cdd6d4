"""Reading and writing of the project's files: typed, complete or absent, without following links."""

from gridcount.files.full import DiskFull, on_full_disk
from gridcount.files.locks import locked
from gridcount.files.opening import open_plain, validate_no_link, validate_no_links
from gridcount.files.records import convert_record, decode_record, read_lines, read_record
from gridcount.files.whole import remove_folder, remove_leftovers, whole_file, whole_folder, write_whole

__all__ = [
    "DiskFull",
    "convert_record",
    "decode_record",
    "locked",
    "on_full_disk",
    "open_plain",
    "read_lines",
    "read_record",
    "remove_folder",
    "remove_leftovers",
    "validate_no_link",
    "validate_no_links",
    "whole_file",
    "whole_folder",
    "write_whole",
]
