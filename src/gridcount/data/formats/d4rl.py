"""D4RL's HDF5 layout: files are written completely or not at all, and damaged files give clear errors."""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gridcount.data.formats.cut import to_transitions
from gridcount.data.formats.hdf5 import find_in_file, open_hdf5, validate_size
from gridcount.data.formats.log import (
    Log,
    Problems,
    actions,
    flags,
    join,
    matrix,
    rewards,
    validate_matrix,
    validate_numeric,
    validate_vector,
)
from gridcount.files import whole_file
from gridcount.transitions import Transitions, chunks

if TYPE_CHECKING:  # importing it takes time, and only HDF5 files need it
    import h5py

REQUIRED = ("observations", "actions", "rewards", "terminals")
OPTIONAL = ("timeouts", "next_observations")
MATRICES = ("observations", "actions", "next_observations")  # the rest hold one value per row


def write_hdf5(
    path: str | Path, columns: Mapping[str, NDArray[Any]], attributes: Mapping[str, str | int | float]
) -> None:
    """Write columns (a name may hold a '/', as infos/goal does) and attributes; `path` appears complete or
    not at all."""
    import h5py

    # The incomplete file is locked already, so HDF5 must not lock it too.
    with whole_file(Path(path)) as partial, h5py.File(partial.name, "w", locking=False) as file:
        for key, column in columns.items():
            file.create_dataset(key, data=column, compression="gzip", compression_opts=1, shuffle=True)
        file.attrs.update(dict(attributes))


def read_hdf5(path: str | Path, name: str | None = None) -> Transitions:
    """The transitions of a D4RL file; see `cut` for where episodes end and which rows are kept."""
    return to_transitions(join(str(path), hdf5_pieces(path)), name)


def hdf5_pieces(path: str | Path) -> Iterator[Log]:
    """The log in a D4RL file, its (rows, 1) rewards, float flags and doubles made uniform; values are not
    validated yet."""
    path, source = Path(path), str(path)
    problems: Problems = {}
    with _columns(path) as columns:
        for key in columns:
            (validate_matrix if key in MATRICES else validate_vector)(source, key, columns[key].shape)
        for rows in chunks(len(columns["observations"]), row_bytes(columns.values())):
            read = {key: np.asarray(column[rows]) for key, column in columns.items()}
            yield Log(
                source=source,
                observation=matrix(source, "observations", read["observations"]),
                action=actions(source, "actions", read["actions"]),
                reward=rewards(source, "rewards", read["rewards"]),
                terminated=flags(source, "terminals", read["terminals"], rows.start, problems),
                truncated=flags(
                    source,
                    "timeouts",
                    read.get("timeouts", np.zeros(len(read["rewards"]), bool)),
                    rows.start,
                    problems,
                ),
                next_observation=matrix(source, "next_observations", read["next_observations"])
                if "next_observations" in read
                else None,
                stated_rows=len(columns["observations"]),
                problems=tuple(problems.values()),
            )


def row_bytes(columns: "Iterable[h5py.Dataset]") -> int:
    """Bytes that a row of all these columns takes, as stored."""
    return sum(column.dtype.itemsize * math.prod(column.shape[1:]) for column in columns)


def checked(
    source: str, key: str, dataset: "h5py.Dataset", rows: int, whose: str = "'observations'"
) -> "h5py.Dataset":
    """A column with the expected number of rows; a damaged shape raises ValueError before HDF5 allocates
    it."""
    if not dataset.shape:
        raise ValueError(f"{source}: '{key}' is a single value; expected one per row, so get the file again")
    if len(dataset) != rows:
        raise ValueError(
            f"{source}: '{key}' has {len(dataset)} rows, {whose} has {rows}; the file is inconsistent, get"
            " it again"
        )
    validate_size(source, key, dataset)
    validate_numeric(source, key, dataset.dtype)
    return dataset


@contextmanager
def _columns(path: Path) -> "Iterator[dict[str, h5py.Dataset]]":
    """The columns a learner needs, ready to be read; raises an error if one is missing."""
    import h5py

    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file; check the path")
    if not h5py.is_hdf5(path):
        raise ValueError(
            f"{path}: not an HDF5 file ({path.stat().st_size:,} bytes); D4RL's files are HDF5, so check the"
            " path or download it again"
        )
    with open_hdf5(path) as file:
        found = {key: find_in_file(file, key) for key in REQUIRED + OPTIONAL}
        columns = {key: dataset for key, dataset in found.items() if isinstance(dataset, h5py.Dataset)}
        missing = [key for key in REQUIRED if key not in columns]
        if missing:
            raise ValueError(
                f"{path}: key '{missing[0]}' is missing; it has {sorted(map(str, file))}. D4RL's layout"
                f" needs {', '.join(REQUIRED)}"
            )
        rows = len(columns["observations"]) if columns["observations"].shape else 0
        yield {key: checked(str(path), key, column, rows) for key, column in columns.items()}
