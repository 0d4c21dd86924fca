"""Keys over real daemons: who gets in, who does not, and what each is told."""

import contextlib
import os
import pathlib
import resource
import shutil
import socket
import stat
import subprocess
import tempfile
import time

from cluster import *
import zmtp


class OwnKeys(ClusterTest):
    """The user's own keys, which need no setting."""

    def own_folder(self):
        return pathlib.Path(os.environ["XDG_CONFIG_HOME"]) / "tautline" / "keys"

    def test_the_first_daemon_makes_the_users_own_keys_and_commands_find_them(self):
        self.start_server()
        self.start_worker()
        folder = self.own_folder()
        self.assertEqual(stat.S_IMODE(folder.stat().st_mode), 0o700)
        for file in [*folder.glob("*.key"), *(folder / "admitted").iterdir()]:
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600, file)
        self.assert_still_trains()

    def test_many_who_connect_and_say_nothing_keep_nobody_out(self):
        few, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most < 2000:
            self.skipTest(f"this user may have {most} files open")
        # What a process may have open by itself is taken by fewer than come.
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, most))
        try:
            server = self.start_server()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(2000, most), most))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (few, most))
        host, port = self.coordinator.split(":")
        with contextlib.ExitStack() as strangers:
            for _ in range(600):
                stranger = strangers.enter_context(socket.socket())
                stranger.setblocking(False)
                stranger.connect_ex((host, int(port)))
            answer = self.ask("status")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            # And each of them is cut off.
            descriptors = pathlib.Path(f"/proc/{server.pid}/fd")
            wait_until(lambda: len(list(descriptors.iterdir())) < 200, what="the strangers' end")

    def test_somebody_with_other_keys_or_none_is_told_so_at_once(self):
        self.start_server()
        port = self.coordinator
        # Another user of this machine has separate keys.
        other = self.folder / "other"
        answer = subprocess.run([BIN / "tautline", "status", "--coordinator", port, "--wait", "30"],
                                env=dict(os.environ, XDG_CONFIG_HOME=str(other)), timeout=25,
                                capture_output=True, text=True)
        self.assert_fails(answer, port, "another cluster", "--keys")
        answer = self.tautline("status", "--coordinator", port, "--insecure", "--wait", "30",
                               timeout=25)
        self.assert_fails(answer, port, "demands a key")
        for place in self.addresses("server0")["coordinator"] + self.addresses("server0")["shard"]:
            with self.assertRaises(ConnectionError):
                zmtp.Dealer(place)

    def test_another_user_of_this_machine_is_refused(self):
        if os.geteuid() != 0:
            self.skipTest("only root can run a command as another user")
        self.start_server()
        # The build may be where another user reads nothing.
        program = shutil.copy(BIN / "tautline", self.folder / "tautline")
        self.folder.chmod(0o755)
        other = self.folder / "other"
        other.mkdir(mode=0o700)
        os.chown(other, 65534, 65534)

        def ask(*words):
            return subprocess.run([program, "status", "--coordinator", self.coordinator, "--wait",
                                   "30", *words], cwd="/", timeout=25, capture_output=True,
                                  env=dict(os.environ, XDG_CONFIG_HOME=str(other)), text=True,
                                  user=65534, group=65534, extra_groups=[])
        self.assert_fails(ask(), self.coordinator, "another cluster", "--keys")
        self.assertEqual((other / "tautline" / "keys").stat().st_uid, 65534)
        # The keys of the user who started the server cannot be read.
        self.assert_fails(ask("--keys", self.own_folder()), str(self.own_folder()))
        self.assert_fails(ask("--insecure"), "demands a key")

    def test_a_cluster_file_without_keys_is_used_whatever_the_variable_names(self):
        self.insecure = True
        self.start_server()
        os.environ["TAUTLINE_KEYS"] = str(self.folder / "keys")
        self.addCleanup(os.environ.pop, "TAUTLINE_KEYS")
        answer = self.tautline("keys", "init", "--keys", self.folder / "keys")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        config = self.file("cluster.textproto", f'coordinator_address: "{self.coordinator}"\n'
                           "insecure: true\n")
        answer = self.tautline("status", "--config", config)
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_keys_that_others_can_read_stop_a_daemon_and_a_command(self):
        self.start_server()
        owner = self.own_folder() / "owner.key"
        owner.chmod(0o644)
        self.assert_fails(self.ask("status"), "owner.key", "chmod 600")
        config = self.file("late.textproto", f'coordinator_address: "{self.coordinator}"\n'
                           "worker {}\n")
        self.assert_fails(self.run_program("tautline-worker", "--config", config),
                          "owner.key", "chmod 600")

    def test_a_run_on_this_machine_has_keys_of_its_own_and_leaves_none(self):
        job = self.job(iterations=100000, workers=2)
        run = self.folder / "run"
        train = self.start("tautline", "train", job, "--output", run)
        address = wait_until(lambda: self.coordinator_of(run), what="the coordinator's address")
        for name in ("server0", "worker0", "worker1"):
            wait_until((run / "keys" / f"{name}.key").exists, what=f"the key of {name}")
        # The user's own commands reach it, as before.
        answer = wait_until(lambda: self.reached(address), what="an answer")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        train.send_signal(signal.SIGINT)
        train.communicate(timeout=60)
        self.assertFalse((run / "keys").exists())

    def coordinator_of(self, run):
        for file in run.glob("*.ready"):
            for line in file.read_text().splitlines():
                if line.startswith("coordinator "):
                    return line.split(" ", 1)[1]
        return None

    def reached(self, address):
        answer = self.tautline("status", "--coordinator", address)
        return answer if answer.returncode == 0 else None


