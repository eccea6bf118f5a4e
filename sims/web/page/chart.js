// Figures by Observable Plot: curves, and heat maps over tokens.

import * as Plot from "@observablehq/plot";
import { colours } from "./theme.js";
import { element, shown } from "./dom.js";
import { buttons } from "./download.js";

// A title, what it shows, a legend, plots, and downloads. `rows` gives the numbers after it as objects.
export class Figure {
  constructor({ title, name, note, rows }) {
    this.title = element("h2", {}, title);
    this.note = element("p", { class: "note" }, note ?? "");
    this.legend = element("ul", { class: "legend" });
    this.plot = element("div", { class: "plot" });
    this.readout = element("div", { class: "readout hidden", "aria-live": "polite" });
    this.buttons = buttons(() => this.node, name, rows);
    this.buttons.classList.add("hidden");
    this.node = element("section", { class: "figure" }, this.title, this.note, this.legend, this.plot, this.readout, this.buttons);
  }

  // Asking for the width makes the browser lay the page out, which takes longer than a picture: it is asked once and then reported.
  get width() {
    if (!this.known) {
      this.known = this.plot.clientWidth;
      if (this.known) watch(this);
    }
    return Math.max(280, Math.floor(this.known || 640));
  }

  draw(plots, legend = []) {
    this.plot.replaceChildren(...plots);
    this.legend.replaceChildren(...legend.map(swatch));
    this.buttons.classList.toggle("hidden", plots.length === 0);
  }
}

let redraw = () => {};
export const onResize = (call) => (redraw = call);

function watch(figure) {
  new ResizeObserver(([{ contentRect }]) => {
    const before = figure.width;
    figure.known = contentRect.width;
    if (contentRect.width && figure.width !== before) redraw();
  }).observe(figure.plot);
}

function swatch({ name, colour, dash }) {
  const line = `<svg xmlns="http://www.w3.org/2000/svg" width="26" height="10" aria-hidden="true"><line x1="1" x2="25" y1="5" y2="5" stroke="${colour}" stroke-width="3" stroke-dasharray="${dash ?? ""}"/></svg>`;
  const item = element("li", {});
  item.innerHTML = line;
  item.append(name);
  return item;
}

// Curves of `series`: [{ name, colour, dash, points: [[x, y]], dots }].
export function curves({ series, x, y, width, height = 300, rules = [], label }) {
  const c = colours();
  const finite = (s) => s.points.filter(([a, b]) => Number.isFinite(a) && Number.isFinite(b));
  const marks = series.flatMap((s) => {
    const style = { x: "0", y: "1", stroke: s.colour, strokeWidth: 2.25, strokeDasharray: s.dash };
    return [
      Plot.line(finite(s), style),
      s.dots ? Plot.dot(finite(s), { x: "0", y: "1", fill: s.colour, r: 3 }) : null,
    ];
  });
  return Plot.plot({
    width,
    height,
    marginLeft: 56,
    marginRight: 30,
    marginBottom: 46,
    ariaLabel: label,
    style: { color: c.ink, background: "transparent", fontFamily: "system-ui, sans-serif", fontSize: "12px" },
    x: { labelOffset: 38, labelAnchor: "center", labelArrow: "none", nice: false, ticks: Math.max(3, Math.floor(width / 90)), ...x },
    y: { labelArrow: "none", nice: true, ticks: 6, ...y },
    marks: [
      Plot.gridY({ stroke: c.grid, strokeOpacity: 1, ticks: y?.ticks ?? 6 }),
      ...rules.map((value) => Plot.ruleY([value], { stroke: c.quiet, strokeWidth: 1 })),
      ...marks,
    ].filter(Boolean),
  });
}

