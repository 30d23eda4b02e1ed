// The output of a job. Chunks wait in a queue; each frame takes what fits into a few milliseconds, so that fast output
// does not freeze the page. Only the newest lines are kept.
import { byId, element, setText } from "./dom.js";
import { clockTime, rankFilter, word } from "./format.js";
import { Terminal, styleClasses } from "./terminal.js";

export const MOST_LINES = 5000;
const MOST_WAITING = 4 << 20;  // characters of JSON; older chunks are skipped
const SLICE_MS = 8;
const BLOCK = 100;  // lines

const log = { lines: [], streams: new Map(), queue: [], waiting: 0, skipped: 0, changed: new Set(), isRequested: false,
              isJumping: false, wanted: { matcher: null, rank: () => true, stream: "" }, job: "" };

function addLine(rank, name, text, time) {
  const line = { rank, name, text, styles: "\0".repeat(text.length), time, row: element("div", undefined, name), isGone: false };
  log.lines.push(line);
  log.changed.add(line);
  appendRow(line.row);
  if (log.lines.length > MOST_LINES) removeLine(log.lines.shift());
  return line;
}

// Lines stand in blocks, because the browser checks for each block whether it is on the screen.
function appendRow(row) {
  const last = byId("log").lastChild;
  if (last && last.childElementCount < BLOCK) return last.append(row);
  const block = element("section");
  block.append(row);
  byId("log").append(block);
}

function removeLine(line) {
  line.isGone = true;
  log.changed.delete(line);
  const block = line.row.parentElement;
  line.row.remove();
  if (!block.firstChild) block.remove();
}

function missing(chunk) {
  if (!chunk.lost_host) return `${chunk.lost_bytes} bytes are missing here: the disk was full`;
  return `${chunk.lost_bytes} bytes of ${chunk.lost_host} are missing here: launcherd's disk confirmed the write and lost it`;
}

function takeChunk(chunk) {
  if (chunk.lost_bytes !== "0") addLine(-1, "stderr", missing(chunk), chunk.time);
  if (!chunk.data) return;
  const name = word(chunk.stream, "OUTPUT_STREAM_KIND_");
  const key = `${chunk.rank} ${name}`;
  if (!log.streams.has(key)) {
    const stream = { decoder: new TextDecoder(), time: "" };
    stream.terminal = new Terminal(() => addLine(chunk.rank, name, "", stream.time), (line) => log.changed.add(line));
    log.streams.set(key, stream);
  }
  const stream = log.streams.get(key);
  stream.time = chunk.time;
  stream.terminal.add(stream.decoder.decode(Uint8Array.from(atob(chunk.data), (c) => c.charCodeAt(0)), { stream: true }));
}

// Returns the length of a chunk's output without parsing the chunk.
function dataLength(text) {
  const begin = text.indexOf('"data":"') + 8;
  return text.indexOf('"', begin) - begin;
}

// `text` is a chunk in JSON.
export function addChunk(text) {
  log.queue.push(text);
  log.waiting += text.length;
  let skipped = 0;
  while (log.waiting > MOST_WAITING && skipped + 1 < log.queue.length) {
    log.waiting -= log.queue[skipped].length;
    log.skipped += dataLength(log.queue[skipped++]);
  }
  log.queue.splice(0, skipped);
  requestFrame();
}

function requestFrame() {
  if (log.isRequested) return;
  log.isRequested = true;
  requestAnimationFrame(drawFrame);
}

function drawFrame() {
  log.isRequested = false;
  const until = performance.now() + SLICE_MS;
  let taken = 0;
  if (log.skipped) {
    addLine(-1, "stderr", `about ${Math.round(log.skipped * 0.75)} bytes came too fast and are not shown here: download the output`, "");
    log.skipped = 0;
    log.streams.clear();
  }
  while (taken < log.queue.length && performance.now() < until) {
    const text = log.queue[taken++];
    log.waiting -= text.length;
    takeChunk(JSON.parse(text));
  }
  log.queue.splice(0, taken);
  const stop = performance.now() + SLICE_MS;
  for (const line of log.changed) {
    render(line);
    log.changed.delete(line);
    if (performance.now() > stop) break;
  }
  if (byId("stay").checked) {
    log.isJumping = true;
    byId("log").scrollTop = byId("log").scrollHeight;
  }
  showFound();
  if (log.queue.length || log.changed.size) requestFrame();
}

