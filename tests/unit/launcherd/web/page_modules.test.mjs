// Tests the modules of launcherd's page that need no browser: node --test page_modules.test.mjs
import assert from "node:assert";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import test from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

// node reads .js files as modules only if a package.json says so, so the tests import copies.
const source = path.join(path.dirname(fileURLToPath(import.meta.url)), "../../../../launcherd/web/page");
const copies = mkdtempSync(path.join(tmpdir(), "page-"));
writeFileSync(path.join(copies, "package.json"), '{"type": "module"}');
for (const file of readdirSync(source).filter((name) => name.endsWith(".js"))) {
  writeFileSync(path.join(copies, file), readFileSync(path.join(source, file)));
}
const load = (name) => import(pathToFileURL(path.join(copies, `${name}.js`)));

const format = await load("format");
const { Terminal, styleClasses } = await load("terminal");
const { matcherOf, piecesOf } = await load("log");
const { StackClasses, shortPath } = await load("stacks");
const { takeEvents } = await load("api");
const { causeOf, pagesOf } = await load("ranks");
const { detailsOf, hangText, sourceOf, stuckFor } = await load("hang");
const { rootCause, textOf } = await load("events");
const { rowsOf, timeLine } = await load("gantt");
const { lines } = await load("graph");
const { arrayText, countsOf } = await load("elements");
const { healthOf, describeHost } = await load("hosts");

// Returns the lines that a terminal shows after these chunks.
function shown(...chunks) {
  const made = [];
  const terminal = new Terminal(() => {
    made.push({ text: "", styles: "" });
    return made[made.length - 1];
  }, () => {});
  for (const chunk of chunks) terminal.add(chunk);
  for (const line of made) assert.equal(line.text.length, line.styles.length);
  return made;
}
const texts = (...chunks) => shown(...chunks).map((line) => line.text);

test("a terminal's line is what is left of it", () => {
  assert.deepEqual(texts("one\ntwo\n"), ["one", "two"]);
  assert.deepEqual(texts("\n\na"), ["", "", "a"]);
  assert.deepEqual(texts("10%\r20%\r100% done\n"), ["100% done"]);
  assert.deepEqual(texts("a long first try\rsecond\x1b[K\r\n"), ["second"]);
  assert.deepEqual(texts("abc\b\bX"), ["aXc"]);
  assert.deepEqual(texts("abc\x1b[2K"), ["   "]);
  assert.deepEqual(texts("abcdef\r\x1b[3Cx"), ["xbcdef"]);  // movements in a line are left out
  assert.deepEqual(texts("abcdef\b\b\x1b[1Kx"), ["    xf"]);
  assert.deepEqual(texts("a\x1b]0;title\x07b"), ["ab"]);
});

test("sequences continue in the next chunk", () => {
  const [line] = shown("\x1b[3", "1mred\x1b", "[0m plain");
  assert.equal(line.text, "red plain");
  assert.deepEqual([...line.styles].map(styleClasses), ["fg1", "fg1", "fg1", "", "", "", "", "", ""]);
});

test("colours become classes", () => {
  const classesOf = (sequence) => styleClasses(shown(`${sequence}x`)[0].styles[0]);
  assert.equal(classesOf("\x1b[1;32m"), "fg2 bold");
  assert.equal(classesOf("\x1b[97m"), "fg15");
  assert.equal(classesOf("\x1b[41;30m"), "bg1");
  assert.equal(classesOf("\x1b[32;7m"), "bg2");
  assert.equal(classesOf("\x1b[38;5;196m"), "fg9");
  assert.equal(classesOf("\x1b[38;5;240m"), "fg8");
  assert.equal(classesOf("\x1b[38;2;0;0;128m"), "fg4");
  assert.equal(classesOf("\x1b[31m\x1b[m"), "");
  assert.equal(classesOf("\x1b[3;4m"), "italic underline");
});

