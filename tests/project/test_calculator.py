"""The calculator of the site, in a browser, answers as the native C library does (docs/theory/browser.md)."""

import ctypes
import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import tightdp as dp

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "build" / "calculator" / "accountant.js"
"""What ``dev.py docs`` builds where emscripten is installed."""
BROWSER = shutil.which("chromium")
SETTINGS = 300

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="needs chromium"),
    pytest.mark.skipif(not BUILT.exists(), reason="needs the calculator that dev.py docs builds"),
]

PAGE = """<!doctype html><script src="{library}"></script><script src="{calculator}"></script><pre></pre><script>
tightdp().then((library) => {{
  const ask = wrapLibrary(library);
  const found = {settings}.map(([noise, q, steps, delta]) => {{
    const [lower, upper] = ask.epsilon(noise, q, steps, delta);
    return [lower, upper, formatOutward(lower, 6, false), formatOutward(upper, 6, true)];
  }});
  let message = "";
  try {{ ask.epsilon(1, 0.5, 10, 2); }} catch (error) {{ message = error.message; }}
  document.querySelector("pre").textContent = JSON.stringify({{ found, message }});
}});
</script>"""


def draw_settings():
    """Noise multiplier, sampling probability, steps and delta, each over the whole range of its slider."""
    generator = random.Random(11)
    found = []
    for _ in range(SETTINGS):
        noise, probability = 0.4 * 50 ** generator.random(), 1e-4 ** generator.random()
        found.append((noise, probability, round(1e5 ** generator.random()), 10 ** -(2 + 10 * generator.random())))
    return found


def run_page(folder, page):
    """The text that a page leaves in its first ``pre``, as JSON."""
    path = folder / "page.html"
    path.write_text(page)
    flags = "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}"
    command = [BROWSER, *flags, "--virtual-time-budget=600000", "--dump-dom", path.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    return json.loads(re.search(r"<pre>(.*?)</pre>", shown, re.DOTALL)[1])


def ask_native(settings):
    """Intervals of the native C library."""
    library = ctypes.CDLL(dp.get_library())
    found = []
    for noise, probability, steps, delta in settings:
        run, ends = (ctypes.c_double * 3)(noise, probability, steps), (ctypes.c_double * 2)()
        assert library.tightdp_epsilon(run, ctypes.c_size_t(1), ctypes.c_double(delta), ends) == 0
        found.append(tuple(ends))
    return found


def test_a_browser_answers_as_the_native_library_does(tmp_path):
    settings = draw_settings()
    calculator = ROOT / "docs" / "_static" / "calculator.js"
    page = PAGE.format(library=BUILT.as_uri(), calculator=calculator.as_uri(), settings=json.dumps(settings))
    said = run_page(tmp_path, page)
    assert said["message"] == "delta: expected a number in (0, 1)"
    for setting, (lower, upper, below, above), (least, most) in zip(
        settings, said["found"], ask_native(settings), strict=True
    ):
        assert lower <= most and least <= upper, setting
        assert upper - lower <= 10 * (most - least), setting
        assert float(below) <= lower and upper <= float(above), setting
        assert float(above) - upper <= 1e-4 * upper and lower - float(below) <= 1e-4 * lower, setting
