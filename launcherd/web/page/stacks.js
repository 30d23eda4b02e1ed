// The stacks of all ranks, merged: ranks with equal stacks are one class, the smallest class first.
import { follow } from "./api.js";
import { byId, element, setText } from "./dom.js";
import { rankNames } from "./format.js";

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

// Puts threads with equal stacks into classes, as `muster stacks` does.
export function classifyStacks(processes) {
  const classes = new Map();
  const problems = [];
  const own = new Map();
  let hidden = 0;
  for (const process of processes) {
    if (process.problem) problems.push(process.pid === "0" ? process.problem : `rank ${process.rank}, ${process.command}: ${process.problem}`);
    const known = own.get(process.rank);
    if (process.pid !== "0" && (!known || (!known.python && process.python))) own.set(process.rank, process);
  }
  for (const process of processes) {
    if (process.pid === "0") continue;
    for (const thread of process.threads) {
      const python = thread.python.map(pythonText).reverse();
      const native = thread.user.map(nativeText).reverse();
      const problem = [thread.python_problem, thread.problem].filter(Boolean).join("; ");
      const count = Math.max(1, thread.tids.length);
      if (process.python && !python.length && !native.length && !problem) {
        hidden += count;
        continue;
      }
      const command = own.get(process.rank) === process ? "" : process.command;
      const isMain = thread.tids.includes(process.pid);
      const key = JSON.stringify([python, native, thread.kernel, problem, command, isMain]);
      if (!classes.has(key)) {
        classes.set(key, { python, native, kernel: thread.kernel, problem, command, isMain, ranks: new Set(), hosts: new Set(),
                           states: new Map(), threads: 0, name: thread.name, pid: process.pid });
      }
      const to = classes.get(key);
      to.ranks.add(process.rank);
      to.hosts.add(process.host);
      to.states.set(stateText(thread), (to.states.get(stateText(thread)) || 0) + count);
      to.threads += count;
    }
  }
  const place = (each) => [each.ranks.size, each.command ? 1 : 0, each.isMain ? 0 : 1];
  const sorted = [...classes.values()].sort((a, b) => {
    const [left, right] = [place(a), place(b)];
    const at = left.findIndex((value, i) => value !== right[i]);
    return at < 0 ? 0 : left[at] - right[at];
  });
  return { classes: sorted, problems, hidden };
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

const reading = { close: null };

export function clearStacks() {
  if (reading.close) reading.close();
  reading.close = null;
  byId("stacks").replaceChildren();
  setText(byId("stacks-state"), "");
}

export function readStacks(job) {
  clearStacks();
  const processes = [];
  setText(byId("stacks-state"), "reading …");
  const query = byId("native").checked ? "?native=1" : "";
  reading.close = follow(`jobs/${encodeURIComponent(job)}/stacks${query}`, "stack", (process) => processes.push(process), (end) => {
    reading.close = null;
    if (end.message) return setText(byId("stacks-state"), end.message);
    const { classes, problems, hidden } = classifyStacks(processes);
    byId("stacks").replaceChildren(...problems.map((problem) => element("p", problem, "bad")),
                                   ...classes.slice(0, MOST_CLASSES).map((each, i) => classBox(each, i < 3)));
    const notes = [`${classes.length} different stacks of ${new Set(processes.map((process) => process.rank)).size} ranks`];
    if (hidden) notes.push(`${hidden} threads run no Python code`);
    if (classes.length > MOST_CLASSES) notes.push(`the ${classes.length - MOST_CLASSES} largest classes are not shown`);
    setText(byId("stacks-state"), `${notes.join("; ")}; read at ${new Date().toLocaleTimeString()}`);
  });
}
