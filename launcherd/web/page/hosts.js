// The map of hosts, and the page of one host.
import { knowActions, showHostActions } from "./actions.js";
import { ask } from "./api.js";
import { Slices, byId, copyButton, element, setFacts, setText } from "./dom.js";
import { hostList, isKnown, localTime, mib, rate, word } from "./format.js";
import { History, showGraphs } from "./graph.js";

const LEVELS = 5;
const MOST_NAMED = 256;  // with more hosts, a cell has no text
const share = (part, whole) => (Number(whole) > 0 ? 100 * Number(part) / Number(whole) : null);

export function gpuBusy(host) {
  const loads = host.load ? host.load.gpus.filter((gpu) => !gpu.busy_unknown) : [];
  return loads.length ? loads.reduce((all, gpu) => all + gpu.busy_percent, 0) / loads.length : null;
}

function gpuMemory(host) {
  const used = host.load ? host.load.gpus.filter((gpu) => isKnown(gpu, "memory_used_mib")) : [];
  const all = host.gpus.reduce((sum, gpu) => sum + Number(gpu.memory_mib), 0);
  return used.length ? share(used.reduce((sum, gpu) => sum + Number(gpu.memory_used_mib), 0), all) : null;
}

// Returns [word, sign] of a host's health. The sign is beside the colour, for readers who do not see it.
export function healthOf(host) {
  const agent = word(host.agent, "AGENT_STATE_");
  if (agent === "failed") return ["failed", "✕"];
  if (agent === "suspect") return ["suspect", "?"];
  if ((host.left_out || []).length) return ["left out", "!"];
  if (host.drained) return ["drained", "⏸"];
  if (host.gpu_problem || host.problem) return ["problem", "!"];
  return agent === "up" ? ["good", "✓"] : [agent === "none" ? "no agent" : agent, "–"];
}

const percentText = (value) => (value === null ? "–" : `${Math.round(value)}%`);
const cpuOf = (host) => (isKnown(host.load, "cpu_percent") ? host.load.cpu_percent : null);
const memoryOf = (host) => (isKnown(host.load, "memory_used_mib") ? share(host.load.memory_used_mib, host.memory_mib) : null);
const outputOf = (host) => (isKnown(host, "output_bytes_per_second") ? Number(host.output_bytes_per_second) : null);

const networkOf = (host) => (isKnown(host.load, "network_bytes_per_second") ? Number(host.load.network_bytes_per_second) : null);
const rateText = (value) => (value === null ? "–" : rate(value));
// 1 kB/s is the lowest level.
const rateLevel = (value, decades) => (value === null ? null : Math.max(0, Math.min(100, (Math.log10(value + 1) - 3) * 100 / decades)));

// For each measure: the value, from 0 to 100, and its text.
const MEASURES = {
  CPU: [cpuOf, (host) => percentText(cpuOf(host))],
  GPU: [gpuBusy, (host) => percentText(gpuBusy(host))],
  memory: [memoryOf, (host) => percentText(memoryOf(host))],
  "GPU memory": [gpuMemory, (host) => percentText(gpuMemory(host))],
  slots: [(host) => share(host.used_slots, host.slots), (host) => `${host.used_slots}/${host.slots}`],
  output: [(host) => rateLevel(outputOf(host), 5), (host) => rateText(outputOf(host))],
  network: [(host) => rateLevel(networkOf(host), 7), (host) => rateText(networkOf(host))],
  health: [null, (host) => healthOf(host)[1]],
};

// The lowest and the highest level of a measure.
const ENDS = { output: ["1 kB/s", "100 MB/s"], network: ["1 kB/s", "10 GB/s"] };

const map = { hosts: [], cells: [], chosen: 0, slices: new Slices() };

function classOf(host, measure) {
  if (measure === "health") return `health ${healthOf(host)[0].replace(" ", "-")}`;
  const value = MEASURES[measure][0](host);
  return value === null ? "unknown" : `level${Math.min(LEVELS - 1, Math.floor(value / 100 * LEVELS))}`;
}

export function describeHost(host) {
  const parts = [`${host.name}: ${healthOf(host)[0]}`, `${host.used_slots} of ${host.slots} slots`, `${host.ranks} ranks`];
  for (const name of ["CPU", "GPU", "memory", "output", "network"]) {
    const text = MEASURES[name][1](host);
    if (text !== "–") parts.push(`${name} ${text}`);
  }
  for (const reason of [host.problem, host.reason, host.gpu_problem]) if (reason) parts.push(reason);
  for (const left of (host.left_out || []).slice(0, 3)) parts.push(`failed in job ${left.job}: ${left.reason}`);
  return parts.join(", ");
}

