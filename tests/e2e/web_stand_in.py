"""A stand-in for launcherd's HTTP port: the page's own files with answers that are made up here.

It has what a real launcherd seldom has at once: thousands of hosts, a job with thousands of ranks, and a hang report with
NCCL's and PyTorch's findings. Results that come from it must say so.

    with StandIn(ranks=10_000, hosts=1_000, jobs=10_000) as stand_in:
        browse(stand_in.url + "#/job/" + BIG)
"""

import datetime
import http.server
import json
import pathlib
import re
import threading
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "launcherd/web/page"
HEADERS = re.sub(r'"\n *"', "", (ROOT / "launcherd/web/http_exchange.cc").read_text())
POLICY = re.search(r"Content-Security-Policy: (.*?)\\r", HEADERS).group(1)
BIG, HUNG, FAILED, HELD = "bigaaaaa", "hungaaaa", "failaaaa", "heldaaaa"
BEGAN = datetime.datetime(2026, 11, 29, 3, 0, 0, tzinfo=datetime.timezone.utc)


def script():
    """page.js as launcherd/web/CMakeLists.txt joins it."""
    modules = re.search(r"set\(modules (.*?)\)", (PAGE.parent / "CMakeLists.txt").read_text()).group(1).split()
    text = "".join((PAGE / f"{module}.js").read_text() for module in modules)
    return re.sub(r"^export ", "", re.sub(r"^import .*\n", "", text, flags=re.M), flags=re.M)


