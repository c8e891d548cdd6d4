"""Some 950 damaged and hostile tables, each from a seed: no traceback, no hang, no other file read,
bounded memory."""

import faulthandler
import io
import os
import resource
import signal
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import h5py
import numpy as np
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from log_files import smooth
from numpy.typing import NDArray

from gridcount.data.load import load
from gridcount.data.quality.check import check
from gridcount.transitions import Transitions

Rng = np.random.Generator
Make = Callable[[Path, Rng], None]  # writes a hostile file
SEEDS = {".csv": 250, ".npz": 250, ".hdf5": 250, ".parquet": 200}
BLOCKS = 4  # tests that the seeds of a format are spread over
HANG = 300  # seconds; a variant takes milliseconds
SECRET = np.float32(1234.5625)  # stands in files that a hostile one points to
UNPACKED = 2 * 400 * 8 * 8  # bytes: twice what a good one states, as doubles
SLACK = 3_000_000  # bytes that Python's own readers and messages take whatever the file
LIBRARIES = 50_000  # kilobytes that reading a file may take in HDF5 and the like
NAMES = [
    "",
    " ",
    "\0",
    "\x1b[2J",
    "../../etc/passwd",
    "a" * 5000,
    "obs_0",
    "=1+1",
    "\ud7ff",
    "{0}",
    "%s%n",
    "[red]",
    "\u202e",
    "*",
]


def columns(rng: Rng) -> dict[str, NDArray[Any]]:
    return smooth(int(rng.integers(20, 400)), seed=int(rng.integers(100)))


def flat(table: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    found = {
        f"{key}_{i}": each
        for key, column in table.items()
        if column.ndim == 2
        for i, each in enumerate(column.T)
    }
    return found | {key: column for key, column in table.items() if column.ndim == 1}


def save(path: Path, table: dict[str, NDArray[Any]], rng: Rng) -> None:
    """A good file, in one of the ways that its format can be written."""
    if path.suffix == ".npz":
        (np.savez_compressed if rng.integers(2) else np.savez)(path, **table)  # type: ignore[arg-type]
    elif path.suffix == ".hdf5":
        options: dict[str, Any] = {"compression": "gzip", "shuffle": True} if rng.integers(2) else {}
        with h5py.File(path, "w", libver=rng.choice(["earliest", "latest"])) as file:
            for key, column in table.items():
                file.create_dataset(key, data=column, **options)
    elif path.suffix == ".parquet":
        compression = str(rng.choice(["snappy", "zstd", "gzip", "none"]))
        parquet.write_table(
            arrow.table(flat(table)), path, compression=compression, use_dictionary=bool(rng.integers(2))
        )
    else:
        mark = str(rng.choice([",", ";", "\t"]))
        rows = zip(*(column.tolist() for column in flat(table).values()), strict=True)
        path.write_text(
            "\n".join([mark.join(flat(table)), *(mark.join(map(str, row)) for row in rows)]) + "\n"
        )


# --- damage to the bytes of any format ---


def flip(path: Path, rng: Rng) -> None:
    content = bytearray(path.read_bytes())
    for place in _places(content, rng, int(rng.integers(1, 20))):
        content[place] ^= int(rng.integers(1, 256))
    path.write_bytes(content)


def swap(path: Path, rng: Rng) -> None:
    content = bytearray(path.read_bytes())
    first, second = _places(content, rng, 2)
    content[first], content[second] = content[second], content[first]
    path.write_bytes(content)


def cut(path: Path, rng: Rng) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.integers(len(content))])


def repeat(path: Path, rng: Rng) -> None:
    content = path.read_bytes()
    start, stop = sorted(rng.integers(len(content), size=2))
    path.write_bytes(content[:stop] + content[start:])