function showLegend(measure) {
  const box = byId("legend");
  if (box.dataset.measure === measure) return;
  box.dataset.measure = measure;
  const cell = (className, text) => element("span", text, `swatch ${className}`);
  if (measure === "health") {
    box.replaceChildren(cell("health good", "✓ good"), cell("health no-agent", "– no agent"), cell("health drained", "⏸ drained"),
                        cell("health problem", "! problem"), cell("health suspect", "? silent"), cell("health failed", "✕ failed"));
  } else {
    const [lowest, highest] = ENDS[measure] || ["0 %", "100 %"];
    box.replaceChildren(...[lowest, "", "", "", highest].map((text, i) => cell(`level${i}`, text || " ")), cell("unknown", "not known"));
  }
}

function chooseHost(index) {
  map.chosen = Math.max(0, Math.min(map.hosts.length - 1, index));
  const cell = map.cells[map.chosen];
  for (const other of byId("map").querySelectorAll(".chosen")) other.classList.remove("chosen");
  if (!cell) return;
  cell.classList.add("chosen");
  byId("map").setAttribute("aria-activedescendant", cell.id);
  setText(byId("host-detail"), describeHost(map.hosts[map.chosen]));
}

function cellOf(index) {
  if (index < map.cells.length) return map.cells[index];
  const cell = element("div");
  cell.id = `host-${index}`;
  cell.dataset.index = index;
  cell.setAttribute("role", "option");
  map.cells.push(cell);
  byId("map").append(cell);
  return cell;
}

function drawCell(index, measure, isNamed) {
  const host = map.hosts[index];
  if (!host) return;  // the list became shorter since the run began
  const cell = cellOf(index);
  const text = MEASURES[measure][1](host);
  setText(cell, isNamed ? `${host.name} ${text}` : measure === "health" ? text : "");
  const className = classOf(host, measure) + (cell.classList.contains("chosen") ? " chosen" : "");
  if (cell.className !== className) cell.className = className;
  const label = `${host.name}: ${measure} ${measure === "health" ? healthOf(host)[0] : text}`;
  if (cell.getAttribute("aria-label") !== label) cell.setAttribute("aria-label", label);
}

function drawMap() {
  const measure = byId("measure").value;
  const isNamed = map.hosts.length <= MOST_NAMED;
  byId("map").classList.toggle("small", !isNamed);
  while (map.cells.length > map.hosts.length) map.cells.pop().remove();
  showLegend(measure);
  return map.slices.run(map.hosts.length, (index) => drawCell(index, measure, isNamed));
}

// The worst first. Other words of healthOf() need nobody.
const NEEDS = ["failed", "suspect", "left out", "problem", "drained"];

// Writes a line for each health that needs attention: how many hosts, their names in ranges, and a link to the first.
function showAttention() {
  const byHealth = new Map(NEEDS.map((health) => [health, []]));
  for (const host of map.hosts) byHealth.get(healthOf(host)[0])?.push(host.name);
  const lines = [...byHealth].filter(([, names]) => names.length).map(([health, names]) => {
    const line = element("li", `${names.length} ${health}: `, "bad");
    const link = element("a", hostList(names));
    link.href = `#/host/${encodeURIComponent(names[0])}`;
    line.append(link);
    return line;
  });
  const box = byId("host-attention");
  if (lines.map((line) => line.textContent).join("\n") !== [...box.children].map((line) => line.textContent).join("\n")) {
    box.replaceChildren(...lines);
  }
}

export async function refreshHosts() {
  map.hosts = (await ask("hosts?brief=1")).hosts;
  if (byId("overview").hidden) return map.hosts;
  showAttention();
  await drawMap();
  if (byId("host-detail").textContent) chooseHost(map.chosen);
  return map.hosts;
}

export const knownHosts = () => new Map(map.hosts.map((host) => [host.name, host]));

function moveInMap(event) {
  const cells = map.cells;
  if (!cells.length) return;
  const perRow = Math.max(1, cells.filter((cell) => cell.offsetTop === cells[0].offsetTop).length);
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow, ArrowUp: -perRow, Home: -Infinity, End: Infinity };
  if (event.key === "Enter") location.hash = `#/host/${encodeURIComponent(map.hosts[map.chosen].name)}`;
  if (!(event.key in steps)) return;
  event.preventDefault();
  chooseHost(map.chosen + steps[event.key]);
  cells[map.chosen].scrollIntoView({ block: "nearest" });
}

