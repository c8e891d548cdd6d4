"""What surrounds a cluster: its address, one that is not there, cores that workers share. A cluster at
work is in test_benchmark.py."""

import os
import tempfile
from pathlib import Path

import pytest

from gridcount.benchmark import worker
from gridcount.cli import main
from gridcount.commands.benchmark import with_address


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:port"])
def test_a_cluster_that_is_not_there_is_told_at_once(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", "paper/maze2d", "--out", str(tmp_path / "out"), "--ray", address]) == 2
    assert f"--ray {address}: no cluster to join" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores can be claimed on Linux alone")
def test_workers_that_find_every_core_claimed_do_not_all_take_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(worker, "CLAIMS", [])
    cores = os.sched_getaffinity(0)
    assert set().union(*(worker._claim(1) for _ in cores)) == cores  # one each, as long as there are some
    if len(cores) > 1:
        assert len(set().union(*(worker._claim(1) for _ in range(50)))) > 1
    for lock in worker.CLAIMS:
        lock.close()


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["paper/maze2d", "--ray"], ["paper/maze2d", "--ray", "auto"]),
        (["--ray", "paper/maze2d", "--dry-run"], ["--ray", "auto", "paper/maze2d", "--dry-run"]),
        (["mine.toml", "--ray", "--seeds", "2"], ["mine.toml", "--ray", "auto", "--seeds", "2"]),
        (["mine.toml", "--ray", "10.0.0.1:6379"], ["mine.toml", "--ray", "10.0.0.1:6379"]),
    ],
)
def test_ray_without_an_address_is_the_cluster_this_machine_is_part_of(
    words: list[str], meant: list[str]
) -> None:
    assert with_address(words) == meant
