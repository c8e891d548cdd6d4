"""The documentation site builds without a warning, its links lead somewhere, and it needs no network."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import sync_playwright
from test_report_page import find_browser

import gridcount
from gridcount.algorithms import BUILT_IN

ROOT = Path(__file__).parent.parent
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "link": "href",
}  # what a browser fetches with a page


class Page(HTMLParser):
    """What a page links to, what it loads and which places in it have a name."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.names: set[str] = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.names |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if LOADED.get(tag) in found:
            self.loads.append(found[LOADED[tag]])


def build(root: Path, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Build the site as `make docs` does. With --quiet MkDocs would count no warnings, and --strict would
    pass."""
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {
        path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"
    }  # whose links start at the server's root


def test_links_and_images_lead_somewhere(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for link in page.links + page.loads:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "data", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path.name}: {link}"
            if parts.fragment and target in pages and not parts.fragment.startswith("__"):
                assert unquote(parts.fragment) in pages[target].names, f"{path.name}: {link}"


def test_nothing_is_loaded_from_the_network(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert not [link for link in page.loads if link.startswith(("http:", "https:", "//"))], path
    for style in site.rglob("*.css"):
        assert not re.search(r"""(url\(\s*["']?|@import\s+["']?)(https?:)?//""", style.read_text()), style


def test_formulas_are_drawn_without_a_script(site: Path) -> None:
    drawn = {path.name: path.read_text() for path in site.rglob("*.html")}
    assert all("arithmatex" not in text and "$$" not in text for text in drawn.values())
    assert "<math" in drawn["gpc-anchor.html"]


def test_every_public_name_and_every_algorithm_is_in_the_reference(
    pages: dict[Path, Page], site: Path
) -> None:
    described = {
        name.split(".")[-1] for name in pages[site / "api.html"].names if name.startswith("gridcount.")
    }
    assert set(gridcount.__all__) <= described
    assert {kind.__name__ for kind in BUILT_IN.values()} <= described


def test_every_algorithm_has_a_page_and_every_figure_is_in_the_gallery(site: Path) -> None:
    overview = (ROOT / "docs" / "algorithms" / "index.md").read_text()
    assert all(f"({name}.md)" in overview or f"(../{name}.md)" in overview for name in BUILT_IN)
    gallery = (site / "gallery.html").read_text()
    assert all(f"images/{path.name}" in gallery for path in (ROOT / "docs" / "images").iterdir())


def test_search_works_from_the_folder_without_a_network(site: Path) -> None:
    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_browser(), args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        window = browser.new_page()
        window.on("request", lambda request: asked.append(request.url))
        window.goto((site / "index.html").as_uri())
        window.locator("input[name=query]").press_sequentially("pessimism")
        window.wait_for_selector(".md-search-result__link >> text=GPC-SAC")
        browser.close()
    assert {urlsplit(url).scheme for url in asked} <= {"file", "data", "about"}


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copytree(ROOT / "docs" / "site", tmp_path / "docs" / "site")
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("[a link](docs/nowhere.md)\n" if name == "README.md" else "text\n")
    settings = (ROOT / "mkdocs.yml").read_text()
    (tmp_path / "mkdocs.yml").write_text(settings[: settings.rindex("nav:")])
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "'docs/nowhere.md'" in done.stderr
    assert "mkdocs build --strict\n" in (ROOT / "Makefile").read_text()
