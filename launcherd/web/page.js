// launcherd's page. Text of jobs and hosts goes into text nodes only: nothing that a program prints is ever markup.
"use strict";

const POLL_MS = 2000;
const MOST_LINES = 5000;
const byId = (id) => document.getElementById(id);

const page = { hosts: new Map(), chosen: "", job: null, lines: [], open: new Map(), decoders: new Map(), sources: [] };

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

// ---- jobs and hosts

function jobRow(job) {
  const row = element("tr", undefined, job.id === page.chosen ? "chosen" : "");
  row.dataset.job = job.id;
  const code = isOver(job) && job.exit_code ? ` ${job.exit_code}` : "";
  const cells = [element("td", job.id), element("td", job.name), element("td"), element("td", job.size, "number"),
                 element("td", age(job.started || job.submitted, job.ended)), element("td", job.command.join(" "))];
  cells[2].append(element("span", stateOf(job) + code, `state ${stateOf(job)}`));
  cells[5].title = job.reason;
  row.append(...cells);
  row.addEventListener("click", () => { location.hash = job.id; });
  return row;
}

// What an agent has told of its host; "-" where it has not.
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

// A line each GPU, for who points at the number; first what is wrong with them.
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
  const agent = word(host.agent, "AGENT_STATE_") + (host.drained ? ", drained" : "");
  const state = element("td", agent);
  state.title = host.problem || host.reason;
  const gpus = element("td", gpusOf(host) + (host.gpu_problem ? " !" : ""), "number");
  gpus.title = gpuLines(host);
  row.dataset.host = host.name;
  row.append(element("td", host.name), element("td", `${host.used_slots}/${host.slots}`, "number"), bar,
             element("td", host.ranks, "number"), element("td", cpuOf(host), "number"),
             element("td", memoryOf(host), "number"), gpus,
             element("td", outputOf(host), "number"), state);
  return row;
}

async function refresh() {
  try {
    const [jobs, hosts] = await Promise.all([ask("/api/jobs?all=1"), ask("/api/hosts")]);
    byId("jobs").tBodies[0].replaceChildren(...jobs.jobs.map(jobRow));
    page.hosts = new Map(hosts.hosts.map((host) => [host.name, host]));
    byId("hosts").tBodies[0].replaceChildren(...hosts.hosts.map(hostRow));
    const sum = (key) => hosts.hosts.reduce((all, host) => all + host[key], 0);
    const waiting = jobs.jobs.filter((job) => stateOf(job) === "queued").length;
    const running = jobs.jobs.filter((job) => !isOver(job)).length - waiting;
    byId("summary").textContent =
      `${running} running, ${waiting} waiting; ${sum("used_slots")} of ${sum("slots")} slots on ${hosts.hosts.length} hosts`;
    byId("problem").textContent = "";
    if (page.chosen && !(page.job && isOver(page.job))) await showJob(page.chosen);
  } catch (problem) {
    byId("problem").textContent = `launcherd does not answer: ${problem.message}`;
  }
}

// ---- one job

function cellOf(rank) {
  const state = word(rank.state, "RANK_STATE_");
  const end = rank.end;
  const failed = end && (end.exit_code !== 0 || end.signal !== 0 || end.kind !== "RANK_END_KIND_EXITED");
  const kind = state !== "ended" ? state : failed ? "bad" : "good";
  const cell = element("span", rank.rank, `cell ${kind}`);
  cell.title = `rank ${rank.rank}, ${state}` + (rank.pid !== "0" ? `, pid ${rank.pid}` : "") +
    (failed ? `, ${end.signal ? `signal ${end.signal}` : `exit code ${end.exit_code}`}` : "");
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

async function showJob(id) {
  const job = await ask(`/api/jobs/${encodeURIComponent(id)}`);
  if (id !== page.chosen) return;
  page.job = job;
  byId("job").hidden = false;
  byId("job-title").textContent = `${job.id} ${job.name}: ${stateOf(job)}${job.exit_code ? ` ${job.exit_code}` : ""}`;
  byId("job-reason").textContent = job.reason;
  byId("grid").tBodies[0].replaceChildren(...gridRows(job));
}

function textOf(event) {
  const has = (name) => event[name];
  if (has("job_state_changed")) {
    const change = event.job_state_changed;
    return word(change.state, "JOB_STATE_").toUpperCase() + (change.reason ? `: ${change.reason}` : "");
  }
  if (has("job_starting")) return `starts with ${event.job_starting.placement.size} ranks`;
  if (has("host_up")) return `${event.host_up.host} is up by ${event.host_up.link}, ${event.host_up.containment}`;
  if (has("rank_up")) return `rank ${event.rank_up.rank} runs, pid ${event.rank_up.pid}`;
  if (has("rank_ended")) {
    const end = event.rank_ended;
    return `rank ${end.rank} on ${end.host}: ` + (end.signal ? `signal ${end.signal}` : `exit code ${end.exit_code}`);
  }
  if (has("host_suspect")) return `${event.host_suspect.host} ${event.host_suspect.suspect ? "does not answer" : "answers again"}`;
  if (has("job_stopping")) return `stopping: ${event.job_stopping.reason}`;
  if (has("job_restarting")) return `restart ${event.job_restarting.attempt}: ${event.job_restarting.reason}`;
  if (has("job_ended")) return `ended with exit code ${event.job_ended.exit_code}`;
  return "an event of a newer launcherd";
}

function addEvent(event) {
  const line = element("li");
  const time = element("time", event.time.slice(11, 23));
  time.dateTime = event.time;
  line.append(time, element("span", textOf(event)));
  byId("events").append(line);
  line.scrollIntoView({ block: "nearest" });
}

// ---- output

function decoded(chunk) {
  const key = `${chunk.rank} ${chunk.stream}`;
  if (!page.decoders.has(key)) page.decoders.set(key, new TextDecoder());
  return page.decoders.get(key).decode(Uint8Array.from(atob(chunk.data), (c) => c.charCodeAt(0)), { stream: true });
}

function addLine(rank, stream, text) {
  const line = { rank, stream, text, row: element("div", undefined, stream) };
  page.lines.push(line);
  byId("log").append(line.row);
  if (page.lines.length > MOST_LINES) page.lines.shift().row.remove();
  return line;
}

function missing(chunk) {
  if (!chunk.lost_host) return `${chunk.lost_bytes} bytes are missing here: the disk was full`;
  return `${chunk.lost_bytes} bytes of ${chunk.lost_host} are missing here: launcherd's disk had taken them and lost them`;
}

function addChunk(chunk) {
  if (chunk.lost_bytes !== "0") addLine(-1, "stderr", missing(chunk));
  if (!chunk.data) return;
  const stream = word(chunk.stream, "OUTPUT_STREAM_KIND_");
  const key = `${chunk.rank} ${stream}`;
  const parts = decoded(chunk).split("\n");
  parts.forEach((part, index) => {
    const isLast = index === parts.length - 1;
    let line = page.open.get(key);
    if (!line && isLast && part === "") return;
    if (!line) line = addLine(chunk.rank, stream, "");
    line.text += part;
    if (isLast) page.open.set(key, line); else page.open.delete(key);
    render(line);
  });
  if (byId("stay").checked) byId("log").scrollTop = byId("log").scrollHeight;
}

// The line with what is searched for marked; hidden where it has none, or is another rank's.
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
  page.open.clear();
  page.decoders.clear();
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
addEventListener("hashchange", choose);
setInterval(refresh, POLL_MS);
choose();