test("an endless line becomes several, and a bar costs no lines", () => {
  assert.equal(shown(..."x".repeat(50).split("").map((c) => c.repeat(1000))).length, 3);
  assert.equal(shown(...Array.from({ length: 10000 }, (_, i) => `\r${i}%`)).length, 1);
});

test("a search splits lines into pieces", () => {
  const plain = "\0".repeat(8);
  const pieces = (text, styles, found) => piecesOf(text, styles, found).map((each) => (each.isMatch ? `<${each.text}>` : each.text));
  assert.deepEqual(pieces("abcdefgh", plain, [[2, 4], [6, 8]]), ["ab", "<cd>", "ef", "<gh>"]);
  assert.deepEqual(pieces("abcdefgh", "\0\0\0\x01\x01\x01\x01\x01", [[2, 5]]), ["ab", "<c>", "<de>", "fgh"]);
  assert.deepEqual(pieces("", "", []), []);
  assert.deepEqual("Line a.c".match(matcherOf("a.c", false)), ["a.c"]);
  assert.equal("Line abc".match(matcherOf("a.c", false)), null);
  assert.deepEqual("Line abc".match(matcherOf("L.N", true)), null);
  assert.deepEqual("Line abc".match(matcherOf("l.n", true)), ["Lin"]);
  assert.throws(() => matcherOf("(", true));
});

test("ranks are read and written as lists", () => {
  const wanted = format.rankFilter("0-3, 7");
  assert.deepEqual([0, 3, 4, 7, 8].map(wanted), [true, true, false, true, false]);
  assert.equal(format.rankFilter("x"), null);
  assert.equal(format.rankFilter("")(5), true);
  assert.equal(format.rankList([0, 1, 2, 7, 9, 10]), "0-2,7,9-10");
  assert.equal(format.rankNames([4]), "rank 4");
});

test("values become words", () => {
  assert.equal(format.duration(59400), "59 s");
  assert.equal(format.duration(3 * 3600e3 + 5 * 60e3), "3 h 5 min");
  assert.equal(format.rate("999"), "999 B/s");
  assert.equal(format.rate(1234567), "1.2 MB/s");
  assert.equal(format.mib("524288"), "512 GiB");
  assert.equal(format.shellLine(["python3", "a b.py", "it's", ""]), "python3 'a b.py' 'it'\\''s' ''");
  assert.equal(format.bytesText("L2hvbWUvw6Q="), "/home/ä");
});

const ended = (rank, more) => ({ rank, host: "n1", pid: "7", kind: "RANK_END_KIND_EXITED", exit_code: 0, signal: 0, out_of_memory: false,
                                 detail: "", without_finalize: false, ...more });

test("a rank's cause is one of the legend", () => {
  const facts = { root: 3, suspects: new Set([5]), late: new Set([6]) };
  const of = (rank, end) => causeOf({ rank, state: end ? "RANK_STATE_ENDED" : "RANK_STATE_RUNNING", end, pid: "7" }, facts);
  assert.equal(of(3, ended(3, { exit_code: 1 })), "root");
  assert.equal(of(4, ended(4, { exit_code: 1 })), "failed");
  assert.equal(of(4, ended(4, { kind: "RANK_END_KIND_STOPPED", signal: 15 })), "stopped");
  assert.equal(of(4, ended(4, { kind: "RANK_END_KIND_SIGNALLED", signal: 9, out_of_memory: true })), "oom");
  assert.equal(of(4, ended(4)), "good");
  assert.equal(of(5), "suspect");
  assert.equal(of(6), "late");
  assert.equal(of(7), "running");
  assert.equal(causeOf({ rank: 1, state: "RANK_STATE_WAITING" }, facts), "waiting");
});

test("the root cause is the first failure of the newest attempt", () => {
  const failure = (rank) => ({ rank_ended: ended(rank, { exit_code: 1 }) });
  assert.equal(rootCause([]), -1);
  assert.equal(rootCause([failure(2), failure(1)]), 2);
  assert.equal(rootCause([failure(2), { job_restarting: { attempt: 1 } }]), -1);
  assert.equal(rootCause([failure(2), { job_ended: { exit_code: 1, root_cause_rank: 5 } }]), 5);
});

