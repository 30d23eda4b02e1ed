// Actions with the token of --http-write: kill, signal, hold, release and rerun jobs; drain and resume hosts. Without that flag, launcherd serves none and the page shows none.
import { ask } from "./api.js";
import { byId, element, setText } from "./dom.js";
import { isHeld, isOver, stateOf } from "./format.js";

const SIGNALS = [["USR1", 10], ["USR2", 12], ["HUP", 1], ["INT", 2], ["STOP", 19], ["CONT", 18]];

const actions = { areServed: false, known: null };

// Asks for the token once for this tab.
function askToken() {
  const dialog = byId("token-dialog");
  byId("token").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? byId("token").value.trim() : ""), { once: true });
  });
}

// Returns what to show: a text, and the answer if the action was done.
async function post(path) {
  const token = sessionStorage.getItem("token") || await askToken();
  if (!token) return ["nothing was done", null];
  const response = await fetch(`/api/${path}`, { method: "POST", headers: { "X-Muster-Token": token } });
  const text = await response.text();
  if (response.status === 403) sessionStorage.removeItem("token");
  if (response.ok) sessionStorage.setItem("token", token);
  if (response.ok) return ["done", JSON.parse(text)];
  return [response.headers.get("Content-Type").startsWith("application/json") ? JSON.parse(text).message : text.trim(), null];
}

// `question` returns what `path` needs; null or false if the user does not want the action. `done` gets the answer.
function button(text, where, path, question, done = () => {}) {
  const made = element("button", text);
  made.type = "button";
  made.addEventListener("click", async () => {
    const asked = question();
    if (asked === null || asked === false) return;
    setText(byId(where), `${text} …`);
    try {
      const [shown, answer] = await post(path(asked));
      setText(byId(where), `${text}: ${shown}`);
      if (answer) done(answer);
    } catch (problem) {
      setText(byId(where), `${text}: ${problem.message}`);
    }
  });
  return made;
}

function signalActions(path) {
  const signal = element("select");
  signal.setAttribute("aria-label", "signal");
  signal.append(...SIGNALS.map(([name, number]) => {
    const option = element("option", name);
    option.value = number;
    return option;
  }));
  return [button("send signal", "job-action", () => `jobs/${path}/signal?signal=${signal.value}`, () => true), signal];
}

// The id of a request makes a repeated request the same job.
function rerunAction(path) {
  const request = { id: "" };
  return button("rerun", "job-action", () => `jobs/${path}/rerun?request_id=${request.id ||= crypto.randomUUID()}`, () => true, (answer) => {
    request.id = "";
    const link = element("a", answer.job);
    link.href = `#/job/${encodeURIComponent(answer.job)}`;
    byId("job-action").append(", the new job is ", link);
  });
}

export function showJobActions(job) {
  const box = byId("job-actions");
  box.hidden = !actions.areServed;
  const kind = isOver(job) ? "over" : isHeld(job) ? "held" : stateOf(job) === "queued" ? "waiting" : "running";
  if (box.hidden || box.dataset.key === `${job.id} ${kind}`) return;
  if (box.dataset.job !== job.id) setText(byId("job-action"), "");
  box.dataset.key = `${job.id} ${kind}`;
  box.dataset.job = job.id;
  const path = encodeURIComponent(job.id);
  const simple = (name) => button(name, "job-action", () => `jobs/${path}/${name}`, () => true);
  const kill = button("kill", "job-action", () => `jobs/${path}/kill`, () => confirm(`End job ${job.id}?`));
  const shown = { over: () => [rerunAction(path)], held: () => [kill, simple("release")], waiting: () => [kill, simple("hold")],
                  running: () => [kill, ...signalActions(path)] };
  box.replaceChildren(...shown[kind](), byId("job-action"));
}

export function showHostActions(name) {
  const box = byId("host-actions");
  box.hidden = !actions.areServed;
  if (box.hidden || box.dataset.host === name) return;
  box.dataset.host = name;
  const path = encodeURIComponent(name);
  box.replaceChildren(button("drain", "host-action", (reason) => `hosts/${path}/drain?reason=${encodeURIComponent(reason)}`,
                             () => prompt(`Why is ${name} drained?`, "")),
                      button("resume", "host-action", () => `hosts/${path}/resume`, () => true),
                      byId("host-action"));
  setText(byId("host-action"), "");
}

// Asks launcherd once whether it serves actions. Await this before you show any: a job that has ended is shown only once.
export function knowActions() {
  actions.known ||= ask("launcher").then((answer) => {
    actions.areServed = answer.features.includes("http-write");
  }).catch((problem) => {
    actions.known = null;  // so that the next call asks again
    throw problem;
  });
  return actions.known;
}
