// Makes and updates elements. Text goes only into text nodes, so output of programs is never parsed as HTML.

export const byId = (id) => document.getElementById(id);

export function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined && text !== null) made.textContent = text;
  if (className) made.className = className;
  return made;
}

export function drawn(tag, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

export function setText(where, text) {
  if (where.textContent !== String(text)) where.textContent = text;
}

// Puts the rows into the table's body. A row that exists keeps its element, and so the keyboard's focus. Only its
// cells that differ are replaced.
export function updateRows(body, rows) {
  const wanted = new Map(rows.map((row) => [row.dataset.key, row]));
  const there = new Map();
  for (const row of [...body.rows]) {
    if (wanted.has(row.dataset.key)) there.set(row.dataset.key, row); else row.remove();
  }
  rows.forEach((row, index) => {
    const old = there.get(row.dataset.key);
    if (old) {
      old.className = row.className;
      [...row.cells].forEach((cell, i) => { if (!cell.isEqualNode(old.cells[i])) old.cells[i].replaceWith(cell); });
    }
    const shown = old || row;
    if (body.rows[index] !== shown) body.insertBefore(shown, body.rows[index] || null);
  });
}

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = element("textarea", text);
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export function copyButton(text, what) {
  const button = element("button", "copy", "small");
  button.type = "button";
  button.setAttribute("aria-label", `copy ${what}`);
  button.addEventListener("click", async () => {
    try {
      await copy(text);
      button.textContent = "copied";
    } catch (problem) {
      button.textContent = `not copied: ${problem.message}`;
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
  return button;
}

// Fills a list of facts: [name, value, text to copy]. A value is a text or a node; empty values are left out. Facts
// that have not changed keep their elements.
export function setFacts(list, facts) {
  const shown = facts.filter(([, value]) => value !== "" && value !== undefined && value !== null);
  const key = JSON.stringify(shown.map(([name, value]) => [name, value instanceof Node ? value.textContent : value]));
  if (list.dataset.key === key) return;
  list.dataset.key = key;
  list.replaceChildren(...shown.flatMap(([name, value, copied]) => {
    const definition = element("dd");
    definition.append(value);
    if (copied) definition.append(" ", copyButton(copied, name));
    return [element("dt", name), definition];
  }));
}

const WORK_MS = 12;

// Runs long work in slices, one in each frame, so that no task freezes the page.
export class Slices {
  constructor() {
    this.turn = 0;
  }

  // Calls `step` for 0 to count - 1. Ends early, and returns false, if a later run has begun.
  async run(count, step) {
    const turn = ++this.turn;
    for (let at = 0; at < count;) {
      const until = performance.now() + WORK_MS;
      while (at < count && performance.now() < until) step(at++);
      if (at < count) await new Promise(requestAnimationFrame);
      if (turn !== this.turn) return false;
    }
    return true;
  }

  stop() {
    ++this.turn;
  }
}

// Calls `task` once in the next frame, however often it was asked for.
export function oncePerFrame(task) {
  let isRequested = false;
  return () => {
    if (isRequested) return;
    isRequested = true;
    requestAnimationFrame(() => {
      isRequested = false;
      task();
    });
  };
}
