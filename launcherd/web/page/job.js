// The page of one job.
import { knowActions, showJobActions } from "./actions.js";
import { ask, follow } from "./api.js";
import { byId, copyButton, element, oncePerFrame, setFacts, setText } from "./dom.js";
import { clearElements, refreshElements } from "./elements.js";
import { addEvent, allEvents, clearEvents, followParsed, rootCause } from "./events.js";
import { age, bytesText, isOver, lateRanks, localTime, rate, shellLine, stateOf, word } from "./format.js";
import { showGantt } from "./gantt.js";
import { History, showGraphs } from "./graph.js";
import { knownHosts } from "./hosts.js";
import { MOST_LINES, addChunk, clearLog } from "./log.js";
import { clearRanks, showRanks } from "./ranks.js";
import { clearStacks } from "./stacks.js";
import { showFailure, showHang, showWrongWorld } from "./warnings.js";

const BIG = 1000;  // ranks; a job with more is asked for less often
const BIG_PAUSE_MS = 10000;
const PART = 2000;  // ranks of one request
const MOST_RANKS = 20000;
const DRAW_PAUSE_MS = 1000;
const RETRY_MS = 3000;

// openLog follows the output, if that has not begun.
const one = { id: "", job: null, spec: null, sources: [], history: null, lastAsked: 0, drawnAt: 0, openLog: null };

export const openedJob = () => one.id;

const drawGantt = oncePerFrame(() => {
  if (one.job) showGantt(byId("gantt"), one.job, allEvents(), one.job.ended ? Date.parse(one.job.ended) : Date.now());
});

// Draws what depends on events. With many events it skips some; the next poll draws again.
const drawEventParts = oncePerFrame(() => {
  if (!one.job || !one.id) return;
  const now = Date.now();
  if (now - one.drawnAt < DRAW_PAUSE_MS && !isOver(one.job)) return;
  one.drawnAt = now;
  const facts = factsOf(one.job);
  showRanks(one.job, facts, knownHosts(), isOver(one.job));
  showFailure(one.job, facts.root);
  drawGantt();  // in the next frame, because each of both takes time for a large job
});

followParsed(drawEventParts);

function factsOf(job) {
  const suspects = new Set(((job.hang || {}).classes || []).filter((each) => each.suspect).flatMap((each) => each.ranks));
  const late = new Set(lateRanks(job).map((each) => each.rank));
  return { root: rootCause(allEvents()), suspects, late };
}

function labelsText(job) {
  return (job.labels || []).map((label) => `${label.name}=${label.value}`).join(", ");
}

function lateText(job) {
  return (job.late || []).filter((each) => Number(each.late)).slice(0, 5)
    .map((each) => `rank ${each.rank} on ${each.host}: last in ${each.late} of ${each.operations}, by ${(each.median_us / 1000).toFixed(1)} ms`).join("; ");
}

function showFacts(job) {
  const spec = one.spec || {};
  const directory = job.working_directory || (spec.working_directory ? bytesText(spec.working_directory) : "");
  const command = shellLine(job.command);
  const policy = word(job.elastic_policy, "ELASTIC_POLICY_");
  const hosts = job.hosts || [];
  const suspect = hosts.filter((host) => host.suspect).map((host) => host.name).join(", ");
  setFacts(byId("job-facts"), [
    ["command", element("code", command), command], ["directory", directory && element("code", directory), directory],
    ["user", job.user],
    ["submitted", job.submitted && localTime(job.submitted)], ["started", job.started && localTime(job.started)],
    ["ended", job.ended && localTime(job.ended)], ["run time", age(job.started, job.ended)],
    ["waited", job.started ? age(job.submitted, job.started) : age(job.submitted, job.ended)],
    ["ranks", job.ranks.length < job.size ? `${job.size}; the first ${job.ranks.length} are shown` : job.size], ["hosts", hosts.length ? `${hosts.length}: ${hosts.slice(0, 8).map((host) => host.name).join(", ")}${hosts.length > 8 ? " …" : ""}` : ""],
    ["silent hosts", suspect], ["attempt or generation", job.attempt], ["last change", job.last_change],
    ["elastic policy", policy && policy !== "unspecified" ? policy.replace("_", "-") : ""],
    ["priority", job.priority || ""], ["labels", labelsText(job)], ["roles", (job.roles || []).map((role) => `${role.name}: ${role.count}`).join(", ")],
    ["output", job.output_bytes_per_second === undefined ? "" : rate(job.output_bytes_per_second)],
    ["late ranks", lateText(job)], ["launcher", `${job.launcher_host}, pid ${job.launcher_pid}`]]);
}

