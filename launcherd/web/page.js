// launcherd's page. Text of jobs and hosts goes only into text nodes, so output of programs is never parsed as HTML.
"use strict";

const POLL_MS = 2000;
const MOST_LINES = 5000;
const LONGEST_LINE = 16384;  // characters of a row; longer lines continue in the next row
const PAGE_OF_OPEN = 1000;  // the most that launcherd returns per request
const MOST_JOBS = 1000;  // rows in the table
const byId = (id) => document.getElementById(id);

// streams holds the streams of the chosen job, by rank and stream. changed holds lines that the next frame draws.
const page = { hosts: new Map(), chosen: "", job: null, lines: [], streams: new Map(), changed: new Set(), sources: [],
               isFrameRequested: false, endedPages: 1 };

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

async function ask(path) {
  const response = await fetch(path);
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.message);
  return answer;
}

const word = (name, prefix) => name.replace(prefix, "").toLowerCase();
const stateOf = (job) => word(job.state, "JOB_STATE_");
const isOver = (job) => ["succeeded", "failed", "killed", "lost"].includes(stateOf(job));

function age(from, to) {
  const seconds = Math.max(0, Math.round(((to ? Date.parse(to) : Date.now()) - Date.parse(from)) / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
}

// Formats a time in the browser's time zone: 2026-06-20 12:05:53.123 UTC-05:00.
function localTime(text) {
  const time = new Date(text);
  const two = (number) => String(Math.trunc(number)).padStart(2, "0");
  const ahead = -time.getTimezoneOffset();
  const zone = `UTC${ahead < 0 ? "-" : "+"}${two(Math.abs(ahead) / 60)}:${two(Math.abs(ahead) % 60)}`;
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:` +
    `${two(time.getMinutes())}:${two(time.getSeconds())}.${String(time.getMilliseconds()).padStart(3, "0")} ${zone}`;
}

// Puts the rows into the table's body. A row that exists keeps its element, and so the keyboard's focus. Only its
// cells that differ are replaced.
function update(body, rows) {
  const wanted = new Map(rows.map((row) => [row.dataset.key, row]));
  const there = new Map();
  for (const row of [...body.rows]) {
    if (wanted.has(row.dataset.key)) there.set(row.dataset.key, row); else row.remove();
  }
  rows.forEach((row, index) => {
    const old = there.get(row.dataset.key);
    if (old) {
      old.className = row.className;
      [...row.cells].forEach((cell, i) => { if (!cell.isEqualNode(old.cells[i])) old.cells[i].replaceWith(cell); });
    }
    const shown = old || row;
    if (body.rows[index] !== shown) body.insertBefore(shown, body.rows[index] || null);
  });
}

// ---- jobs and hosts

function jobRow(job) {
  const row = element("tr", undefined, job.id === page.chosen ? "chosen" : "");
  row.dataset.job = row.dataset.key = job.id;
  const code = isOver(job) && job.exit_code ? ` ${job.exit_code}` : "";
  const cells = [element("td"), element("td", job.name), element("td"), element("td", job.size, "number"),
                 element("td", age(job.started || job.submitted, job.ended)), element("td", job.command.join(" "))];
  const link = element("a", job.id);
  link.href = `#${job.id}`;
  cells[0].append(link);
  cells[2].append(element("span", stateOf(job) + code, `state ${stateOf(job)}`));
  cells[5].title = job.reason;
  row.append(...cells);
  row.addEventListener("click", () => { location.hash = job.id; });
  return row;
}

// The load that an agent has reported for its host; "-" if it has reported none.
const known = (load, key) => load && load[key] !== undefined && load[key] !== null;
const cpuOf = (host) => known(host.load, "cpu_percent") ? `${host.load.cpu_percent}%` : "-";

function memoryOf(host) {
  if (!known(host.load, "memory_used_mib")) return "-";
  const gib = (mib) => (Number(mib) / 1024).toFixed(1);
  return `${gib(host.load.memory_used_mib)}/${gib(host.memory_mib)} GiB`;
}

function gpusOf(host) {
  if (!host.gpus.length) return "-";
  const loads = host.load ? host.load.gpus.filter((gpu) => !gpu.busy_unknown) : [];
  if (!loads.length) return `${host.gpus.length}`;
  return `${host.gpus.length} ${Math.round(loads.reduce((all, gpu) => all + gpu.busy_percent, 0) / loads.length)}%`;
}

// Returns one line for each GPU, shown when the user points at the number. Problems come first.
function gpuLines(host) {
  const mib = (value) => (Number(value) / 1024).toFixed(1);
  const loads = host.load ? host.load.gpus : [];
  const lines = host.gpus.map((gpu) => {
    const load = loads.find((each) => each.vendor === gpu.vendor && each.index === gpu.index);
    const words = [`${gpu.index}: ${gpu.model || word(gpu.vendor, "GPU_VENDOR_")}`];
    if (Number(gpu.memory_mib)) {
      const used = known(load, "memory_used_mib") ? `${mib(load.memory_used_mib)} of ` : "";
      words.push(`${used}${mib(gpu.memory_mib)} GiB`);
    }
    if (load && !load.busy_unknown) words.push(`${load.busy_percent}%`);
    if (gpu.divided) words.push(`MIG: ${gpu.parts.length}`);
    return words.join(", ");
  });
  return [...(host.gpu_problem ? [host.gpu_problem] : []), ...lines].join("\n");
}

function outputOf(host) {
  if (!known(host, "output_bytes_per_second")) return "-";
  let value = Number(host.output_bytes_per_second);
  const units = ["B/s", "kB/s", "MB/s", "GB/s"];
  while (value >= 999.5 && units.length > 1) {
    value /= 1000;
    units.shift();
  }
  return `${value.toFixed(value < 9.95 && units[0] !== "B/s" ? 1 : 0)} ${units[0]}`;
}

function hostRow(host) {
  const row = element("tr");
  const meter = element("meter");
  meter.max = host.slots;
  meter.value = host.used_slots;
  const bar = element("td");
  bar.append(meter);
  const leftOut = host.left_out || [];
  const failed = leftOut.slice(0, 2).map((left) => `, failed in ${left.job}` +
    (left.usable_from ? `, back at ${localTime(left.usable_from)}` : "")).join("") +
    (leftOut.length > 2 ? ` and ${leftOut.length - 2} more` : "");
  const agent = word(host.agent, "AGENT_STATE_") + (host.drained ? ", drained" : "") + failed;
  const state = element("td", agent);
  const reasons = leftOut.slice(0, 5).map((left) => left.reason && `${left.job}: ${left.reason}`);
  state.title = [host.problem, host.reason, ...reasons].filter(Boolean).join("; ");
  const gpus = element("td", gpusOf(host) + (host.gpu_problem ? " !" : ""), "number");
  gpus.title = gpuLines(host);
  row.dataset.key = host.name;
  row.append(element("td", host.name), element("td", `${host.used_slots}/${host.slots}`, "number"), bar,
             element("td", host.ranks, "number"), element("td", cpuOf(host), "number"),
             element("td", memoryOf(host), "number"), gpus,
             element("td", outputOf(host), "number"), state);
  return row;
}

// Returns the first `pages` pages of a list of jobs, and whether more pages exist.
async function listJobs(query, pages) {
  const jobs = [];
  let token = "";
  for (let number = 0; number < pages && (number === 0 || token); ++number) {
    const answer = await ask(`/api/jobs?${query}&page_token=${encodeURIComponent(token)}`);
    jobs.push(...answer.jobs);
    token = answer.next_page_token;
  }
  return { jobs, hasMore: token !== "" };
}

// Sorts running jobs first, then waiting jobs, then ended jobs. Within each group the newest job is first.
function inOrder(jobs) {
  const place = (job) => isOver(job) ? 2 : stateOf(job) === "queued" ? 1 : 0;
  return [0, 1, 2].flatMap((each) => jobs.filter((job) => place(job) === each));
}

function showJobs(open, newest) {
  const jobs = inOrder([...new Map([...open.jobs, ...newest.jobs].map((job) => [job.id, job])).values()]);
  update(byId("jobs").tBodies[0], jobs.slice(0, MOST_JOBS).map(jobRow));
  byId("older").hidden = !newest.hasMore || jobs.length > MOST_JOBS;
  byId("more-jobs").textContent = jobs.length > MOST_JOBS ? `${jobs.length - MOST_JOBS} more: muster jobs lists all` : "";
}

async function refresh() {
  try {
    const [open, newest, hosts] = await Promise.all([listJobs(`page_size=${PAGE_OF_OPEN}`, Infinity),
                                                     listJobs("all=1", page.endedPages), ask("/api/hosts")]);
    showJobs(open, newest);
    page.hosts = new Map(hosts.hosts.map((host) => [host.name, host]));
    update(byId("hosts").tBodies[0], hosts.hosts.map(hostRow));
    const sum = (key) => hosts.hosts.reduce((all, host) => all + host[key], 0);
    const waiting = open.jobs.filter((job) => stateOf(job) === "queued").length;
    const running = open.jobs.length - waiting;
    byId("summary").textContent =
      `${running} running, ${waiting} waiting; ${sum("used_slots")} of ${sum("slots")} slots on ${hosts.hosts.length} hosts`;
    byId("problem").textContent = "";
    if (page.chosen && !(page.job && isOver(page.job))) await showJob(page.chosen);
  } catch (problem) {
    byId("problem").textContent = `launcherd does not answer: ${problem.message}`;
  }
}

// ---- one job

// Describes how a rank ended, in the words of muster status.
function describeEnd(end) {
  const how = end.signal ? `signal ${end.signal}` : `exit code ${end.exit_code}`;
  const detail = end.detail ? `: ${end.detail}` : "";
  switch (word(end.kind, "RANK_END_KIND_")) {
    case "stopped": return end.detail ? `did not start${detail}` : `${how} after the stop`;
    case "start_failed": return `did not start${detail || ` (exit code ${end.exit_code})`}`;
    case "host_lost": return `host ${end.host} was lost${detail}`;
  }
  if (known(end, "abort_code")) return `called MPI_Abort(${end.abort_code})`;
  if (end.out_of_memory) return `out of memory: ${end.signal ? `killed by the kernel, ${how}` : how}`;
  return end.without_finalize ? `${how} without MPI_Finalize` : how + detail;
}

// Returns "good", "stopped" or "bad". "stopped": Muster stopped it after another rank failed. "bad": it failed itself.
function kindOf(end) {
  if (end.kind === "RANK_END_KIND_STOPPED") return "stopped";
  const failed = end.kind !== "RANK_END_KIND_EXITED" || end.exit_code !== 0 || known(end, "abort_code") || end.without_finalize;
  return failed ? "bad" : "good";
}

function cellOf(rank) {
  const state = word(rank.state, "RANK_STATE_");
  const kind = state === "ended" ? kindOf(rank.end) : state;
  const cell = element("span", rank.rank, `cell ${kind}`);
  cell.title = `rank ${rank.rank}, ${state}` + (rank.pid !== "0" ? `, pid ${rank.pid}` : "") +
    (state === "ended" ? `, ${describeEnd(rank.end)}` : "");
  return cell;
}

function gridRows(job) {
  const hosts = new Map();
  for (const rank of job.ranks) {
    if (!hosts.has(rank.host)) hosts.set(rank.host, []);
    hosts.get(rank.host).push(rank);
  }
  return [...hosts].map(([name, ranks]) => {
    const row = element("tr");
    const cells = element("td");
    const box = element("div", undefined, "ranks");
    box.append(...ranks.map(cellOf));
    cells.append(box);
    const host = page.hosts.get(name);
    const load = element("td", host && !isOver(job) ? `cpu ${cpuOf(host)}, ${outputOf(host)}` : "", "load");
    row.append(element("th", name || "not placed yet"), load, cells);
    return row;
  });
}

// Returns the line of a host that the job leaves out because it failed.
function failedHost(host) {
  const back = host.usable_from ? `may be used again at ${localTime(host.usable_from)}` : "not used again in this job";
  return element("li", `${host.name} failed: ${[host.reason, back].filter(Boolean).join("; ")}`);
}

async function showJob(id) {
  const job = await ask(`/api/jobs/${encodeURIComponent(id)}`);
  if (id !== page.chosen) return;
  page.job = job;
  byId("job").hidden = false;
  byId("job-title").textContent = `${job.id} ${job.name}: ${stateOf(job)}${job.exit_code ? ` ${job.exit_code}` : ""}`;
  byId("job-reason").textContent = job.last_change && job.last_change !== job.reason
    ? [job.reason, job.last_change].filter(Boolean).join("; ") : job.reason;
  const policy = word(job.elastic_policy, "ELASTIC_POLICY_");
  byId("job-policy").textContent = policy && policy !== "unspecified" ? `elastic policy: ${policy.replace("_", "-")}` : "";
  byId("failed-hosts").replaceChildren(...(job.failed_hosts || []).map(failedHost));
  byId("grid").tBodies[0].replaceChildren(...gridRows(job));
}

function textOf(event) {
  const has = (name) => event[name];
  if (has("job_state_changed")) {
    const change = event.job_state_changed;
    return word(change.state, "JOB_STATE_").toUpperCase() + (change.reason ? `: ${change.reason}` : "");
  }
  if (has("job_starting")) return `starts with ${event.job_starting.placement.size} ranks`;
  if (has("host_up")) return `${event.host_up.host} is connected by ${event.host_up.link}, containment ${event.host_up.containment}`;
  if (has("rank_up")) return `rank ${event.rank_up.rank} runs, pid ${event.rank_up.pid}`;
  if (has("rank_ended")) {
    return `rank ${event.rank_ended.rank} on ${event.rank_ended.host}: ${describeEnd(event.rank_ended)}`;
  }
  if (has("host_suspect")) return `${event.host_suspect.host} ${event.host_suspect.suspect ? "does not answer" : "answers again"}`;
  if (has("job_stopping")) return `stopping: ${event.job_stopping.reason}`;
  if (has("job_restarting")) return `restart ${event.job_restarting.attempt}: ${event.job_restarting.reason}`;
  if (has("generation_began")) {
    const began = event.generation_began;
    const hosts = (names, how) => names && names.length ? `, ${names.join(", ")} ${how}` : "";
    return `generation ${began.number}: ${began.from} → ${began.to} ranks${hosts(began.added, "joined")}` +
      `${hosts(began.lost, "lost")}${began.reason ? ` (${began.reason})` : ""}`;
  }
  if (has("first_collective_ended")) {
    const ended = event.first_collective_ended;
    return `generation ${ended.generation}: first collective after ${(ended.elapsed_ms / 1000).toFixed(2)} s`;
  }
  if (has("job_ended")) return `ended with exit code ${event.job_ended.exit_code}`;
  return "an event of a newer launcherd";
}

function addEvent(event) {
  const line = element("li");
  const time = element("time", localTime(event.time));
  time.dateTime = event.time;
  line.append(time, element("span", textOf(event)));
  byId("events").append(line);
  requestFrame();
}

// ---- output

// Draws new output once per frame, because a progress bar changes its line far more often.
function requestFrame() {
  if (page.isFrameRequested) return;
  page.isFrameRequested = true;
  requestAnimationFrame(() => {
    page.isFrameRequested = false;
    page.changed.forEach(render);
    page.changed.clear();
    byId("events").scrollTop = byId("events").scrollHeight;
    if (byId("stay").checked) byId("log").scrollTop = byId("log").scrollHeight;
  });
}

function addLine(rank, stream, text) {
  const line = { rank, stream, text, row: element("div", undefined, stream), isGone: false };
  page.lines.push(line);
  page.changed.add(line);
  byId("log").append(line.row);
  if (page.lines.length > MOST_LINES) {
    const oldest = page.lines.shift();
    oldest.isGone = true;
    oldest.row.remove();
    page.changed.delete(oldest);
  }
  return line;
}

function missing(chunk) {
  if (!chunk.lost_host) return `${chunk.lost_bytes} bytes are missing here: the disk was full`;
  return `${chunk.lost_bytes} bytes of ${chunk.lost_host} are missing here: launcherd's disk confirmed the write and lost it`;
}

// Overwrites the line from the cursor on, as a terminal does.
function write(stream, text) {
  if (!stream.line || stream.line.isGone || stream.line.text.length > LONGEST_LINE) {
    stream.line = addLine(stream.rank, stream.name, "");
    stream.column = 0;
  }
  const line = stream.line;
  const before = line.text.slice(0, stream.column).padEnd(stream.column);
  line.text = before + text + line.text.slice(stream.column + text.length);
  stream.column += text.length;
  page.changed.add(line);
}

// Handles CSI K: erases from the cursor to the line's end (no number, or 0), up to the cursor (1), or the line (2).
function erase(stream, what) {
  if (!stream.line) return;
  const line = stream.line;
  if (what === "" || what === "0") line.text = line.text.slice(0, stream.column);
  if (what === "1") line.text = "".padEnd(stream.column) + line.text.slice(stream.column);
  if (what === "2") line.text = "".padEnd(stream.column);
  page.changed.add(line);
}

// Matches text, a control character, or an escape sequence: CSI, OSC, or a short one (ECMA-48).
const TOKEN =
  /[^\x1b\r\n\b]+|[\r\n\b]|\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]|\x1b/g;
// Matches the beginning of an escape sequence that continues in the next chunk.
const UNFINISHED = /\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,4096}\x1b?|[ -/]*)$/;

