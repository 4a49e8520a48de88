"""The demo's script tells the truth about the fixture project."""

import shutil
import subprocess
import sys
from pathlib import Path

from gemcode.commands.demo import fixture
from gemcode.simulator.tour import NEW_TOTAL, OLD_TOTAL, TIDIER


def passes_its_tests(project: Path) -> bool:
    run = subprocess.run([sys.executable, "-m", "unittest", "-q"], cwd=project, capture_output=True, timeout=60)
    return run.returncode == 0


def test_the_change_repairs_what_the_projects_own_test_finds(tmp_path: Path) -> None:
    project = tmp_path / "shop"
    shutil.copytree(fixture("shop"), project, ignore=shutil.ignore_patterns("__pycache__"))
    cart, prices = project / "shop" / "cart.py", project / "shop" / "prices.py"
    assert not passes_its_tests(project)
    cart.write_text(cart.read_text().replace(OLD_TOTAL, NEW_TOTAL))
    assert passes_its_tests(project)
    text = prices.read_text()
    assert all(text.count(old) == 1 for old, _ in TIDIER)
