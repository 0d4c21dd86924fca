"""The files that a check of changed files looks at."""

import subprocess


def changed_files(root):
    """Those of the tree at root that differ from the branch main, or from the commit before where
    this is main, and those that are not tracked; relative to root."""
    def git(*words):
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    head = git("rev-parse", "HEAD")
    base = next((found for branch in ("main", "origin/main")
                 if (found := git("merge-base", "HEAD", branch))), "")
    if not base or base == head:
        base = git("rev-parse", "--verify", "-q", "HEAD~1")
    names = git("diff", "--name-only", base).split("\n") if base else []
    return names + git("ls-files", "--others", "--exclude-standard").split("\n")