// Two numbers a row, next to each other: `first` as a ring, `second` as a dot, joined where they differ.
export function pairs({ rows, first, second, xLabel, width, label }) {
  const c = colours();
  const most = width < 500 ? 22 : 42;
  const cut = (text) => (text.length > most ? `… ${text.slice(2 - most).replace(/^\S*\s/, "")}` : text);
  const named = rows.map((r, i) => ({ ...r, i }));
  const left = 16 + 7.2 * Math.min(most, Math.max(...rows.map((r) => r.name.length)));
  return Plot.plot({
    width,
    height: 60 + 22 * rows.length,
    marginLeft: left,
    marginRight: 18,
    marginTop: 8,
    marginBottom: 46,
    ariaLabel: label,
    style: { color: c.ink, background: "transparent", fontFamily: "system-ui, sans-serif", fontSize: "12px" },
    x: { label: xLabel, labelAnchor: "center", labelArrow: "none", labelOffset: 38, nice: true, inset: 8, ticks: Math.max(3, Math.floor((width - left) / 90)) },
    y: { type: "band", domain: named.map((r) => r.i), label: null, tickSize: 0, tickFormat: (i) => cut(rows[i].name) },
    marks: [
      Plot.gridX({ stroke: c.grid, strokeOpacity: 1, ticks: Math.max(3, Math.floor((width - left) / 90)) }),
      Plot.ruleX([0], { stroke: c.quiet }),
      Plot.link(named, { x1: first, x2: second, y: "i", stroke: c.grey, strokeWidth: 1.5 }),
      Plot.dot(named, { x: first, y: "i", r: 5, stroke: c.grey, strokeWidth: 2, fill: c.paper }),
      Plot.dot(named, { x: second, y: "i", r: 4, fill: (r) => (r[second] < 0 ? c.orange : c.blue) }),
    ],
  });
}

// The unit interval of codes, shared among responses (`intervals`: [{ from, to, reward, text }]), and under it the codes of each set of a group
// (`responses`: [{ set, code, reward, text }]).
export function codes({ intervals, responses, sets, width, label }) {
  const c = colours();
  const title = (r) => `${r.text}\nexpected reward ${shown(r.reward)}`;
  const row = Math.max(8, Math.min(26, 260 / sets));
  return Plot.plot({
    width,
    height: 34 + row * sets + 50,
    marginLeft: 50,
    marginRight: 12,
    marginTop: 4,
    marginBottom: 46,
    ariaLabel: label,
    style: { color: c.ink, background: "transparent", fontFamily: "system-ui, sans-serif", fontSize: "12px" },
    x: { domain: [0, 1], label: "code", labelAnchor: "center", labelArrow: "none", labelOffset: 38, ticks: Math.max(3, Math.floor(width / 90)) },
    y: { domain: [sets, -34 / row], label: null, tickSize: 0, ticks: Array.from({ length: sets }, (_, i) => i + 0.5).filter((_, i) => i % Math.ceil(14 / row) === 0), tickFormat: (y) => `set ${Math.floor(y) + 1}` },
    marks: [
      Plot.rect(intervals, { x1: "from", x2: "to", y1: -34 / row, y2: -8 / row, fill: c.blue, fillOpacity: (r) => 0.08 + 0.92 * Math.max(0, Math.min(1, r.reward)), stroke: c.paper, strokeWidth: 0.5, title }),
      Plot.ruleX(responses, { x: "code", y1: -8 / row, y2: (r) => r.set + 0.5, stroke: c.grid }),
      Plot.dot(responses, { x: "code", y: (r) => r.set + 0.5, r: Math.min(5, row / 2.4), fill: (r) => (r.reward > 0.5 ? c.blue : c.orange), title }),
    ],
  });
}

const channel = (hex, i) => parseInt(hex.slice(1 + 2 * i, 3 + 2 * i), 16);
const mixed = (from, to, share) => [0, 1, 2].map((i) => Math.round(channel(from, i) + share * (channel(to, i) - channel(from, i))));

// Colours from -1 to 1, as words of RGBA.
function ramp() {
  const c = colours();
  return Uint32Array.from({ length: 513 }, (_, i) => {
    const at = (i - 256) / 256;
    const [r, g, b] = mixed(c.middle, at < 0 ? c.orange : c.blue, Math.abs(at) ** 0.8);
    return (255 << 24) | (b << 16) | (g << 8) | r;
  });
}

