"""The container's image: built as Containerfile says, and run without root and without a writable
root file system, by podman and, without podman, by chroot."""

import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import unittest

import clean_root
from cluster import *
from deploy.test_packages import make_packages

CONTAINERFILE = SOURCE / "Containerfile"
USER = 10001


def instructions():
    """[(word, rest)] of the Containerfile, without comments, its continued lines joined."""
    text = re.sub(r"\\\n", " ", CONTAINERFILE.read_text())
    lines = (line.strip() for line in text.splitlines())
    return [tuple(line.split(maxsplit=1)) for line in lines if line and line[0] != "#"]


class Podman:
    """podman with its own store, and with what lets it run inside of another container: no limit
    of a process is raised, no overlay is mounted, and systemd is not asked for control groups."""

    def __init__(self, folder):
        config = pathlib.Path(folder) / "containers.conf"
        limits = ", ".join(f'"{name}={most}:{most}"' for name, most in (
            ("nofile", min(65536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])),
            ("nproc", 4096)))
        runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
        config.write_text(f'[containers]\ndefault_ulimits = [{limits}]\n'
                          f'[engine]\ncgroup_manager = "cgroupfs"\n{runtime}'
                          '[network]\nnetwork_backend = "netavark"\n')
        self.environment = {**os.environ, "CONTAINERS_CONF": str(config)}
        self.words = ["podman", "--root", f"{folder}/store", "--runroot", f"{folder}/run",
                      "--storage-driver", "vfs"]

    def run(self, *words, timeout=600):
        return subprocess.run([*self.words, *map(str, words)], capture_output=True, text=True,
                              env=self.environment, timeout=timeout)


