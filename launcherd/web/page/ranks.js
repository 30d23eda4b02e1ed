// The grid of ranks, by host. A rank's colour and sign tell how it is, or why it ended. A large job has several pages of
// ranks, and above them a picture of all ranks.
import { byId, element, oncePerFrame, setText } from "./dom.js";
import { describeEnd, hasFailed, rate, word } from "./format.js";

const MOST_CELLS = 256;  // of one page
const SQUARE = 6;        // pixels of a rank in the picture, with its gap
const WIDEST = 900;      // pixels

// For each class: what the legend says. The style sheet gives each class a colour and a sign.
export const CAUSES = [["root", "root cause"], ["oom", "out of memory"], ["failed", "failed, too"], ["suspect", "seems stuck"],
                       ["late", "late"], ["running", "running"], ["waiting", "waiting"], ["stopped", "stopped by Muster"],
                       ["good", "ended well"]];
const TROUBLE = ["root", "oom", "failed", "suspect", "late"];

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

// Splits the ranks into pages. A page is a list of rows {host, ranks} with at most `most` ranks together.
export function pagesOf(ranks, most = MOST_CELLS) {
  const hosts = new Map();
  for (const rank of ranks) {
    if (!hosts.has(rank.host)) hosts.set(rank.host, []);
    hosts.get(rank.host).push(rank);
  }
  const pages = [];
  let room = 0;
  for (const [host, own] of hosts) {
    for (let at = 0; at < own.length; at += most) {
      const part = own.slice(at, at + most);
      if (part.length > room) {
        pages.push([]);
        room = most;
      }
      pages[pages.length - 1].push({ host, ranks: part });
      room -= part.length;
    }
  }
  return pages;
}

// `causes` holds the cause of each rank, `cells` the elements of the page that is shown.
const grid = { key: "", picture: "", cells: new Map(), causes: new Map(), ranks: [], shown: [], pages: [], page: 0, chosen: -1,
               loads: new Map() };

function loadText(host) {
  if (!host || !host.load) return "";
  const parts = [];
  if (host.load.cpu_percent !== undefined) parts.push(`cpu ${host.load.cpu_percent}%`);
  if (host.output_bytes_per_second !== undefined) parts.push(rate(host.output_bytes_per_second));
  return parts.join(", ");
}

function buildRow({ host, ranks }) {
  const row = element("tr");
  row.dataset.host = host;
  const head = element("th");
  head.scope = "row";
  const link = element(host ? "a" : "span", host || "not placed yet");
  if (host) link.href = `#/host/${encodeURIComponent(host)}`;
  head.append(link);
  const box = element("div", undefined, "ranks");
  for (const rank of ranks) {
    const cell = element("span", rank.rank, "cell");
    cell.dataset.rank = rank.rank;
    grid.cells.set(rank.rank, cell);
    box.append(cell);
  }
  const cells = element("td");
  cells.append(box);
  row.append(head, element("td", "", "load"), cells);
  return row;
}

// Draws one page. Cells that have not changed are left alone.
function drawPage() {
  grid.page = Math.max(0, Math.min(grid.pages.length - 1, grid.page));
  const rows = grid.pages[grid.page] || [];
  const body = byId("grid").tBodies[0];
  const key = JSON.stringify(rows.map(({ host, ranks }) => [host, ...ranks.map((rank) => rank.rank)]));
  if (key !== grid.key) {
    grid.key = key;
    grid.cells.clear();
    body.replaceChildren(...rows.map(buildRow));
  }
  for (const rank of rows.flatMap((row) => row.ranks)) {
    const cell = grid.cells.get(rank.rank);
    const cause = grid.causes.get(rank.rank);
    const className = `cell ${cause}${rank.rank === grid.chosen ? " chosen" : ""}`;
    if (cell.className !== className) cell.className = className;
    const title = describeRank(rank, cause);
    if (cell.title !== title) cell.title = title;
  }
  for (const row of body.rows) setText(row.cells[1], loadText(grid.loads.get(row.dataset.host)));
  byId("rank-pages").hidden = grid.pages.length < 2;
  byId("ranks-before").disabled = grid.page === 0;
  byId("ranks-after").disabled = grid.page + 1 >= grid.pages.length;
  setText(byId("rank-page"), rows.length ? `hosts ${rows[0].host} to ${rows[rows.length - 1].host}, page ${grid.page + 1} of ${grid.pages.length}` : "");
  setText(byId("no-ranks"), byId("trouble").checked && !rows.length ? "no rank is in trouble" : "");
}