// Returns the line of a host that the job leaves out because it failed.
function failedHost(host) {
  const back = host.usable_from ? `may be used again at ${localTime(host.usable_from)}` : "not used again in this job";
  return element("li", `${host.name} failed: ${[host.reason, back].filter(Boolean).join("; ")}`);
}

function show(job) {
  one.job = job;
  const code = job.exit_code ? ` ${job.exit_code}` : "";
  setText(byId("job-title"), `${job.id} ${job.name}: ${stateOf(job)}${code}`);
  setText(byId("job-reason"), job.reason);
  showJobActions(job);
  showHang(job.id, job.hang);
  showWrongWorld(job.wrong_world);
  showFacts(job);
  const failed = (job.failed_hosts || []).map(failedHost);
  if (failed.map((line) => line.textContent).join() !== [...byId("failed-hosts").children].map((line) => line.textContent).join()) {
    byId("failed-hosts").replaceChildren(...failed);
  }
  byId("stacks-button").disabled = isOver(job);
  byId("hang-link").hidden = isOver(job);
  byId("hang-link").href = `#/job/${encodeURIComponent(job.id)}/hang`;
  drawEventParts();
}

// Asks for the ranks in parts, because one long answer would freeze the page.
async function askJob(id) {
  const path = `jobs/${encodeURIComponent(id)}?max_ranks=${PART}`;
  const job = await ask(path);
  for (let part = job.ranks; part.length && job.ranks.length < Math.min(job.size, MOST_RANKS) && id === one.id;) {
    part = (await ask(`${path}&first_rank=${part[part.length - 1].rank + 1}`)).ranks;
    job.ranks.push(...part);
  }
  return job;
}

export async function refreshJob(isForced) {
  const { id, job } = one;
  if (!id) return;
  if (job && isOver(job) && !isForced) return;
  const now = Date.now();
  if (job && job.size > BIG && !isForced && now - one.lastAsked < BIG_PAUSE_MS) return;
  one.lastAsked = now;
  const [answer] = await Promise.all([askJob(id), knowActions()]);
  if (!answer.working_directory && !one.spec) one.spec = await ask(`jobs/${encodeURIComponent(id)}/spec`).catch(() => null);
  if (id !== one.id) return;
  show(answer);
  if (one.openLog && !answer.array) {  // an array has no output, its elements have
    one.openLog();
    one.openLog = null;
  }
  await refreshElements(answer);
  const points = await one.history.refresh((each) => each.job);
  if (id === one.id) showGraphs(byId("job-graphs"), points);
}

// Follows a stream of the job until the job has ended. `open` opens it and returns the function that closes it. `failed`
// reports an error of the stream, after which it is opened again.
function keepFollowing(id, open, failed) {
  const begin = () => {
    if (one.id !== id) return;
    one.sources.push(open((end) => {
      if (one.id !== id) return;
      if (end.message) failed(new Error(end.message));
      if (end.message && end.code !== "NOT_FOUND" && !(one.job && isOver(one.job))) setTimeout(begin, RETRY_MS);
      refreshJob(true).catch(failed);
    }));
  };
  begin();
}

function followEvents(path, ended) {
  const seen = allEvents();
  const from = seen.length ? `?from=${Number(seen[seen.length - 1].sequence) + 1}` : "";
  return follow(`${path}/events${from}`, "event", addEvent, ended);
}

function followLog(id, path, ended) {
  clearLog(id);
  return follow(`${path}/logs?tail=${MOST_LINES}`, "log", addChunk, ended);
}

// `failed` reports a request that failed.
export function openJob(id, failed) {
  closeJob();
  const path = `jobs/${encodeURIComponent(id)}`;
  Object.assign(one, { id, job: null, spec: null, lastAsked: 0, drawnAt: 0, history: new History(`job=${encodeURIComponent(id)}`, ask) });
  setText(byId("job-title"), id);
  byId("job-copy").replaceChildren(copyButton(id, "the job's id"));
  clearLog(id);
  if (!id) return;
  keepFollowing(id, (ended) => followEvents(path, ended), failed);
  one.openLog = () => keepFollowing(id, (ended) => followLog(id, path, ended), failed);
}

export function closeJob() {
  for (const close of one.sources.splice(0)) close();
  Object.assign(one, { id: "", job: null, openLog: null });
  for (const id of ["job-graphs", "gantt", "failed-hosts", "job-facts"]) byId(id).replaceChildren();
  byId("job-facts").dataset.key = "";
  setText(byId("job-reason"), "");
  byId("job-actions").hidden = true;
  byId("hang-link").hidden = true;
  showHang("", null);
  showWrongWorld(null);
  showFailure(null, -1);
  clearEvents();
  clearRanks();
  clearStacks();
  clearElements();
}
