// The report about a job that seems to hang, on a page of its own.
import { ask } from "./api.js";
import { byId, copyButton, element, setText } from "./dom.js";
import { clockTime, duration, hostList, isKnown, rankNames, zoneAt } from "./format.js";

const MOST_PLACES = 100;

const frameText = (frame) => `${frame.file}${frame.line > 0 ? `:${frame.line}` : ""} in ${frame.function}`;

// Returns the innermost line of source that is known, or the native function.
export function sourceOf(example) {
  return example.python.length ? frameText(example.python[0]) : example.native || "not known";
}

// Returns for how many milliseconds the rank is where it is; null if unknown.
export function stuckFor(example) {
  if (example.awaits && isKnown(example, "awaits_ms")) return Number(example.awaits_ms);
  if (example.collective) return Number(example.collective.since_ms);
  for (const key of ["state_ms", "silent_ms"]) if (isKnown(example, key)) return Number(example[key]);
  return null;
}

function collectiveText(place) {
  const operation = [place.operation || "no operation", place.name].filter(Boolean).join(" ");
  return place.begun === place.ended ? `libmuster: not in a collective operation, the last was ${operation}`
                                     : `libmuster: in ${operation}, operation ${place.begun} of this world`;
}

// Returns what is known of the rank, one text each.
export function detailsOf(example) {
  const torch = example.torch;
  return [example.collective && collectiveText(example.collective),
          torch && `torch: ${torch.operation} ${torch.state}, number ${torch.sequence} in ${torch.group}`,
          example.awaits && `awaits ${example.awaits}`,
          example.fully_stopped ? "stopped by a signal" : example.state && `state ${example.state}${example.wait_channel ? `, waits in ${example.wait_channel}` : ""}`,
          isKnown(example, "cpu_ms") && `${example.cpu_ms} ms of CPU time in ${example.looked_ms} ms`,
          example.last_line && `last line: ${example.last_line}`, example.problem,
          example.python_source && `Python frames by ${example.python_source}`].filter(Boolean);
}

const exampleOf = (place) => place.example || { rank: place.ranks[0], host: "", python: [] };

// Returns the report as plain text.
export function hangText(id, report) {
  const lines = [`job ${id}: ${report.cause}`,
                 `no output and no progress for ${duration(Number(report.silent_ms))}; ${report.answered} of ${report.size} ranks answered`];
  for (const place of report.classes) {
    const example = exampleOf(place);
    const since = stuckFor(example);
    lines.push("", `${place.suspect ? "suspect: " : ""}${rankNames(place.ranks)}, as rank ${example.rank} on ${example.host}`,
               `  ${sourceOf(example)}${since === null ? "" : `, for ${duration(since)}`}`,
               ...detailsOf(example).map((line) => `  ${line}`), ...example.python.map((frame) => `    ${frameText(frame)}`));
  }
  const nccl = report.nccl || [];
  if (nccl.length) lines.push("", ...nccl.map((finding) => finding.text));
  if (report.silent_hosts.length) lines.push("", `hosts that did not answer: ${hostList(report.silent_hosts)}`);
  return `${lines.join("\n")}\n`;
}

function suspectTable(suspects, when) {
  const table = element("table");
  const head = element("tr");
  for (const name of ["suspect", "rank", "host", "source line", "since"]) head.append(Object.assign(element("th", name), { scope: "col" }));
  const body = element("tbody");
  for (const place of suspects) {
    const example = exampleOf(place);
    const since = stuckFor(example);
    const row = element("tr");
    const host = element("td");
    if (example.host) host.append(Object.assign(element("a", example.host), { href: `#/host/${encodeURIComponent(example.host)}` }));
    const source = element("td");
    source.append(element("code", sourceOf(example)));
    const time = since === null ? "" : when ? `${clockTime(when - since)}, for ${duration(since)}` : `for ${duration(since)}`;
    row.append(element("td", rankNames(place.ranks)), element("td", example.rank), host, source, element("td", time));
    body.append(row);
  }
  table.append(element("caption", "Suspects"), element("thead"), body);
  table.tHead.append(head);
  const box = element("div", undefined, "wide");
  box.append(table);
  return box;
}

