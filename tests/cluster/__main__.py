"""The command line of the test hosts."""

import argparse
import os
import shlex
import signal
import subprocess
import sys

from . import Cluster, ClusterError, destroy, faults, state as store, terminal, unavailable

DEFAULT_NAME = os.environ.get("MUSTER_TEST_CLUSTER", "dev")


def up(args):
    problem = unavailable()
    if problem:
        raise ClusterError(problem)
    homes = dict(pair.split("=", 1) for pair in args.home if "=" in pair)
    common = [word for word in args.home if "=" not in word]
    delegate = True if args.delegate == "all" else [host for host in args.delegate.split(",") if host]
    cluster = Cluster.up(args.name, args.hosts, home=common[-1] if common else "own", homes=homes, delegate=delegate,
                         expose=args.expose, owned=False)
    show(cluster)


def down(args):
    for name in store.names() if args.all else [args.name]:
        destroy(name)


def show(cluster):
    for host, own in cluster.state["hosts"].items():
        life = f"pid {own['init']['pid']}" if cluster.running(host) else "dead"
        print(f"{cluster.name} {host} {own['v4']} {own['v6']} {own['nic']} home={own['home']} "
              f"delegate={'yes' if own['delegate'] and own['cgroup'] else 'no'} {life}")


def list_clusters(args):
    for name in store.names():
        show(Cluster(name))


def run(args):
    """As the command ends, so do we; SIGINT, SIGTERM and SIGHUP pass on to it."""
    if not args.argv:
        raise ClusterError("cluster: run: which command?")
    env = dict(pair.split("=", 1) for pair in args.env)
    cluster = Cluster(args.name)
    if sys.stdin.isatty() and sys.stdout.isatty():
        code = terminal.run(cluster, args.host, args.user, args.argv, env, args.cwd)
        return code if code >= 0 else 128 - code
    command, early = None, []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: command.send_signal(received) if command else early.append(received))
    command = cluster.start(args.host, args.user, args.argv, env=env, cwd=args.cwd)
    for number in early:
        command.send_signal(number)
    code = command.wait()
    return code if code >= 0 else 128 - code


def ps(args):
    for process in Cluster(args.name).processes(args.host):
        print(process.pid, process.inner_pid, process.uid, process.state, shlex.join(process.argv) or f"[{process.comm}]")


def parser():
    top = argparse.ArgumentParser(prog="cluster", description="Test hosts on this machine; see tests/cluster/README.md.")
    top.add_argument("--name", default=DEFAULT_NAME, help="cluster (default: $MUSTER_TEST_CLUSTER or dev)")
    verbs = top.add_subparsers(dest="verb", required=True)

    def verb(name, action, help, *arguments, **keywords):
        made = verbs.add_parser(name, help=help, **keywords)
        made.add_argument("--name", default=argparse.SUPPRESS)
        made.set_defaults(action=action)
        for words, options in arguments:
            made.add_argument(*words, **options)

    def on_host(method, *names):
        return lambda args: getattr(Cluster(args.name), method)(args.host, *(getattr(args, name) for name in names))

    host = (["host"], {})
    verb("up", up, "make n1..nN and head", (["-n", "--hosts"], {"type": int, "default": 4}),
         (["--home"], {"action": "append", "default": [], "metavar": "[HOST=]KIND",
                       "help": "own (default), shared, noexec, full; for all hosts or one"}),
         (["--delegate"], {"default": "", "help": "hosts whose cgroup alice may divide: all, or n1,n2"}),
         (["--expose"], {"action": "append", "default": [], "help": "a folder below /tmp, /run, /home or /root"}))
    verb("down", down, "remove it", (["--all"], {"action": "store_true", "help": "every cluster of this machine"}))
    verb("list", list_clusters, "clusters and their hosts")
    verb("run", run, "run a command on a host", (["--user"], {"default": "alice"}), (["--cwd"], {}),
         (["--env"], {"action": "append", "default": [], "metavar": "NAME=VALUE"}), host,
         (["argv"], {"nargs": "*", "metavar": "-- COMMAND"}))
    verb("ps", ps, "processes of a host: pid, pid on the host, uid, state, command", host)
    verb("cut", on_host("cut", "how"), "cut a host off", host,
         (["how"], {"nargs": "?", "default": "drop", "choices": faults.CUTS}))
    verb("heal", on_host("heal"), "undo all faults of a host's network", host)
    verb("drop", on_host("drop", "probability", "ports", "direction"), "drop packets at a host", host,
         (["--probability"], {"type": float, "default": 1.0}), (["--ports"], {"help": "of its services: 22,6000-6100"}),
         (["--direction"], {"default": "both", "choices": ("in", "out", "both")}))
    verb("only-ports", on_host("only_ports", "ports", "how"), "drop incoming connections to other ports", host,
         (["--ports"], {"default": "22"}), (["--how"], {"default": "drop", "choices": ("drop", "reset")}))
    verb("rate", on_host("rate", "rate"), "limit a host's link", host, (["rate"], {"help": "as tc: 10mbit"}))
    verb("delay", on_host("delay", "milliseconds", "jitter", "reorder", "loss"), "put a delay into a host's link", host,
         (["milliseconds"], {"type": float}), (["--jitter"], {"type": float, "default": 0.0}),
         (["--reorder"], {"type": float, "default": 0.0}), (["--loss"], {"type": float, "default": 0.0}))
    verb("kill", on_host("kill_host"), "power failure of a host", host)
    verb("boot", on_host("boot"), "start a killed host again", host)
    verb("sshd", lambda args: getattr(Cluster(args.name), args.what + "_sshd")(args.host), "stop or start sshd", host,
         (["what"], {"choices": ("stop", "start")}))
    return top


def main(argv=None):
    words = sys.argv[1:] if argv is None else list(argv)
    cut = words.index("--") if "--" in words else len(words)
    args = parser().parse_args(words[:cut])
    if cut < len(words):
        if args.verb != "run":
            parser().error("only `run` takes a command after --")
        args.argv += words[cut + 1:]
    try:
        return args.action(args) or 0
    except (ClusterError, OSError, subprocess.SubprocessError) as problem:
        print(str(problem) if str(problem).startswith("cluster: ") else f"cluster: {problem}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