test("every event has words", () => {
  assert.deepEqual(textOf({ rank_ended: ended(2, { exit_code: 7 }) }), ["bad", "rank 2 on n1: exit code 7"]);
  assert.match(textOf({ hang_reported: { cause: "rank 3 is not in allreduce" } })[1], /may hang: rank 3/);
  assert.match(textOf({ wrong_world: { size: 4, formed: [{ size: 1, ranks: [0, 1, 2, 3] }] } })[1], /groups of 1 \(ranks 0-3\)/);
  assert.match(textOf({ late_host: { host: "n7", late: "90", operations: "100" } })[1], /n7 was late in 90 of 100/);
  assert.match(textOf({ hosts_left_out: { hosts: ["n1", "n2", "n3"], reasons: ["a", "a", "a"] } })[1], /without 3 hosts that are not up: n\[1-3\]/);
  assert.deepEqual(textOf({ element_changed: { index: 17, state: "JOB_STATE_FAILED", exit_code: 3 } }), ["bad", "element 17: FAILED, exit code 3"]);
  assert.deepEqual(textOf({ element_changed: { index: 17, state: "JOB_STATE_STARTING" } }), ["", "element 17: STARTING"]);
  assert.deepEqual(textOf({ notify_failed: { reason: "exit code 3" } }), ["bad", "its --notify command failed: exit code 3"]);
  assert.match(textOf({})[1], /newer launcherd/);
});

test("many hosts are few words", () => {
  const names = (count) => Array.from({ length: count }, (_, i) => `n${String(i + 1).padStart(5, "0")}`);
  assert.equal(format.hostList([]), "");
  assert.equal(format.hostList(["n1", "n2"]), "n1,n2");
  assert.equal(format.hostList(["n8", "n10", "n9", "login"]), "n[8-10],login");
  assert.equal(format.hostList(names(10000)), "n[00001-10000]");
  const odd = names(10000).filter((_, i) => i % 2 === 0);
  assert.ok(format.hostList(odd).length < 140, format.hostList(odd));
  assert.match(format.hostList(odd), / and \d+ more$/);
});

const at = (seconds) => new Date(1.7e12 + seconds * 1000).toISOString();

test("a time line has phases and runs of ranks", () => {
  const job = { submitted: at(0), ranks: [{ rank: 0, host: "n1" }, { rank: 1, host: "n1" }] };
  const { phases, runs } = timeLine(job, [
    { time: at(5), job_starting: { placement: { hosts: [] } } }, { time: at(6), rank_up: { rank: 0 } }, { time: at(6), rank_up: { rank: 1 } },
    { time: at(7), job_state_changed: { state: "JOB_STATE_RUNNING" } }, { time: at(9), rank_ended: ended(1, { exit_code: 2 }) },
    { time: at(10), job_stopping: { reason: "" } }, { time: at(11), rank_ended: ended(0, { kind: "RANK_END_KIND_STOPPED" }) },
    { time: at(12), job_ended: { exit_code: 2, root_cause_rank: 1 } }], 0);
  assert.deepEqual(phases.map((phase) => [phase.name, (phase.to - phase.from) / 1000]),
                   [["waiting", 5], ["starting", 2], ["running", 3], ["stopping", 2]]);
  assert.deepEqual(runs.map((run) => [run.rank, run.className, (run.to - run.from) / 1000]), [[0, "stopped", 5], [1, "root", 3]]);
  assert.deepEqual(rowsOf(runs).rows.map((row) => row.name), ["rank 0", "rank 1"]);
});

