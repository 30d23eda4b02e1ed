// The table of jobs. launcherd filters, sorts and pages.
import { ask } from "./api.js";
import { byId, element, setText, updateRows } from "./dom.js";
import { age, isHeld, isOver, lateRanks, rate, stateOf } from "./format.js";

const PAGE_SIZE = 100;
const FILTER_PAUSE_MS = 200;
const COLUMNS = [["job", "newest"], ["name", "name"], ["state", "state"], ["ranks", "size"], ["time", "time"],
                 ["priority", "priority"], ["output", ""], ["command", ""]];
const WHICH = [["all jobs", "all=1"], ["running and waiting", ""], ["running", "states=running,starting,stopping"],
               ["waiting", "states=queued"], ["failed", "all=1&states=failed,lost"],
               ["succeeded", "all=1&states=succeeded"], ["killed", "all=1&states=killed"]];

// tokens holds the page tokens of the pages before this one.
const list = { order: "state", reverse: false, token: "", tokens: [], next: "", total: 0, first: 0, turn: 0 };

function jobRow(job) {
  const row = element("tr");
  row.dataset.job = row.dataset.key = job.id;
  const code = isOver(job) && job.exit_code ? ` ${job.exit_code}` : "";
  const link = element("a", job.id);
  link.href = `#/job/${job.id}`;
  const id = element("td");
  id.append(link);
  const state = element("td");
  state.append(element("span", stateOf(job) + code, `state ${stateOf(job)}`));
  if (job.hang) state.append(" ", element("span", "may hang", "badge"));
  if (lateRanks(job).length) state.append(" ", element("span", "late ranks", "badge"));
  if (isHeld(job)) state.append(" ", element("span", "held", "badge"));
  if (job.wrong_world) state.append(" ", element("span", "wrong world", "badge"));
  if (!isOver(job) && stateOf(job) !== "running" && job.reason) state.append(element("div", job.reason, "reason dim"));
  const command = element("td", job.command.join(" "), "command");
  command.title = [job.command.join(" "), job.reason].filter(Boolean).join("\n");
  const output = job.output_bytes_per_second === undefined ? "" : rate(job.output_bytes_per_second);
  row.append(id, element("td", job.name), state, element("td", job.size, "number"),
             element("td", job.started ? age(job.started, job.ended) : `waits ${age(job.submitted, job.ended)}`),
             element("td", job.priority, "number"), element("td", output, "number"), command);
  row.addEventListener("click", (event) => {
    if (!event.target.closest("a") && !String(getSelection())) location.hash = `#/job/${job.id}`;
  });
  return row;
}

export async function refreshJobs() {
  const turn = ++list.turn;
  const query = [WHICH[Number(byId("which").value)][1], `page_size=${PAGE_SIZE}`, `order=${list.order}`,
                 list.reverse ? "reverse=1" : "", `page_token=${encodeURIComponent(list.token)}`,
                 `filter=${encodeURIComponent(byId("filter").value.trim())}`].filter(Boolean).join("&");
  const answer = await ask(`jobs?${query}`);
  if (turn !== list.turn) return;  // the user has asked for something else by now
  list.next = answer.next_page_token;
  list.total = Number(answer.total);
  updateRows(byId("jobs").tBodies[0], answer.jobs.map(jobRow));
  byId("no-jobs").hidden = answer.jobs.length > 0;
  byId("previous").disabled = !list.tokens.length;
  byId("next").disabled = !list.next;
  setText(byId("page-text"), list.total === 0 ? "" :
    `${list.first + 1}–${list.first + answer.jobs.length} of ${list.total.toLocaleString("en")}`);
}

function fromTheBeginning() {
  Object.assign(list, { token: "", tokens: [], first: 0 });
  showOrder();
  return refreshJobs();
}

export function turnPage(isForward, failed) {
  if (isForward ? !list.next : !list.tokens.length) return;
  if (isForward) {
    list.tokens.push([list.token, list.first]);
    list.first += byId("jobs").tBodies[0].rows.length;
    list.token = list.next;
  } else {
    [list.token, list.first] = list.tokens.pop();
  }
  refreshJobs().catch(failed);
}

function showOrder() {
  [...byId("jobs").tHead.rows[0].cells].forEach((cell, i) => {
    if (!COLUMNS[i][1]) return;
    const isChosen = COLUMNS[i][1] === list.order;
    cell.setAttribute("aria-sort", isChosen ? (list.reverse ? "descending" : "ascending") : "none");
    cell.firstChild.dataset.arrow = isChosen ? (list.reverse ? "▲" : "▼") : "";
  });
}

// Moves the keyboard's focus to the next or previous job.
export function moveInJobs(step) {
  const links = [...byId("jobs").tBodies[0].querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  const to = links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + step))];
  if (to) to.focus();
}

export function setUpJobs(failed) {
  byId("which").append(...WHICH.map(([name], i) => {
    const option = element("option", name);
    option.value = i;
    return option;
  }));
  byId("jobs").tHead.rows[0].append(...COLUMNS.map(([name, order]) => {
    const cell = element("th", order ? undefined : name);
    cell.scope = "col";
    if (!order) return cell;
    const button = element("button", name, "sort");
    button.type = "button";
    button.addEventListener("click", () => {
      list.reverse = list.order === order && !list.reverse;
      list.order = order;
      fromTheBeginning().catch(failed);
    });
    cell.append(button);
    return cell;
  }));
  let pause = 0;
  byId("filter").addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(() => fromTheBeginning().catch(failed), FILTER_PAUSE_MS);
  });
  byId("which").addEventListener("change", () => fromTheBeginning().catch(failed));
  byId("next").addEventListener("click", () => turnPage(true, failed));
  byId("previous").addEventListener("click", () => turnPage(false, failed));
  showOrder();
}