class ClusterKeys(ClusterTest):
    """A cluster whose keys were made by hand."""

    def setUp(self):
        super().setUp()
        self.keys = self.folder / "keys"
        self.make("init")

    def make(self, *arguments):
        answer = self.tautline("keys", *arguments, "--keys", self.keys)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def machine(self, *names):
        """A folder with these keys alone, as when they are copied to another machine."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="machine-", dir=self.folder))
        for name in names:
            copy = folder / f"{name}.key"
            copy.touch(mode=0o600)
            copy.write_text((self.keys / f"{name}.key").read_text())
        return folder

    def start_cluster(self):
        self.make("add", "server0", "--role", "server")
        self.make("add", "worker0", "--role", "worker")
        section = f'keys: "{self.keys}"'
        server = self.start_daemon("server", "server0", "shards: 1 coordinator {}", more=section)
        self.coordinator = self.addresses("server0")["coordinator"][0]
        worker = self.start_daemon("worker", "worker0",
                                   more=f'keys: "{self.machine("worker0")}"')
        return server, worker

    def test_daemons_with_a_key_each_train_and_the_owner_commands(self):
        self.start_cluster()
        os.environ["TAUTLINE_KEYS"] = str(self.keys)
        self.addCleanup(os.environ.pop, "TAUTLINE_KEYS")
        self.assert_still_trains()
        self.assertIn("worker0", self.make("list"))

    def test_a_worker_without_an_admitted_key_ends_and_says_what_to_do(self):
        self.start_cluster()
        self.make("add", "worker1", "--role", "worker")
        stranger = self.machine("worker1")
        self.make("revoke", "worker1")
        config = self.file("w1.textproto", f'coordinator_address: "{self.coordinator}"\n'
                           f'worker {{ name: "worker1" }}\nkeys: "{stranger}"\n')
        answer = self.run_program("tautline-worker", "--config", config, timeout=30)
        self.assert_fails(answer, "does not know this key", "tautline keys add")
        config.write_text(config.read_text().replace("worker1", "worker9").replace(
            str(stranger).replace("worker1", "worker9"), str(stranger)))
        answer = self.run_program("tautline-worker", "--config", config, timeout=30)
        self.assert_fails(answer, "worker9")

    def test_a_revocation_holds_on_open_connections(self):
        _, worker = self.start_cluster()
        os.environ["TAUTLINE_KEYS"] = str(self.keys)
        self.addCleanup(os.environ.pop, "TAUTLINE_KEYS")
        self.make("revoke", "worker0")
        revoked = time.monotonic()
        heard = []

        def is_silent():
            silent = [float(one["silent_s"]) for one in self.status()["workers"]]
            if silent and silent[0] > 1:
                # At most: the answer itself has taken a while, the quickest one the least.
                heard.append(time.monotonic() - silent[0])
            return len(heard) == 5
        # A live worker is heard of ten times a second.
        wait_until(is_silent, what="silence of the revoked worker")
        heard = min(heard)
        print(f"{heard - revoked:.2f} s from the revocation to its last message that counts")
        self.assertLess(heard - revoked, 1 * SLOWER)
        self.assertIsNone(worker.poll())

    def test_a_reader_reads_and_changes_nothing(self):
        self.start_cluster()
        self.make("add", "bob", "--role", "view")
        self.make("add", "alice", "--role", "submit")
        bob, alice = self.machine("bob"), self.machine("alice")

        def admitted(keys):
            answer = self.ask("status", "--keys", keys)
            return answer if answer.returncode == 0 else None
        # A key that is new is known a moment later.
        wait_until(lambda: admitted(bob) and admitted(alice), what="the new keys")
        job = self.job()
        self.assert_fails(self.ask("submit", job, "--keys", bob), '"bob"', "role submit")
        self.assertEqual(self.ask("submit", job, "--follow", "--keys", alice).returncode, 0)
        for words in (["stop", 1], ["set-slack", 1, 2], ["checkpoint", 1], ["trace", "start"]):
            self.assert_fails(self.ask(*words, "--keys", bob), '"bob"', "role submit")

    def test_a_worker_joins_under_the_name_of_its_key_alone(self):
        self.start_cluster()
        folder = self.machine("worker0")
        (folder / "worker0.key").rename(folder / "worker1.key")
        config = self.file("w1.textproto", f'coordinator_address: "{self.coordinator}"\n'
                           f'worker {{ name: "worker1" }}\nkeys: "{folder}"\n')
        answer = self.run_program("tautline-worker", "--config", config, timeout=30)
        self.assert_fails(answer, 'the key "worker0" is not that of "worker1"')