class Script(ClusterTest):
    """scripts/container in a tree where every program that it starts is a script that notes how."""

    def setUp(self):
        super().setUp()
        (self.folder / "scripts").mkdir()
        for name in ("CMakeLists.txt", "scripts/container", "scripts/stages"):
            shutil.copy(SOURCE / name, self.folder / name)
        (self.folder / "bin").mkdir()
        for name in ("scripts/package", "bin/podman", "bin/mmdebstrap"):
            path = self.folder / name
            path.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {path}.arguments\n'
                            f'cat > {path}.input\n')
            path.chmod(0o755)

    def test_a_base_is_made_of_this_machines_release_from_its_own_sources(self):
        done = subprocess.run([self.folder / "scripts/container", "--bootstrap"],
                              capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                              env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        release = dict(line.split("=", 1) for line in
                       pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
        suite = release["VERSION_CODENAME"].strip('"')
        words = (self.folder / "bin/mmdebstrap.arguments").read_text().splitlines()
        self.assertEqual(words[:4], ["--quiet", "--variant=apt", suite, "-"])
        self.assertEqual(sorted(words[4:]), sorted(clean_root.sources_of_debian()))
        self.assertEqual((self.folder / "bin/mmdebstrap.input").read_text(), "")
        built = (self.folder / "bin/podman.arguments").read_text().splitlines()
        self.assertIn(f"BASE=localhost/tautline-base:{suite}", built)


class Containers(ClusterTest):
    def setUp(self):
        super().setUp()
        self.state = self.folder / "state"
        self.state.mkdir()
        write_data(self.state / "data")
        port, self.port_base = free_ports(2)
        self.address = f"127.0.0.1:{port}"
        common = (f'coordinator_address: "{self.address}"\nkeys: "/var/lib/tautline/keys"\n'
                  'records { folder: "/var/lib/tautline/records" }\n'
                  'allowed_folders: "/var/lib/tautline"\n')
        (self.state / "server.textproto").write_text(
            common + f"server {{ port_base: {self.port_base} coordinator {{ }} }}\n")
        (self.state / "worker.textproto").write_text(common + "worker { device: CPU }\n")
        job = self.job(iterations=30, workers=2, data="/var/lib/tautline/data")
        shutil.copy(job, self.state / "job.textproto")
        for folder, _, files in os.walk(self.state):
            for path in (folder, *(os.path.join(folder, name) for name in files)):
                os.chown(path, USER, USER)
        self.folder.chmod(0o755)

    def commands(self):
        """What the containers run: keys first, then a server, two workers, and the job."""
        keys = ("tautline", "keys", "init", "--keys", "/var/lib/tautline/keys")
        daemons = [("server", ("tautline-server", "--config", "server.textproto"))]
        daemons += [(f"worker{i}", ("tautline-worker", "--config", "worker.textproto", "--name",
                                    f"worker{i}")) for i in range(2)]
        job = ("tautline", "submit", "job.textproto", "--follow", "--await-servers", "1", "--wait",
               "30", "--coordinator", self.address, "--keys", "/var/lib/tautline/keys")
        return keys, daemons, job

    def check_trained(self):
        self.assertTrue((self.state / "checkpoints/tiny_iter_30").is_dir())
        self.assertEqual((self.state / "runs").stat().st_uid, USER)

    @unittest.skipIf(os.geteuid() != 0, "only root can make the base of the image here")
    @unittest.skipUnless(shutil.which("podman") and shutil.which("mmdebstrap"),
                         "podman and mmdebstrap are not installed")
    def test_a_server_and_two_workers_train_as_containers(self):
        # Names of sockets in it must be short.
        store = tempfile.TemporaryDirectory(prefix="taut-pod-", dir="/var/tmp")
        self.addCleanup(store.cleanup)
        podman = Podman(store.name)
        base = self.folder / "base.tar"
        try:
            root = clean_root.CleanRoot(self.folder / "base", mounts=False)
        except clean_root.Unavailable as reason:
            self.skipTest(f"no base for the image: {reason}")
        subprocess.run(["tar", "-C", root.folder, "-cf", base, "."], check=True)
        imported = podman.run("import", "--quiet", base, "localhost/base:1")
        if imported.returncode != 0:
            self.skipTest(f"podman cannot import an image here: {imported.stderr[-300:]}")
        probe = podman.run("run", "--rm", "--network", "host", "localhost/base:1", "true")
        if probe.returncode != 0:
            self.skipTest(f"podman cannot run a container here: {probe.stderr[-300:]}")
        packages = self.folder / "packages"
        make_packages(packages)
        built = podman.run("build", "--quiet", "--tag", "tautline:test", "--build-arg",
                           "BASE=localhost/base:1", "--network", "host", "--file", CONTAINERFILE,
                           packages, timeout=900)
        self.assertEqual(built.returncode, 0, built.stdout[-2000:] + built.stderr[-2000:])
        self.addCleanup(podman.run, "rm", "--force", "--all", "--time", "5")
        inspected = podman.run("image", "inspect", "--format",
                               "{{.Config.User}} {{.Config.WorkingDir}}", "tautline:test")
        self.assertEqual(inspected.stdout.strip(), f"{USER}:{USER} /var/lib/tautline")

        def words(*more):
            return ("run", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "all",
                    "--security-opt", "no-new-privileges", "--network", "host", "--volume",
                    f"{self.state}:/var/lib/tautline", *more)
        keys, daemons, job = self.commands()
        done = podman.run(*words("--rm", "tautline:test", *keys))
        self.assertEqual(done.returncode, 0, done.stderr)
        sealed = podman.run(*words("--rm", "tautline:test", "sh", "-c", "id -u; touch /usr/x"))
        self.assertIn("Read-only file system", sealed.stderr)
        self.assertEqual(sealed.stdout.strip(), str(USER))
        for name, command in daemons:
            started = podman.run(*words("--detach", "--name", name, "tautline:test", *command))
            self.assertEqual(started.returncode, 0, started.stderr)
        done = podman.run(*words("--rm", "tautline:test", *job))
        logs = "".join(podman.run("logs", name).stderr[-1500:] for name, _ in daemons)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + logs)
        self.check_trained()
        for name, _ in daemons[::-1]:
            stopped = podman.run("stop", "--time", "20", name)
            self.assertEqual(stopped.returncode, 0, stopped.stderr)
            code = podman.run("inspect", "--format", "{{.State.ExitCode}}", name).stdout.strip()
            self.assertEqual(code, "0", name)

    def test_the_images_root_file_system_trains_read_only_without_root(self):
        if reason := clean_root.missing():
            self.skipTest(reason)
        try:
            root = clean_root.CleanRoot(self.folder)
            self.addCleanup(root.close)
            packages = make_packages(self.folder / "packages")
            self.follow_containerfile(root, packages)
        except clean_root.Unavailable as reason:
            self.skipTest(f"no clean Debian: {reason}")
        root.seal({"/var/lib/tautline": self.state})
        user = str(USER)
        self.assertIn("Read-only file system",
                      root.run("touch", "/usr/x", user=user, status=1))
        keys, daemons, job = self.commands()
        inside = {"user": user, "cwd": "/var/lib/tautline",
                  "variables": ("HOME=/var/lib/tautline",)}
        root.run(*keys, **inside)
        log = open(self.folder / "daemons.log", "w+")
        self.addCleanup(log.close)
        for _, command in daemons:
            self.processes.append(subprocess.Popen(root.command(*command, **inside), stdout=log,
                                                   stderr=log))
        root.run(*job, **inside)
        self.check_trained()
        for process in self.processes[::-1]:
            process.terminate()
            self.assertEqual(self.assert_ends(process, 20 * SLOWER), 0)

    def follow_containerfile(self, root, packages):
        """What a builder of images does with the steps that change the file system."""
        for word, rest in instructions():
            if word == "COPY":
                pattern, target = rest.split()
                self.assertEqual(pattern, "*.deb")
                for path in packages.values():
                    root.copy_in(path, f"{target}{path.name}")
            elif word == "RUN":
                try:
                    root.run("apt-get", "update", "-q")
                except AssertionError as failed:
                    raise clean_root.Unavailable(str(failed).splitlines()[-1]) from failed
                root.run("sh", "-ec", rest, timeout=900)
        named = dict(instructions())
        self.assertEqual((named["USER"], named["WORKDIR"]), (f"{USER}:{USER}", "/var/lib/tautline"))
        self.assertEqual(list((root.folder / "tmp").iterdir()), [])
        self.assertEqual(list((root.folder / "var/lib/apt/lists").glob("*Packages*")), [])
        self.assertEqual(root.paths_with("tautline.h"), [])


if __name__ == "__main__":
    unittest.main()