// Paints rows of numbers, a pixel a token. Where there are more tokens than columns, each column shows its largest magnitude.
function paint(canvas, { values, offsets, limit, longest }) {
  const [columns, rows] = [canvas.width, canvas.height];
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const words = new Uint32Array(image.data.buffer);
  const palette = ramp();
  const factor = limit > 0 ? 256 / limit : 0;
  for (let row = 0; row < rows; row++) {
    const [begin, end] = [offsets[row], offsets[row + 1]];
    for (let column = 0; column < columns; column++) {
      const from = begin + Math.floor((column * longest) / columns);
      if (from >= end) break;
      const to = Math.min(end, begin + Math.floor(((column + 1) * longest) / columns));
      let largest = values[from];
      for (let k = from + 1; k < to; k++) if (Math.abs(values[k]) > Math.abs(largest)) largest = values[k];
      words[row * columns + column] = palette[256 + Math.round(Math.max(-256, Math.min(256, largest * factor)))];
    }
  }
  context.putImageData(image, 0, 0);
}

// A heat map over tokens (columns) and responses (rows) with its key, in `figure`; `marks`: [{ row, token, text }]. `onCell(row, token)`
// is called for the cell under the pointer, or the one that the arrow keys reach. Axes are drawn again only where they change.
// With `unitOf`, a magnitude, colours follow asinh(value / unitOf), so that values of that size show next to much larger ones.
export function drawHeat(figure, { values, offsets, labels, limit, marks = [], label, unit, onCell, rowHeight, unitOf = 0 }) {
  const stretch = (x) => (unitOf > 0 ? Math.asinh(x / unitOf) : x);
  const rows = offsets.length - 1;
  let longest = 1;
  for (let i = 0; i < rows; i++) longest = Math.max(longest, offsets[i + 1] - offsets[i]);
  const tall = rowHeight ?? Math.max(4, Math.min(30, 360 / rows));
  const left = Math.min(150, 26 + 7 * Math.max(...labels.map((l) => l.length)));
  const place = { left, right: 12, top: 4, bottom: 40, tall, rows, longest, inner: figure.width - left - 12, width: figure.width };
  const frame = JSON.stringify([place, colours().ink, labels, marks, label]);
  if (figure.frame !== frame) {
    figure.frame = frame;
    figure.canvas = element("canvas", { width: Math.min(longest, Math.floor(place.inner)), height: rows });
    figure.holder = element("div", { class: "heat" }, figure.canvas, axes(place, labels, marks, label));
    const share = (part, whole) => `${(100 * part) / whole}%`;
    const height = place.top + place.bottom + rows * tall;
    Object.assign(figure.canvas.style, { left: share(left, place.width), top: share(place.top, height), width: share(place.inner, place.width), height: share(rows * tall, height) });
    // Where the picture lies within the plot, for downloads.
    Object.assign(figure.canvas, { place: { x: left, y: place.top, width: place.inner, height: rows * tall } });
  }
  if (onCell) pointed(figure.holder.lastChild, place, offsets, onCell);
  paint(figure.canvas, { values: unitOf > 0 ? values.map(stretch) : values, offsets, limit: stretch(limit), longest });
  const ticks = unitOf > 0 ? [-limit, -unitOf, 0, unitOf, limit] : [-limit, 0, limit];
  figure.draw([figure.holder, key({ limit, ticks, stretch, label: unit, width: figure.width })]);
}

function axes({ left, right, top, bottom, tall, rows, longest, inner, width }, labels, marks, label) {
  const c = colours();
  const every = Math.max(1, Math.ceil(15 / tall));
  return Plot.plot({
    width,
    height: top + bottom + rows * tall,
    marginLeft: left,
    marginRight: right,
    marginTop: top,
    marginBottom: bottom,
    ariaLabel: label,
    style: { color: c.ink, background: "transparent", fontFamily: "system-ui, sans-serif", fontSize: "12px" },
    x: { domain: [0, longest], label: "token, from 0", labelAnchor: "center", labelArrow: "none", ticks: whole(longest, inner) },
    y: { domain: [rows, 0], label: null, tickSize: 0, ticks: labels.map((_, i) => i + 0.5).filter((_, i) => i % every === 0), tickFormat: (at) => labels[Math.floor(at)] },
    marks: [Plot.text(marks, { x: (m) => m.token + 0.5, y: (m) => m.row + 0.5, text: "text", fill: c.ink, stroke: c.paper, strokeWidth: 3, fontSize: Math.min(13, tall), fontWeight: 700 })],
  });
}

