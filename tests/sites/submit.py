"""What qsub does after its options are read: the job's folder, and its server in the background."""

import json
import os
import subprocess
import sys

from site_state import State

HERE = os.path.dirname(os.path.abspath(__file__))


def submit(job, state=None):
    """job: see server.py; {number} in its files and `describe` is replaced. The number."""
    state = state or State()
    folder = state.new_job(job)
    number = int(folder.name)
    job = fill(job, number) | {"number": number}
    (folder / "job.json").write_text(json.dumps(job))
    log = open(folder / "server.log", "ab")
    subprocess.Popen([sys.executable, "-IS", f"{HERE}/server.py", str(folder)], stdin=subprocess.DEVNULL, stdout=log,
                     stderr=log, start_new_session=True, cwd="/")
    return number


def fill(value, number):
    if isinstance(value, str):
        return value.replace("{number}", str(number))
    if isinstance(value, dict):
        return {key: fill(item, number) for key, item in value.items()}
    if isinstance(value, list):
        return [fill(item, number) for item in value]
    return value


def seconds(text):
    """[[HH:]MM:]SS."""
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part)
    return total
