// The elements of an array: how many are in which state, and a table of them by pages. launcherd joins neighbours that
// are alike, so a row may stand for many elements.
import { ask } from "./api.js";
import { byId, element, setText, updateRows } from "./dom.js";
import { stateOf } from "./format.js";

const ELEMENT_RANGES = 50;  // of a page
const ELEMENT_STATES = ["waiting", "running", "succeeded", "failed", "killed"];

// tokens holds the page tokens of the pages before this one.
const elements = { id: "", token: "", tokens: [], next: "", turn: 0 };

// Returns [state, count] of each state in which an element is.
export const countsOf = (array) => ELEMENT_STATES.map((state) => [state, Number(array[state] || 0)]).filter(([, count]) => count);

// Returns what is known of the whole array in one line.
export function arrayText(array) {
  const counts = countsOf(array);
  const total = counts.reduce((sum, [, count]) => sum + count, 0);
  const states = counts.map(([state, count]) => `${count.toLocaleString("en")} ${state}`).join(", ");
  const limit = array.most_at_once ? `; at most ${array.most_at_once} at once` : "";
  return `${total.toLocaleString("en")} elements: ${states}${limit}`;
}

// A row has links to its first and last element.
function elementRow(range) {
  const row = element("tr");
  row.dataset.key = `${range.first}`;
  const indices = element("td");
  [...new Set([range.first, range.last])].forEach((index, at) => {
    const link = element("a", `${index}`);
    link.href = `#/job/${encodeURIComponent(`${elements.id}[${index}]`)}`;
    indices.append(at ? "–" : "", link);
  });
  const state = element("td");
  state.append(element("span", stateOf(range), `state ${stateOf(range)}`));
  const code = range.exit_code === undefined || range.exit_code === null ? "" : range.exit_code;
  row.append(indices, state, element("td", code, "number"),
             element("td", (range.last - range.first + 1).toLocaleString("en"), "number"));
  return row;
}

// Shows the counts of the job, and asks for the elements of the page that is shown. Hides both for other jobs.
export async function refreshElements(job) {
  const isArray = Boolean(job && job.array);
  byId("elements").hidden = !isArray;
  byId("job").classList.toggle("array", isArray);
  if (!isArray) return;
  if (elements.id !== job.id) Object.assign(elements, { id: job.id, token: "", tokens: [], next: "" });
  setText(byId("element-counts"), arrayText(job.array));
  const turn = ++elements.turn;
  const answer = await ask(`v1/jobs/${encodeURIComponent(job.id)}/elements?page_size=${ELEMENT_RANGES}&page_token=${encodeURIComponent(elements.token)}`);
  if (turn !== elements.turn) return;  // another page or job is shown by now
  elements.next = answer.next_page_token || "";
  updateRows(byId("element-table").tBodies[0], (answer.elements || []).map(elementRow));
  byId("elements-before").disabled = !elements.tokens.length;
  byId("elements-after").disabled = !elements.next;
}

export function clearElements() {
  Object.assign(elements, { id: "", token: "", tokens: [], next: "", turn: elements.turn + 1 });
  byId("elements").hidden = true;
  byId("job").classList.remove("array");
  byId("element-table").tBodies[0].replaceChildren();
}

// `again` asks for the job once more.
export function setUpElements(again) {
  byId("elements-after").addEventListener("click", () => {
    elements.tokens.push(elements.token);
    elements.token = elements.next;
    again();
  });
  byId("elements-before").addEventListener("click", () => {
    elements.token = elements.tokens.pop() || "";
    again();
  });
}