def extreme(path: Path, rng: Rng) -> None:
    """Numbers of 4 or 8 bytes become as large, or as negative, as they can be."""
    content = bytearray(path.read_bytes())
    for place in _places(content, rng, 2):
        value = rng.choice(
            [b"\xff" * 8, b"\x00" * 8, b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff" * 7 + b"\x7f"]
        )
        content[place : place + len(value)] = value
    path.write_bytes(content)


def _places(content: bytearray, rng: Rng, count: int) -> list[int]:
    """Where to damage: anywhere, or in the first or last tenth, where headers and directories are."""
    low, high = [(0.0, 1.0), (0.0, 0.1), (0.9, 1.0)][rng.integers(3)]
    return [int(place * (len(content) - 1)) for place in rng.uniform(low, high, count)]


BYTES: list[Make] = [flip, flip, swap, cut, repeat, extreme, extreme]


# --- files that are well formed and hostile ---


def hostile_names(path: Path, rng: Rng) -> None:
    table = columns(rng)
    if path.suffix == ".csv":
        table = flat(table)
    for key in rng.permutation(list(table))[: rng.integers(1, 4)]:
        table[str(rng.choice(NAMES)).replace("\0", "" if path.suffix == ".hdf5" else "\0")] = table.pop(
            str(key)
        )
    if path.suffix == ".hdf5":
        table = {key.replace("..", "").strip("/. ") or "x": column for key, column in table.items()}
    save(path, table, rng)


def hostile_types(path: Path, rng: Rng) -> None:
    table = columns(rng)
    kinds = (
        ["S3", "U4", "c8", "u8", "i1", "f2", "M8[s]", "O"]
        if path.suffix == ".npz"
        else ["S3", "c8", "u8", "i1", "f2"]
    )
    kinds = ["U4", "u8", "i1", "M8[s]"] if path.suffix in (".parquet", ".csv") else kinds
    for key in rng.permutation(list(table))[: rng.integers(1, 3)]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table[str(key)] = table[str(key)].astype(str(rng.choice(kinds)))
    save(path, flat(table) if path.suffix == ".csv" else table, rng)


def hostile_values(path: Path, rng: Rng) -> None:
    table = {key: column.astype(np.float64) for key, column in columns(rng).items()}
    for key in rng.permutation(list(table))[:2]:
        values = [np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-320]
        table[str(key)].flat[rng.integers(table[str(key)].size)] = rng.choice(values)
    save(path, table, rng)


def uneven(path: Path, rng: Rng) -> None:
    table = columns(rng)
    key = str(rng.choice(list(table)))
    change = rng.choice(["short", "deep", "none", "gone"])
    table[key] = {
        "short": table[key][:-3],
        "deep": table[key][..., None, None],
        "none": table[key][:0],
        "gone": table[key],
    }[change]
    if change == "gone" or path.suffix == ".parquet":
        del table[key]
    save(path, table, rng) if path.suffix != ".csv" else path.write_text(
        "obs_0,action_0,reward\n1,2\n" * int(rng.integers(3))
    )


def csv_text(path: Path, rng: Rng) -> None:
    signs = [
        '"',
        ",",
        ";",
        "\n",
        "\r",
        "\0",
        "1e999",
        "nan",
        "-",
        "é",
        "\ufeff",
        "0x10",
        "1_000",
        "9" * 400,
        "true",
        " ",
    ]
    body = "".join(rng.choice(signs, size=int(rng.integers(1, 300))))
    path.write_text(
        str(rng.choice(["", "obs_0,action_0,reward\n", '"obs_0","action_0","reward\n'])) + body, newline=""
    )


def npz_header(path: Path, rng: Rng) -> None:
    save(path, table := columns(rng), rng)
    key = str(rng.choice(list(table)))
    shape = rng.choice(
        [
            "(10, 1000000000)",
            "(1000000000000,)",
            "(-1, 3)",
            "(2**70,)",
            "(True, 3)",
            "()",
            "(400, 3)",
            "(0, 3)",
        ]
    )
    kind = rng.choice(
        ["'<f4'", "'|O'", "'|V0'", "'<U0'", "[('a', '<f4', (10000,))]", "'<f4,<f4'", "'nonsense'", "3"]
    )
    order, more = rng.choice(["True", "False", "1"]), rng.choice(["", ", 'x': 1", "(" * 3000])
    text = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}{more}}}".encode()
    length = len(text) if rng.integers(3) else int(rng.integers(2**16))
    body = (
        np.lib.format.MAGIC_PREFIX
        + b"\x01\x00"
        + length.to_bytes(2, "little")
        + text
        + bytes(int(rng.integers(5000)))
    )
    methods = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]
    content = {name: _npy(column) for name, column in table.items()} | {key: body}
    with zipfile.ZipFile(path, "w", methods[rng.integers(4)]) as archive:
        for name, member in content.items():
            archive.writestr(f"{name}.npy", member)


def _npy(column: NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, column)
    return out.getvalue()


def npz_bomb(path: Path, rng: Rng) -> None:
    table = columns(rng)
    rows = len(table["rewards"])
    with zipfile.ZipFile(path, "w", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA][rng.integers(2)]) as archive:
        for name, column in (table | {"rewards": np.zeros(30_000_000 + rows, np.int8)}).items():
            archive.writestr(f"{name}.npy", _npy(column))


def hdf5_outside(path: Path, rng: Rng) -> None:
    """A column that lies in another file, by link, storage, virtual dataset, or a pipe."""
    table = columns(rng)
    key, rows = "rewards", len(table["rewards"])
    secret, pipe = path.with_name("secret.hdf5"), path.with_name("pipe")
    raw = path.with_name("secret.bin")
    raw.write_bytes(np.full(rows, SECRET).tobytes())
    with h5py.File(secret, "w") as file:
        file[key] = np.full(rows, SECRET)
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    with h5py.File(path, "w") as file:
        for name, column in table.items():
            if name != key:
                file[name] = column
        way = int(rng.integers(5))
        if way == 0:
            file[key] = h5py.ExternalLink(str(rng.choice([secret.name, str(secret)])), key)
        elif way == 1:
            file[key] = h5py.ExternalLink(str(pipe), key)
        elif way == 2:
            file.create_dataset(key, (rows,), np.float32, external=[(str(raw), 0, 4 * rows)])
        elif way == 3:
            layout = h5py.VirtualLayout((rows,), np.float32)
            layout[:] = h5py.VirtualSource(str(rng.choice([str(secret), str(pipe)])), key, (rows,))
            file.create_virtual_dataset(key, layout)
        else:
            file["away"] = h5py.ExternalLink(str(secret), "/")
            file[key] = h5py.SoftLink(f"/away/{key}")


