"""Minari's folders, HDF5 and Arrow, read without the `minari` package."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gridcount.data.formats.arrow_files import open_arrow
from gridcount.data.formats.d4rl import checked, row_bytes
from gridcount.data.formats.hdf5 import find_in_file, open_hdf5
from gridcount.data.formats.log import Collected, Log, Problems, actions, flags, matrix, rewards
from gridcount.files import validate_no_link, validate_no_links
from gridcount.transitions import chunk_rows, chunks

PREFIX = "minari:"
COLLECTED_AGAIN = "Minari's datasets were collected again: their scores are not comparable with D4RL's tables"
LOOKS = {
    "render_mode",
    "width",
    "height",
    "camera_id",
    "camera_name",
    "default_camera_config",
}  # options that do not change the task


class _Steps(NamedTuple):
    """Steps of one episode, one after the other."""

    last: bool  # these are the episode's last
    observations: NDArray[Any]  # [steps + 1, dims]: Minari keeps the state after a step too
    actions: NDArray[Any]
    rewards: NDArray[Any]
    terminations: NDArray[Any]
    truncations: NDArray[Any]


COLUMNS = _Steps._fields[1:]


def minari_root() -> Path:
    """Where the `minari` command keeps datasets: $MINARI_DATASETS_PATH, or ~/.minari/datasets."""
    return Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets").expanduser()


def find_minari(dataset_id: str) -> Path | None:
    """The folder of a dataset in the local Minari root, or None."""
    folder = minari_root() / dataset_id
    return folder if is_minari(folder) else None


def is_minari(folder: Path) -> bool:
    """Whether a folder, or its `data` subfolder, has Minari's layout."""
    data = _data_folder(folder)
    return (data / "main_data.hdf5").is_file() or (
        (data / "metadata.json").is_file() and any(data.glob("*/*.arrow"))
    )


def minari_folder(dataset: str | Path) -> Path:
    """The data folder of a dataset: a Minari folder, or an id such as `minari:D4RL/pen/human-v2` that
    Minari's own command downloaded."""
    text = str(dataset)
    if text.startswith(PREFIX):
        dataset_id = text.removeprefix(PREFIX)
        found = find_minari(dataset_id)
        if found is None:
            raise FileNotFoundError(
                f"{minari_root() / dataset_id}: there is no such Minari dataset here. Get it with: pip"
                " install 'gridcount[minari]' &&"
                f" minari download {dataset_id}"
            )
        dataset = found
    folder = _data_folder(Path(dataset))
    if not is_minari(folder):
        raise FileNotFoundError(
            f"{folder}: not a Minari dataset; expected main_data.hdf5, or metadata.json and Arrow files, in"
            " it"
        )
    if folder != Path(dataset):
        validate_no_link(folder)
    validate_no_links(folder)
    return folder


def minari_pieces(dataset: str | Path) -> Iterator[Log]:
    """The log in a Minari folder, episode by episode, long ones some steps at a time."""
    folder = minari_folder(dataset)
    source = str(folder)
    metadata = _metadata(folder)
    key, notes = _observation_key(folder, _space(metadata, "observation_space"))
    low, high = _action_bounds(folder, metadata)
    hdf5 = folder / "main_data.hdf5"
    problems: Problems = {}
    start, dims = 0, None
    for steps in _hdf5_steps(hdf5, key) if hdf5.is_file() else _arrow_steps(folder, key):
        found = steps.observations.shape[1:], steps.actions.shape[1:]
        if dims is not None and found != dims:
            raise ValueError(
                f"{source}: episodes differ in the dimensions of their observations or actions; get the"
                " dataset again"
            )
        truncated = flags(source, "truncations", steps.truncations, start, problems)
        truncated[-1] |= steps.last
        yield Log(
            source=source,
            observation=matrix(source, "observations", steps.observations[:-1]),
            action=actions(source, "actions", steps.actions),
            reward=rewards(source, "rewards", steps.rewards),
            terminated=flags(source, "terminations", steps.terminations, start, problems),
            truncated=truncated,
            next_observation=matrix(source, "observations", steps.observations[1:]),
            action_low=low,
            action_high=high,
            environment=_environment(metadata),
            notes=(*notes, COLLECTED_AGAIN),
            problems=tuple(problems.values()),
        )
        start, dims = start + len(steps.rewards), found
    if dims is None:
        raise ValueError(f"{folder}: holds no episode with a step; get the dataset again")


def _action_bounds(folder: Path, metadata: dict[str, Any]) -> list[NDArray[np.float32] | None]:
    """The declared bounds of the actions, low and high; raises ValueError if they are not continuous."""
    space = _space(metadata, "action_space")
    if space.get("type", "Box") != "Box":
        raise ValueError(
            f"{folder}: actions are of type {space['type']}; only a Box of continuous actions is supported"
        )
    return [
        np.asarray(space[end], np.float32).reshape(-1) if end in space else None for end in ("low", "high")
    ]


