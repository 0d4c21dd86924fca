"""A Debian with nothing but its own packages, in a folder, for tests of packages: made with
mmdebstrap, entered with chroot, in this process's own mounts."""

import ctypes
import os
import pathlib
import shutil
import stat
import subprocess

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
# The devices that programs expect everywhere: (name, major, minor).
DEVICES = (("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9))


def missing():
    """Why no such root can be made here; empty: nothing hinders it."""
    if os.geteuid() != 0:
        return "only root can enter another root"
    absent = [name for name in ("mmdebstrap", "chroot") if shutil.which(name) is None]
    return f"{', '.join(absent)} not installed" if absent else ""


def sources_of_debian():
    """This machine's lists of where Debian's packages are."""
    lists = [*pathlib.Path("/etc/apt/sources.list.d").glob("*.sources"),
             *pathlib.Path("/etc/apt/sources.list.d").glob("*.list"),
             pathlib.Path("/etc/apt/sources.list")]
    return [str(path) for path in lists if path.exists() and "debian" in path.read_text()]


class Unavailable(Exception):
    """Debian's packages cannot be fetched."""


def mount(source, target, kind=None, flags=0):
    libc = ctypes.CDLL(None, use_errno=True)
    encoded = [None if word is None else str(word).encode() for word in (source, target, kind)]
    if libc.mount(*encoded, flags, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {source} {target}")


class CleanRoot:
    """Made on construction; close() it before its folder is removed. Nothing of this machine's is
    mounted in it, so that nothing of it can be removed through it. Thread: one, the first."""

    def __init__(self, folder, mounts=True):
        self.folder = pathlib.Path(folder) / "root"
        self.folder.parent.mkdir(exist_ok=True)
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNS) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        done = subprocess.run(["mmdebstrap", "--mode=root", "--variant=apt", "--quiet", "bookworm",
                               self.folder, *sources_of_debian()], capture_output=True, text=True,
                              timeout=600)
        if done.returncode != 0:
            raise Unavailable(done.stderr.strip().splitlines()[-1] if done.stderr else "mmdebstrap")
        if not mounts:
            return
        self.mounted = []
        self.mount_kernel()
        # apt's own settings, by which packages are reached here, and names of hosts.
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", self.folder / "etc" / name)

    def mount(self, source, place, kind=None, flags=0):
        target = self.folder / place.lstrip("/")
        mount(source, target, kind, flags)
        self.mounted.append(target)

    def mount_kernel(self):
        """/proc, and a separate /dev."""
        self.mount("proc", "/proc", "proc")
        self.mount("tmpfs", "/dev", "tmpfs")
        for name, major, minor in DEVICES:
            path = self.folder / "dev" / name
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
            path.chmod(0o666)
        (self.folder / "dev/fd").symlink_to("/proc/self/fd")
        (self.folder / "dev/shm").mkdir(mode=0o1777)

    def close(self):
        """Every mount leaves the folder, also one that a process still uses."""
        libc = ctypes.CDLL(None, use_errno=True)
        while self.mounted:
            target = self.mounted.pop()
            if libc.umount2(str(target).encode(), MNT_DETACH) != 0:
                raise OSError(ctypes.get_errno(), f"umount {target}")

    def seal(self, volumes):
        """The root cannot be written any more, but for /tmp and these: {place: folder}."""
        self.close()
        self.mount(self.folder, "", None, MS_BIND)
        mount("none", self.folder, None, MS_BIND | MS_REMOUNT | MS_RDONLY)
        self.mount_kernel()
        self.mount("tmpfs", "/tmp", "tmpfs")
        for place, folder in volumes.items():
            self.mount(folder, place, None, MS_BIND)

    def command(self, *words, user=None, cwd="/", umask="022", variables=()):
        """The command line that runs words in the root."""
        enter = ["chroot"] + (["--userspec", f"{user}:{user}"] if user else [])
        shell = f'umask {umask}; cd "$1"; shift; exec "$@"'
        return [*enter, str(self.folder), "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", *variables,
                "sh", "-c", shell, "sh", cwd, *map(str, words)]

    def run(self, *words, timeout=300, status=0, **options):
        answer = subprocess.run(self.command(*words, **options), capture_output=True, text=True,
                                timeout=timeout)
        if status is not None and answer.returncode != status:
            raise AssertionError(f"{words} ended with {answer.returncode}:\n"
                                 f"{answer.stdout[-4000:]}{answer.stderr[-4000:]}")
        return answer.stdout + answer.stderr

    def apt(self, *words):
        try:
            self.run("apt-get", "update", "-q")
        except AssertionError as failed:
            raise Unavailable(str(failed).splitlines()[-1]) from failed
        return self.run("apt-get", "-y", "-q", "--no-install-recommends", *words, timeout=900)

    def copy_in(self, path, name):
        target = self.folder / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)

    def paths_with(self, word):
        """Every path of the root, but for what dpkg and apt note of it, whose name has a word."""
        noted = ("var/lib/dpkg", "var/lib/apt", "var/log", "var/cache", "proc", "dev", "sys", "tmp")
        found = []
        for folder, folders, files in os.walk(self.folder):
            inside = os.path.relpath(folder, self.folder)
            folders[:] = [one for one in folders
                          if os.path.normpath(os.path.join(inside, one)) not in noted]
            found += [os.path.join(inside, one) for one in (*folders, *files) if word in one]
        return found


def read_unit(text):
    """{section: {setting: [values]}} of a unit of systemd."""
    sections = {}
    section = None
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[":
            section = sections.setdefault(line.strip("[]"), {})
        else:
            name, value = line.split("=", 1)
            section.setdefault(name, []).append(value)
    return sections
