"""The emulated sites on test hosts, for tests.

    site = Site("polaris", clusters)
    site.run(["qsub", "job.sh"])               # as alice on head, with the site's programs in PATH
    site.ended(job)                            # its exit code, once it has ended
"""

import json
import os
import pathlib

from cluster import testing

HERE = pathlib.Path(__file__).resolve().parent
STATE = "/home/alice/.site"
HOME = "/home/alice"
PATIENCE = 40.0
# What a site is; every number of a node's shape is of launchers.md, section 6.1.
SITES = {
    "theta": {"hosts": ["nid00001", "nid00002", "nid00003"], "scheduler": "cobalt", "path": ["cobalt", "alps"],
              "script_on": "mom", "cores": 64, "threads": 4},
    "thetagpu": {"hosts": ["thetagpu01", "thetagpu02", "thetagpu03"], "scheduler": "cobalt", "path": ["cobalt-gpu", "cobalt"],
                 "script_on": "first", "cores": 128, "threads": 2},
    "polaris": {"hosts": ["x3006c0s13b0n0", "x3006c0s13b1n0", "x3007c0s1b0n0"], "scheduler": "pbs",
                "path": ["pbs", "pals"], "script_on": "first", "cores": 32, "threads": 2,
                "domain": "hsn.cm.polaris.alcf.anl.gov", "server": "polaris-pbs-01.hsn.cm.polaris.alcf.anl.gov"},
    "aurora": {"hosts": ["x4407c6s2b0n0", "x4407c6s3b0n0", "x4407c6s4b0n0"], "scheduler": "pbs", "path": ["pbs", "pals"],
               "script_on": "first", "cores": 104, "threads": 2, "domain": "hsn.cm.aurora.alcf.anl.gov",
               "server": "aurora-pbs-0001.hostmgmt.cm.aurora.alcf.anl.gov"},
    "pbs": {"hosts": ["n1", "n2", "n3"], "scheduler": "pbs", "path": ["pbs"], "script_on": "first", "cores": 64,
            "threads": 1, "domain": "example.org", "server": "pbs"},
    "flux": {"hosts": ["n1", "n2"], "scheduler": "none", "path": ["flux"], "script_on": "first", "cores": 64, "threads": 1},
    "lsf": {"hosts": ["n1", "n2"], "scheduler": "none", "path": ["lsf"], "script_on": "first", "cores": 64, "threads": 1},
}
_PROFILE = """\
PATH={path}:$PATH
module() {{ echo "module $*" >> /tmp/modules-$(id -u); }}
export -f module
"""


class Site:
    """The hosts of a site with its (emulated) programs; head is where one logs in, and Theta's MOM node."""

    def __init__(self, name, clusters, more_path=(), kill_delay=2.0, **changes):
        described = SITES[name] | changes
        self.name = name
        self.domain = described.get("domain", "")
        self.cluster = clusters.get(len(described["hosts"]), names=tuple(described["hosts"]), domain=self.domain,
                                    home="shared")
        self.hosts = described["hosts"]
        self.path = [str(HERE / folder) for folder in described["path"]] + list(map(str, more_path))
        config = {"scheduler": described["scheduler"], "nodes": self.hosts, "state": STATE, "mom": "head",
                  "script_on": described["script_on"], "domain": self.domain, "server": described.get("server", ""),
                  "kill_delay": kill_delay, "max_claims": 1000, "path": self.path, "cores": described["cores"],
                  "threads": described["threads"]}
        self.cluster.path("head", "/etc/site.json").write_text(json.dumps(config))  # one /etc for all test hosts
        profile = _PROFILE.format(path=":".join(self.path))
        self.cluster.path("head", "/etc/profile.d/site.sh").write_text(profile)

    def environment(self):
        return {"PATH": ":".join([*self.path, "/usr/local/bin:/usr/bin:/bin"])}

    def run(self, argv, host="head", timeout=PATIENCE, **options):
        options["env"] = self.environment() | options.get("env", {})
        return self.cluster.run(host, "alice", argv, timeout=timeout, **options)

    def start(self, argv, host="head", **options):
        options["env"] = self.environment() | options.get("env", {})
        return self.cluster.start(host, "alice", argv, **options)

    def write(self, name, text, mode=0o755):
        """A file of alice's; its path on the hosts."""
        path = self.cluster.path("head", f"{HOME}/{name}")
        path.write_text(text)
        path.chmod(mode)
        os.chown(path, self.cluster.uid("alice"), self.cluster.uid("alice"))
        return f"{HOME}/{name}"

    def read(self, name):
        path = self.cluster.path("head", name if name.startswith("/") else f"{HOME}/{name}")
        return path.read_text(errors="replace") if path.exists() else ""

    def state(self, job):
        """{"state", "hosts", "exit", "why"} of a job, whose number begins what qsub printed."""
        return json.loads(self.read(f"{STATE}/jobs/{str(job).strip().partition('.')[0]}/state.json"))

    def wait_state(self, job, wanted, timeout=PATIENCE):
        reached = testing.eventually(lambda: self.state(job)["state"] == wanted, timeout)
        number = str(job).strip().partition(".")[0]
        assert reached, f"{self.state(job)}\n{self.read(f'{STATE}/jobs/{number}/server.log')}"
        return self.state(job)

    def ended(self, job, timeout=PATIENCE):
        return self.wait_state(job, "finished", timeout)["exit"]

    def script(self, name, lines, *commands):
        """A job script of directives and commands."""
        return self.write(name, "\n".join(["#!/bin/bash -l", *lines, *commands]) + "\n")

