"""A page in a real browser."""

import json
import os
import pathlib
import shutil
import subprocess

import npm_packages
from cluster import *

TOOLS = pathlib.Path(os.environ.get("TAUTLINE_BROWSER_TOOLS", BIN.parent / "browser"))
SHOTS = pathlib.Path(os.environ.get("TAUTLINE_SHOTS", BIN.parent / "dashboard_shots"))
DRIVER = pathlib.Path(__file__).parent / "browser"


class Browser(ClusterTest):
    def setUp(self):
        super().setUp()
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        if not chromium:
            self.skipTest("no chromium here; scripts/install_packages --tests installs it")
        npm_packages.fetch(self, DRIVER, TOOLS)
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.browser = subprocess.Popen(["node", TOOLS / "drive.mjs", chromium], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.end_browser)

    def end_browser(self):
        self.browser.stdin.close()
        self.browser.wait(timeout=20)
        self.browser.stdout.close()

    def do(self, what, **more):
        self.browser.stdin.write(json.dumps({"do": what, **more}) + "\n")
        self.browser.stdin.flush()
        answer = json.loads(self.browser.stdout.readline())
        self.assertNotIn("error", answer, f"{what} {more}: {answer}")
        return answer["value"]

    def text(self, at):
        return self.do("run", js=f"document.querySelector('{at}').textContent")
