// Turns values of launcherd's answers into words. Pure.

export const word = (name, prefix) => String(name || "").replace(prefix, "").toLowerCase();
export const stateOf = (job) => word(job.state, "JOB_STATE_");
export const isOver = (job) => ["succeeded", "failed", "killed", "lost"].includes(stateOf(job));
export const isHeld = (job) => Boolean(job.held) && stateOf(job) === "queued";
// Returns the ranks that came last in most of their operations.
export const lateRanks = (job) => (job.late || []).filter((each) => Number(each.late) * 2 > Number(each.operations));
export const isKnown = (object, key) => Boolean(object) && object[key] !== undefined && object[key] !== null;

export function duration(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds % 3600 / 60)} min`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor(seconds % 86400 / 3600)} h`;
}

export function age(from, to, now = Date.now()) {
  return from ? duration((to ? Date.parse(to) : now) - Date.parse(from)) : "";
}

const two = (number) => String(Math.trunc(number)).padStart(2, "0");

export function clockTime(milliseconds, withMillis = false) {
  const time = new Date(milliseconds);
  const text = `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}`;
  return withMillis ? `${text}.${String(time.getMilliseconds()).padStart(3, "0")}` : text;
}

// Returns the browser's zone at this time, such as UTC-05:00.
export function zoneAt(milliseconds) {
  const ahead = -new Date(milliseconds).getTimezoneOffset();
  return `UTC${ahead < 0 ? "-" : "+"}${two(Math.abs(ahead) / 60)}:${two(Math.abs(ahead) % 60)}`;
}

// Formats a time in the browser's time zone: 2026-06-20 12:05:53.123 UTC-05:00.
export function localTime(text) {
  const time = new Date(text);
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${clockTime(time, true)} ${zoneAt(time)}`;
}

function scaled(value, units, step) {
  let number = Number(value);
  let unit = 0;
  while (number >= step - 0.5 && unit < units.length - 1) {
    number /= step;
    ++unit;
  }
  return `${number.toFixed(number < 9.95 && unit > 0 ? 1 : 0)} ${units[unit]}`;
}
export const rate = (value) => scaled(value, ["B/s", "kB/s", "MB/s", "GB/s"], 1000);
export const mib = (value) => scaled(value, ["MiB", "GiB", "TiB"], 1024);

// Reads "0-3,7" into a function that tells whether a rank is meant; null if the text is no list of ranks.
export function rankFilter(text) {
  const ranges = [];
  for (const part of text.split(",").map((each) => each.trim()).filter(Boolean)) {
    const match = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (!match) return null;
    ranges.push([Number(match[1]), Number(match[2] ?? match[1])]);
  }
  return ranges.length ? (rank) => ranges.some(([first, last]) => first <= rank && rank <= last) : () => true;
}

// Returns "0-3,7" for ascending numbers.
export function rankList(ranks) {
  const parts = [];
  for (let i = 0; i < ranks.length;) {
    let last = i;
    while (last + 1 < ranks.length && ranks[last + 1] === ranks[last] + 1) ++last;
    parts.push(last === i ? `${ranks[i]}` : `${ranks[i]}-${ranks[last]}`);
    i = last + 1;
  }
  return parts.join(",");
}
export const rankNames = (ranks) => `${ranks.length === 1 ? "rank" : "ranks"} ${rankList(ranks)}`;

// Returns host names in few words: n[0007-0008],n0912 and 26 more. Names that differ in their last number are one range.
export function hostList(names, most = 120) {
  const split = names.map((name) => /^(.*?)(\d{1,9})(\D*)$/.exec(name));
  const around = (match, width) => `${match[1]}\n${match[3]}\n${width}`;
  const padded = new Set(split.filter((match) => match && /^0\d/.test(match[2])).map((match) => around(match, match[2].length)));
  const series = new Map();
  names.forEach((name, i) => {
    const match = split[i];
    const width = match && padded.has(around(match, match[2].length)) ? match[2].length : 0;
    const key = match ? around(match, width) : name;
    if (!series.has(key)) series.set(key, []);
    series.get(key).push({ name, number: match ? match[2] : "" });
  });
  const parts = [];  // [text, number of hosts]
  for (const [key, members] of series) {
    if (members.length < 3 || !members[0].number) {
      for (const { name } of members) parts.push([name, 1]);
      continue;
    }
    const [before, after] = key.split("\n");
    const sorted = [...members].sort((a, b) => a.number - b.number);
    for (let i = 0; i < sorted.length;) {
      let last = i;
      while (last + 1 < sorted.length && sorted[last + 1].number - sorted[last].number === 1) ++last;
      const inner = last === i ? sorted[i].number : `[${sorted[i].number}-${sorted[last].number}]`;
      parts.push([before + inner + after, last - i + 1]);
      i = last + 1;
    }
  }
  let text = "";
  let named = 0;
  for (const [part, count] of parts) {
    if (text && text.length + part.length + 1 > most) break;
    text += (text ? "," : "") + part;
    named += count;
  }
  return text + (named < names.length ? ` and ${names.length - named} more` : "");
}

// Describes how a rank ended, in the words of muster status.
export function describeEnd(end) {
  const how = end.signal ? `signal ${end.signal}` : `exit code ${end.exit_code}`;
  const detail = end.detail ? `: ${end.detail}` : "";
  switch (word(end.kind, "RANK_END_KIND_")) {
    case "stopped": return end.detail ? `did not start${detail}` : `${how} after the stop`;
    case "start_failed": return `did not start${detail || ` (exit code ${end.exit_code})`}`;
    case "host_lost": return `host ${end.host} was lost${detail}`;
  }
  if (isKnown(end, "abort_code")) return `called MPI_Abort(${end.abort_code})`;
  if (end.out_of_memory) return `out of memory: ${end.signal ? `killed by the kernel, ${how}` : how}`;
  return end.without_finalize ? `${how} without MPI_Finalize` : how + detail;
}

export function hasFailed(end) {
  if (end.kind === "RANK_END_KIND_STOPPED") return false;
  return end.kind !== "RANK_END_KIND_EXITED" || end.exit_code !== 0 || isKnown(end, "abort_code") || end.without_finalize;
}

// Quotes the words of a command for a shell.
export const shellLine = (words) =>
  words.map((each) => (/^[\w@%+=:,./-]+$/.test(each) ? each : `'${each.replaceAll("'", "'\\''")}'`)).join(" ");

// Decodes bytes that JSON holds in base64.
export function bytesText(base64) {
  return new TextDecoder().decode(Uint8Array.from(atob(base64 || ""), (c) => c.charCodeAt(0)));
}
