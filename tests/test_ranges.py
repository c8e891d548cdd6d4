"""Hyper-parameters that make no sense are refused before anything is read or trained, by flag, value and
range."""

from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest

from gridcount.algorithms import ALGORITHMS, make_algorithm
from gridcount.cli import main


@pytest.mark.parametrize(
    ("flag", "value", "allowed"),
    [
        ("--bins", "0", "at least 1"),
        ("--state-bins", "0", "at least 1"),
        ("--state-bins", "-1", "at least 1"),
        ("--table-megabytes", "0", "at least 1"),
        ("--batch-size", "0", "at least 1"),
        ("--hidden", "0", "at least 1"),
        ("--target-step", "-1", "above 0 and at most 1"),
        ("--discount", "1", "at least 0 and below 1"),
        ("--discount", "2", "at least 0 and below 1"),
        ("--critic-rate", "0", "above 0"),
        ("--pessimism", "nan", "at least 0"),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(
    flag: str, value: str, allowed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["train", "no-such-file.hdf5", "--algo", "gpc-sac", flag, value, "--run", str(tmp_path / "run")])
        == 2
    )  # and it is the first to be refused
    assert capsys.readouterr().err == f"error: {flag} is {value}; it must be {allowed}\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("field", "allowed"),
    [
        ("kernel", "gaussian or laplacian"),
        ("weighting", "inverse or exponential"),
        ("passes", "a whole number"),
    ],
)
def test_a_word_that_means_nothing_is_refused(field: str, allowed: str) -> None:
    with pytest.raises(ValueError, match=f"--{field} is 'gausian'; it must be {allowed}"):
        make_algorithm("uwac", "", **{field: "gausian"})
    with pytest.raises(ValueError, match="--bins is 'many'; it must be auto or a whole number"):
        make_algorithm("gpc-sac", "", bins="many")


def test_python_and_a_recorded_plan_are_held_to_the_same_ranges() -> None:
    with pytest.raises(ValueError, match="--batch-size is 0; it must be at least 1"):
        make_algorithm("sac", "", batch_size=0)
    with pytest.raises(ValueError, match="--hidden is 64 0; it must be at least 1"):
        make_algorithm("sac", "", hidden=(64, 0))
    assert make_algorithm("gpc-sac", "", bins="auto", state_bins=None).bins == "auto"


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_numeric_field_of_every_algorithm_has_a_range(name: str) -> None:
    def plain(kind: object) -> bool:
        """Whether a number of any size would be of this kind."""
        return kind in (int, float) or (get_origin(kind) is not Annotated and any(map(plain, get_args(kind))))

    hints = get_type_hints(ALGORITHMS[name], include_extras=True)
    assert [field for field, kind in hints.items() if plain(kind)] == []


@pytest.mark.parametrize(("flag", "value", "least"), [("--starts", -1, 0), ("--episodes", 0, 1)])
def test_evaluate_refuses_negative_starts_and_no_episodes(
    flag: str, value: int, least: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(tmp_path), flag, str(value)]) == 2
    assert f"{flag} is {value}; it must be at least {least}" in capsys.readouterr().err


def test_train_refuses_a_negative_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "no-such-file.hdf5", "--seed", "-1"]) == 2
    assert "seed is -1; it must be at least 0" in capsys.readouterr().err