// Adds text to a stream. Ignores colours and cursor movements to other lines.
function addText(stream, text) {
  const all = stream.rest + text;
  const unfinished = UNFINISHED.exec(all);
  stream.rest = unfinished ? unfinished[0] : "";
  for (const token of all.slice(0, all.length - stream.rest.length).matchAll(TOKEN)) {
    const [whole, number, command] = token;
    if (whole === "\r") {
      stream.column = 0;
    } else if (whole === "\n") {
      if (!stream.line) addLine(stream.rank, stream.name, "");
      stream.line = null;
      stream.column = 0;
    } else if (whole === "\b") {
      stream.column = Math.max(0, stream.column - 1);
    } else if (command === "K") {
      erase(stream, number);
    } else if (whole[0] !== "\x1b") {
      write(stream, whole);
    }
  }
}

function addChunk(chunk) {
  requestFrame();
  if (chunk.lost_bytes !== "0") addLine(-1, "stderr", missing(chunk));
  if (!chunk.data) return;
  const name = word(chunk.stream, "OUTPUT_STREAM_KIND_");
  const key = `${chunk.rank} ${name}`;
  if (!page.streams.has(key)) {
    page.streams.set(key, { rank: chunk.rank, name, decoder: new TextDecoder(), rest: "", line: null, column: 0 });
  }
  const stream = page.streams.get(key);
  addText(stream, stream.decoder.decode(Uint8Array.from(atob(chunk.data), (c) => c.charCodeAt(0)), { stream: true }));
}

