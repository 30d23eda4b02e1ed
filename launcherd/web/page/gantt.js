// The time line of a job: its phases, and when its ranks ran. With many ranks a bar stands for all ranks of a host.
import { drawn, element } from "./dom.js";
import { clockTime, duration, hasFailed, rankList, word, zoneAt } from "./format.js";

const MOST_BARS = 64;
const WIDTH = 900;
const LABEL = 150;
const ROW = 16;
const TICKS = 6;

// Returns {phases, ranks}: each is [{name, className, from, to}], with times in milliseconds. An open bar ends at `now`.
export function timeLine(job, events, now) {
  const phases = [];
  const runs = [];
  const open = new Map();
  const hostOf = new Map((job.ranks || []).map((rank) => [rank.rank, rank.host]));
  const begin = (name, className, from) => {
    const last = phases[phases.length - 1];
    if (last && last.name === name) return;
    if (last && last.to === undefined) last.to = from;
    phases.push({ name, className, from, to: undefined });
  };
  const end = (rank, to, className) => {
    const run = open.get(rank);
    if (!run) return;
    Object.assign(run, { to, className });
    open.delete(rank);
  };
  if (job.submitted) begin("waiting", "waiting", Date.parse(job.submitted));
  for (const event of events) {
    const time = event.at ?? Date.parse(event.time);
    if (event.job_starting) {
      begin("starting", "starting", time);
      for (const host of event.job_starting.placement.hosts || []) for (const rank of host.ranks) hostOf.set(rank.rank, host.name);
    }
    const state = event.job_state_changed ? word(event.job_state_changed.state, "JOB_STATE_") : "";
    if (state === "queued") begin("waiting", "waiting", time);
    if (state === "starting") begin("starting", "starting", time);
    if (state === "running") begin("running", "running", time);
    if (state === "stopping" || event.job_stopping) begin("stopping", "stopped", time);
    if (event.job_restarting) begin(`attempt ${event.job_restarting.attempt}`, "starting", time);
    if (event.generation_began) begin(`generation ${event.generation_began.number}`, "running", time);
    if (event.rank_up) {
      end(event.rank_up.rank, time, "stopped");
      const run = { rank: event.rank_up.rank, host: hostOf.get(event.rank_up.rank) || "", from: time, to: undefined, className: "running" };
      runs.push(run);
      open.set(run.rank, run);
    }
    if (event.rank_ended) {
      const one = event.rank_ended;
      end(one.rank, time, hasFailed(one) ? (one.out_of_memory ? "oom" : "root") : one.kind === "RANK_END_KIND_STOPPED" ? "stopped" : "good");
    }
    if (event.job_ended) {
      const last = phases[phases.length - 1];
      if (last) last.to = time;
      for (const rank of [...open.keys()]) end(rank, time, "stopped");
    }
  }
  for (const bar of [...phases, ...runs]) bar.to ??= now;
  return { phases, runs };
}

// Joins the runs of one rank, or of all ranks of one host, into rows of at most MOST_BARS.
export function rowsOf(runs) {
  const ranks = new Set(runs.map((run) => run.rank));
  const byHost = ranks.size > MOST_BARS;
  const rows = new Map();
  for (const run of runs) {
    const name = byHost ? run.host || "no host" : `rank ${run.rank}`;
    if (!rows.has(name)) rows.set(name, { name, bars: [], ranks: new Set() });
    const row = rows.get(name);
    row.ranks.add(run.rank);
    const same = byHost && row.bars.find((bar) => Math.abs(bar.from - run.from) < 5000);
    if (!same) {
      row.bars.push({ ...run });
      continue;
    }
    same.to = Math.max(same.to, run.to);
    if (["root", "oom"].includes(run.className)) same.className = run.className;
  }
  const all = [...rows.values()];
  const isBad = (row) => row.bars.some((bar) => ["root", "oom"].includes(bar.className));
  if (!byHost) all.sort((a, b) => Math.min(...a.ranks) - Math.min(...b.ranks));
  else if (all.length > MOST_BARS) all.sort((a, b) => isBad(b) - isBad(a));
  return { rows: all.slice(0, MOST_BARS), hidden: Math.max(0, all.length - MOST_BARS), byHost };
}

function bar(at, y, { from, to, className }, text) {
  const made = drawn("rect", { x: at(from).toFixed(1), y, width: Math.max(2, at(to) - at(from)).toFixed(1), height: ROW - 4,
                               class: `bar ${className}` });
  made.append(drawn("title", {}, `${text}: ${clockTime(from, true)} to ${clockTime(to, true)} ${zoneAt(to)}, ${duration(to - from)}`));
  return made;
}

export function showGantt(where, job, events, now) {
  const { phases, runs } = timeLine(job, events, now);
  if (!phases.length) return where.replaceChildren();
  const { rows, hidden, byHost } = rowsOf(runs);
  const from = phases[0].from;
  const to = Math.max(now > 0 && !phases.some((phase) => phase.to > from) ? now : 0, ...[...phases, ...rows.flatMap((row) => row.bars)].map((each) => each.to), from + 1);
  const at = (time) => LABEL + (time - from) / (to - from) * (WIDTH - LABEL - 10);
  const height = (rows.length + 2) * ROW + 4;
  const summary = `time line from ${clockTime(from)} to ${clockTime(to)} ${zoneAt(to)}: ${phases.map((phase) => `${phase.name} ${duration(phase.to - phase.from)}`).join(", ")}`;
  const picture = drawn("svg", { viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height, role: "img", "aria-label": summary });
  for (let i = 0; i <= TICKS; ++i) {
    const time = from + (to - from) * i / TICKS;
    picture.append(drawn("line", { x1: at(time), x2: at(time), y1: ROW, y2: height, class: "tick" }),
                   drawn("text", { x: at(time), y: 11, class: "tick-text", "text-anchor": i === TICKS ? "end" : i ? "middle" : "start" }, clockTime(time)));
  }
  picture.append(drawn("text", { x: 0, y: ROW + 12 }, "job"));
  for (const phase of phases) picture.append(bar(at, ROW + 2, phase, phase.name));
  rows.forEach((row, i) => {
    const y = (i + 2) * ROW;
    const name = row.name.length > 20 ? `${row.name.slice(0, 19)}…` : row.name;
    picture.append(drawn("text", { x: 0, y: y + 12 }, name));
    const what = byHost ? `${row.name}, ranks ${rankList([...row.ranks].sort((a, b) => a - b))}` : row.name;
    for (const each of row.bars) picture.append(bar(at, y + 2, each, `${what}, ${each.className === "root" ? "failed" : each.className}`));
  });
  where.replaceChildren(element("p", summary, "dim"), picture);
  if (hidden) where.append(element("p", `${hidden} more ${byHost ? "hosts" : "ranks"} are not shown`, "dim"));
}
