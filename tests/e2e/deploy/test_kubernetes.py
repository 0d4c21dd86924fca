"""`tautline manifest`: the YAML parses, its objects name each other, and what they mount agrees
with what the daemons read. The example in configs/kubernetes is what the command prints."""

import base64
import json
import os
import pathlib
import stat
import subprocess
import unittest

import npm_packages
from cluster import *

try:
    import yaml
except ImportError:
    yaml = None

CHECKER = pathlib.Path(__file__).parent / "kubernetes"
TOOLS = pathlib.Path(os.environ.get("TAUTLINE_KUBERNETES_TOOLS", BIN.parent / "kubernetes"))
EXAMPLE = ("configs/jobs/fashion_lenet.textproto", "--servers", "2", "--workers", "4", "--gpus",
           "1", "--data-claim", "fashion-mnist", "--runs-claim", "runs", "--open-metrics",
           "--monitor")


@unittest.skipIf(yaml is None, "python3-yaml is not installed")
class Kubernetes(ClusterTest):
    def manifests(self, *arguments, job=None):
        answer = self.tautline("manifest", job or self.job(workers=2), *arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        found = {}
        for document in yaml.safe_load_all(answer.stdout):
            found[document["kind"], document["metadata"]["name"]] = document
        return found

    def pods(self, manifests, name="tiny"):
        """{role: (spec of its Job, spec of its pods)}"""
        jobs = manifests["JobSet", name]["spec"]["replicatedJobs"]
        return {job["name"]: (job["template"]["spec"], job["template"]["spec"]["template"]["spec"])
                for job in jobs}

    def config(self, manifests, file):
        """A configuration that is mounted; `tautline validate` accepts it."""
        text = manifests["ConfigMap", "tiny-config"]["data"][file]
        path = self.file(file, text.replace("POD_IP", "10.1.2.3"))
        checked = self.tautline("validate", path)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        return text

    def test_data_security_is_that_of_every_daemon(self):
        for word, lines in (("token", 1), ("curve", 0)):
            manifests = self.manifests("--data-security", word)
            for role in ("coordinator", "server", "worker"):
                text = self.config(manifests, f"{role}.textproto")
                self.assertEqual(text.count("data_security: TOKEN"), lines)

    def test_every_object_names_those_that_exist(self):
        manifests = self.manifests("--servers", 3, "--shards", 2, "--keys", self.folder / "keys",
                                   "--namespace", "train", "--data-claim", "mnist", "--runs-claim",
                                   "runs", "--open-metrics", "--monitor", "--image",
                                   "registry/tautline:1")
        for document in manifests.values():
            self.assertEqual(document["metadata"]["namespace"], "train")
        pods = self.pods(manifests)
        self.assertEqual(list(pods), ["coordinator", "server", "worker", "submit"])
        self.assertEqual({role: job["parallelism"] for role, (job, _) in pods.items()},
                         {"coordinator": 1, "server": 3, "worker": 2, "submit": 1})
        for role, (job, pod) in pods.items():
            self.assertEqual(job["parallelism"], job["completions"])
            volumes = {volume["name"]: volume for volume in pod["volumes"]}
            for container in (*pod["initContainers"], *pod["containers"]):
                self.assertEqual(container["image"], "registry/tautline:1")
                self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
                for mount in container["volumeMounts"]:
                    self.assertIn(mount["name"], volumes)
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            # A submission that was started again would submit a second job.
            self.assertEqual(pod["restartPolicy"], "Never" if role == "submit" else "OnFailure")
            self.assertIn(("ConfigMap", volumes["config"]["configMap"]["name"]), manifests)
            self.assertIn(("Secret", volumes["keys"]["secret"]["secretName"]), manifests)
            self.assertEqual(volumes["data"]["persistentVolumeClaim"]["claimName"], "mnist")
            self.assertEqual(volumes["runs"]["persistentVolumeClaim"]["claimName"], "runs")
        # The Service leads to the coordinator's pod, by labels that JobSet gives to it.
        service = manifests["Service", "tiny-coordinator"]["spec"]
        self.assertEqual(service["selector"], {
            "jobset.sigs.k8s.io/jobset-name": "tiny",
            "jobset.sigs.k8s.io/replicatedjob-name": "coordinator"})
        monitor = manifests["PodMonitor", "tiny"]["spec"]
        ports = {port["name"] for role in ("server", "worker")
                 for port in pods[role][1]["containers"][0]["ports"]}
        self.assertIn(monitor["podMetricsEndpoints"][0]["port"], ports)

    def test_fields_agree_with_the_configurations_that_are_mounted(self):
        manifests = self.manifests("--shards", 2, "--servers", 2, "--data-claim", "mnist",
                                   "--notice", 45, "--threads", 3)
        pods = self.pods(manifests)
        for role in ("coordinator", "server", "worker"):
            text = self.config(manifests, f"{role}.textproto")
            job, pod = pods[role]
            container = pod["containers"][0]
            self.assertIn(f"/run/tautline/{role}.textproto", container["command"])
            self.assertIn("preemption_notice_s: 45", text)
            self.assertEqual(pod["terminationGracePeriodSeconds"], 75)
            self.assertIn('coordinator_address: "tiny-coordinator:7600"', text)
            self.assertIn('keys: "/run/tautline/keys"', text)
            folders = {mount["mountPath"] for mount in container["volumeMounts"]}
            for folder in ("/runs", "/data"):
                self.assertIn(f'allowed_folders: "{folder}"', text)
                self.assertIn(folder, folders)
        server = manifests["ConfigMap", "tiny-config"]["data"]["server.textproto"]
        ports = {port["name"]: port["containerPort"]
                 for port in pods["server"][1]["containers"][0]["ports"]}
        self.assertEqual(ports, {"shard0": 7601, "shard1": 7602})
        self.assertIn("port_base: 7601", server)
        worker = pods["worker"][1]["containers"][0]
        self.assertEqual(worker["resources"]["requests"]["cpu"], "3")
        self.assertNotIn("nvidia.com/gpu", worker["resources"]["limits"])
        # The page can change jobs: it is on the loopback alone.
        coordinator = manifests["ConfigMap", "tiny-config"]["data"]["coordinator.textproto"]
        self.assertIn('dashboard: "127.0.0.1:7680"', coordinator)
        self.assertNotIn("insecure", coordinator)
        submit = pods["submit"][1]["containers"][0]["command"]
        self.assertEqual(submit[submit.index("--await-servers") + 1], "2")
        self.assertEqual(submit[submit.index("--coordinator") + 1], "tiny-coordinator:7600")
        job = self.file("mounted.textproto",
                        manifests["ConfigMap", "tiny-config"]["data"]["job.textproto"])
        text = job.read_text()
        self.assertIn('folder: "/data"', text)
        self.assertIn('folder: "/runs/checkpoints"', text)
        self.assertIn("workers: 2", text)

    def test_metrics_are_open_on_request_alone(self):
        for is_open in (False, True):
            manifests = self.manifests(*(["--open-metrics"] if is_open else []))
            pods = self.pods(manifests)
            for role in ("server", "worker"):
                text = self.config(manifests, f"{role}.textproto")
                host = "POD_IP" if is_open else "127.0.0.1"
                self.assertIn(f'metrics: "{host}:7680"', text)
                self.assertEqual("insecure: true" in text, is_open)
                container = pods[role][1]["containers"][0]
                ports = {port["name"]: port["containerPort"] for port in container.get("ports", [])}
                self.assertEqual(ports.get("metrics"), 7680 if is_open else None)
                # No probe asks a port that is on the loopback.
                probed = container.get("livenessProbe", {}).get("tcpSocket", {}).get("port")
                self.assertIn(probed, (None, *ports.values()))
                self.assertIn("readinessProbe", container)
        self.assert_fails(self.tautline("manifest", self.job(), "--monitor"), "--open-metrics",
                          status=2)

    def test_gpus_are_requested_and_used(self):
        manifests = self.manifests("--gpus", 2)
        limits = self.pods(manifests)["worker"][1]["containers"][0]["resources"]["limits"]
        self.assertEqual(limits["nvidia.com/gpu"], 2)
        text = self.config(manifests, "worker.textproto")
        self.assertIn("device: CUDA", text)
        self.assertIn("device_index: 1", text)

    def test_each_kind_of_pod_gets_its_own_keys_alone(self):
        keys = self.folder / "keys"
        manifests = self.manifests("--servers", 2, "--keys", keys)
        secrets = {name[len("tiny-"):-len("-keys")]: document["data"]
                   for (kind, name), document in manifests.items() if kind == "Secret"}
        self.assertEqual(set(secrets), {"coordinator", "server", "worker", "submit"})
        self.assertEqual(set(secrets["worker"]), {"worker0.key", "worker1.key"})
        self.assertEqual(set(secrets["submit"]), {"submit.key"})
        self.assertLessEqual({"server0.key", "server1.key", "admitted.worker0",
                              "admitted.coordinator", "admitted.submit"}, set(secrets["server"]))
        everything = json.dumps(secrets)
        for secret in ("cluster.key", "owner.key"):
            self.assertNotIn(f'"{secret}"', everything)
        self.assertEqual(stat.S_IMODE(keys.stat().st_mode), 0o700)
        again = self.manifests("--servers", 2, "--keys", keys)
        self.assertEqual(again, manifests)

    def test_the_pods_files_start_a_cluster_that_trains(self):
        """What the pods run, as processes of this machine: prepared by the init container's own
        script, with the folders of a pod in a folder of this one."""
        data = write_data(self.folder / "volume")
        manifests = self.manifests("--keys", self.folder / "keys", "--data-claim", "mnist",
                                   "--runs-claim", "runs", job=self.job(workers=2, data=data))
        port, metrics, page = free_ports(3)
        commands = {}
        for role, (job, pod) in self.pods(manifests).items():
            for index in range(job["parallelism"]):
                inside = self.prepare_pod(manifests, role, index, pod, data, port, page)
                words = [word.replace("$(JOB_COMPLETION_INDEX)", str(index))
                         .replace("/run/tautline", f"{inside}/run")
                         .replace("tiny-coordinator:7600", f"127.0.0.1:{port}")
                         for word in pod["containers"][0]["command"]]
                commands.setdefault(role, []).append(words)
        processes = [self.start(*words) for role in ("coordinator", "server", "worker")
                     for words in commands[role]]
        submit = self.start(*commands["submit"][0])
        out, err = submit.communicate(timeout=60 * SLOWER)
        self.assertEqual(submit.returncode, 0, out + err)
        self.assertTrue((self.folder / "runs/checkpoints/tiny_iter_30").is_dir())
        self.assertTrue((self.folder / "runs/state/tiny-5-7").is_dir())
        for process in processes[::-1]:
            process.terminate()
            self.assert_ends(process, 20 * SLOWER)

    def prepare_pod(self, manifests, role, index, pod, data, port, page):
        """The folders of one pod, filled by the script of its init container."""
        inside = self.folder / f"pod-{role}{index}"
        mounted = {"/etc/tautline-keys": inside / "keys", "/etc/tautline-config": inside / "config",
                   "/run/tautline": inside / "run"}
        for folder in mounted.values():
            folder.mkdir(parents=True)
        (self.folder / "runs").mkdir(exist_ok=True)
        secret = next(v["secret"]["secretName"] for v in pod["volumes"] if v["name"] == "keys")
        for name, value in manifests["Secret", secret]["data"].items():
            (mounted["/etc/tautline-keys"] / name).write_bytes(base64.b64decode(value))
        for name, text in manifests["ConfigMap", "tiny-config"]["data"].items():
            # The names and ports of a pod's own network.
            for old, new in (("tiny-coordinator:7600", f"127.0.0.1:{port}"),
                             ("POD_IP:7600", f"127.0.0.1:{port}"),
                             ("port_base: 7601", "port_base: 0"), (":7680", ":0"),
                             ("/run/tautline", str(inside / "run")),
                             ("/var/lib/tautline", str(inside / "state")),
                             ('"/runs', f'"{self.folder}/runs'), ('"/data', f'"{data}')):
                text = text.replace(old, new)
            (mounted["/etc/tautline-config"] / name).write_text(text)
        script = pod["initContainers"][0]["args"][0]
        for old, new in mounted.items():
            script = script.replace(old, str(new))
        for _ in range(2):  # a pod whose container is started again is prepared again
            subprocess.run(["sh", "-ec", script], check=True,
                           env={**os.environ, "POD_IP": "127.0.0.1", "JOB_UID": "5-7"})
        self.assertEqual(stat.S_IMODE((inside / "run/keys").stat().st_mode), 0o700)
        return inside

    def complaints(self, documents):
        answer = subprocess.run(["node", "check.mjs"], cwd=TOOLS, input=json.dumps(documents),
                                capture_output=True, text=True, timeout=60 * SLOWER)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def test_published_schemas_and_types_find_nothing_wrong(self):
        npm_packages.fetch(self, CHECKER, TOOLS)
        manifests = self.manifests("--servers", 2, "--gpus", 1, "--keys", self.folder / "keys",
                                   "--namespace", "train", "--data-claim", "mnist", "--runs-claim",
                                   "runs", "--open-metrics", "--monitor")
        self.assertEqual(self.complaints(list(manifests.values())), "")
        # That what checks them would find a wrong value and a wrong name.
        pod = self.pods(manifests)["worker"][1]
        pod["terminationGracePeriodSeconds"] = "soon"
        self.assertIn("terminationGracePeriodSeconds", self.complaints(list(manifests.values())))
        pod["terminationGracePeriodSeconds"] = 90
        pod["containers"][0]["livenessProb"] = pod["containers"][0].pop("livenessProbe")
        self.assertIn("livenessProb", self.complaints(list(manifests.values())))
        policy = manifests["JobSet", "tiny"]["spec"]["successPolicy"]
        policy["operater"] = policy.pop("operator")
        self.assertIn("JobSet tiny: spec.successPolicy.operater is no field",
                      self.complaints(list(manifests.values())))

    def test_the_manifest_says_what_was_not_checked(self):
        answer = self.tautline("manifest", self.job())
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("JobSet publishes none", answer.stdout)
        self.assertIn("kubectl apply --dry-run=server -f FILE", answer.stdout)

    def test_wrong_names_are_refused_with_a_right_one(self):
        job = self.job()
        self.assert_fails(self.tautline("manifest", job, "--name", "My_Job"), "--name", "my-job",
                          status=2)
        self.assert_fails(self.tautline("manifest", job, "--image", "a b"), "--image", status=2)
        self.assert_fails(self.tautline("manifest", job, "--data-claim", "A"), "--data-claim",
                          status=2)
        # Names that YAML would read as numbers are words.
        manifests = self.manifests("--data-claim", "2024.5", "--namespace", "7")
        pod = self.pods(manifests)["worker"][1]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        self.assertEqual(volumes["data"]["persistentVolumeClaim"]["claimName"], "2024.5")
        self.assertEqual(manifests["JobSet", "tiny"]["metadata"]["namespace"], "7")
        self.assert_fails(self.tautline("manifest", "missing.textproto"), "missing.textproto")

    def test_the_example_is_what_the_command_prints(self):
        answer = subprocess.run([BIN / "tautline", "manifest", *EXAMPLE], cwd=SOURCE,
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual((SOURCE / "configs/kubernetes/fashion_lenet.yaml").read_text(),
                         answer.stdout, "run: tautline manifest " + " ".join(EXAMPLE) +
                         " > configs/kubernetes/fashion_lenet.yaml")


if __name__ == "__main__":
    unittest.main()
