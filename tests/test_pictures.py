"""Pictures: whole files that show something, for every algorithm and for several runs at once."""

import json
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from numpy.typing import NDArray

from gridcount.cli import main
from gridcount.report import pictures
from gridcount.report.pictures import draw_curves
from gridcount.training.plan import Plan, write_record

SMALL = [
    "--env",
    "maze2d-umaze-v1",
    "--hidden",
    "8",
    "--batch-size",
    "16",
    "--episodes",
    "2",
    "--updates",
    "40",
    "--evaluate-every",
    "20",
]


@pytest.fixture(scope="module")
def counting(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of GPC-SAC with two seeds, which drew its pictures at the end."""
    run = tmp_path_factory.mktemp("pictures") / "counting"
    assert main(["train", str(maze_file), *SMALL, "--bins", "4", "--seeds", "2", "--run", str(run)]) == 0
    return run


@pytest.fixture(scope="module")
def plain(maze_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of SAC, which counts nothing."""
    run = tmp_path_factory.mktemp("pictures") / "plain"
    assert main(["train", str(maze_file), *SMALL, "--algo", "sac", "--run", str(run)]) == 0
    return run


def pixels(path: Path) -> NDArray[np.float32]:
    """A picture's pixels, after checking that it is a PNG of a sensible size that shows something."""
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    image = np.asarray(imread(path))[..., :3]
    height, width, _ = image.shape
    assert 300 < height < 2000
    assert 500 < width < 4000
    assert image.std() > 0.05
    assert len(np.unique((255 * image).astype(np.int64) @ [1, 256, 65536])) > 20  # colours
    return image


@pytest.mark.parametrize("name", ["counting", "plain"])
def test_training_draws_a_curve_and_a_maze_that_show_something(
    name: str, request: pytest.FixtureRequest
) -> None:
    run: Path = request.getfixturevalue(name)
    pixels(run / "curve.png")
    pixels(run / "maze.png")
    assert sorted(path.name for path in run.glob("*.png")) == ["curve.png", "maze.png"]
    assert not list(run.rglob("*partial*"))


def test_only_an_algorithm_that_counts_gets_a_panel_of_uncertainty(counting: Path, plain: Path) -> None:
    three_panels, two_panels = (pixels(run / "maze.png").shape[1] for run in (counting, plain))
    assert three_panels == pytest.approx(1.5 * two_panels, rel=0.02)


def test_plot_draws_the_same_pictures_again_and_prints_where_they_are(
    counting: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {name: pixels(counting / name) for name in ("curve.png", "maze.png")}
    for name in before:
        (counting / name).unlink()
    assert main(["plot", str(counting)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"picture: {counting / name}" for name in before]
    for name, image in before.items():
        np.testing.assert_array_equal(pixels(counting / name), image)


def test_several_runs_are_compared_in_one_picture(
    counting: Path, plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "both.png"
    assert main(["plot", str(counting), str(plain), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"picture: {out}\n"
    assert not np.array_equal(pixels(out), pixels(counting / "curve.png"))
    assert [path.name for path in tmp_path.iterdir()] == ["both.png"]


def test_a_picture_that_cannot_be_finished_leaves_the_old_one(
    counting: Path,
    plain: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "both.png"
    out.write_bytes(b"the old picture")

    def full_disk(self: Figure, file: IO[bytes], **settings: Any) -> None:
        file.write(b"half a pict")
        raise OSError("no space left on device")

    monkeypatch.setattr(Figure, "savefig", full_disk)
    assert main(["plot", str(counting), str(plain), "--out", str(out)]) == 2
    assert "no space left" in capsys.readouterr().err
    assert out.read_bytes() == b"the old picture"
    assert [path.name for path in tmp_path.iterdir()] == ["both.png"]


def test_a_directory_that_is_no_run_is_refused_by_name(
    counting: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["plot", str(tmp_path)], ["plot", str(counting), str(tmp_path)]):
        assert main(words) == 2
        assert f"{tmp_path}: not a run directory" in capsys.readouterr().err


def test_training_succeeds_where_matplotlib_is_not_installed(
    maze_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("gridcount.report")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    words = [
        "--env",
        "maze2d-umaze-v1",
        "--hidden",
        "8",
        "--batch-size",
        "16",
        "--episodes",
        "2",
        "--bins",
        "4",
        "--updates",
        "20",
    ]
    assert (
        main(["train", str(maze_file), *words, "--evaluate-every", "20", "--run", str(tmp_path / "run")]) == 0
    )
    assert "pip install 'gridcount[plots]'" in capsys.readouterr().out


# --- runs that are still being made, and runs beside each other ---


def recorded(
    folder: Path, rows: list[dict[str, Any]], algorithm: str = "gpc-sac", dataset: str = "log", **fields: Any
) -> Path:
    """A run directory with a plan and metrics, and nothing trained."""
    seeds = tuple(sorted({row["seed"] for row in rows}))
    write_record(folder, Plan(dataset, None, algorithm, fields, seeds, 40, 20, 2, fingerprint=dataset))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The axes that were drawn, instead of files."""
    axes: list[Any] = []

    def save(figure: Figure, path: Path) -> Path:
        axes.extend(figure.axes)
        return path

    monkeypatch.setattr(pictures, "save_figure", save)
    return axes


def row(updates: int, seed: int = 0, score: float = 1.0) -> dict[str, Any]:
    return {"updates": updates, "seed": seed, "score": score, "return": score}


def test_a_live_run_is_drawn_as_far_as_every_seed_has_come(tmp_path: Path, drawn: list[Any]) -> None:
    run = recorded(tmp_path / "run", [row(20), row(20, seed=1), row(40)])
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"updates": 40, "se')  # being written
    assert main(["plot", str(run), str(run), "--out", str(tmp_path / "x.png")]) == 0
    assert drawn[0].lines[0].get_xdata().tolist() == [20]


def test_a_single_evaluation_can_be_seen(tmp_path: Path, drawn: list[Any]) -> None:
    one, two = recorded(tmp_path / "one", [row(20)]), recorded(tmp_path / "two", [row(20), row(40)])
    draw_curves([one, two], tmp_path / "x.png")
    assert [line.get_marker() for line in drawn[0].lines[:2]] == ["o", "None"]


def test_compared_runs_are_told_apart_by_what_differs(tmp_path: Path, drawn: list[Any]) -> None:
    fine = recorded(tmp_path / "fine", [row(20)], bins=30, beta=1.0)
    coarse = recorded(tmp_path / "coarse", [row(20)], bins=10, beta=1.0)
    again = recorded(tmp_path / "again", [row(20)], bins=10, beta=1.0)
    sac = recorded(tmp_path / "sac", [row(20), row(20, seed=1)], "sac", beta=2.0)
    draw_curves([fine, coarse, again, sac], tmp_path / "x.png")
    assert [text.get_text() for text in drawn[0].get_legend().get_texts()] == [
        "gpc-sac, --bins 30 (1 seed)",
        f"gpc-sac, --bins 10 (1 seed), {coarse}",
        f"gpc-sac, --bins 10 (1 seed), {again}",
        "sac (2 seeds)",
    ]
    assert drawn[0].get_title() == "log, 2 episodes per evaluation"


def test_runs_on_different_data_say_so(tmp_path: Path, drawn: list[Any]) -> None:
    one, two = (
        recorded(tmp_path / "one", [row(20)]),
        recorded(tmp_path / "two", [row(20)], dataset="/data/other.csv"),
    )
    draw_curves([one, two], tmp_path / "x.png")
    labels = [text.get_text() for text in drawn[0].get_legend().get_texts()]
    assert labels == ["gpc-sac on log (1 seed)", "gpc-sac on other.csv (1 seed)"]
    assert drawn[0].get_title() == "2 episodes per evaluation"
