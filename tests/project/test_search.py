"""The site's search finds pages in a browser. Needs the extra [docs] and Chromium, and is skipped without them."""

import importlib.util
import re
import shutil
import subprocess
import sys

import pages
import pytest

BROWSERS = "chromium", "chromium-browser", "google-chrome"
MODULES = "sphinx", "furo", "myst_parser"
HEADLESS = "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking"


def test_the_search_of_the_site_finds_pages(tmp_path):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    missing = [name for name in MODULES if importlib.util.find_spec(name) is None]
    if browser is None or missing:
        pytest.skip(f"needs {', '.join(missing) or 'Chromium'}")
    site = tmp_path / "site"
    subprocess.run([sys.executable, "-m", "sphinx", "-q", str(pages.DOCS), str(site)], check=True)
    page = subprocess.run(
        [browser, *HEADLESS, f"--user-data-dir={tmp_path}", "--timeout=20000", "--virtual-time-budget=10000",
         "--dump-dom", f"{(site / 'search.html').as_uri()}?q=odometer"],
        capture_output=True, text=True, check=True, timeout=120,
    ).stdout  # fmt: skip
    results = re.search(r'<ul[^>]* class="search">(.*?)</ul>', page, re.DOTALL)
    assert results, "the search shows no results"
    found = re.findall(r'href="([^"#?]*)', results[1])
    assert {"howto/filters.html", "glossary.html", "reference/running-accounts.html"} <= set(found)
