"""The support report names where a policy leaves its log, in the words and units of the log; the clone
comes with every run."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from walks import policy_of, walk

import gridcount as gc
from gridcount.cli import main
from gridcount.files.archive import save_arrays
from gridcount.policy.support import ALONE, SupportReport
from gridcount.report.support_text import in_short
from gridcount.training import cloning
from gridcount.transitions import Transitions


@pytest.fixture(scope="module")
def log() -> Transitions:
    """Its action is about the first column, less a half."""
    return walk(10_000)


@pytest.fixture(scope="module")
def report(log: Transitions) -> SupportReport:
    """Of a policy that takes the action 0.4 everywhere: the log has it only where the first column is
    high."""
    return policy_of(log, action=0.4).support(log)


def test_shares_stand_between_those_of_the_log_and_of_random_actions(report: SupportReport) -> None:
    shares = {name: share.in_log for name, share in report.shares.items()}
    assert shares["log"] > 0.98
    assert shares["random"] < 0.6
    assert shares["policy"] < 0.6
    assert "leaves the log" in report.verdict()
    assert f"{shares['policy']:.0%} of the policy's actions" in report.verdict()


def test_regions_say_in_columns_where_the_policy_leaves_the_log(report: SupportReport) -> None:
    assert sum(region.rows for region in report.regions) == report.rows
    first, last = report.regions[0], report.regions[-1]
    assert first.policy < 0.05
    assert last.policy > 0.5
    assert re.search(r"observation\[0\] ≤ 0\.", first.where)  # where the log's actions are negative
    assert re.search(r"0\.\d+ < observation\[0\]", last.where)


def test_lonely_states_are_rows_of_the_log_in_its_units(log: Transitions, report: SupportReport) -> None:
    assert len(report.alone) == ALONE
    assert len({state.episode for state in report.alone}) == ALONE
    for state in report.alone:
        np.testing.assert_allclose([*state.observation.values()], log.observation[state.row])
        assert state.row == 50 * state.episode + state.step
        assert state.action["action[0]"] == pytest.approx(70)  # 0.4 of [-1, 1] on a scale of 0 to 100
        assert state.logged_action["action[0]"] == pytest.approx(50 + 50 * log.action[state.row, 0], abs=1e-3)
        assert state.count == 0


def test_a_dimension_that_leaves_the_range_is_named() -> None:
    data = walk(5_000)
    timid = Transitions(
        data.observation, data.action * 0.3, data.reward, data.next_observation, data.terminated, data.episode_end,
        action_low=data.action_low, action_high=data.action_high,
    )  # fmt: skip
    report = policy_of(timid, action=0.9).support(timid)
    (action,) = report.actions
    assert action.outside == 1
    assert action.new == 1
    assert action.log[1] < action.policy[0] == pytest.approx(95)
    elsewhere = Transitions(
        data.observation + np.array([2, 0], np.float32), data.action, data.reward, data.next_observation, data.terminated, data.episode_end
    )  # fmt: skip
    far = policy_of(data).support(elsewhere)
    assert [column.outside > 0.5 for column in far.columns] == [True, False]
    assert far.seen < 0.05


def test_episodes_and_map_hold_the_same_rows(log: Transitions, report: SupportReport) -> None:
    assert [episode.held for episode in report.worst] == sorted((e.held for e in report.worst), reverse=True)
    assert all(len(episode.count) == len(episode.uncertainty) == 50 for episode in report.worst)
    assert sum(map(sum, report.map.rows)) == report.rows == len(log)
    assert (report.map.x, report.map.y) == ("observation[0]", "observation[1]")
    left, right = (
        np.mean([share for line in report.map.supported for share in line[part] if share is not None])
        for part in (slice(0, 16), slice(16, None))
    )
    assert left < right  # the log has such actions where the first column is high


def test_a_map_of_many_columns_shows_principal_components_or_those_named() -> None:
    data = walk(5_000, dims=5)
    policy = policy_of(data)
    assert policy.support(data).map.x.startswith("principal component 1 (mostly observation[")
    named = policy.support(data, columns=["observation[4]", "observation[1]"]).map
    assert (named.x, named.y) == ("observation[4]", "observation[1]")
    with pytest.raises(ValueError, match=r"(?s)unknown column 'valve'.*observation\[0\]"):
        policy.support(data, columns=["valve", "observation[1]"])
    with pytest.raises(ValueError, match="needs two columns"):
        policy.support(data, columns=["observation[1]"])


def test_data_of_other_columns_is_refused(log: Transitions) -> None:
    with pytest.raises(ValueError, match=r"the policy takes observation\[0\], observation\[1\]"):
        policy_of(log).support(walk(1_000, dims=3))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on a CSV file, by the command line."""
    folder = tmp_path_factory.mktemp("support")
    data = walk(3_000)
    rows = [
        f"{row // 50},{x:.5f},{y:.5f},{50 + 50 * action:.4f},{-abs(x - 0.5):.5f}"
        for row, ((x, y), (action,)) in enumerate(zip(data.observation, data.action, strict=True))
    ]
    (folder / "log.csv").write_text("\n".join(["batch,temp,flow,valve,yield", *rows]) + "\n")
    words = f"{folder / 'log.csv'} --observation temp,flow --action valve --reward yield --episode batch --action-low 0 --action-high 100"
    settings = "--algo bc --hidden 8 --batch-size 16 --updates 1000 --evaluate-every 1000 --no-plot"
    assert main(["train", *words.split(), *settings.split(), "--run", str(folder / "run")]) == 0
    return folder


