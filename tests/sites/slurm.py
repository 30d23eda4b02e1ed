"""A real Slurm (Debian's slurmctld, slurmd, munge) on test hosts: slurmctld on head, slurmd on every node.

    slurm = Slurm(cluster)                 # daemons in the foreground of commands of this process
    slurm.up()                             # returns when all nodes are idle
    slurm.run("alice", ["sbatch", "--wait", "job.sh"])
    slurm.down()                           # each daemon ended by its pid

Configuration, key, state and logs lie in the hosts' own /etc, /run and /var/log, which end with the test hosts.
"""

import os
import shutil

from cluster import testing

_PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "sbatch", "salloc", "scontrol", "sinfo", "squeue", "scancel")
PATIENCE = 20.0  # for daemons and jobs to come up on a busy machine
CPUS = 4         # each node says that it has so many, whatever the machine has
# Lowest that Slurm allows or that a loaded machine bears: a dead slurmd is noticed after SlurmdTimeout.
_CONFIG = """\
ClusterName=muster
SlurmctldHost=head({head})
AuthType=auth/munge
CryptoType=crypto/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=/run/slurm/state
SlurmdSpoolDir=/run/slurm/spool
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
SlurmctldPort=6817
SlurmdPort=6818
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
UnkillableStepTimeout=30
MessageTimeout=20
SlurmdTimeout=10
SlurmctldTimeout=10
InactiveLimit=0
MinJobAge=300
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,defer_batch=0
{nodes}
PartitionName=test Nodes=ALL Default=YES State=UP MaxTime=60 OverSubscribe=NO
"""


def missing():
    """The programs of Slurm that this machine lacks, in one line; None if all are there."""
    path = "/usr/local/sbin:/usr/sbin:/sbin:" + os.environ.get("PATH", "/usr/bin:/bin")
    absent = [name for name in _PROGRAMS if not shutil.which(name, path=path)]
    return f"{', '.join(absent)} missing; apt install slurmctld slurmd slurm-client munge" if absent else None


class Slurm:
    """The daemons of one cluster of test hosts, and its commands."""

    def __init__(self, cluster, cpus=CPUS):
        self.cluster = cluster
        self._cpus = cpus
        self._daemons = {}  # (host, program) -> Command

    def up(self):
        cluster = self.cluster
        nodes = "\n".join(f"NodeName={name} NodeAddr={cluster.address(name)} CPUs={self._cpus} RealMemory=1000 State=UNKNOWN"
                          for name in cluster.nodes)
        folder = cluster.path("head", "/etc/slurm")  # one /etc for all hosts, not the machine's
        folder.mkdir(exist_ok=True)
        (folder / "slurm.conf").write_text(_CONFIG.format(head=cluster.address("head"), nodes=nodes))
        (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # not used; detecting one fails on the hosts
        key = cluster.path("head", "/etc/munge/munge.key")
        key.write_bytes(os.urandom(128))
        os.chown(key, 0, 0)
        key.chmod(0o600)
        os.chown(key.parent, 0, 0)
        for host in cluster.hosts:
            self.start_munge(host)
        self._start("head", "slurmctld", ["slurmctld", "-D"])
        for host in cluster.nodes:
            self.start_node(host)
        self.wait_idle()

    def start_munge(self, host):
        for folder in ("/run/munge", "/run/slurm", "/run/slurm/state", "/run/slurm/spool"):
            path = self.cluster.path(host, folder)
            path.mkdir(exist_ok=True)
            path.chmod(0o755)
        self._start(host, "munged", ["munged", "-F", "--log-file=/run/munge/log", "--pid-file=/run/munge/pid",
                                     "--seed-file=/run/munge/seed", "--socket=/run/munge/munge.socket.2"])
        socket = self.cluster.path(host, "/run/munge/munge.socket.2")
        assert testing.eventually(socket.is_socket, PATIENCE), self.logs(host)

    def start_node(self, host):
        """slurmd of a host, after its munged."""
        self._start(host, "slurmd", ["slurmd", "-D", "-N", host])

    def _start(self, host, program, argv):
        output = open(self.cluster.path(host, f"/run/{program}.out"), "ab")
        with output:
            self._daemons[host, program] = self.cluster.start(host, "root", argv, stdin=-3, stdout=output, stderr=output)

    def stop_daemon(self, host, program):
        """Kills it at once, as a crash would; its jobs' processes stay."""
        daemon = self._daemons.pop((host, program))
        daemon.kill()
        daemon.wait()

    def repair(self):
        """After a test: daemons that ended, or ended with their host, run again, no job is left, all nodes are idle."""
        self.run("root", ["scancel", "--full", "--signal=KILL", "--state=RUNNING"])
        self.run("root", ["scancel", "--state=PENDING"])
        for (host, program), daemon in list(self._daemons.items()):
            if daemon.ended():
                daemon.wait()
                del self._daemons[host, program]
        for host in self.cluster.nodes:
            if (host, "munged") not in self._daemons:
                self.start_munge(host)
            if (host, "slurmd") not in self._daemons:
                self.start_node(host)
        self.wait_idle()

    def down(self):
        """slurmd and slurmctld before the munged that they need."""
        for (_, program), daemon in sorted(self._daemons.items(), key=lambda item: item[0][1] == "munged"):
            daemon.terminate()
        for daemon in self._daemons.values():
            if not testing.eventually(daemon.ended, 10.0):
                daemon.kill()
            daemon.wait()
        self._daemons.clear()

    def run(self, user, argv, host="head", timeout=PATIENCE, **options):
        return self.cluster.run(host, user, argv, timeout=timeout, **options)

    def states(self):
        """{node: its state as sinfo says it}; empty while slurmctld does not answer."""
        told = self.run("root", ["sinfo", "-h", "-N", "-o", "%N %T"])
        return dict(line.split() for line in told.stdout.splitlines()) if told.returncode == 0 else {}

    def wait_idle(self):
        wanted = {host: "idle" for host in self.cluster.nodes}
        assert testing.eventually(lambda: self.states() == wanted, PATIENCE), \
            "\n".join([f"{self.states()}"] + [self.logs(host) for host in self.cluster.hosts])

    def logs(self, host):
        """The ends of the daemons' logs, for the message of a test that fails."""
        found = []
        for path in ("/run/munged.out", "/run/slurmctld.out", "/run/slurmd.out", "/var/log/slurmctld.log",
                     "/var/log/slurmd.log"):
            file = self.cluster.path(host, path)
            if file.exists():
                found.append(f"--- {host}:{path}\n" + "\n".join(file.read_text(errors="replace").splitlines()[-25:]))
        return "\n".join(found)
