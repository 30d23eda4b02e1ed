"""Names and addresses of a cluster, and the links that make them true.

A cluster has one switch: a network namespace with a bridge.  Each host has two NICs, both veth pairs into it:
one on the bridge, one whose other end is up but on no bridge (it has carrier, an address, and reaches nobody).
All of it lives in the cluster's own namespaces, so clusters cannot collide, whatever their addresses.
"""

import hashlib
import ipaddress
import subprocess

BRIDGE = "br0"
HOSTS_OF_A_NET = 250  # with more hosts the network has 16 bits in place of 24
# The NIC that reaches nobody comes first (lower index), so that "the first one" is the wrong choice.
_NIC_NAMES = [("eth1", "eth0"), ("docker0", "ens3"), ("eth0", "enp1s0"), ("virbr0", "bond7"),
              ("ens9", "enP2p0s1np0"), ("ib0", "eno1"), ("eno2", "hsn0"), ("br-3f9c1a", "eth5")]


def plan(name, host_names, domain="", same_nics=False):
    """{host: {nic, dead_nic, v4, v6, dead_v4, v4_bits, port, dead_port, aliases}}; the same for the same cluster name."""
    digest = hashlib.sha256(name.encode()).digest()
    bits = 24 if len(host_names) <= HOSTS_OF_A_NET else 16
    v6 = f"fd{digest[2]:02x}:{digest[3]:02x}{digest[4]:02x}:{digest[5]:02x}{digest[6]:02x}"
    hosts = {}
    for index, host in enumerate(host_names):
        dead, nic = _NIC_NAMES[0 if same_nics else index % len(_NIC_NAMES)]
        port = host if len(host) <= 13 else str(index)  # a link's name has 15 characters
        part, number = index // HOSTS_OF_A_NET, index % HOSTS_OF_A_NET + 1
        hosts[host] = {
            "nic": nic, "dead_nic": dead,
            "v4": f"10.{64 + digest[0] % 128}.{(digest[1] + part) % 256}.{number}",
            "v6": str(ipaddress.ip_address(f"{v6}::{index + 1:x}")),
            "dead_v4": f"192.168.{77 + part}.{number}",
            "v4_bits": bits,
            "port": f"p-{port}", "dead_port": f"x-{port}",
            "aliases": [f"{host}.{domain}"] if domain else [],
            # Fixed, so that the neighbours of a host that is booted again still know it.
            "mac": f"02:00:{digest[0]:02x}:{digest[1]:02x}:{part:02x}:{number:02x}",
        }
    return hosts


def hosts_file(host, hosts):
    """Debian's: the own name is 127.0.1.1 first of all; n1 is IPv4, n1-v6 is IPv6 only."""
    lines = ["127.0.0.1 localhost", f"127.0.1.1 {host}", "::1 localhost ip6-localhost ip6-loopback"]
    lines += [" ".join([net["v4"], name, *net["aliases"]]) for name, net in hosts.items()]
    lines += [f"{net['v6']} {name}-v6" for name, net in hosts.items()]
    return "\n".join(lines) + "\n"


def in_netns(pid, argv, text=None):
    """Runs a tool of the machine in the network namespace of pid."""
    result = subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", *argv], input=text, text=True, capture_output=True)
    if result.returncode != 0:
        raise OSError(f"{' '.join(argv)}: {result.stderr.strip() or result.stdout.strip()}")
    return result.stdout


def set_sysctls(values):
    """In the calling process' own network namespace; a key that this kernel lacks does not matter."""
    for key, value in values.items():
        try:
            with open("/proc/sys/net/" + key, "w") as file:
                file.write(value)
        except FileNotFoundError:
            pass


# No duplicate address detection (addresses work at once), and IPv6 addresses survive `ip link set down`.
HOST_SYSCTLS = {"ipv6/conf/all/accept_dad": "0", "ipv6/conf/default/accept_dad": "0",
                "ipv6/conf/all/accept_ra": "0", "ipv6/conf/default/accept_ra": "0",
                "ipv6/conf/all/keep_addr_on_down": "1", "ipv6/conf/default/keep_addr_on_down": "1"}
# The switch is only a switch: it has no address and answers nothing.
SWITCH_SYSCTLS = {"ipv6/conf/all/disable_ipv6": "1", "ipv6/conf/default/disable_ipv6": "1",
                  "bridge/bridge-nf-call-iptables": "0", "bridge/bridge-nf-call-ip6tables": "0",
                  "bridge/bridge-nf-call-arptables": "0"}


def make_switch(switch_pid):
    in_netns(switch_pid, ["ip", "-batch", "-"],
             f"link set lo up\nlink add name {BRIDGE} type bridge stp_state 0 mcast_snooping 0\nlink set {BRIDGE} up\n")


def remove_links(switch_pid, net):
    """Those of a host that is dead; the kernel removes them too, in its own time, so either may be first."""
    for port in (net["port"], net["dead_port"]):
        try:
            in_netns(switch_pid, ["ip", "link", "del", port])
        except OSError:
            if f" {port}@" in in_netns(switch_pid, ["ip", "-o", "link", "show"]):
                raise


def make_links(switch_pid, host_pids, hosts):
    """The NICs of the hosts in host_pids ({host: pid}), addressed and up when this returns."""
    batch = ""
    for host, pid in host_pids.items():
        net = hosts[host]
        batch += (f"link add name {net['dead_port']} type veth peer name {net['dead_nic']} netns {pid}\n"
                  f"link add name {net['port']} type veth peer name {net['nic']} address {net['mac']} netns {pid}\n"
                  f"link set {net['dead_port']} up\nlink set {net['port']} master {BRIDGE} up\n")
    in_netns(switch_pid, ["ip", "-batch", "-"], batch)
    for host, pid in host_pids.items():
        net = hosts[host]
        in_netns(pid, ["ip", "-batch", "-"],
                 f"link set lo up\n"
                 f"addr add {net['dead_v4']}/{net['v4_bits']} dev {net['dead_nic']}\nlink set {net['dead_nic']} up\n"
                 f"addr add {net['v4']}/{net['v4_bits']} dev {net['nic']}\naddr add {net['v6']}/64 dev {net['nic']} nodad\n"
                 f"link set {net['nic']} up\n")