def at(seconds):
    return (BEGAN + datetime.timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def evidence(rank, **more):
    frames = [{"function": "DataLoader.next", "file": "/home/ann/train.py", "line": 41},
              {"function": "main", "file": "/home/ann/train.py", "line": 7}]
    return {"rank": rank, "host": f"n{rank + 1}", "pid": "4242", "moving": False, "state": "S", "state_ms": "65000",
            "wait_channel": "futex_wait_queue", "python": frames, "native": "", "cpu_ms": "0", "looked_ms": "1000",
            "awaits": "", "last_line": f"step 17 of rank {rank}", "silent_ms": "66000", "problem": "", "fully_stopped": False,
            "python_source": "", **more}


def hang_report(size):
    late = {"size": size, "begun": "17", "ended": "17", "operation": "allreduce", "name": "grad/16", "since_ms": "65000", "beats": "0"}
    waits = {**late, "begun": "18", "name": "grad/17"}
    torch = {"group": "default_pg", "sequence": "18", "operation": "nccl:all_reduce", "state": "started"}
    return {"silent_ms": "66000", "generation": 0, "size": size, "answered": size, "looked_ms": "1100",
            "cause": f'rank 3 is not in allreduce "grad/17", in which {size - 1} ranks wait',
            "classes": [{"suspect": True, "ranks": [3], "example": evidence(3, collective=late)},
                        {"suspect": False, "ranks": [rank for rank in range(size) if rank != 3],
                         "example": evidence(0, collective=waits, torch=torch, native="pthread_cond_wait")}],
            "silent_hosts": [], "nccl": [{"text": "NCCL: rank 3 of communicator 0x7f did not enter AllReduce 18", "ranks": [3]}]}


class Answers:
    """The made-up content."""

    def __init__(self, ranks, hosts, jobs, features):
        self.ranks, self.hosts, self.jobs, self.features = ranks, hosts, jobs, features
        self.special = {BIG: self.job(BIG, ranks), HUNG: self.job(HUNG, 16), FAILED: self.job(FAILED, 16),
                        HELD: self.job(HELD, 4)}
        self.special[HUNG]["hang"] = hang_report(16)
        self.special[HUNG]["late"] = [{"rank": 5, "host": "n2", "late": "90", "operations": "100", "median_us": "51000"}]
        self.special[HUNG]["wrong_world"] = {"size": 16, "reason": "The program does not read MUSTER_SIZE.", "formed": [
            {"size": 1, "ranks": [0, 1, 2], "source": "PMI"}]}
        self.fail(self.special[FAILED])
        self.special[HELD] |= {"state": "JOB_STATE_QUEUED", "held": True, "reason": "held", "ranks": [], "hosts": []}

    def host_of(self, rank, size):
        return f"n{rank * min(self.hosts, size) // size + 1}"

    def job(self, name, size):
        ranks = [{"rank": rank, "host": self.host_of(rank, size), "state": "RANK_STATE_RUNNING", "pid": str(1000 + rank),
                  "binding": {"cpus": f"{rank % 8}", "gpus": [], "devices": []}} for rank in range(size)]
        hosts = dict.fromkeys(rank["host"] for rank in ranks)
        return {"id": name, "name": f"job {name}", "state": "JOB_STATE_RUNNING", "command": ["python3", "train.py", "--size", str(size)],
                "size": size, "attempt": 0, "priority": 0, "labels": [], "reason": "", "started": at(5), "submitted": at(0),
                "launcher_host": "head", "launcher_pid": "77", "last_event": "0", "last_change": "", "environment_names": [],
                "roles": [], "failed_hosts": [], "elastic_policy": "ELASTIC_POLICY_UNSPECIFIED", "late": [], "held": False,
                "user": "ann", "working_directory": "/home/ann/project", "hints": [], "output_bytes_per_second": "2048",
                "hosts": [{"name": host, "up": True, "suspect": False, "link": "ssh", "containment": "cgroup", "ranks": 1} for host in hosts],
                "ranks": ranks}

    @staticmethod
    def fail(job):
        for rank in job["ranks"]:
            is_root = rank["rank"] == 3
            end = {"rank": rank["rank"], "host": rank["host"], "pid": rank["pid"], "pid_inside": rank["pid"], "exit_code": int(is_root),
                   "kind": "RANK_END_KIND_EXITED" if is_root else "RANK_END_KIND_STOPPED", "signal": 0 if is_root else 15,
                   "out_of_memory": False, "detail": "", "without_finalize": False, "spawn_refused": False}
            rank |= {"state": "RANK_STATE_ENDED", "end": end}
        job |= {"state": "JOB_STATE_FAILED", "exit_code": 1, "ended": at(60), "reason": "rank 3 on n4 ended with exit code 1",
                "hints": ["Rank 3 ran out of memory: use a smaller batch.", "The host has 512 MiB left: give the job more hosts."]}

    def listed(self, query):
        page, size = int(query.get("page_token") or 0), int(query.get("page_size") or 100)
        names = [*self.special, *(f"copy{i:04x}" for i in range(self.jobs - len(self.special)))]
        if "states" in query:
            names = [BIG, HUNG] if "running" in query["states"] else [HELD]
        shown = [{**(self.special.get(name) or self.job(name, 1)), "ranks": [], "hosts": []} for name in names[page:page + size]]
        more = page + size < len(names)
        return {"jobs": shown, "next_page_token": str(page + size) if more else "", "total": len(names)}

    def host(self, number):
        busy = number * 37 % 100
        load = {"cpu_percent": busy, "memory_used_mib": str(busy * 100), "gpus": [], "network_bytes_per_second": str(busy * 10000)}
        return {"name": f"n{number}", "slots": 10, "used_slots": busy // 10, "drained": number % 97 == 0, "reason": "", "agent": "AGENT_STATE_UP",
                "problem": "", "jobs": 1, "hostname": f"n{number}.example", "cores": 8, "memory_mib": "10000", "gpus": [], "containment": "cgroup",
                "kernel": "6.1", "agent_build": "", "load": load, "output_bytes_per_second": str(busy), "output_bytes": "0", "ranks": busy // 10,
                "gpu_problem": "", "gpu_driver": "", "left_out": []}

    def history(self):
        points = [{"time": at(10 * i), "cpu_percent": i * 7 % 100, "memory_used_mib": "500", "output_bytes_per_second": "2048",
                   "steps_per_second": 3.5, "network_bytes_per_second": str(1000000 + i)} for i in range(60)]
        return {"job": points, "hosts": [{"host": "n1", "points": points}]}

    def events(self, job):
        placement = {}
        for rank in job["ranks"]:
            placement.setdefault(rank["host"], []).append(rank["rank"])
        yield {"time": at(1), "job_starting": {"placement": {"size": job["size"], "hosts": [
            {"name": name, "ranks": ranks} for name, ranks in placement.items()]}}}
        for rank in job["ranks"]:
            yield {"time": at(2 + rank["rank"] / job["size"]), "rank_up": {"rank": rank["rank"], "pid": rank["pid"]}}
        if job["ranks"]:
            yield {"time": at(5), "job_state_changed": {"state": "JOB_STATE_RUNNING", "reason": ""}}
        if job["state"] == "JOB_STATE_FAILED":
            yield from ({"time": at(50), "rank_ended": rank["end"]} for rank in job["ranks"])
            yield {"time": at(60), "job_ended": {"exit_code": 1, "root_cause_rank": 3}}

    def answer(self, path, query):
        match path.strip("/").split("/")[1:]:
            case ["launcher"]:
                return {"features": self.features}
            case ["jobs"]:
                return self.listed(query)
            case ["hosts"]:
                return {"hosts": [self.host(number) for number in range(1, self.hosts + 1)]}
            case ["hosts", name]:
                return self.host(int(name[1:]))
            case ["history"]:
                return self.history()
            case ["jobs", name]:
                job = self.special.get(name) or self.job(name, 1)
                first = int(query.get("first_rank", 0))
                return {**job, "ranks": job["ranks"][first:first + int(query.get("max_ranks", 10_000))]}
            case ["jobs", _, "spec"]:
                return {"working_directory": ""}
            case ["jobs", name, "hang"] if "hang" in self.special.get(name, {}):
                return hang_report(16)
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send(self, status, kind, body):
        self.send_response(status)
        for name, value in (("Content-Type", kind), ("Content-Length", len(body)), ("Content-Security-Policy", POLICY)):
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def send_events(self, name, events):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for i, event in enumerate(events):
            self.wfile.write(f"id: {i}\nevent: {name}\ndata: {json.dumps(event)}\n\n".encode())
        self.server.stop.wait()

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        files = {"/": ("text/html; charset=utf-8", lambda: (PAGE / "page.html").read_text()),
                 "/page.css": ("text/css", lambda: (PAGE / "page.css").read_text()), "/page.js": ("text/javascript", script)}
        if url.path in files:
            kind, content = files[url.path]
            return self.send(200, kind, content().encode())
        answers = self.server.answers
        name = url.path.split("/")[3] if url.path.startswith("/api/jobs/") else ""
        if url.path.endswith("/events"):
            return self.send_events("event", answers.events(answers.special.get(name) or answers.job(name, 1)))
        if url.path.endswith("/logs"):
            return self.send_events("log", ({"rank": i % 4, "stream": f"OUTPUT_STREAM_KIND_STD{'ERR' if i % 5 == 0 else 'OUT'}", "time": at(i),
                                             "data": "G1szMm1zdGVwG1swbSBvZiB0aGUgam9iCg==", "lost_bytes": "0"} for i in range(40)))
        with self.server.asked:
            if url.path == "/api/launcher":
                self.server.asked.wait_for(lambda: self.server.job_asks >= self.server.job_asks_before_launcher, 20)
            elif name and url.path == f"/api/jobs/{name}":
                self.server.job_asks += 1
                self.server.asked.notify_all()
        found = answers.answer(url.path, query)
        status = 404 if found is None else 200
        return self.send(status, "application/json", json.dumps(found or {"code": "NOT_FOUND", "message": "unknown"}).encode())

    def do_POST(self):
        self.server.posts.append(self.path)
        self.send(200, "application/json", json.dumps({"job": "newaaaaa"}).encode())


class StandIn:
    """A context manager. `posts` holds the paths of the actions that the page asked for."""

    def __init__(self, ranks=64, hosts=16, jobs=250, features=("http-write",)):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.answers = Answers(ranks, hosts, jobs, list(features))
        self.server.stop = threading.Event()
        self.posts = self.server.posts = []
        # /api/launcher is answered after so many requests for a job.
        self.server.asked, self.server.job_asks, self.server.job_asks_before_launcher = threading.Condition(), 0, 0
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.server.stop.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


if __name__ == "__main__":
    import sys
    with StandIn(*map(int, sys.argv[1:])) as made:
        print(made.url, flush=True)
        threading.Event().wait()