const hostPage = { name: "", history: null };

export function openHost(name) {
  Object.assign(hostPage, { name, history: new History(`host=${encodeURIComponent(name)}`, ask) });
  setText(byId("host-title"), name);
  byId("host-copy").replaceChildren(copyButton(name, "the host's name"));
  byId("host-graphs").replaceChildren();
  byId("host-gpus").replaceChildren();
  byId("host-jobs").replaceChildren();
}

function gpuLine(gpu, load) {
  const words = [`${gpu.index}: ${gpu.model || word(gpu.vendor, "GPU_VENDOR_")}`];
  const used = isKnown(load, "memory_used_mib") ? `${mib(load.memory_used_mib)} of ` : "";
  if (Number(gpu.memory_mib)) words.push(used + mib(gpu.memory_mib));
  if (load && !load.busy_unknown) words.push(`${load.busy_percent} %`);
  if (gpu.divided) words.push(`MIG: ${gpu.parts.length}`);
  return words.join(", ");
}

export async function refreshHost() {
  const { name, history } = hostPage;
  const path = encodeURIComponent(name);
  const [host, jobs, points] = await Promise.all([ask(`hosts/${path}`), ask(`jobs?all=1&order=state&page_size=50&filter=${path}`),
                                                  history.refresh((answer) => answer.hosts[0].points), knowActions()]);
  if (name !== hostPage.name) return;
  showHostActions(name);
  const left = (host.left_out || []).map((each) => `${each.job}: ${each.reason}` +
    (each.usable_from ? `, back at ${localTime(each.usable_from)}` : "")).join("; ");
  setFacts(byId("host-facts"), [
    ["health", healthOf(host)[0]], ["agent", word(host.agent, "AGENT_STATE_")], ["problem", host.problem],
    ["drained", host.drained ? host.reason || "yes" : ""], ["left out by jobs", left],
    ["slots", `${host.used_slots} of ${host.slots}`], ["ranks", host.ranks], ["jobs", host.jobs],
    ["host name", host.hostname], ["cores", host.cores || ""], ["kernel", host.kernel], ["containment", host.containment],
    ["memory", isKnown(host.load, "memory_used_mib") ? `${mib(host.load.memory_used_mib)} of ${mib(host.memory_mib)}` : ""],
    ["CPU", isKnown(host.load, "cpu_percent") ? `${host.load.cpu_percent} %` : ""],
    ["output", outputOf(host) === null ? "" : rate(outputOf(host))],
    ["network", networkOf(host) === null ? "" : rate(networkOf(host))],
    ["GPU driver", host.gpu_driver], ["GPU problem", host.gpu_problem]]);
  showGraphs(byId("host-graphs"), points);
  const loads = host.load ? host.load.gpus : [];
  byId("host-gpus").replaceChildren(...host.gpus.map((gpu) =>
    element("li", gpuLine(gpu, loads.find((load) => load.vendor === gpu.vendor && load.index === gpu.index)))));
  if (!host.gpus.length) byId("host-gpus").append(element("li", "none known", "dim"));
  const lines = jobs.jobs.map((job) => {
    const line = element("li");
    const link = element("a", job.id);
    link.href = `#/job/${job.id}`;
    line.append(link, ` ${job.name} ${word(job.state, "JOB_STATE_")}`);
    return line;
  });
  const old = byId("host-jobs");
  if (lines.map((line) => line.textContent).join("\n") !== [...old.children].map((line) => line.textContent).join("\n")) {
    old.replaceChildren(...lines);
  }
}

export function setUpHosts() {
  byId("measure").append(...Object.keys(MEASURES).map((name) => element("option", name)));
  byId("measure").addEventListener("change", drawMap);
  byId("map").addEventListener("keydown", moveInMap);
  byId("map").addEventListener("focus", () => chooseHost(map.chosen));
  byId("map").addEventListener("mouseover", (event) => {
    if (event.target.dataset.index) chooseHost(Number(event.target.dataset.index));
  });
  byId("map").addEventListener("click", (event) => {
    if (event.target.dataset.index) location.hash = `#/host/${encodeURIComponent(map.hosts[Number(event.target.dataset.index)].name)}`;
  });
}
