"""The files that the project's prose links to exist."""

import re

import pages
import pytest


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name_of)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} names {target}"