// Draws a square for each rank, if the ranks need more than one page. The grid is its alternative for screen readers.
const drawPicture = oncePerFrame(() => {
  const canvas = byId("rank-picture");
  canvas.hidden = grid.shown.length <= MOST_CELLS;
  if (canvas.hidden) return;
  const width = Math.min(WIDEST, byId("job").clientWidth);
  const causes = grid.shown.map((rank) => grid.causes.get(rank.rank));
  const key = `${width} ${causes.join()}`;
  if (grid.picture === key) return;
  grid.picture = key;
  const columns = Math.max(1, Math.floor(width / SQUARE));
  canvas.dataset.columns = columns;
  canvas.width = columns * SQUARE;
  canvas.height = Math.ceil(causes.length / columns) * SQUARE;
  canvas.setAttribute("aria-label", `all ranks, ${byId("rank-legend").dataset.text}; the table below has pages of them`);
  const pen = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const colours = new Map(CAUSES.map(([cause]) => [cause, style.getPropertyValue(cause === "waiting" ? "--edge" : `--${cause}`)]));
  let last = "";
  causes.forEach((cause, i) => {
    if (cause !== last) pen.fillStyle = colours.get(last = cause);
    pen.fillRect(i % columns * SQUARE, Math.floor(i / columns) * SQUARE, SQUARE - 1, SQUARE - 1);
  });
});

function drawLegend(counts) {
  const legend = CAUSES.filter(([cause]) => counts.has(cause)).map(([cause, text]) => {
    const entry = element("span", undefined, "entry");
    entry.append(element("span", "", `cell ${cause}`), ` ${text}: ${counts.get(cause)}`);
    return entry;
  });
  const text = legend.map((entry) => entry.textContent.trim()).join(", ");
  if (byId("rank-legend").dataset.text !== text) {
    byId("rank-legend").dataset.text = text;
    byId("rank-legend").replaceChildren(...legend);
  }
}

function drawRanks() {
  const counts = new Map();
  for (const cause of grid.causes.values()) counts.set(cause, (counts.get(cause) || 0) + 1);
  grid.shown = byId("trouble").checked ? grid.ranks.filter((rank) => TROUBLE.includes(grid.causes.get(rank.rank))) : grid.ranks;
  grid.pages = pagesOf(grid.shown);
  drawPage();
  drawLegend(counts);
  drawPicture();
}

export function showRanks(job, facts, knownHosts, isOver) {
  grid.ranks = job.ranks;
  grid.causes = new Map(job.ranks.map((rank) => [rank.rank, causeOf(rank, facts)]));
  grid.loads = isOver ? new Map() : knownHosts;
  drawRanks();
}

function chooseRank(rank) {
  const page = grid.pages.findIndex((rows) => rows.some((row) => row.ranks.some((each) => each.rank === rank)));
  if (page < 0) return;
  grid.cells.get(grid.chosen)?.classList.remove("chosen");
  grid.chosen = rank;
  grid.page = page;
  drawPage();
  setText(byId("rank-detail"), grid.cells.get(rank).title);
}

export function clearRanks() {
  Object.assign(grid, { key: "", picture: "", ranks: [], shown: [], pages: [], page: 0, chosen: -1, loads: new Map(), causes: new Map() });
  grid.cells.clear();
  byId("grid").tBodies[0].replaceChildren();
  byId("rank-legend").replaceChildren();
  byId("rank-legend").dataset.text = "";
  byId("trouble").checked = false;
  byId("rank-picture").hidden = byId("rank-pages").hidden = true;
  for (const id of ["rank-detail", "rank-page", "no-ranks"]) setText(byId(id), "");
}

function turnRanks(step) {
  grid.page += step;
  drawPage();
}

// `showOutput` shows the output of one rank.
export function setUpRanks(showOutput) {
  byId("grid").addEventListener("keydown", (event) => {
    const at = grid.shown.findIndex((rank) => rank.rank === grid.chosen);
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: grid.shown.length - 1 };
    if (event.key === "Enter" && at >= 0 && event.target === byId("grid")) showOutput(grid.chosen);
    if (!(event.key in steps)) return;
    event.preventDefault();
    const to = grid.shown[Math.max(0, Math.min(grid.shown.length - 1, steps[event.key]))];
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
  byId("rank-picture").addEventListener("click", (event) => {
    const at = Math.floor(event.offsetY / SQUARE) * Number(byId("rank-picture").dataset.columns) + Math.floor(event.offsetX / SQUARE);
    if (grid.shown[at]) chooseRank(grid.shown[at].rank);
  });
  byId("trouble").addEventListener("change", drawRanks);
  byId("ranks-before").addEventListener("click", () => turnRanks(-1));
  byId("ranks-after").addEventListener("click", () => turnRanks(1));
}
