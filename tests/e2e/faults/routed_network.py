"""Hosts for a test: network namespaces that reach each other through a router, which can drop what
one of them sends to another one."""

import os
import shutil
import subprocess


def run(*words):
    subprocess.run(words, capture_output=True, text=True, check=True)


def missing():
    """Why no such hosts can be made here; "" if they can."""
    if os.geteuid() != 0 or not shutil.which("ip"):
        return "network namespaces need root and ip"
    probe = f"taut{os.getpid()}-probe"
    added = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    ruled = subprocess.run(["ip", "-n", probe, "rule", "add", "from", "10.79.0.1", "to",
                            "10.79.0.2", "blackhole"], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "delete", probe], capture_output=True)
    if added.returncode != 0 or ruled.returncode != 0:
        return f"no router can be made here: {(added.stderr + ruled.stderr).strip()}"
    return ""


class RoutedNetwork:
    def __init__(self):
        # scripts/shaped_cluster removes what a killed process has left under such a name.
        self.prefix = f"taut{os.getpid()}-"
        self.namespaces = []
        self.addresses = {}

    def open(self):
        self.make("router")
        run("ip", "netns", "exec", self.prefix + "router", "sysctl", "-qw",
            "net.ipv4.ip_forward=1")

    def make(self, name):
        run("ip", "netns", "add", self.prefix + name)
        self.namespaces.append(name)
        run("ip", "-n", self.prefix + name, "link", "set", "lo", "up")

    def add_host(self, name):
        """Returns its address."""
        subnet = f"10.79.{len(self.addresses)}"
        self.make(name)
        host, router = self.prefix + name, self.prefix + "router"
        run("ip", "-n", router, "link", "add", name, "type", "veth", "peer", "name", "eth0",
            "netns", host)
        for place, device, end in ((router, name, 1), (host, "eth0", 2)):
            run("ip", "-n", place, "address", "add", f"{subnet}.{end}/24", "dev", device)
            run("ip", "-n", place, "link", "set", device, "up")
        run("ip", "-n", host, "route", "add", "default", "via", f"{subnet}.1")
        self.addresses[name] = f"{subnet}.2"
        return self.addresses[name]

    def command(self, host, words):
        """What runs a command on the host, as the process that is started."""
        return ["ip", "netns", "exec", self.prefix + host, *map(str, words)]

    def change(self, verb, sender, receiver):
        run("ip", "-n", self.prefix + "router", "rule", verb, "from", self.addresses[sender],
            "to", self.addresses[receiver], "blackhole")

    def cut(self, sender, receiver):
        """Drops the packets from one host to the other; those of the other direction still arrive.
        The router does it, since the sender's own routes would return an error to the sender.
        """
        self.change("add", sender, receiver)

    def heal(self, sender, receiver):
        self.change("delete", sender, receiver)

    def close(self):
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "delete", self.prefix + name], capture_output=True)


__all__ = ["RoutedNetwork", "missing"]
