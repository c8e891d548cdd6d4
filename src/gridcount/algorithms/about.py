"""Facts about each algorithm, for the list of algorithms. The first line of its docstring is the idea."""

from typing import NamedTuple


class About(NamedTuple):
    """The family and paper of an algorithm, and what counting would add to it."""

    family: str
    paper: str
    count_adds: str


ABOUT = {
    "bc": About("imitation", "Fujimoto and Gu 2021, arXiv:2106.06860; X%BC: Chen et al. 2021", "only a measure of missing support"),
    "cql": About("value penalty", "Kumar et al. 2020, arXiv:2006.04779", "a penalty by cell instead of one weight for all unseen actions"),
    "edac": About("ensemble", "An et al. 2021, arXiv:2110.01548", "uncertainty where all critics extrapolate alike"),
    "gpc-anchor": About("count", "GPC in the log's own units, added to TD3; ours", "its pessimism, its cells and its unit of distance"),
    "gpc-sac": About("count", "Shen and Huang 2024 (the paper this library builds on)", "its pessimism: u = pessimism * sqrt(ln T / n)"),
    "gpc-td3": About("count", "GPC added to TD3 (Fujimoto et al. 2018); ours", "its pessimism, with a deterministic policy"),
    "iql": About("in-sample values", "Kostrikov et al. 2021, arXiv:2110.06169", "more than one visit before an action is preferred"),
    "pbrl": About("ensemble", "Bai et al. 2022, arXiv:2202.11566", "the same penalty from a table instead of ten critics"),
    "rebrac": About("policy constraint", "Tarasov et al. 2023, arXiv:2305.09836", "a constraint that loosens where the log is dense"),
    "sac": About("none", "Haarnoja et al. 2018, arXiv:1812.05905", "all pessimism: this algorithm has none"),
    "sac-n": About("ensemble", "An et al. 2021, arXiv:2110.01548", "pessimism that does not need hundreds of critics"),
    "td3": About("none", "Fujimoto et al. 2018, arXiv:1802.09477", "all pessimism: this algorithm has none"),
    "td3-bc": About("policy constraint", "Fujimoto and Gu 2021, arXiv:2106.06860", "a constraint that loosens where the log is dense"),
    "td3-cvae": About("value penalty", "Rezaeifar et al. 2022, arXiv:2106.06431", "a bonus that needs no model of the actions"),
    "uwac": About("policy constraint", "Wu et al. 2021, arXiv:2105.08140", "weights from visits instead of dropout"),
}

PAPER_COST = {
    "iql": 0.32,
    "sac": 1.0,
    "cql": 1.40,
    "pbrl": 4.25,
    "gpc-sac": 1.13,
}  # seconds per epoch relative to SAC's, on the paper's GPU