def test_the_command_prints_the_same_report_as_text_and_as_json(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["support", str(trained / "run"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    columns = gc.Columns(observation="temp,flow", action="valve", reward="yield", episode="batch")
    data = gc.load(str(trained / "log.csv"), columns, action_bounds=((0.0,), (100.0,)))
    again = gc.load_policy(trained / "run").support(data)
    assert told["shares"]["policy"]["in_log"] == pytest.approx(again.shares["policy"].in_log)
    assert set(told["alone"][0]["observation"]) == {"temp", "flow"}
    assert main(["support", str(trained / "run"), "--columns", "flow,temp"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert again.verdict().split(":")[0] in printed
    assert "states where the policy is most alone" in printed


def test_the_page_is_one_file_without_a_network_and_says_how_to_get_an_estimate(
    trained: Path, tmp_path: Path
) -> None:
    page, run = tmp_path / "page.html", str(trained / "run")
    assert main(["support", run, "--out", str(page)]) == 0
    text = page.read_text()
    assert not re.search(r"(src|href)=\"(?!#|data:)", text)
    assert "<script" not in text
    for heading in ("Verdict", "The log", "The estimate", "The support", "The guard"):
        assert f"<h2>{heading}</h2>" in text
    assert "valve" in text
    assert f"gridcount estimate {run} --json" in text
    interval = {"value": 3.0, "low": 1.0, "high": 5.0}
    policies = [
        {"name": "<mine>", "fitted_q": interval, "gain": interval, "verdict": "better: yes", "more": 1}
    ]
    (tmp_path / "estimate.json").write_text(json.dumps({"policies": policies, "episodes": 9}))
    assert main(["support", run, "--out", str(page), "--estimate", str(tmp_path / "estimate.json")]) == 0
    text = page.read_text()
    assert "&lt;mine&gt;: better: yes" in text
    assert "3 [1, 5]" in text
    assert "<mine>" not in text


def test_a_damaged_estimate_is_named(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "estimate.json").write_text('{"policies": 3}')
    words = ["--out", str(tmp_path / "page.html"), "--estimate", str(tmp_path / "estimate.json")]
    assert main(["support", str(trained / "run"), *words]) == 2
    assert "gridcount estimate RUN --json FILE" in capsys.readouterr().err
    assert not (tmp_path / "page.html").exists()


def test_a_run_has_a_clone_of_its_log_that_is_close_to_the_logs_actions(trained: Path) -> None:
    policy = gc.load_policy(trained / "run")
    outside = np.array([[3.0, 0.5]])
    decision = policy.decide(outside, gc.Guard(fallback="clone"))
    assert decision.held.all()
    assert np.isfinite(decision.action).all()


def test_the_clone_changes_no_bit_of_a_run_and_is_added_to_older_ones(
    log: Transitions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str) -> gc.Run:
        made = gc.BC(hidden=(8,), batch_size=16)
        return gc.train(log, made, updates=1000, evaluate_every=1000, out=tmp_path / name, progress=False)

    monkeypatch.setattr(cloning, "LEAST", 2000)
    old = run("old")
    folder = old.directory / "policy"
    assert not (folder / "clone.npz").exists()
    with np.load(folder / "counts.npz") as arrays:
        counts = {name: arrays[name] for name in ("column", "threshold", "below", "above", "counts", "edges")}
    save_arrays(folder / "counts.npz", counts)
    monkeypatch.undo()
    new = run("new")
    asked = log.observation[:100]
    np.testing.assert_array_equal(old.policy()(asked), new.policy()(asked))
    with pytest.raises(ValueError, match="Resume its run"):
        old.policy().decide(asked)
    before = (folder / "0000001000.npz").read_bytes()
    old.resume(log, progress=False)
    assert (folder / "0000001000.npz").read_bytes() == before
    guard = gc.Guard(fallback="clone")
    for mine, theirs in zip(
        old.policy().decide(asked, guard), new.policy().decide(asked, guard), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    cloned = new.policy().decide(asked, gc.Guard(min_count=10**6, fallback="clone")).action
    assert (
        np.abs(cloned - log.in_units(log.action[:100])).mean() < 10
    )  # of a range of 100; the log's noise is 5


def test_support_says_how_often_the_logs_own_decisions_fail(report: SupportReport) -> None:
    assert report.held_back is not None
    assert f"{report.held_back:.1%} fail this" in in_short(report)
