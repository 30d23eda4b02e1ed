// Turns the bytes of one stream into lines, as a terminal shows them: \r, backspace, erase in line, and colours. Pure.
// A line is a text and, for each of its characters, a character that stands for a style.

export const LONGEST_LINE = 16384;  // characters; longer lines continue in the next line

// Matches text, a control character, or an escape sequence: CSI, OSC, or a short one (ECMA-48).
const TOKEN =
  /[^\x1b\r\n\b]+|[\r\n\b]|\x1b\[([0-?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-Z\\^-~]|\x1b/g;
// Matches the beginning of an escape sequence that continues in the next chunk.
const UNFINISHED = /\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]{0,4096}\x1b?|[ -/]*)$/;

// Each style is a list of classes: "fg1 bold". Style 0 is plain.
const styles = [""];
const numbers = new Map([["", 0]]);
export const styleClasses = (character) => styles[character.charCodeAt(0)];

function styleOf(pen) {
  const [fg, bg] = pen.inverse ? [pen.bg, pen.fg < 0 ? 7 : pen.fg] : [pen.fg, pen.bg];
  const classes = [bg >= 0 ? `bg${bg}` : fg >= 0 ? `fg${fg}` : "", pen.bold ? "bold" : "", pen.italic ? "italic" : "",
                   pen.underline ? "underline" : ""].filter(Boolean).join(" ");
  if (!numbers.has(classes)) {
    numbers.set(classes, styles.length);
    styles.push(classes);
  }
  return String.fromCharCode(numbers.get(classes));
}

// Returns the number of the nearest of the 8 basic colours; bright ones are 8 to 15.
function nearest(red, green, blue) {
  const most = Math.max(red, green, blue);
  if (most < 64) return 0;
  const bits = [red, green, blue].map((part) => (part > most * 0.6 ? 1 : 0));
  return bits[0] + 2 * bits[1] + 4 * bits[2] + (most > 192 && bits.includes(0) ? 8 : 0);
}

function indexed(number) {
  if (number < 16) return number;
  if (number >= 232) return number < 244 ? 8 : 7;
  const at = number - 16;
  const level = (value) => (value ? 55 + 40 * value : 0);
  return nearest(level(Math.floor(at / 36)), level(Math.floor(at / 6) % 6), level(at % 6));
}

export const newPen = () => ({ fg: -1, bg: -1, bold: false, italic: false, underline: false, inverse: false });

// Applies the numbers of CSI m.
export function setPen(pen, text) {
  const codes = text.split(/[;:]/).map(Number);
  for (let i = 0; i < codes.length; ++i) {
    const code = codes[i];
    if (code === 0) Object.assign(pen, newPen());
    if (code === 1) pen.bold = true;
    if (code === 3) pen.italic = true;
    if (code === 4) pen.underline = true;
    if (code === 7) pen.inverse = true;
    if (code === 22) pen.bold = false;
    if (code === 23) pen.italic = false;
    if (code === 24) pen.underline = false;
    if (code === 27) pen.inverse = false;
    if (code === 39) pen.fg = -1;
    if (code === 49) pen.bg = -1;
    if (code >= 30 && code <= 37) pen.fg = code - 30;
    if (code >= 40 && code <= 47) pen.bg = code - 40;
    if (code >= 90 && code <= 97) pen.fg = code - 82;
    if (code >= 100 && code <= 107) pen.bg = code - 92;
    if (code !== 38 && code !== 48) continue;
    const place = code === 38 ? "fg" : "bg";
    if (codes[i + 1] === 5) {
      pen[place] = indexed(codes[i + 2] & 255);
      i += 2;
    } else if (codes[i + 1] === 2) {
      pen[place] = nearest(codes[i + 2], codes[i + 3], codes[i + 4]);
      i += 4;
    }
  }
}

// `newLine` makes the next line of the stream; `changed` reports a line that must be drawn again.
export class Terminal {
  constructor(newLine, changed) {
    Object.assign(this, { newLine, changed, line: null, column: 0, rest: "", pen: newPen() });
  }

  add(text) {
    const all = this.rest + text;
    const unfinished = UNFINISHED.exec(all);
    this.rest = unfinished ? unfinished[0] : "";
    for (const token of all.slice(0, all.length - this.rest.length).matchAll(TOKEN)) {
      const [whole, number, command] = token;
      if (whole === "\r") {
        this.column = 0;
      } else if (whole === "\n") {
        if (!this.line) this.newLine();
        this.line = null;
        this.column = 0;
      } else if (whole === "\b") {
        this.column = Math.max(0, this.column - 1);
      } else if (command === "K") {
        this.erase(number);
      } else if (command === "m") {
        setPen(this.pen, number);
      } else if (whole[0] !== "\x1b") {
        this.write(whole);
      }
    }
  }

  // Overwrites the line from the cursor on, as a terminal does.
  write(text) {
    if (!this.line || this.line.isGone || this.line.text.length > LONGEST_LINE) {
      this.line = this.newLine();
      this.column = 0;
    }
    const put = (old, fresh, filler) => old.slice(0, this.column).padEnd(this.column, filler) + fresh + old.slice(this.column + text.length);
    this.line.styles = put(this.line.styles, styleOf(this.pen).repeat(text.length), "\0");
    this.line.text = put(this.line.text, text, " ");
    this.column += text.length;
    this.changed(this.line);
  }

  // Handles CSI K: erases from the cursor to the line's end (no number, or 0), up to the cursor (1), or the line (2).
  erase(what) {
    if (!this.line) return;
    const { line, column } = this;
    const from = what === "1" ? column : line.text.length;
    const kept = what === "" || what === "0" ? Math.min(column, line.text.length) : 0;
    const cut = (old, filler) => (kept ? old.slice(0, kept) : "".padEnd(column, filler) + (what === "1" ? old.slice(from) : ""));
    if (!["", "0", "1", "2"].includes(what)) return;
    const blank = (what === "" || what === "0") && !kept;
    line.text = blank ? "" : cut(line.text, " ");
    line.styles = blank ? "" : cut(line.styles, "\0");
    this.changed(line);
  }
}
