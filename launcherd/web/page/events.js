// The events of a job: the list, and what other parts of the page learn from them.
import { byId, element, oncePerFrame } from "./dom.js";
import { describeEnd, hasFailed, hostList, localTime, rankNames, word } from "./format.js";

const MOST_SHOWN = 1000;
const MOST_KEPT = 60000;
const MOST_OF_A_FRAME = 50;
const PARSE_MS = 8;

// Returns [class, text] of an event.
export function textOf(event) {
  if (event.job_state_changed) {
    const change = event.job_state_changed;
    const state = word(change.state, "JOB_STATE_");
    return [["failed", "lost", "killed"].includes(state) ? "bad" : "", state.toUpperCase() + (change.reason ? `: ${change.reason}` : "")];
  }
  if (event.job_starting) return ["", `starts with ${event.job_starting.placement.size} ranks`];
  if (event.host_up) return ["", `${event.host_up.host} is connected by ${event.host_up.link}, containment ${event.host_up.containment}`];
  if (event.rank_up) return ["", `rank ${event.rank_up.rank} runs, pid ${event.rank_up.pid}`];
  if (event.rank_ended) {
    const end = event.rank_ended;
    return [hasFailed(end) ? "bad" : "", `rank ${end.rank} on ${end.host}: ${describeEnd(end)}`];
  }
  if (event.host_suspect) return ["bad", `${event.host_suspect.host} ${event.host_suspect.suspect ? "does not answer" : "answers again"}`];
  if (event.job_stopping) return ["", `stopping: ${event.job_stopping.reason}`];
  if (event.job_restarting) return ["bad", `restart ${event.job_restarting.attempt}: ${event.job_restarting.reason}`];
  if (event.generation_began) {
    const began = event.generation_began;
    const hosts = (names, how) => (names && names.length ? `, ${hostList(names)} ${how}` : "");
    return ["", `generation ${began.number}: ${began.from} → ${began.to} ranks${hosts(began.added, "joined")}` +
      `${hosts(began.lost, "lost")}${began.reason ? ` (${began.reason})` : ""}`];
  }
  if (event.first_collective_ended) {
    const ended = event.first_collective_ended;
    return ["", `generation ${ended.generation}: first collective after ${(ended.elapsed_ms / 1000).toFixed(2)} s`];
  }
  if (event.hang_reported) return ["bad", `may hang: ${event.hang_reported.cause}`];
  if (event.wrong_world) {
    const formed = event.wrong_world.formed.map((world) => `${world.size} (${rankNames(world.ranks)})`).join(", ");
    return ["bad", `wrong world: formed groups of ${formed}, but the job has ${event.wrong_world.size} ranks`];
  }
  if (event.hosts_left_out) {
    const hosts = event.hosts_left_out.hosts || [];
    return ["bad", `starts without ${hosts.length} hosts that are not up: ${hostList(hosts)}`];
  }
  if (event.late_host) {
    const late = event.late_host;
    return ["bad", `${late.host} was late in ${late.late} of ${late.operations} collective operations`];
  }
  if (event.element_changed) {
    const changed = event.element_changed;
    const code = changed.exit_code === undefined ? "" : `, exit code ${changed.exit_code}`;
    return [changed.exit_code ? "bad" : "", `element ${changed.index}: ${changed.state.replace("JOB_STATE_", "")}${code}`];
  }
  if (event.notify_failed) return ["bad", `its --notify command failed: ${event.notify_failed.reason}`];
  if (event.job_ended) return [event.job_ended.exit_code ? "bad" : "", `ended with exit code ${event.job_ended.exit_code}`];
  return ["", "an event of a newer launcherd"];
}

// `arrived` holds texts that are not parsed yet, `waiting` the events that are not drawn yet.
const eventList = { all: [], arrived: [], waiting: [], isAtEnd: true, parsed: () => {} };

function parseSome() {
  const until = performance.now() + PARSE_MS;
  let taken = 0;
  while (taken < eventList.arrived.length && performance.now() < until) {
    const event = JSON.parse(eventList.arrived[taken++]);
    event.at = Date.parse(event.time);
    eventList.all.push(event);
    eventList.waiting.push(event);
  }
  eventList.arrived.splice(0, taken);
  if (taken) eventList.parsed();
  if (eventList.all.length > MOST_KEPT) eventList.all.splice(0, eventList.all.length - MOST_KEPT + 1000);
}

// Draws some of the new events in each frame, because thousands may come at once.
const draw = oncePerFrame(() => {
  parseSome();
  const list = byId("events");
  if (eventList.waiting.length > MOST_SHOWN) eventList.waiting.splice(0, eventList.waiting.length - MOST_SHOWN);
  const fresh = eventList.waiting.splice(0, MOST_OF_A_FRAME);
  if (eventList.waiting.length || eventList.arrived.length) draw();
  list.append(...fresh.map((event) => {
    const [className, text] = textOf(event);
    const line = element("li", undefined, className);
    const time = element("time", localTime(event.time));
    time.dateTime = event.time;
    line.append(time, element("span", text));
    return line;
  }));
  while (list.children.length > MOST_SHOWN) list.firstChild.remove();
  if (eventList.isAtEnd) list.scrollTop = list.scrollHeight;
});

export function addEvent(text) {
  eventList.arrived.push(text);
  if (eventList.arrived.length > MOST_KEPT) eventList.arrived.splice(0, 1000);  // frames stand still in a hidden tab
  draw();
}

export const allEvents = () => eventList.all;

// Calls `parsed` whenever allEvents() has more: not at addEvent(), but in a frame after it.
export function followParsed(parsed) {
  eventList.parsed = parsed;
}

// Returns the rank that made the job, or its newest attempt, fail; -1 if none has.
export function rootCause(events) {
  let root = -1;
  for (const event of events) {
    if (event.job_restarting || event.generation_began) root = -1;
    if (root < 0 && event.rank_ended && hasFailed(event.rank_ended)) root = event.rank_ended.rank;
    if (event.job_ended && event.job_ended.root_cause_rank >= 0) root = event.job_ended.root_cause_rank;
  }
  return root;
}

export function clearEvents() {
  Object.assign(eventList, { all: [], arrived: [], waiting: [], isAtEnd: true });
  byId("events").replaceChildren();
}

export function setUpEvents() {
  byId("events").addEventListener("scroll", () => {
    const list = byId("events");
    eventList.isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 8;
  });
}