// Draws a line and marks the searched text. Hides the line if it lacks that text or belongs to an unwanted rank.
function render(line) {
  const wanted = byId("search").value;
  const rank = byId("rank").value;
  line.row.hidden = (wanted && !line.text.includes(wanted)) || (rank !== "" && Number(rank) !== line.rank);
  const pieces = [element("span", line.rank < 0 ? "" : `[${line.rank}] `, "label")];
  const parts = wanted ? line.text.split(wanted) : [line.text];
  parts.forEach((part, index) => {
    if (index > 0) pieces.push(element("mark", wanted));
    pieces.push(document.createTextNode(part));
  });
  line.row.replaceChildren(...pieces);
}

function search() {
  page.lines.forEach(render);
  const shown = page.lines.filter((line) => !line.row.hidden).length;
  byId("found").textContent = byId("search").value || byId("rank").value ? `${shown} of ${page.lines.length} lines` : "";
}

// ---- choosing

function follow(path, name, take) {
  const source = new EventSource(path);
  source.addEventListener(name, (event) => take(JSON.parse(event.data)));
  source.addEventListener("end", () => { source.close(); refresh(); });
  page.sources.push(source);
}

function choose() {
  for (const source of page.sources) source.close();
  Object.assign(page, { chosen: location.hash.slice(1), job: null, lines: [], sources: [] });
  page.streams.clear();
  page.changed.clear();
  byId("events").replaceChildren();
  byId("log").replaceChildren();
  byId("job").hidden = !page.chosen;
  if (page.chosen) {
    const path = `/api/jobs/${encodeURIComponent(page.chosen)}`;
    follow(`${path}/events`, "event", addEvent);
    follow(`${path}/logs?tail=${MOST_LINES}`, "log", addChunk);
  }
  refresh();
}

byId("search").addEventListener("input", search);
byId("rank").addEventListener("input", search);
byId("older").addEventListener("click", () => {
  page.endedPages += 1;
  refresh();
});
addEventListener("hashchange", choose);
// Sends the next request only after the reply to the previous one, however long that takes.
async function poll() {
  await refresh();
  setTimeout(poll, POLL_MS);
}
choose();
setTimeout(poll, POLL_MS);
