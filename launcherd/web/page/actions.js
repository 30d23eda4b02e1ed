// Actions with the token of --http-write. Without that flag, launcherd serves none and the page shows none.
import { ask } from "./api.js";
import { byId, element, setText } from "./dom.js";

const SIGNALS = [["USR1", 10], ["USR2", 12], ["HUP", 1], ["INT", 2], ["STOP", 19], ["CONT", 18]];

const actions = { areServed: false };

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

async function post(path) {
  const token = sessionStorage.getItem("token") || await askToken();
  if (!token) return "nothing was done";
  const response = await fetch(`/api/${path}`, { method: "POST", headers: { "X-Muster-Token": token } });
  const text = await response.text();
  if (response.status === 403) sessionStorage.removeItem("token");
  if (response.ok) sessionStorage.setItem("token", token);
  if (response.ok) return "done";
  return response.headers.get("Content-Type").startsWith("application/json") ? JSON.parse(text).message : text.trim();
}

function button(text, where, path, question) {
  const made = element("button", text);
  made.type = "button";
  made.addEventListener("click", async () => {
    const asked = question();
    if (asked === null || asked === false) return;
    setText(byId(where), `${text} …`);
    try {
      setText(byId(where), `${text}: ${await post(path(asked))}`);
    } catch (problem) {
      setText(byId(where), `${text}: ${problem.message}`);
    }
  });
  return made;
}

export function showJobActions(id, isOver) {
  const box = byId("job-actions");
  box.hidden = !actions.areServed || isOver;
  if (box.hidden || box.dataset.job === id) return;
  box.dataset.job = id;
  const signal = element("select");
  signal.setAttribute("aria-label", "signal");
  signal.append(...SIGNALS.map(([name, number]) => {
    const option = element("option", name);
    option.value = number;
    return option;
  }));
  const path = encodeURIComponent(id);
  box.replaceChildren(button("kill", "job-action", () => `jobs/${path}/kill`, () => confirm(`End job ${id}?`)),
                      button("send signal", "job-action", () => `jobs/${path}/signal?signal=${signal.value}`, () => true), signal,
                      byId("job-action") || Object.assign(element("span"), { id: "job-action" }));
  setText(byId("job-action"), "");
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
                      byId("host-action") || Object.assign(element("span"), { id: "host-action" }));
  setText(byId("host-action"), "");
}

export async function setUpActions() {
  actions.areServed = (await ask("launcher")).features.includes("http-write");
}