// Returns [from, to] of each match.
function matchesOf(text, matcher) {
  if (!matcher) return [];
  const found = [];
  for (const match of text.matchAll(matcher)) if (match[0]) found.push([match.index, match.index + match[0].length]);
  return found;
}

// Splits a line where its style changes and where a match begins or ends.
export function piecesOf(text, styles, matches) {
  const pieces = [];
  let next = 0;
  for (let at = 0; at < text.length;) {
    while (next < matches.length && matches[next][1] <= at) ++next;
    const [from, to] = next < matches.length ? matches[next] : [Infinity, Infinity];
    const isMatch = from <= at;
    let end = Math.min(text.length, isMatch ? to : from);
    const style = styles[at];
    for (let i = at + 1; i < end; ++i) {
      if (styles[i] !== style) {
        end = i;
        break;
      }
    }
    pieces.push({ text: text.slice(at, end), style, isMatch });
    at = end;
  }
  return pieces;
}

function render(line) {
  const { matcher, rank, stream } = log.wanted;
  const matches = matchesOf(line.text, matcher);
  line.row.hidden = (matcher && !matches.length) || (line.rank >= 0 && !rank(line.rank)) || (stream && stream !== line.name);
  if (line.row.hidden) return;
  const nodes = [];
  if (byId("times").checked && line.time) nodes.push(element("span", `${clockTime(Date.parse(line.time), true)} `, "label"));
  nodes.push(element("span", line.rank < 0 ? "" : `[${line.rank}] `, "label"));
  for (const piece of piecesOf(line.text, line.styles, matches)) {
    const classes = styleClasses(piece.style);
    nodes.push(piece.isMatch ? element("mark", piece.text) : classes ? element("span", piece.text, classes) : document.createTextNode(piece.text));
  }
  line.row.replaceChildren(...nodes);
}

function showFound() {
  const { matcher } = log.wanted;
  const isFiltered = matcher || byId("rank").value || byId("stream").value;
  const shown = isFiltered ? log.lines.filter((line) => !line.row.hidden).length : 0;
  if (!byId("found").classList.contains("bad")) setText(byId("found"), isFiltered ? `${shown} of ${log.lines.length} lines` : "");
}

// Reads what the user searches. Without capitals, the case does not matter.
export function matcherOf(text, isRegex) {
  if (!text) return null;
  return new RegExp(isRegex ? text : text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), text === text.toLowerCase() ? "gi" : "g");
}

function search() {
  const problem = [];
  try {
    log.wanted.matcher = matcherOf(byId("search").value, byId("regex").checked);
  } catch (error) {
    problem.push(error.message);
  }
  const rank = rankFilter(byId("rank").value);
  if (rank) log.wanted.rank = rank; else problem.push("ranks: write 0-3,7");
  log.wanted.stream = byId("stream").value;
  byId("found").classList.toggle("bad", problem.length > 0);
  setText(byId("found"), problem.join("; "));
  const query = [rank && byId("rank").value.trim() ? `rank=${encodeURIComponent(byId("rank").value.replaceAll(" ", ""))}` : "",
                 log.wanted.stream ? `stream=${log.wanted.stream}` : ""].filter(Boolean).join("&");
  byId("download").href = `/api/jobs/${encodeURIComponent(log.job)}/log.txt${query ? `?${query}` : ""}`;
  log.lines.forEach((line) => log.changed.add(line));
  requestFrame();
}

export function clearLog(job) {
  Object.assign(log, { lines: [], queue: [], waiting: 0, skipped: 0, job });
  log.streams.clear();
  log.changed.clear();
  byId("log").replaceChildren();
  search();
}

export function showRankOutput(rank) {
  byId("rank").value = byId("rank").value === String(rank) ? "" : rank;
  search();
}

export function setUpLog() {
  for (const id of ["search", "rank"]) byId(id).addEventListener("input", search);
  for (const id of ["regex", "stream", "times"]) byId(id).addEventListener("change", search);
  byId("wrap").addEventListener("change", () => byId("log").classList.toggle("nowrap", !byId("wrap").checked));
  byId("stay").addEventListener("change", requestFrame);
  // Who scrolls up stops following; who scrolls to the end follows again.
  byId("log").addEventListener("scroll", () => {
    const pane = byId("log");
    const isAtEnd = pane.scrollTop + pane.clientHeight >= pane.scrollHeight - 20;
    if (!log.isJumping || isAtEnd) byId("stay").checked = isAtEnd;
    log.isJumping = false;
  });
}
