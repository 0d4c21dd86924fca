"""Programs of npm's that tests use: fetched once into a folder of the build."""

import fcntl
import pathlib
import shutil
import subprocess


def fetch(test, source, into):
    """Puts the packages that source's package-lock.json names into `into`, with source's scripts.
    Skips the test, with the reason, where that is not possible. Tests may start in parallel: an
    incomplete folder is not used."""
    source, into = pathlib.Path(source), pathlib.Path(into)
    if not shutil.which("node") or not shutil.which("npm"):
        test.skipTest("no node or npm here; scripts/install_packages --tests installs them")
    into.mkdir(parents=True, exist_ok=True)
    fetched = into / "fetched"
    with open(into / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = (source / "package-lock.json").read_text()
        if not fetched.exists() or fetched.read_text() != wanted:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(source / name, into)
            done = subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
                                  cwd=into, capture_output=True, text=True)
            if done.returncode != 0:
                test.skipTest(f"npm could not fetch the packages: {done.stderr[-200:]}")
            fetched.write_text(wanted)
        for script in source.glob("*.mjs"):
            shutil.copy(script, into)