function whole(longest, inner) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000].find((s) => (longest / s) * 44 <= inner) ?? 5000;
  return Array.from({ length: Math.floor(longest / step) + 1 }, (_, i) => i * step);
}

// The cell under the pointer and the arrow keys, framed.
function pointed(plot, place, offsets, onCell) {
  const known = plot.cell;
  plot.cell = { offsets, onCell, frame: known?.frame ?? document.createElementNS("http://www.w3.org/2000/svg", "rect"), row: known?.row ?? 0, token: known?.token ?? 0 };
  if (known) return;
  const { left, top, inner, tall, rows, longest } = place;
  const wide = inner / longest;
  const show = (row, token) => {
    const at = plot.cell;
    at.row = Math.max(0, Math.min(rows - 1, row));
    at.token = Math.max(0, Math.min(at.offsets[at.row + 1] - at.offsets[at.row] - 1, token));
    const size = { x: left + at.token * wide, y: top + at.row * tall, width: Math.max(wide, 2), height: tall };
    Object.entries({ ...size, fill: "none", stroke: "currentColor", "stroke-width": 2, class: "cursor" }).forEach(([k, v]) => at.frame.setAttribute(k, v));
    if (!at.frame.parentNode) plot.append(at.frame);
    at.onCell(at.row, at.token);
  };
  plot.setAttribute("tabindex", "0");
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const scale = plot.viewBox.baseVal.width / box.width;
    const [x, y] = [(event.clientX - box.left) * scale - left, (event.clientY - box.top) * scale - top];
    const row = Math.floor(y / tall);
    if (row >= 0 && row < rows && x >= 0 && x < inner) show(row, Math.floor(x / wide));
  });
  plot.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -1e9], End: [0, 1e9] };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    show(plot.cell.row + step[0], plot.cell.token + step[1]);
  });
}

// The colours of the key as a picture one pixel high, of one theme.
const strips = new Map();
function strip() {
  const { middle } = colours();
  if (!strips.has(middle)) {
    const canvas = element("canvas", { width: 257, height: 1 });
    paint(canvas, { values: Float64Array.from({ length: 257 }, (_, i) => (i - 128) / 128), offsets: [0, 257], limit: 1, longest: 257 });
    strips.set(middle, canvas.toDataURL());
  }
  return strips.get(middle);
}

// The key of a heat map.
function key({ limit, ticks, stretch, label, width }) {
  const c = colours();
  const end = limit > 0 ? stretch(limit) : 1;
  const names = new Map(limit > 0 ? ticks.map((value) => [stretch(value), value]) : [[-1, -1], [0, 0], [1, 1]]);
  const wide = Math.min(width, 340);
  return Plot.plot({
    width: wide,
    height: 46,
    marginLeft: 28,
    marginRight: 28,
    marginTop: 20,
    marginBottom: 18,
    ariaLabel: `Colours: ${label}, from ${shown(-limit)} to ${shown(limit)}`,
    style: { color: c.ink, background: "transparent", fontFamily: "system-ui, sans-serif", fontSize: "12px" },
    x: { domain: [-end, end], ticks: [...names.keys()], tickFormat: (v) => shown(names.get(v), 3), label: null, tickSize: 3 },
    y: { axis: null, domain: [0, 1] },
    marks: [
      Plot.image([0], { x: 0, y: 0.5, src: strip(), width: wide - 56, height: 8, preserveAspectRatio: "none" }),
      Plot.text([label], { frameAnchor: "top-left", dy: -16, text: (t) => t }),
    ],
  });
}
