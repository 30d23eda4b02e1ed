// The boxes at the top of a job's page: it may hang, it formed other groups than it should, or why it failed.
import { byId, element } from "./dom.js";
import { describeEnd, duration, rankNames, stateOf } from "./format.js";
import { sourceOf, stuckFor } from "./hang.js";

const MOST_SUSPECTS = 5;

// Fills the box with `parts()`, if `content` has changed. Without content the box is hidden.
function showBox(id, content, parts) {
  const box = byId(id);
  box.hidden = !content;
  const key = content ? JSON.stringify(content) : "";
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  box.replaceChildren(...(content ? parts() : []));
}

function suspectLine({ ranks, example }) {
  if (!example) return element("li", rankNames(ranks));
  const since = stuckFor(example);
  return element("li", `${rankNames(ranks)} (rank ${example.rank} on ${example.host}): ${sourceOf(example)}` +
    (since === null ? "" : `, for ${duration(since)}`));
}

export function showHang(id, hang) {
  showBox("hang", hang, () => {
    const suspects = hang.classes.filter((each) => each.suspect);
    const list = element("ul");
    list.append(...suspects.slice(0, MOST_SUSPECTS).map(suspectLine));
    const more = element("p");
    more.append(Object.assign(element("a", "the hang report"), { href: `#/job/${encodeURIComponent(id)}/hang` }));
    return [element("h3", "This job may hang"), element("p", hang.cause), list, more];
  });
}

export function showWrongWorld(wrong) {
  showBox("wrong-world", wrong, () =>
    [element("h3", `The program formed other groups than the job's ${wrong.size} ranks`), element("p", wrong.reason),
     ...wrong.formed.map((each) => element("p", `groups of ${each.size}: ${rankNames(each.ranks)} (by ${each.source})`))]);
}

// `root` is the number of the rank that failed first, or -1.
export function showFailure(job, root) {
  const hints = job?.hints || [];
  const rank = job && stateOf(job) === "failed" ? job.ranks.find((each) => each.rank === root && each.end) : null;
  const cause = rank ? `rank ${root} on ${rank.host}: ${describeEnd(rank.end)}` : "";
  showBox("failure", cause || hints.length ? { cause, hints } : null, () => {
    const list = element("ul");
    list.append(...hints.map((hint) => element("li", hint)));
    return [element("h3", "Why it failed"), ...(cause ? [element("p", `Root cause: ${cause}`)] : []),
            ...(hints.length ? [list] : [])];
  });
}
