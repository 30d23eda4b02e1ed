// The page of one job.
import { showJobActions } from "./actions.js";
import { ask, follow } from "./api.js";
import { byId, copyButton, element, oncePerFrame, setFacts, setText } from "./dom.js";
import { addEvent, allEvents, clearEvents, rootCause } from "./events.js";
import { age, bytesText, isOver, localTime, rankNames, rate, shellLine, stateOf, word } from "./format.js";
import { showGantt } from "./gantt.js";
import { History, showGraphs } from "./graph.js";
import { knownHosts } from "./hosts.js";
import { MOST_LINES, addChunk, clearLog } from "./log.js";
import { clearRanks, showRanks } from "./ranks.js";
import { clearStacks } from "./stacks.js";

const BIG = 1000;  // ranks; a job with more is asked for less often
const BIG_PAUSE_MS = 10000;
const DRAW_PAUSE_MS = 1000;

const one = { id: "", job: null, spec: null, sources: [], history: null, lastAsked: 0, drawnAt: 0 };

export const openedJob = () => one.id;

// Draws what depends on events. With many events it skips some; the next poll draws again.
const drawEventParts = oncePerFrame(() => {
  if (!one.job || !one.id) return;
  const now = Date.now();
  if (now - one.drawnAt < DRAW_PAUSE_MS && !isOver(one.job)) return;
  one.drawnAt = now;
  showRanks(one.job, factsOf(one.job), knownHosts(), isOver(one.job));
  showGantt(byId("gantt"), one.job, allEvents(), one.job.ended ? Date.parse(one.job.ended) : now);
});

function factsOf(job) {
  const suspects = new Set(((job.hang || {}).classes || []).filter((each) => each.suspect).flatMap((each) => each.ranks));
  const late = new Set((job.late || []).filter((each) => Number(each.late) * 2 > Number(each.operations)).map((each) => each.rank));
  return { root: rootCause(allEvents()), suspects, late };
}

function frameLines(evidence) {
  const frames = evidence.python.map((frame) => `${frame.function} (${frame.file}:${frame.line})`);
  return frames.length ? frames : evidence.native ? [evidence.native] : [];
}

function showHang(hang) {
  const box = byId("hang");
  box.hidden = !hang;
  const key = hang ? JSON.stringify(hang) : "";
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  if (!hang) return box.replaceChildren();
  const parts = [element("h3", "This job may hang"), element("p", hang.cause),
                 element("p", `no output and no progress for ${Math.round(hang.silent_ms / 1000)} s; ${hang.answered} of ${hang.size} ranks were looked at`, "dim")];
  for (const each of hang.classes.slice(0, 10)) {
    const example = each.example || { python: [] };
    const details = [example.state && `state ${example.state}`, example.wait_channel && `waits in ${example.wait_channel}`,
                     example.collective && `${example.collective.operation} ${example.collective.name}`.trim(),
                     example.awaits && `awaits ${example.awaits}`, example.last_line && `last line: ${example.last_line}`, example.problem];
    const entry = element("details");
    entry.open = each.suspect;
    const head = element("summary");
    head.append(element("strong", `${each.suspect ? "suspect: " : ""}${rankNames(each.ranks)}`),
                `${example.host ? ` (rank ${example.rank} on ${example.host})` : ""}: ${details.filter(Boolean).join(", ")}`);
    const frames = element("ol");
    frames.append(...frameLines(example).map((line) => element("li", line, "python")));
    entry.append(head, frames);
    parts.push(entry);
  }
  if (hang.silent_hosts.length) parts.push(element("p", `hosts that did not answer: ${hang.silent_hosts.join(", ")}`));
  box.replaceChildren(...parts);
}

function showWrongWorld(wrong) {
  const box = byId("wrong-world");
  box.hidden = !wrong;
  const key = wrong ? JSON.stringify(wrong) : "";
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  if (!wrong) return box.replaceChildren();
  box.replaceChildren(element("h3", `The program formed other groups than the job's ${wrong.size} ranks`), element("p", wrong.reason),
                      ...wrong.formed.map((each) => element("p", `groups of ${each.size}: ${rankNames(each.ranks)} (by ${each.source})`)));
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
  const directory = spec.working_directory ? bytesText(spec.working_directory) : "";
  const command = shellLine(job.command);
  const policy = word(job.elastic_policy, "ELASTIC_POLICY_");
  const hosts = job.hosts || [];
  const suspect = hosts.filter((host) => host.suspect).map((host) => host.name).join(", ");
  setFacts(byId("job-facts"), [
    ["command", element("code", command), command], ["directory", directory && element("code", directory), directory],
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
  showJobActions(job.id, isOver(job));
  showHang(job.hang);
  showWrongWorld(job.wrong_world);
  showFacts(job);
  const failed = (job.failed_hosts || []).map(failedHost);
  if (failed.map((line) => line.textContent).join() !== [...byId("failed-hosts").children].map((line) => line.textContent).join()) {
    byId("failed-hosts").replaceChildren(...failed);
  }
  byId("stacks-button").disabled = isOver(job);
  drawEventParts();
}

export async function refreshJob(isForced) {
  const { id, job } = one;
  if (!id) return;
  if (job && isOver(job) && !isForced) return;
  const now = Date.now();
  if (job && job.size > BIG && !isForced && now - one.lastAsked < BIG_PAUSE_MS) return;
  one.lastAsked = now;
  if (!one.spec) one.spec = await ask(`jobs/${encodeURIComponent(id)}/spec`).catch(() => null);
  const answer = await ask(`jobs/${encodeURIComponent(id)}`);
  if (id !== one.id) return;
  show(answer);
  const points = await one.history.refresh((each) => each.job);
  if (id === one.id) showGraphs(byId("job-graphs"), points);
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
  const ended = (end) => {
    if (end.message) failed(new Error(end.message));
    refreshJob(true).catch(failed);
  };
  one.sources.push(follow(`${path}/events`, "event", (event) => {
    addEvent(event);
    drawEventParts();
  }, ended));
  one.sources.push(follow(`${path}/logs?tail=${MOST_LINES}`, "log", addChunk, ended));
}

export function closeJob() {
  for (const close of one.sources.splice(0)) close();
  Object.assign(one, { id: "", job: null });
  for (const id of ["job-graphs", "gantt", "failed-hosts", "job-facts"]) byId(id).replaceChildren();
  byId("job-facts").dataset.key = "";
  setText(byId("job-reason"), "");
  byId("job-actions").hidden = true;
  showHang(null);
  showWrongWorld(null);
  clearEvents();
  clearRanks();
  clearStacks();
}