def _hdf5_steps(path: Path, key: str | None) -> Iterator[_Steps]:
    import h5py

    with open_hdf5(path, "Minari file", "dataset") as file:
        for name in sorted((name for name in map(str, file) if name.startswith("episode_")), key=_number):
            fields = ["observations" if key is None else f"observations/{key}", *COLUMNS[1:]]
            columns = [find_in_file(file, f"{name}/{field}") for field in fields]
            for column, field in zip(columns, COLUMNS, strict=True):
                if column is None:
                    raise ValueError(
                        f"{path}: truncated or damaged Minari file (no '{name}/{field}'); get the dataset"
                        " again"
                    )
                if not isinstance(column, h5py.Dataset):
                    raise ValueError(
                        f"{path}: '{name}/{field}' is a group, not one array; only flat arrays are supported"
                    )
            observations, steps = columns[0], len(columns[2]) if columns[2].shape else 0
            if not steps:
                continue
            counts = (steps + 1, steps, steps, steps, steps)
            for field, column, count in zip(COLUMNS, columns, counts, strict=True):
                checked(str(path), f"{name}/{field}", column, count, "its episode")
            for rows in chunks(steps, row_bytes(columns)):
                after = slice(rows.start, rows.stop + 1)
                read = [np.asarray(column[after if column is observations else rows]) for column in columns]
                yield _Steps(rows.stop == steps, *read)


def _arrow_steps(folder: Path, key: str | None) -> Iterator[_Steps]:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"{folder}: Minari's Arrow layout needs pyarrow ({error}). Install it with: pip install"
            " 'gridcount[tables]'"
        ) from error
    from gridcount.data.formats.parquet_table import from_arrow

    for path in sorted(folder.glob("*/*.arrow"), key=lambda path: (_number(path.parent.name), path.name)):
        with open_arrow(path, "Minari") as file:
            if lost := [field for field in COLUMNS if file.names.count(field) != 1]:
                raise ValueError(
                    f"{path}: truncated or damaged Minari file (no column '{lost[0]}'); get the dataset again"
                )
            # actions, rewards and flags are padded by one row to the length of the observations
            left = file.rows - 1
            for table in file.batches(chunk_rows(file.row_bytes), list(COLUMNS), overlap=1):
                observations = table.column("observations")
                if key is not None:
                    observations = _entry(path, observations, key)
                columns = [observations, *(table.column(field) for field in COLUMNS[1:])]
                steps = len(table) - 1
                left -= steps
                read = [
                    from_arrow(str(path), field, column.slice(0, steps + (column is observations)))
                    for field, column in zip(COLUMNS, columns, strict=True)
                ]
                yield _Steps(left == 0, *read)


def _entry(path: Path, observations: Any, key: str) -> Any:
    """An entry of observations that are a Dict."""
    import pyarrow as arrow

    kind = observations.type
    if not arrow.types.is_struct(kind) or kind.get_field_index(key) < 0:
        raise ValueError(
            f"{path}: its observations have no entry '{key}', which the metadata name; get the dataset again"
        )
    return arrow.chunked_array([observations.combine_chunks().field(key)])


def minari_environment(dataset: str | Path) -> Collected | None:
    """The environment in which a Minari dataset was collected, if it is recorded."""
    return _environment(_metadata(minari_folder(dataset)))


def _environment(metadata: dict[str, Any]) -> Collected | None:
    spec = _space(metadata, "env_spec")
    found, options = spec.get("id"), spec.get("kwargs")
    if not isinstance(found, str) or not re.fullmatch(
        r"[\w./-]+", found
    ):  # a "module:id" from a file could run code
        return None
    return Collected(found, tuple(sorted(set(options) - LOOKS)) if isinstance(options, dict) else ())


def _data_folder(folder: Path) -> Path:
    return folder / "data" if (folder / "data").is_dir() else folder


def _metadata(folder: Path) -> dict[str, Any]:
    try:
        if (folder / "metadata.json").is_file():
            metadata = json.loads((folder / "metadata.json").read_text())
        else:
            with open_hdf5(
                folder / "main_data.hdf5", "Minari file", "dataset"
            ) as file:  # before version 0.5 Minari kept it there
                metadata = dict(file.attrs)
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder}: its metadata cannot be read ({error}); get the dataset again") from error
    if not isinstance(metadata, dict):
        raise ValueError(f"{folder / 'metadata.json'}: expected a JSON object; get the dataset again")
    return metadata


def _space(metadata: dict[str, Any], key: str) -> dict[str, Any]:
    """A space's description; Minari stores JSON inside JSON."""
    space = metadata.get(key, {})
    try:
        space = json.loads(space) if isinstance(space, str | bytes) else space
    except ValueError:
        space = {}
    return space if isinstance(space, dict) else {}


def _observation_key(folder: Path, space: dict[str, Any]) -> tuple[str | None, tuple[str, ...]]:
    """Which part of the observations to read: all of a Box, or the 'observation' of a Dict."""
    kind = space.get("type", "Box")
    if kind == "Box" and len(space.get("shape", [0])) == 1:
        return None, ()
    if kind == "Box":
        raise ValueError(
            f"{folder}: observations have shape {space['shape']}, such as images; only flat vectors are"
            " supported"
        )
    parts = space.get("subspaces", space.get("spaces", {})) if kind == "Dict" else {}
    if "observation" in parts:
        rest = sorted(set(parts) - {"observation"})
        return "observation", (
            f"observations are a Dict: 'observation' is used, {', '.join(rest) or 'nothing'} is ignored",
        )
    raise ValueError(
        f"{folder}: observations are of type {kind}{f' with {sorted(parts)}' if parts else ''}; only flat"
        " numbers are supported,"
        " so write them to a table and import it with: gridcount data import FILE --name NAME"
    )


def _number(name: str) -> int:
    digits = "".join(filter(str.isdigit, name))
    return int(digits) if digits else -1
