"""What goes wrong with networks and hosts, on purpose.  Every fault is undone by Faults.heal(host)."""

import os
import shlex
import subprocess
import time

from . import network, state as store

_TABLE = "inet muster_test"
_WIRE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wire")
CUTS = ("down", "cable", "drop", "reset")


def _port_set(ports):
    """"22,6000-6100" or a list of numbers and "a-b" strings -> the text of an nftables set."""
    parts = ports.split(",") if isinstance(ports, str) else [str(port) for port in ports]
    return "{ " + ", ".join(part.strip() for part in parts) + " }"


class Faults:
    """The faults of one cluster; a mixin of Cluster, which has `state`, `pid`, `start`, `processes` and:
    `faulted`, the hosts whose network this handle has changed, and `_relays`, {host: Command of its relay}."""

    def cut(self, host, how="drop"):
        """Cuts host off.  down: its interface goes down; cable: its link loses carrier; drop: packets vanish in both
        directions; reset: as drop, but TCP packets of either side are answered with a reset."""
        nic, pid = self._nic(host), self.pid(host)
        self.faulted.add(host)
        if how == "down":
            network.in_netns(pid, ["ip", "link", "set", nic, "down"])
        elif how == "cable":
            network.in_netns(self.switch_pid, ["ip", "link", "set", self._port(host), "down"])
        elif how == "drop":
            self._filter(host, ["drop"], ["drop"])
        elif how == "reset":
            rules = ["meta l4proto tcp reject with tcp reset", "drop"]
            self._filter(host, rules, ["tcp flags rst accept", *rules])
        else:
            raise store.ClusterError(f"cluster: cut {how!r} is none of {', '.join(CUTS)}")

    def heal(self, host):
        """Undoes cut, drop, only_ports, rate and delay of this host."""
        nic, pid = self._nic(host), self.pid(host)
        network.in_netns(pid, ["nft", "-f", "-"], f"table {_TABLE}\ndelete table {_TABLE}\n")
        self.delay(host, 0)
        for where, link in ((pid, nic), (self.switch_pid, self._port(host))):
            network.in_netns(where, ["ip", "link", "set", link, "up"])
        self.rate(host, None)
        self.faulted.discard(host)

    def drop(self, host, probability=1.0, ports=None, direction="both", protocol="tcp", packets=""):
        """Drops packets at host's reachable NIC: with a probability, and only those of the given service ports
        of this host ("22,6000-6100"; None: all packets), direction in, out or both.  Ports on *other* hosts that
        this host calls are not meant by `ports`: give the fault to the host that listens."""
        chance = "" if probability >= 1 else f"numgen random mod 1000000 < {round(probability * 1000000)} "
        match_in = f"{protocol} dport {_port_set(ports)} " if ports else ""
        match_out = f"{protocol} sport {_port_set(ports)} " if ports else ""
        packets = packets and packets + " "
        rule_in = [f"{packets}{match_in}{chance}drop"] if direction in ("in", "both") else []
        rule_out = [f"{packets}{match_out}{chance}drop"] if direction in ("out", "both") else []
        self._filter(host, rule_in, rule_out)

    def only_ports(self, host, ports="22", how="drop"):
        """A firewall: incoming connections to other TCP ports than these get no answer (how="drop") or a reset.
        Connections that host opens itself work.  cluster.only_ports("head") is "every launcher port dropped"."""
        verdict = {"drop": "drop", "reset": "reject with tcp reset"}[how]
        syn = "tcp flags & (syn | ack) == syn"
        self._filter(host, [f"{syn} tcp dport != {_port_set(ports)} {verdict}"], [])

    def rate(self, host, rate="10mbit", burst="64kb", latency="50ms"):
        """Limits host's link in both directions (tc tbf); None lifts it."""
        self.faulted.add(host)
        for where, link in ((self.pid(host), self._nic(host)), (self.switch_pid, self._port(host))):
            if rate is None:
                shown = network.in_netns(where, ["tc", "qdisc", "show", "dev", link])
                if " tbf " in shown:
                    network.in_netns(where, ["tc", "qdisc", "del", "dev", link, "root"])
            else:
                network.in_netns(where, ["tc", "qdisc", "replace", "dev", link, "root", "tbf", "rate", rate,
                                         "burst", burst, "latency", latency])

    def delay(self, host, milliseconds, jitter=0.0, reorder=0.0, loss=0.0):
        """Puts a relay into host's link: each packet, either way, waits milliseconds ± jitter (in order, unless
        it is one of the share `reorder`, which overtakes by not waiting) or is lost.  0 with nothing else: relay out."""
        self.faulted.add(host)
        self._relay_out(host)
        if milliseconds or jitter or reorder or loss:
            self._relay_in(host, [str(value) for value in (milliseconds, jitter, reorder, loss)])

    def kill_host(self, host):
        """The power fails: nothing that host's processes' end causes reaches the network."""
        self.cut(host, "cable")
        if not store.kill_and_wait(self.state["hosts"][host]["init"], time.monotonic() + 10):
            raise store.ClusterError(f"cluster: host {host} did not die within 10 s")

    def _nic(self, host):
        return self.state["hosts"][host]["nic"]

    def _port(self, host):
        return self.state["hosts"][host]["port"]

    def _filter(self, host, rules_in, rules_out):
        """Adds rules for the reachable NIC; those of earlier faults stay in force."""
        nic = self._nic(host)
        self.faulted.add(host)
        text = (f"table {_TABLE} {{\n chain in {{ type filter hook input priority 0; policy accept; }}\n"
                f" chain out {{ type filter hook output priority 0; policy accept; }}\n}}\n")
        text += "".join(f'add rule {_TABLE} in iifname "{nic}" {rule}\n' for rule in rules_in)
        text += "".join(f'add rule {_TABLE} out oifname "{nic}" {rule}\n' for rule in rules_out)
        network.in_netns(self.pid(host), ["nft", "-f", "-"], text)

    def _wire_links(self, host):
        name = self._port(host).removeprefix("p-")
        return f"a-{name}", f"b-{name}", f"w-{name}"  # tap at the host's side, tap at the switch, bridge between

    def _relay_in(self, host, parameters):
        near, far, bridge = self._wire_links(host)
        relay = self.start(store.SWITCH, "root", [_WIRE, near, far, *parameters], cwd="/", clean_env={},
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if relay.stdout.readline() != "ready\n":
            raise store.ClusterError(f"cluster: {shlex.join(relay.args)}: {relay.stdout.read().strip()}")
        self._relays[host] = relay
        port = self._port(host)
        network.in_netns(self.switch_pid, ["ip", "-batch", "-"],
                         f"link add name {bridge} type bridge stp_state 0 mcast_snooping 0\nlink set {bridge} up\n"
                         f"link set {near} master {bridge} up\nlink set {far} master {network.BRIDGE} up\n"
                         f"link set {port} master {bridge}\n")

    def _relay_out(self, host):
        near, far, bridge = self._wire_links(host)
        shown = network.in_netns(self.switch_pid, ["ip", "-o", "link", "show"])
        if f" {bridge}: " not in shown:
            return
        network.in_netns(self.switch_pid, ["ip", "link", "set", self._port(host), "master", network.BRIDGE])
        for process in self.processes(store.SWITCH):
            if process.argv[-6:-4] == (near, far):
                store.kill_and_wait({"pid": process.pid, "start": process.start}, time.monotonic() + 5)
        relay = self._relays.pop(host, None)
        if relay:
            relay.stdout.close()
            relay.wait()
        network.in_netns(self.switch_pid, ["ip", "link", "del", bridge])
