"""launcherd with a few hundred simulated agents (bench/agent_sim), in a star and below relays: each agent connects, each
rank's start and end is counted, a kill reaches all, and all come back to a launcherd that replaces a killed one.

    MUSTER_BIN_DIR=build/release/bin /usr/bin/python3 -m pytest tests/bench/test_many_agents.py
"""
import json
import os
import pathlib
import subprocess

import pytest

BIN_DIR = pathlib.Path(os.environ["MUSTER_BIN_DIR"])
AGENTS = 300


@pytest.mark.parametrize(("fanout", "relays"), [(0, 0), (16, 16)])
def test_all_connect_run_end_and_come_back(fanout, relays):
    done = subprocess.run([BIN_DIR / "agent_sim", "--json", "--ranks", "4", "--fanout", str(fanout), "--bin-dir", BIN_DIR,
                           str(AGENTS)], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done  # it compares /metrics with what it has done
    (measured,) = map(json.loads, done.stdout.splitlines())
    assert (measured["agents"], measured["relays"], measured["ranks"]) == (AGENTS, relays, 4 * AGENTS)
    assert measured["cuts"] == 0, done.stderr
    assert all(measured[phase] > 0 for phase in ("connect_s", "start_s", "exits_s", "kill_s", "back_s")), measured
