// The grid of ranks, by host. A rank's colour and sign tell how it is, or why it ended.
import { byId, element, setText } from "./dom.js";
import { describeEnd, hasFailed, rankList, rate, word } from "./format.js";

// For each class: what the legend says. The style sheet gives each class a colour and a sign.
export const CAUSES = [["root", "root cause"], ["oom", "out of memory"], ["failed", "failed, too"], ["suspect", "seems stuck"],
                       ["late", "late"], ["running", "running"], ["waiting", "waiting"], ["stopped", "stopped by Muster"],
                       ["good", "ended well"]];

// `facts` holds root (number or -1), suspects and late (sets of ranks).
export function causeOf(rank, facts) {
  const state = word(rank.state, "RANK_STATE_");
  if (state === "ended") {
    if (rank.end.out_of_memory) return "oom";
    if (!hasFailed(rank.end)) return rank.end.kind === "RANK_END_KIND_STOPPED" ? "stopped" : "good";
    return rank.rank === facts.root || facts.root < 0 ? "root" : "failed";
  }
  if (state !== "running") return "waiting";
  if (facts.suspects.has(rank.rank)) return "suspect";
  return facts.late.has(rank.rank) ? "late" : "running";
}

export function describeRank(rank, cause) {
  const state = word(rank.state, "RANK_STATE_");
  const name = CAUSES.find(([each]) => each === cause)[1];
  const binding = rank.binding || {};
  return `rank ${rank.rank}, ${state}` + (rank.pid !== "0" ? `, pid ${rank.pid}` : "") +
    (state === "ended" ? `, ${describeEnd(rank.end)}` : "") + (name === state ? "" : ` (${name})`) +
    (binding.cpus ? `, CPUs ${binding.cpus}` : "") + ((binding.gpus || []).length ? `, GPUs ${binding.gpus.join(",")}` : "");
}

const grid = { key: "", cells: new Map(), ranks: [], chosen: -1 };

function loadText(host) {
  if (!host || !host.load) return "";
  const parts = [];
  if (host.load.cpu_percent !== undefined) parts.push(`cpu ${host.load.cpu_percent}%`);
  if (host.output_bytes_per_second !== undefined) parts.push(rate(host.output_bytes_per_second));
  return parts.join(", ");
}

function buildRows(hosts) {
  grid.cells.clear();
  byId("grid").tBodies[0].replaceChildren(...hosts.map(([name, ranks]) => {
    const row = element("tr");
    row.dataset.host = name;
    const head = element("th");
    head.scope = "row";
    const link = element("a", name || "not placed yet");
    if (name) link.href = `#/host/${encodeURIComponent(name)}`;
    head.append(link);
    const box = element("div", undefined, "ranks");
    for (const rank of ranks) {
      const cell = element("span", rank.rank, "cell");
      cell.dataset.rank = rank.rank;
      cell.id = `rank-${rank.rank}`;
      grid.cells.set(rank.rank, cell);
      box.append(cell);
    }
    const cells = element("td");
    cells.append(box);
    row.append(head, element("td", "", "load"), cells);
    return row;
  }));
}

// Draws the ranks. Cells that have not changed are left alone, because a job may have thousands.
export function showRanks(job, facts, knownHosts, isOver) {
  const hosts = new Map();
  for (const rank of job.ranks) {
    if (!hosts.has(rank.host)) hosts.set(rank.host, []);
    hosts.get(rank.host).push(rank);
  }
  grid.ranks = job.ranks;
  const key = [job.id, ...[...hosts].map(([name, ranks]) => `${name}:${rankList(ranks.map((rank) => rank.rank))}`)].join(" ");
  if (key !== grid.key) {
    grid.key = key;
    buildRows([...hosts]);
  }
  const counts = new Map();
  for (const rank of job.ranks) {
    const cause = causeOf(rank, facts);
    counts.set(cause, (counts.get(cause) || 0) + 1);
    const cell = grid.cells.get(rank.rank);
    const className = `cell ${cause}${rank.rank === grid.chosen ? " chosen" : ""}`;
    if (cell.className !== className) cell.className = className;
    const title = describeRank(rank, cause);
    if (cell.title !== title) cell.title = title;
  }
  for (const row of byId("grid").tBodies[0].rows) {
    setText(row.cells[1], isOver ? "" : loadText(knownHosts.get(row.dataset.host)));
  }
  const legend = CAUSES.filter(([cause]) => counts.has(cause)).map(([cause, text]) => {
    const entry = element("span", undefined, "entry");
    entry.append(element("span", "", `cell ${cause}`), ` ${text}: ${counts.get(cause)}`);
    return entry;
  });
  const text = legend.map((entry) => entry.textContent).join();
  if (byId("rank-legend").dataset.text !== text) {
    byId("rank-legend").dataset.text = text;
    byId("rank-legend").replaceChildren(...legend);
  }
}

function chooseRank(rank) {
  const cell = grid.cells.get(rank);
  if (!cell) return;
  grid.cells.get(grid.chosen)?.classList.remove("chosen");
  grid.chosen = rank;
  cell.classList.add("chosen");
  byId("grid").setAttribute("aria-activedescendant", cell.id);
  setText(byId("rank-detail"), cell.title);
}

export function clearRanks() {
  Object.assign(grid, { key: "", ranks: [], chosen: -1 });
  grid.cells.clear();
  byId("grid").tBodies[0].replaceChildren();
  byId("rank-legend").replaceChildren();
  byId("rank-legend").dataset.text = "";
  setText(byId("rank-detail"), "");
}

// `showOutput` shows the output of one rank.
export function setUpRanks(showOutput) {
  byId("grid").addEventListener("keydown", (event) => {
    const at = grid.ranks.findIndex((rank) => rank.rank === grid.chosen);
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: grid.ranks.length - 1 };
    if (event.key === "Enter" && at >= 0 && event.target === byId("grid")) showOutput(grid.chosen);
    if (!(event.key in steps)) return;
    event.preventDefault();
    const to = grid.ranks[Math.max(0, Math.min(grid.ranks.length - 1, steps[event.key]))];
    if (!to) return;
    chooseRank(to.rank);
    grid.cells.get(to.rank).scrollIntoView({ block: "nearest" });
  });
  byId("grid").addEventListener("click", (event) => {
    const rank = event.target.dataset.rank;
    if (rank === undefined) return;
    chooseRank(Number(rank));
    showOutput(Number(rank));
  });
}
