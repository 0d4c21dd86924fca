"""The Debian packages in a clean Debian: installed, started by their units, trained with,
purged."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

import clean_root
from cluster import *

BUILD = BIN.parent


def make_packages(folder):
    """The paths of the .deb files of this build, by their packages' names."""
    done = subprocess.run(["cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder],
                          capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise AssertionError(done.stdout[-3000:] + done.stderr[-3000:])
    return {path.name.split("_")[0]: path for path in pathlib.Path(folder).glob("*.deb")}


def field(package, name):
    return subprocess.run(["dpkg-deb", "--field", package, name], check=True, capture_output=True,
                          text=True).stdout.strip()


@unittest.skipUnless(shutil.which("cpack") and shutil.which("dpkg-shlibdeps"),
                     "cpack and dpkg-dev are not installed")
class Packages(ClusterTest):
    def test_a_clean_debian_installs_starts_trains_and_purges(self):
        if reason := clean_root.missing():
            self.skipTest(reason)
        packages = make_packages(self.folder / "packages")
        try:
            root = clean_root.CleanRoot(self.folder)
            self.addCleanup(root.close)
            before = set(root.paths_with(""))
            self.check_contents(packages)
            for path in packages.values():
                root.copy_in(path, f"/tmp/{path.name}")
            root.apt("install", f"/tmp/{packages['tautline'].name}")
            root.apt("install", "--simulate", f"/tmp/{packages['libtautline-dev'].name}")
        except clean_root.Unavailable as reason:
            self.skipTest(f"no clean Debian: {reason}")
        self.check_installed(root)
        self.check_units(root)
        self.train(root)
        self.check_upgrade(root, packages["tautline"])
        root.run("apt-get", "-y", "remove", "tautline")
        left = root.paths_with("tautline")
        self.assertIn("etc/tautline", left)
        self.assertIn("var/lib/tautline", left)
        self.assertNotIn("usr/bin/tautline-server", left)
        root.run("apt-get", "-y", "purge", "tautline")
        self.assertEqual(root.paths_with("tautline"), [])
        for base in ("passwd", "group"):
            self.assertNotIn("tautline", root.run("getent", base))
        ours = {path for path in set(root.paths_with("")) - before if "taut" in path}
        self.assertEqual(ours, set())

    def check_contents(self, packages):
        self.assertLessEqual({"tautline", "libtautline-dev"}, set(packages))
        depends = field(packages["tautline"], "Depends")
        for library in ("libc6", "libzmq5", "libprotobuf", "libdnnl", "passwd"):
            self.assertIn(library, depends)
        self.assertNotIn("-dev", depends)
        self.assertIn(f"tautline (= {field(packages['tautline'], 'Version')})",
                      field(packages["libtautline-dev"], "Depends"))
        listed = subprocess.run(["dpkg-deb", "--contents", packages["libtautline-dev"]], check=True,
                                capture_output=True, text=True).stdout
        for path in ("./usr/include/tautline/tautline.h", "./usr/lib/pkgconfig/tautline.pc",
                     "./usr/lib/cmake/tautline/tautline-config.cmake", "./usr/lib/libtautline.so "):
            self.assertIn(path, listed)
        self.assertNotIn("/bin/", listed)
        if "tautline-cuda" in packages:
            self.check_cuda(packages["tautline-cuda"], depends)

    def check_cuda(self, package, depends):
        """The modules need what `tautline` depends on or NVIDIA's packages have, and no more."""
        listed = subprocess.run(["dpkg-deb", "--contents", package], check=True,
                                capture_output=True, text=True).stdout
        files = {line.split()[-1] for line in listed.splitlines() if not line.endswith("/")}
        self.assertEqual(files, {"./usr/lib/libtautline_cuda.so",
                                 "./usr/lib/libtautline_cuda_copies.so",
                                 "./usr/share/doc/tautline-cuda/copyright"})
        self.assertRegex(field(package, "Depends"), r"^tautline \(= [\d.]+\)$")
        inside = self.folder / "cuda"
        subprocess.run(["dpkg-deb", "--extract", package, inside], check=True)
        of_nvidia = set()
        for module in (inside / "usr/lib").iterdir():
            needed = subprocess.run(["readelf", "-d", module], check=True, capture_output=True,
                                    text=True).stdout
            for library in re.findall(r"NEEDED.*\[([^]]+)\]", needed):
                if library.startswith(("libcu", "libnv")):
                    of_nvidia.add(re.sub(r"\.so\.", "", library))
                    continue
                # Several may have one of that name, for other machines.
                owners = re.findall(r"^([^:]+):", subprocess.run(
                    ["dpkg", "-S", f"*/{library}"], capture_output=True, text=True).stdout, re.M)
                # libspdlog1.10 is depended on by what it provides, libspdlog1.10-fmt9.
                self.assertTrue(any(word.startswith(owner) for owner in owners
                                    for word in depends.split(", ")),
                                f"{module.name} needs {library} of {owners}: {depends}")
        recommended = field(package, "Recommends")
        for library in of_nvidia:  # such as libcudnn9, libcublasLt13
            name, version = re.match(r"(libcudnn|libcublas)\D*(\d+)$", library).groups()
            self.assertRegex(recommended, rf"{name}-?{version}\b")

    def check_installed(self, root):
        self.assertIn("tautline:x:", root.run("getent", "passwd", "tautline"))
        self.assertRegex(root.run("stat", "-c", "%a %U:%G", "/var/lib/tautline"),
                         r"^750 tautline:tautline\n")
        self.assertRegex(root.run("tautline", "version"), r"^tautline \d+\.\d+")
        conffiles = root.run("dpkg-query", "-W", "-f", "${Conffiles}", "tautline")
        for name in ("server", "worker"):
            self.assertIn(f"/etc/tautline/{name}.textproto", conffiles)
            root.run("tautline", "validate", f"/etc/tautline/{name}.textproto")
        for path in ("share/man/man1/tautline.1.gz", "share/bash-completion/completions/tautline",
                     "share/zsh/vendor-completions/_tautline-server",
                     "share/tautline/configs/jobs/fashion_lenet.textproto", "lib/libtautline.so.1",
                     "share/doc/tautline/copyright", "share/doc/tautline/uplot-LICENSE"):
            self.assertTrue((root.folder / "usr" / path).exists(), path)
        self.assertFalse((root.folder / "usr/include/tautline").exists())

    def units(self, root):
        folder = root.folder / "usr/lib/systemd/system"
        return {name: clean_root.read_unit((folder / name).read_text())
                for name in ("tautline-server.service", "tautline-worker@.service")}

    def check_units(self, root):
        for name, unit in self.units(root).items():
            service = unit["Service"]
            self.assertEqual(service["User"], ["tautline"])
            self.assertEqual(service["ProtectSystem"], ["strict"])
            self.assertEqual(service["NoNewPrivileges"], ["yes"])
            # What a service may still do when it is told to end takes less than systemd waits.
            config = (root.folder / service["ExecStart"][0].split()[2].lstrip("/")).read_text()
            notice = int(re.search(r"preemption_notice_s: (\d+)", config)[1])
            self.assertLess(notice, int(service["TimeoutStopSec"][0]))
        if shutil.which("systemd-analyze") is None:
            return
        machine = self.machine_with_units(root)
        for name in ("tautline-server.service", "tautline-worker@worker0.service"):
            for words in (("verify", "--man=no"), ("security", "--offline=true", "--threshold=30")):
                answer = subprocess.run(["systemd-analyze", *words, f"--root={machine}", name],
                                        capture_output=True, text=True, timeout=60)
                text = answer.stdout + answer.stderr
                self.assertEqual(answer.returncode, 0, text)
                if words[0] == "verify":
                    self.assertNotIn("tautline", text)

    def machine_with_units(self, root):
        """A root with this machine's units, which the clean one lacks, and the package's."""
        machine = self.folder / "machine"
        places = ("usr/lib/systemd/system", "usr/bin", "etc/tautline")
        for place in places:
            (machine / place).mkdir(parents=True)
        shutil.copytree("/lib/systemd/system", machine / places[0], symlinks=True,
                        dirs_exist_ok=True)
        (machine / "lib").symlink_to("usr/lib")
        for path in (*(root.folder / places[0]).glob("tautline*"),
                     *(root.folder / places[1]).glob("tautline*")):
            shutil.copy(path, machine / path.relative_to(root.folder))
        return machine

    def start_unit(self, root, name, log):
        """What systemd does with a unit, as far as the daemon notices."""
        base = re.sub(r"@.*\.", "@.", name)
        service = self.units(root)[base]["Service"]
        instance = name.partition("@")[2].partition(".")[0]
        words = [word.replace("%i", instance) for word in service["ExecStart"][0].split()]
        command = root.command(*words, user=service["User"][0],
                               cwd=service["WorkingDirectory"][0], umask=service["UMask"][0])
        process = subprocess.Popen(command, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def train(self, root):
        write_data(root.folder / "usr/share/datasets/tiny")
        ports = free_ports(3)
        for name in ("server", "worker"):
            config = root.folder / f"etc/tautline/{name}.textproto"
            text = config.read_text()
            for old, new in (("7600", ports[0]), ("port_base: 7601", f"port_base: {ports[1]}"),
                             ("http {}", f'http {{ dashboard: "127.0.0.1:{ports[2]}" }}')):
                text = text.replace(old, str(new))
            config.write_text(text)
        root.run("tautline", "keys", "init", "--keys", "/var/lib/tautline/keys", user="tautline",
                 cwd="/var/lib/tautline")
        log = open(self.folder / "units.log", "w+")
        self.addCleanup(log.close)
        daemons = [self.start_unit(root, unit, log) for unit in
                   ("tautline-server.service", "tautline-worker@worker0.service",
                    "tautline-worker@worker1.service")]
        # The shipped allowed_folders have the data, and the checkpoints of who works there.
        job = self.job(iterations=30, workers=2, data="/usr/share/datasets/tiny")
        root.copy_in(job, "/var/lib/tautline/job.textproto")
        address = ("--coordinator", f"127.0.0.1:{ports[0]}", "--keys", "/var/lib/tautline/keys")
        try:
            text = root.run("tautline", "submit", "/var/lib/tautline/job.textproto", "--follow",
                            "--await-servers", "1", "--wait", "30", *address, user="tautline",
                            cwd="/var/lib/tautline")
        except AssertionError as failed:
            log.seek(0)
            raise AssertionError(f"{failed}\n{log.read()[-3000:]}") from failed
        self.assertIn("30", text)
        self.assertTrue((root.folder / "var/lib/tautline/checkpoints/tiny_iter_30").is_dir())
        self.assertTrue(list((root.folder / "var/lib/tautline/runs").glob("job1-*/run.json")))
        # As systemd ends them: the notice is not needed where nothing trains.
        for process in daemons[::-1]:
            process.terminate()
        for process in daemons:
            self.assert_ends(process, 30)

    def check_upgrade(self, root, package):
        """The same again is an upgrade: what was changed in /etc and the keys stay."""
        config = root.folder / "etc/tautline/server.textproto"
        before = config.read_text()
        root.run("dpkg", "--install", "--force-confold", f"/tmp/{package.name}")
        self.assertEqual(config.read_text(), before)
        self.assertTrue((root.folder / "var/lib/tautline/keys/owner.key").exists())


if __name__ == "__main__":
    unittest.main()
