// Keyboard shortcuts, their overlay, and the colour theme.
import { byId, element } from "./dom.js";

const THEMES = ["auto", "dark", "light"];

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `theme: ${theme}`;
}

function setUpTheme() {
  let theme = THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto";
  setTheme(theme);
  const next = () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem("theme", theme);
    setTheme(theme);
  };
  byId("theme").addEventListener("click", next);
  return next;
}

const isTyping = (target) => ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName) && target.type !== "checkbox";

// `shortcuts` is [[key, what it does, function]].
export function setUpKeys(shortcuts) {
  const all = [["?", "this list", () => byId("help").showModal()], ["d", "dark, light or the system's colours", setUpTheme()], ...shortcuts];
  byId("help-keys").append(...all.flatMap(([key, text]) => {
    const name = element("dt");
    name.append(element("kbd", key === " " ? "space" : key));
    return [name, element("dd", text)];
  }));
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
    if (isTyping(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const found = all.find(([key]) => key === event.key);
    if (!found) return;
    event.preventDefault();
    found[2]();
  });
}