test("a time line of many ranks has a row for each host", () => {
  const runs = Array.from({ length: 1000 }, (_, rank) => ({ rank, host: `n${Math.floor(rank / 10)}`, from: 0, to: rank, className: "running" }));
  const { rows, hidden, byHost } = rowsOf(runs);
  assert.ok(byHost);
  assert.equal(rows.length, 64);
  assert.equal(hidden, 36);
  assert.deepEqual(rows[0].bars.map((bar) => bar.to), [9]);
});

test("a graph's line has gaps where nothing is known", () => {
  const points = [{ time: at(0), cpu_percent: 0 }, { time: at(10), cpu_percent: 100 }, { time: at(20) }, { time: at(100), cpu_percent: 50 }];
  const parts = lines(points, "cpu_percent", 1.7e12, 1.7e12 + 100e3, 100);
  assert.equal(parts.length, 2);
  assert.deepEqual(parts[0], ["0.0,43.0", "22.0,1.0"]);
});

test("equal stacks are one class, the smallest first", () => {
  const thread = (pid, line) => ({ tids: [pid], name: "python3", state: "S", wait_channel: "futex", kernel: [], user: [], problem: "", python_problem: "",
                                   python: [{ function: "step", file: "/x/train.py", line }, { function: "main", file: "/x/train.py", line: 1 }] });
  const process = (rank, line) => ({ rank, host: `n${rank % 2}`, pid: String(100 + rank), command: "python3", python: "3.11.2", problem: "",
                                     threads: [thread(String(100 + rank), line), { ...thread("9", 0), python: [] }] });
  const silent = { rank: 9, host: "n9", pid: "0", command: "", python: "", problem: "n9 did not answer", threads: [] };
  const processes = [...[0, 1, 2, 4].map((rank) => process(rank, 7)), process(3, 9), silent];
  const found = new StackClasses();
  processes.forEach((each) => found.know(each));
  processes.forEach((each) => found.add(each));
  const [classes, problems, hidden] = [found.sorted(), found.problems, found.hidden];
  assert.deepEqual(classes.map((each) => [format.rankList([...each.ranks].sort()), each.python]),
                   [["3", ["main (train.py:1)", "step (train.py:9)"]], ["0-2,4", ["main (train.py:1)", "step (train.py:7)"]]]);
  assert.deepEqual(problems, ["n9 did not answer"]);
  assert.equal(hidden, 5);
  assert.equal(shortPath("/a/torch/__init__.py"), "torch/__init__.py");
});

test("a host has a health and words for it", () => {
  const host = { name: "n1", agent: "AGENT_STATE_UP", slots: 4, used_slots: 2, ranks: 2, gpus: [], left_out: [], problem: "", reason: "",
                 gpu_problem: "", drained: false, memory_mib: "1000", load: { cpu_percent: 7, memory_used_mib: "500", gpus: [] } };
  assert.deepEqual(healthOf(host), ["good", "✓"]);
  assert.equal(healthOf({ ...host, drained: true })[0], "drained");
  assert.equal(healthOf({ ...host, agent: "AGENT_STATE_FAILED" })[0], "failed");
  assert.equal(healthOf({ ...host, left_out: [{ job: "k7", reason: "died" }] })[0], "left out");
  assert.equal(describeHost(host), "n1: good, 2 of 4 slots, 2 ranks, CPU 7%, memory 50%");
});

test("a large job has pages of ranks", () => {
  const ranks = Array.from({ length: 30 }, (_, rank) => ({ rank, host: `n${Math.floor(rank / 10)}` }));
  const shape = (most) => pagesOf(ranks, most).map((rows) => rows.map((row) => `${row.host}:${format.rankList(row.ranks.map((each) => each.rank))}`));
  assert.deepEqual(shape(100), [["n0:0-9", "n1:10-19", "n2:20-29"]]);
  assert.deepEqual(shape(25), [["n0:0-9", "n1:10-19"], ["n2:20-29"]]);
  assert.deepEqual(shape(8)[0], ["n0:0-7"]);  // a host with more ranks than a page has several rows
  assert.deepEqual(pagesOf([], 8), []);
});