def hdf5_shape(path: Path, rng: Rng) -> None:
    table = columns(rng)
    key = str(rng.choice(list(table)))
    rest = table[key].shape[1:]
    rows = int(rng.choice([len(table[key]), 10**7, 10**12]))
    with h5py.File(path, "w") as file:
        for name, column in table.items():
            if name != key:
                file[name] = column
        piece = (int(rng.choice([1, 1000, 10**7])), *rest)
        file.create_dataset(
            key, (rows, *rest), np.float32, chunks=piece, maxshape=(None, *rest), compression="gzip"
        )


def parquet_odd(path: Path, rng: Rng) -> None:
    table = flat(columns(rng))
    rows = len(table["rewards"])
    odd = {
        "null": arrow.nulls(rows),
        "text": arrow.array(["x"] * rows),
        "lists": arrow.array([[1.0] * int(rng.integers(3)) for _ in range(rows)]),
        "deep": arrow.array([[[1.0, 2.0]]] * rows),
        "struct": arrow.array([{"a": 1}] * rows),
        "category": arrow.array(["x", "y"] * rows)[:rows].dictionary_encode(),
        "binary": arrow.array([b"\xff\xfe"] * rows),
        "decimal": arrow.array([None, *range(rows - 1)], arrow.decimal128(20)),
        "time": arrow.array(range(rows), arrow.timestamp("ns")),
    }
    made = {name: arrow.array(column) for name, column in table.items()}
    for _ in range(int(rng.integers(1, 3))):
        made[str(rng.choice(["rewards", "observations_0", "terminals", "episode"]))] = odd[
            str(rng.choice(list(odd)))
        ]
    names = list(made)
    if not rng.integers(4):
        names[-1] = names[0]  # two of one name
    parquet.write_table(arrow.Table.from_arrays(list(made.values()), names=names), path)


SHARED: list[Make] = [hostile_names, hostile_types, hostile_values, uneven]
OWN: dict[str, list[Make]] = {
    ".csv": [csv_text] * 5,
    ".npz": [*[npz_header] * 5, npz_bomb],
    ".hdf5": [*[hdf5_outside] * 4, *[hdf5_shape] * 3],
    ".parquet": [parquet_odd] * 5,
}


def make(path: Path, seed: int) -> None:
    rng = np.random.default_rng([seed, *map(ord, path.suffix)])
    kinds = [*BYTES, *SHARED, *OWN[path.suffix]]
    kind = kinds[seed % len(kinds)]
    if kind in BYTES:
        save(path, columns(rng), rng)
    kind(path, rng)


@contextmanager
def no_longer_than(seconds: int, what: str) -> Iterator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"{what}: still reading after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(2 * seconds, exit=True)  # for a library that no signal reaches
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def read(path: Path) -> Transitions | str:
    """What a file holds, or the message that it ends in; any other error is a traceback and fails the
    test."""
    try:
        return load(path)
    except (ValueError, FileNotFoundError) as error:
        return str(error)


def measured(path: Path) -> tuple[Transitions | str, int]:
    """What a file holds or ends in, and the most bytes of Python's that reading it took.

    Python's table of interned strings doubles about every time a process has twice as many names: by 7.7 MB
    at 175,000 of them, in whatever is being read then. A reader that needs memory needs it in every reading.
    """
    tracemalloc.start()
    try:
        found = read(path)
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("block", range(BLOCKS))
@pytest.mark.parametrize("suffix", SEEDS)
def test_hostile_files_load_or_end_in_a_message(
    suffix: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRIDCOUNT_HOME", str(tmp_path / "home"))
    path = tmp_path / f"theirs{suffix}"
    for seed in range(block, SEEDS[suffix], BLOCKS):
        path.unlink(missing_ok=True)
        make(path, seed)
        what, most = f"{suffix} {seed}", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with no_longer_than(HANG, what):
            found, peak = measured(path)
            if peak >= UNPACKED + SLACK:
                _, peak = measured(path)
        assert peak < UNPACKED + SLACK, what
        if isinstance(found, str):
            assert str(path) in found, what
        else:
            assert SECRET not in found.reward, what
        with no_longer_than(HANG, what):
            assert all(finding.problem for finding in check(path)), what
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most < LIBRARIES, (
            what
        )  # what tracemalloc does not see


def test_there_are_enough_of_every_format() -> None:
    assert sum(SEEDS.values()) >= 900


def test_a_good_file_of_every_format_loads_so_that_damage_is_what_is_tested(tmp_path: Path) -> None:
    for suffix in SEEDS:
        for seed in range(4):
            rng = np.random.default_rng(seed)
            save(tmp_path / f"good{suffix}", table := columns(rng), rng)
            data = load(tmp_path / f"good{suffix}")
            assert data.observation.shape[1] == 3
            assert 0 < len(data) <= len(table["rewards"])