function placeBox(place) {
  const example = exampleOf(place);
  const box = element("section", undefined, "place");
  const facts = element("ul");
  facts.append(...detailsOf(example).map((text) => element("li", text)));
  box.append(element("h4", `${place.suspect ? "Suspect: " : ""}${rankNames(place.ranks)}`),
             element("p", `as rank ${example.rank}${example.host ? ` on ${example.host}` : ""}: ${sourceOf(example)}`), facts);
  if (example.python.length) {
    const frames = element("details", undefined, "stack");
    const list = element("ol");
    list.append(...example.python.map((frame) => element("li", frameText(frame), "python")));
    frames.append(element("summary", `${example.python.length} Python frames, innermost first`), list);
    box.append(frames);
  }
  return box;
}

function reportParts(report, when) {
  const suspects = report.classes.filter((place) => place.suspect);
  const parts = [element("p", report.cause, "cause"),
                 element("p", `no output and no progress for ${duration(Number(report.silent_ms))}; ${report.answered} of ${report.size} ranks ` +
                   `answered within ${duration(Number(report.looked_ms))}`, "dim")];
  if (suspects.length) parts.push(suspectTable(suspects, when));
  if (report.silent_hosts.length) parts.push(element("p", `hosts that did not answer: ${hostList(report.silent_hosts)}`, "bad"));
  if ((report.nccl || []).length) {
    const list = element("ul");
    list.append(...report.nccl.map((finding) => element("li", finding.text + (finding.ranks.length ? ` (${rankNames(finding.ranks)})` : ""))));
    parts.push(element("h3", "What NCCL reports"), list);
  }
  parts.push(element("h3", "Where ranks are"), ...report.classes.slice(0, MOST_PLACES).map(placeBox));
  if (report.classes.length > MOST_PLACES) parts.push(element("p", `${report.classes.length - MOST_PLACES} more places are not shown`, "dim"));
  return parts;
}

const hung = { id: "", seen: "", isAsking: false };

function showReport(report, when) {
  byId("hang-copy").replaceChildren(...(report ? [copyButton(hangText(hung.id, report), "the report as text")] : []));
  byId("hang-report").replaceChildren(...(report ? reportParts(report, when)
                                                 : [element("p", "launcherd reports no hang of this job at present")]));
}

export function openHang(id) {
  Object.assign(hung, { id, seen: "not asked", isAsking: false });
  setText(byId("hang-job"), id);
  byId("hang-job").href = `#/job/${encodeURIComponent(id)}`;
  setText(byId("hang-state"), "");
  byId("hang-report").replaceChildren();
  byId("hang-copy").replaceChildren();
  byId("hang-ask").disabled = false;
}

// Shows launcherd's newest report, unless it is the one that was shown before.
export async function refreshHang() {
  const { id } = hung;
  const job = await ask(`jobs/${encodeURIComponent(id)}?max_ranks=0`);
  const seen = JSON.stringify(job.hang || null);
  if (id !== hung.id || seen === hung.seen || hung.isAsking) return;
  hung.seen = seen;
  showReport(job.hang, 0);
}

// Asks all ranks now, whether the job seems to hang or not.
async function askNow() {
  const { id } = hung;
  if (!id || byId("hang-page").hidden) return;
  hung.isAsking = true;
  byId("hang-ask").disabled = true;
  setText(byId("hang-state"), "asking all ranks …");
  try {
    const report = await ask(`jobs/${encodeURIComponent(id)}/hang`);
    if (id !== hung.id) return;
    showReport(report, Date.now());
    setText(byId("hang-state"), `asked at ${clockTime(Date.now())} ${zoneAt(Date.now())}`);
  } catch (problem) {
    if (id === hung.id) setText(byId("hang-state"), problem.message);
  }
  if (id !== hung.id) return;
  hung.isAsking = false;
  byId("hang-ask").disabled = false;
}

export function setUpHang() {
  byId("hang-ask").addEventListener("click", askNow);
}
