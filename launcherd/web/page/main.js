// Chooses what the page shows by the address (#/, #/job/ID, #/job/ID/hang, #/host/NAME), and asks launcherd for news.
import { ask } from "./api.js";
import { byId, setText } from "./dom.js";
import { setUpElements } from "./elements.js";
import { setUpEvents } from "./events.js";
import { openHang, refreshHang, setUpHang } from "./hang.js";
import { openHost, refreshHost, refreshHosts, setUpHosts } from "./hosts.js";
import { closeJob, openJob, openedJob, refreshJob } from "./job.js";
import { moveInJobs, refreshJobs, setUpJobs, turnPage } from "./jobs.js";
import { setUpKeys } from "./keys.js";
import { setUpLog, showRankOutput } from "./log.js";
import { setUpRanks } from "./ranks.js";
import { readStacks } from "./stacks.js";

const POLL_MS = 2000;
const MANY_HOSTS = 500;  // with more, the hosts are asked less often
const SLOW = 5;          // every fifth time

const VIEWS = { overview: "overview", job: "job", host: "host", hang: "hang-page" };  // the id of each view's element

const page = { view: "overview", host: "", hosts: [], turn: 0 };

function showProblem(problem) {
  setText(byId("problem"), problem instanceof TypeError ? `launcherd does not answer: ${problem.message}` : problem.message);
}

async function refreshSummary() {
  const [running, waiting] = await Promise.all(["running,starting,stopping", "queued"].map((states) =>
    ask(`jobs?states=${states}&page_size=1`)));
  const sum = (key) => page.hosts.reduce((all, host) => all + host[key], 0);
  setText(byId("summary"), `${running.total} running, ${waiting.total} waiting; ${sum("used_slots")} of ${sum("slots")} slots on ` +
    `${page.hosts.length} hosts`);
  document.title = page.view === "job" ? byId("job-title").textContent : `launcherd: ${running.total} running`;
}

async function refresh() {
  try {
    const isDue = page.hosts.length <= MANY_HOSTS || page.turn % SLOW === 0;
    page.turn += 1;
    const hosts = isDue ? refreshHosts() : page.hosts;
    await Promise.all([hosts, page.view === "overview" ? refreshJobs() : null, page.view === "host" ? refreshHost() : null,
                       page.view === "hang" ? refreshHang() : null]);
    page.hosts = await hosts;
    await Promise.all([refreshSummary(), page.view === "job" ? refreshJob() : null]);
    setText(byId("problem"), "");
  } catch (problem) {
    showProblem(problem);
  }
}

// An address of an older page is #ID.
export function viewOf(hash) {
  const [, hungJob] = /^#\/job\/([^/]+)\/hang$/.exec(hash) || [];
  if (hungJob) return ["hang", decodeURIComponent(hungJob)];
  const [, view, name] = /^#\/(job|host)\/(.+)$/.exec(hash) || [];
  if (view) return [view, decodeURIComponent(name)];
  return /^#[a-z2-7]{8}$/.test(hash) ? ["job", hash.slice(1)] : ["overview", ""];
}

function route() {
  const [view, name] = viewOf(location.hash);
  Object.assign(page, { view, host: view === "host" ? name : "" });
  for (const [each, id] of Object.entries(VIEWS)) byId(id).hidden = each !== view;
  if (view !== "job" || openedJob() !== name) closeJob();
  if (view === "job") openJob(name, showProblem);
  if (view === "host") openHost(name);
  if (view === "hang") openHang(name);
  scrollTo(0, 0);
  refresh();
}

// Sends the next request only after the reply to the previous one, however long that takes.
async function poll() {
  if (!document.hidden) await refresh();
  setTimeout(poll, POLL_MS);
}

const click = (id) => () => byId(id).click();
setUpJobs(showProblem);
setUpHosts();
setUpEvents();
setUpElements(() => refreshJob(true).catch(showProblem));
setUpRanks(showRankOutput);
setUpLog();
setUpHang();
byId("stacks-button").addEventListener("click", () => readStacks(openedJob(), showProblem));
setUpKeys([
  ["/", "filter jobs, or search in the output", () => byId(page.view === "job" ? "search" : "filter").focus()],
  ["j", "next job", () => moveInJobs(1)], ["k", "previous job", () => moveInJobs(-1)],
  ["n", "next page of jobs", () => turnPage(true, showProblem)], ["p", "previous page of jobs", () => turnPage(false, showProblem)],
  ["h", "to the map of hosts; arrow keys move in it", () => byId("map").focus()],
  ["r", "to the ranks of the job; arrow keys move in them", () => byId("grid").focus()],
  ["s", "read stacks", click("stacks-button")], ["e", "ask all ranks where they are, on the page of a hang", click("hang-ask")], ["f", "follow the output", click("stay")], ["w", "wrap long lines", click("wrap")],
  ["t", "times of output", click("times")], ["Escape", "back to all jobs", () => { location.hash = "#/"; }],
]);
addEventListener("hashchange", route);
// A page that the browser keeps for "back" must not hold its streams: a browser has six connections to launcherd.
addEventListener("pagehide", closeJob);
addEventListener("pageshow", (event) => { if (event.persisted) route(); });
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
route();
setTimeout(poll, POLL_MS);
