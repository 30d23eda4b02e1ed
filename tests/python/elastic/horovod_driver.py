"""Runs an elastic job with the ElasticDriver of a real Horovod, whose workers are programs with Muster's drop-in.

    horovod_driver.py MIN FIRST DISCOVERY_SCRIPT PROGRAM...

The workers run under the Python $WORKER_PYTHON, with PYTHONPATH=$WORKER_PATH. Prints a line of JSON at the end: the exit
codes by worker, of those that have ended in the last world."""

import itertools
import json
import os
import subprocess
import sys
import time

from horovod.runner.elastic.discovery import HostDiscoveryScript
from horovod.runner.elastic.driver import ElasticDriver
from horovod.runner.elastic.rendezvous import create_rendezvous_handler
from horovod.runner.http.http_server import RendezvousServer


def main():
    """Runs the job."""
    least, first, script, *program = sys.argv[1:]
    rendezvous = RendezvousServer(0)
    driver = ElasticDriver(rendezvous, HostDiscoveryScript(script, 1), int(least), 4, timeout=60)
    port = rendezvous.start(create_rendezvous_handler(driver))
    driver.wait_for_available_slots(int(first))
    numbers = itertools.count()

    def work(slot, events):
        variables = {**os.environ, "HOROVOD_ELASTIC": "1", "HOROVOD_HOSTNAME": slot.hostname,
                     "MUSTER_HOSTNAME": slot.hostname, "HOROVOD_RANK": str(slot.rank), "HOROVOD_SIZE": str(slot.size),
                     "HOROVOD_LOCAL_RANK": str(slot.local_rank), "HOROVOD_LOCAL_SIZE": str(slot.local_size),
                     "HOROVOD_CROSS_RANK": str(slot.cross_rank), "HOROVOD_CROSS_SIZE": str(slot.cross_size),
                     "HOROVOD_GLOO_IFACE": "lo", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
                     "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port), "PYTHONPATH": os.environ["WORKER_PATH"],
                     "LOG": f"{os.environ['LOGS']}/{slot.hostname}-{slot.local_rank}.{next(numbers)}.log"}
        with subprocess.Popen([os.environ["WORKER_PYTHON"], *program], env=variables) as process:
            while process.poll() is None:
                if any(event.is_set() for event in events):
                    process.terminate()
                time.sleep(0.02)
        return process.returncode, time.time()

    driver.start(int(first), work)
    results = driver.get_results()
    driver.stop()
    print(json.dumps({name: code for name, (code, _) in results.worker_results.items()}))


if __name__ == "__main__":
    main()
