"""The search: trials in workers here or on a cluster, then the best on episodes that ranked nothing."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from gridcount.benchmark.cells import Cell, load_cell
from gridcount.benchmark.estimated import Found, estimates_of, halves
from gridcount.benchmark.local import default_workers, run_local
from gridcount.benchmark.store import read_results
from gridcount.files import locked, validate_no_links
from gridcount.tuning.result import Tuning, in_words, rank
from gridcount.tuning.study import AUTOMATIC, Outcome, Search, Study, Trial, propose

AT_ONCE = 8  # trials on a cluster, where nobody says otherwise
CarryOut = Callable[[Sequence[Cell]], dict[str, str]]  # runs cells until all are stored; errors by label


def here(out: Path, console: Console, workers: int | None) -> tuple[CarryOut, int]:
    """Worker processes on this machine, and how many trials they run at once."""
    return lambda cells: run_local(cells, out, console, workers), workers or default_workers()


def on_cluster(out: Path, console: Console, address: str, at_once: int) -> tuple[CarryOut, int]:
    """Tasks on a Ray cluster."""
    from gridcount.benchmark.ray_cluster import run_on_ray

    return lambda cells: run_on_ray(cells, out, console, address), at_once


def run_search(search: Search, out: Path, console: Console, carry_out: CarryOut, at_once: int) -> Tuning:
    """Run a search until all its trials have ended, and confirm the best; finished trials are skipped."""
    search.check()
    validate_no_links(out)
    out.mkdir(parents=True, exist_ok=True)
    with locked(out / "tune", f"{out}: another process is running this search; wait until it ends"):
        outcomes = _run_trials(search, out, console, carry_out, at_once)
        ranked = rank(search, outcomes)
        if not ranked or not ranked[0].ranked:
            problems = "; ".join(
                f"trial {each.trial.number}: {each.problem}" for each in outcomes if each.problem
            )
            raise RuntimeError(f"{out}: no trial can be ranked. {problems or 'All leave the log too often'}")
        finalists = _finalists([each.outcome.trial for each in ranked if each.ranked])
        console.print(f"confirming {len(finalists)} trials on episodes that ranked nothing", soft_wrap=True)
        confirmed = _confirm(search, finalists, out, carry_out)
        return Tuning(search, tuple(ranked), confirmed)


def _run_trials(
    search: Search, out: Path, console: Console, carry_out: CarryOut, at_once: int
) -> list[Outcome]:
    study = Study.open(out, search)
    failed: dict[int, Outcome] = {}
    checked = False
    while True:
        outcomes, waiting = _state(search, study.trials, out, failed)
        while len(waiting) < at_once and len(study.trials) < search.trials:
            trial = propose(search, study.trials, outcomes)
            if trial is None:
                console.print("every setting of the space was tried", soft_wrap=True)
                break
            study = replace(study, trials=(*study.trials, trial))
            waiting.append(trial)
        study.write(out)
        if not waiting:
            return outcomes
        if not checked:
            checked = _check_log(search)
        cells = {trial.number: search.cell(trial) for trial in waiting}
        problems = carry_out(list(cells.values()))
        for trial in waiting:
            if problem := problems.get(cells[trial.number].label):
                failed[trial.number] = Outcome(trial, None, problem)
        outcomes, _ = _state(search, study.trials, out, failed)
        best = next((each for each in rank(search, outcomes) if each.ranked), None)
        done = f"{len(outcomes)} of {search.trials} trials"
        console.print(f"{done}; best so far: {in_words(best) if best else 'none'}", soft_wrap=True)


def _check_log(search: Search) -> bool:
    """Raise the log's own errors once and here, before workers start; a maze by name is generated here."""
    cell = search.cell(Trial(0, AUTOMATIC, search.automatic))
    halves(load_cell(cell), cell.plan.split())
    return True


def _state(
    search: Search, trials: Sequence[Trial], out: Path, failed: dict[int, Outcome]
) -> tuple[list[Outcome], list[Trial]]:
    """The trials that ended, and those that were proposed but have not."""
    outcomes, waiting = [], []
    for trial in trials:
        path = search.cell(trial).results(out / "results")
        if trial.number in failed:
            outcomes.append(failed[trial.number])
        elif path.exists():
            rows = read_results(path)
            found = estimates_of(rows, path)
            diverged = next((str(row["diverged"]) for row in rows if "diverged" in row), "")
            outcomes.append(Outcome(trial, found, diverged))
        else:
            waiting.append(trial)
    return outcomes, waiting


def _finalists(ranked: Sequence[Trial]) -> list[Trial]:
    """The winner, the runner-up, and the automatic values of trial 0."""
    return [*ranked[:2], *(trial for trial in ranked[2:] if trial.number == 0)]


def _confirm(search: Search, finalists: Sequence[Trial], out: Path, carry_out: CarryOut) -> dict[int, Found]:
    cells = {trial.number: search.cell(trial, confirm=True) for trial in finalists}
    paths = {number: cell.results(out / "results") for number, cell in cells.items()}
    left = [cell for number, cell in cells.items() if not paths[number].exists()]
    problems = carry_out(left) if left else {}
    if problems:
        raise RuntimeError(
            f"{out}: the best trials could not be confirmed: {'; '.join(problems.values())}. "
            "Run the same command again"
        )
    found = {number: estimates_of(read_results(path), path) for number, path in paths.items()}
    return {number: each for number, each in found.items() if each is not None}
