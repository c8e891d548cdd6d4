"""Take a picture of the top of a report page. Needs a Chromium (`make browser`)."""

import os
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1200, 1250


def screenshot(page: Path, picture: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no Chromium found; install one, as root: make browser")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )
        window = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        window.goto(page.resolve().as_uri())
        window.wait_for_selector("html[data-ready]")
        window.screenshot(path=picture)
        chromium.close()


if __name__ == "__main__":
    screenshot(Path(sys.argv[1]), Path(sys.argv[2]))
