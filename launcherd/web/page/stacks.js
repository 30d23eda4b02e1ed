// The stacks of all ranks, merged: ranks with equal stacks are one class, the smallest class first.
import { follow } from "./api.js";
import { Slices, byId, element, setText } from "./dom.js";
import { clockTime, rankNames, zoneAt } from "./format.js";

const MOST_CLASSES = 100;
const STATES = { R: "running", S: "sleeping", D: "not to be interrupted", T: "stopped", t: "being traced", I: "idle" };

// Returns the last part of a path. Files named __init__.py keep their folder.
export function shortPath(path) {
  const parts = path.split("/");
  return parts.slice(parts[parts.length - 1] === "__init__.py" ? -2 : -1).join("/");
}

const pythonText = (frame) => `${frame.function} (${shortPath(frame.file)}${frame.line > 0 ? `:${frame.line}` : ""})`;
const nativeText = (frame) => (frame.function || "?") + (frame.module ? ` [${shortPath(frame.module)}]` : "");
const stateText = (thread) => (STATES[thread.state] || "in another state") + (thread.wait_channel ? ` in ${thread.wait_channel}` : "");

// Puts threads with equal stacks into classes, as `muster stacks` does. First give each process to `know`, then each to
// `add`.
export class StackClasses {
  constructor() {
    Object.assign(this, { classes: new Map(), problems: [], own: new Map(), hidden: 0 });
  }

  // Finds the process that is the rank itself.
  know(process) {
    if (process.problem) this.problems.push(process.pid === "0" ? process.problem : `rank ${process.rank}, ${process.command}: ${process.problem}`);
    const known = this.own.get(process.rank);
    if (process.pid !== "0" && (!known || (!known.python && process.python))) this.own.set(process.rank, process);
  }

  add(process) {
    if (process.pid === "0") return;
    for (const thread of process.threads) this.addThread(process, thread);
  }

  addThread(process, thread) {
    const python = thread.python.map(pythonText).reverse();
    const native = thread.user.map(nativeText).reverse();
    const problem = [thread.python_problem, thread.problem].filter(Boolean).join("; ");
    const count = Math.max(1, thread.tids.length);
    if (process.python && !python.length && !native.length && !problem) {
      this.hidden += count;
      return;
    }
    const command = this.own.get(process.rank) === process ? "" : process.command;
    const isMain = thread.tids.includes(process.pid);
    const key = JSON.stringify([python, native, thread.kernel, problem, command, isMain]);
    if (!this.classes.has(key)) {
      this.classes.set(key, { python, native, kernel: thread.kernel, problem, command, isMain, ranks: new Set(), hosts: new Set(),
                              states: new Map(), threads: 0, name: thread.name, pid: process.pid });
    }
    const to = this.classes.get(key);
    to.ranks.add(process.rank);
    to.hosts.add(process.host);
    to.states.set(stateText(thread), (to.states.get(stateText(thread)) || 0) + count);
    to.threads += count;
  }

  // Returns the classes, the smallest first.
  sorted() {
    const place = (each) => [each.ranks.size, each.command ? 1 : 0, each.isMain ? 0 : 1];
    return [...this.classes.values()].sort((a, b) => {
      const [left, right] = [place(a), place(b)];
      const at = left.findIndex((value, i) => value !== right[i]);
      return at < 0 ? 0 : left[at] - right[at];
    });
  }
}

function classBox(each, isOpen) {
  const box = element("details", undefined, "stack");
  box.open = isOpen;
  const ranks = [...each.ranks].sort((a, b) => a - b);
  const states = [...each.states].map(([state, count]) => (each.states.size > 1 ? `${count} ${state}` : state)).join(", ");
  const who = each.command ? `, started ${each.command}` : each.isMain ? "" : `, thread ${each.name}`;
  const head = element("summary");
  head.append(element("strong", rankNames(ranks)), `${who} on ${[...each.hosts].sort().slice(0, 3).join(", ")}` +
    `${each.hosts.size > 3 ? ` and ${each.hosts.size - 3} more hosts` : ""}: ${states}`);
  const frames = element("ol");
  for (const frame of each.python) frames.append(element("li", frame, "python"));
  for (const frame of each.native) frames.append(element("li", frame));
  for (const frame of [...each.kernel].reverse()) frames.append(element("li", `kernel: ${frame}`, "dim"));
  if (each.problem) frames.append(element("li", each.problem, "bad"));
  box.append(head, frames);
  return box;
}

const reading = { close: null, slices: new Slices() };

export function clearStacks() {
  if (reading.close) reading.close();
  reading.close = null;
  reading.slices.stop();
  byId("stacks").replaceChildren();
  setText(byId("stacks-state"), "");
}

// Shows the stacks in `texts`, which are processes in JSON.
async function showStacks(texts) {
  const found = new StackClasses();
  const processes = [];
  const know = (i) => found.know(processes[i] = JSON.parse(texts[i]));
  if (!await reading.slices.run(texts.length, know)) return;
  if (!await reading.slices.run(processes.length, (i) => found.add(processes[i]))) return;
  const classes = found.sorted();
  byId("stacks").replaceChildren(...found.problems.slice(0, MOST_CLASSES).map((problem) => element("p", problem, "bad")),
                                 ...classes.slice(0, MOST_CLASSES).map((each, i) => classBox(each, i < 3)));
  const notes = [`${classes.length} different stacks of ${new Set(processes.map((process) => process.rank)).size} ranks`];
  if (found.hidden) notes.push(`${found.hidden} threads run no Python code`);
  if (found.problems.length > MOST_CLASSES) notes.push(`${found.problems.length - MOST_CLASSES} more problems are not shown`);
  if (classes.length > MOST_CLASSES) notes.push(`the ${classes.length - MOST_CLASSES} largest classes are not shown`);
  setText(byId("stacks-state"), `${notes.join("; ")}; read at ${clockTime(Date.now())} ${zoneAt(Date.now())}`);
}

// `failed` reports an error.
export function readStacks(job, failed) {
  clearStacks();
  const texts = [];
  setText(byId("stacks-state"), "reading …");
  const query = byId("native").checked ? "?native=1" : "";
  reading.close = follow(`jobs/${encodeURIComponent(job)}/stacks${query}`, "stack", (text) => texts.push(text), (end) => {
    reading.close = null;
    if (end.message) return setText(byId("stacks-state"), end.message);
    showStacks(texts).catch(failed);
  });
}