test("a rank is late if it came last in most of its operations", () => {
  const late = [{ rank: 1, late: "60", operations: "100" }, { rank: 2, late: "50", operations: "100" }];
  assert.deepEqual(format.lateRanks({ late }).map((each) => each.rank), [1]);
  assert.deepEqual(format.lateRanks({}), []);
  assert.equal(format.isHeld({ held: true, state: "JOB_STATE_QUEUED" }), true);
  assert.equal(format.isHeld({ held: true, state: "JOB_STATE_KILLED" }), false);
});

const stuck = (rank, more) => ({ rank, host: "n2", python: [{ function: "step", file: "/x/train.py", line: 41 }], native: "", awaits: "", state: "S",
                                 wait_channel: "futex", last_line: "", problem: "", python_source: "", cpu_ms: "3", looked_ms: "1000", ...more });

test("a hang report is read as text", () => {
  const place = { operation: "allreduce", name: "grad/17", begun: "18", ended: "17", since_ms: "65000" };
  const report = { cause: "rank 3 is not in allreduce", silent_ms: "66000", answered: 4, size: 4, silent_hosts: ["n9"],
                   nccl: [{ text: "NCCL: rank 3 is missing", ranks: [3] }],
                   classes: [{ suspect: true, ranks: [3], example: stuck(3, { state_ms: "70000" }) },
                             { suspect: false, ranks: [0, 1, 2], example: stuck(0, { collective: place, torch: { group: "pg", sequence: "18",
                               operation: "nccl:all_reduce", state: "started" } }) }] };
  const text = hangText("k7", report);
  assert.match(text, /^job k7: rank 3 is not in allreduce\n/);
  assert.match(text, /suspect: rank 3, as rank 3 on n2\n {2}\/x\/train.py:41 in step, for 1 min 10 s\n/);
  assert.match(text, /ranks 0-2.*\n.*for 1 min 5 s\n {2}libmuster: in allreduce grad\/17, operation 18/);
  assert.match(text, /torch: nccl:all_reduce started, number 18 in pg/);
  assert.match(text, /\nNCCL: rank 3 is missing\n\nhosts that did not answer: n9\n$/);
});

test("a rank's place is its source line, and the time there is the most exact one", () => {
  assert.equal(sourceOf(stuck(1)), "/x/train.py:41 in step");
  assert.equal(sourceOf(stuck(1, { python: [], native: "poll" })), "poll");
  assert.equal(sourceOf(stuck(1, { python: [] })), "not known");
  assert.equal(stuckFor(stuck(1)), null);
  assert.equal(stuckFor(stuck(1, { silent_ms: "5" })), 5);
  assert.equal(stuckFor(stuck(1, { state_ms: "6", awaits: "the key x", awaits_ms: "7" })), 7);
  assert.ok(detailsOf(stuck(1, { fully_stopped: true, python_source: "py-spy" })).includes("Python frames by py-spy"));
});

test("a stream is split into events, and the last one may be incomplete", () => {
  const taken = [];
  assert.equal(takeEvents('id: 7\nevent: log\ndata: {"a": "b"}\n\n: still here\n\nevent: end\ndata: {}\n\nid: 9\nda', (each) => taken.push(each)), "id: 9\nda");
  assert.deepEqual(taken, [{ id: "7", event: "log", data: '{"a": "b"}' }, {}, { event: "end", data: "{}" }]);
});

test("an array is described by the states of its elements", () => {
  const array = { elements: [{ first: 0, last: 1999 }], most_at_once: 4, waiting: "1200", running: "4", succeeded: 795, failed: "1", killed: "0" };
  assert.deepEqual(countsOf(array), [["waiting", 1200], ["running", 4], ["succeeded", 795], ["failed", 1]]);
  assert.equal(arrayText(array), "2,000 elements: 1,200 waiting, 4 running, 795 succeeded, 1 failed; at most 4 at once");
  assert.equal(arrayText({ waiting: 3 }), "3 elements: 3 waiting");
});
