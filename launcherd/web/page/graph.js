// Small graphs of the last hour, as SVG.
import { drawn, element } from "./dom.js";
import { clockTime, mib, rate, zoneAt } from "./format.js";

const GRAPH_WIDTH = 220;
const GRAPH_HEIGHT = 44;
const GAP_MS = 35000;  // a longer time without a point is a gap in the line

const percent = (value) => `${value} %`;
export const GRAPHS = [["CPU", "cpu_percent", percent, 100], ["memory", "memory_used_mib", mib, 0],
                         ["GPU", "gpu_percent", percent, 100], ["GPU memory", "gpu_memory_used_mib", mib, 0],
                         ["output", "output_bytes_per_second", rate, 0],
                         ["network", "network_bytes_per_second", rate, 0],
                         ["steps", "steps_per_second", (value) => `${Number(value).toPrecision(3)}/s`, 0]];

// Splits the points where values are missing, and returns a polyline's points for each part.
export function lines(points, key, from, to, top) {
  const parts = [];
  let last = -Infinity;
  for (const point of points) {
    const time = Date.parse(point.time);
    if (point[key] === undefined || point[key] === null) continue;
    const x = to > from ? (time - from) / (to - from) * GRAPH_WIDTH : 0;
    const y = GRAPH_HEIGHT - 1 - Number(point[key]) / top * (GRAPH_HEIGHT - 2);
    if (time - last > GAP_MS) parts.push([]);
    parts[parts.length - 1].push(`${x.toFixed(1)},${y.toFixed(1)}`);
    last = time;
  }
  return parts;
}

function graph(points, [name, key, format, highest]) {
  const known = points.filter((point) => point[key] !== undefined && point[key] !== null);
  if (!known.length) return null;
  const largest = Math.max(...known.map((point) => Number(point[key])));
  const from = Date.parse(points[0].time);
  const to = Date.parse(points[points.length - 1].time);
  const figure = element("figure");
  const now = format(known[known.length - 1][key]);
  const text = `${name}: ${now} now, at most ${format(largest)}, ${clockTime(from)} to ${clockTime(to)} ${zoneAt(to)}`;
  const picture = drawn("svg", { viewBox: `0 0 ${GRAPH_WIDTH} ${GRAPH_HEIGHT}`, width: GRAPH_WIDTH, height: GRAPH_HEIGHT, role: "img",
                                 "aria-label": text });
  picture.append(drawn("title", {}, text));
  for (const part of lines(points, key, from, to, highest || largest || 1)) {
    const at = part.length === 1 ? [part[0], `${Number(part[0].split(",")[0]) + 1},${part[0].split(",")[1]}`] : part;
    picture.append(drawn("polyline", { points: at.join(" "), class: "curve" }));
  }
  figure.append(element("figcaption", `${name} ${now}`), picture);
  return figure;
}

export function showGraphs(where, points) {
  where.replaceChildren(...GRAPHS.map((measure) => graph(points, measure)).filter(Boolean));
}

// Keeps the points of one host or job, and asks only for new ones.
export class History {
  constructor(query, ask) {
    this.query = query;
    this.ask = ask;
    this.points = [];
  }

  async refresh(pick) {
    const last = this.points.length ? Date.parse(this.points[this.points.length - 1].time) / 1000 : 0;
    const answer = await this.ask(`history?${this.query}${last ? `&since=${last}` : ""}`);
    this.points = [...this.points, ...pick(answer)].slice(-360);
    return this.points;
  }
}
