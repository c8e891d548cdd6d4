"""What MkDocs does not do by itself: pages from outside docs/, formulas as MathML, figures for the
gallery."""

import re
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent.parent
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples.md",
}
LINK = re.compile(r"(?<=\]\()(?!https?:|#)([^)#\s]+)")
ONLY_IN_THE_REPOSITORY = re.compile(r"(?<!!)\[([^\]]+)\]\(repository:[^)]*\)")
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.S)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.S)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside docs/."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links between files of the repository lead to pages of the site; a file that is not in it
    becomes plain text."""
    sources = {page: source for source, page in PAGES.items()}
    here = ROOT / sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    up = "../" * page.file.src_uri.count("/")

    def target(match: re.Match[str]) -> str:
        path = (here.parent / match[1]).resolve()
        if not path.is_relative_to(ROOT) or not path.exists():
            return match[1]  # MkDocs says that it leads nowhere
        inside = path.relative_to(ROOT).as_posix()
        if inside in PAGES:
            return up + PAGES[inside]
        return (
            up + inside.removeprefix("docs/")
            if inside.startswith("docs/") and path.is_file()
            else f"repository:{inside}"
        )

    return ONLY_IN_THE_REPOSITORY.sub(r"\1", LINK.sub(target, markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Formulas as MathML, which browsers draw without a script."""
    html = INLINE.sub(lambda match: _mathml(match[1], "inline"), html)
    return BLOCK.sub(lambda match: f"<p>{_mathml(match[1], 'block')}</p>", html)


def _mathml(latex: str, display: Any) -> str:
    plain = re.sub(
        r"\\[bB]igg?(?![a-zA-Z])", "", unescape(latex)
    )  # it sizes the two sides of a bracket differently
    return convert(plain, display=display).replace("\\_", "_")
