// Data and pictures as files.

import { element } from "./dom.js";

function save(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = element("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const cell = (x) => (typeof x === "string" && /[",\n]/.test(x) ? `"${x.replaceAll('"', '""')}"` : x ?? "");

export function csv(rows) {
  const columns = [...new Set(rows.flatMap(Object.keys))];
  return [columns, ...rows.map((row) => columns.map((c) => row[c]))].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

const SPACE = "http://www.w3.org/2000/svg";

function text(content, x, y, attributes = {}) {
  const node = document.createElementNS(SPACE, "text");
  for (const [key, value] of Object.entries({ x, y, fill: "currentColor", ...attributes })) node.setAttribute(key, value);
  node.textContent = content;
  return node;
}

// The plots of a figure below each other, with its title and legend, as one picture that needs no style of the page.
function picture(figure) {
  const plots = [...figure.querySelectorAll(".plot > svg, .plot > .heat > svg")];
  const style = getComputedStyle(document.documentElement);
  const width = Math.max(...plots.map((plot) => plot.viewBox.baseVal.width));
  const legend = [...figure.querySelectorAll(".legend li")];
  const { subject } = figure.dataset;
  const title = figure.querySelector("h2").textContent + (subject ? `: ${subject}` : "");
  const svg = document.createElementNS(SPACE, "svg");
  svg.setAttribute("xmlns", SPACE);
  svg.style.cssText = `color:${style.getPropertyValue("--ink")};background:${style.getPropertyValue("--paper")};font:13px system-ui,sans-serif`;
  svg.append(text(title, 12, 26, { "font-size": 16, "font-weight": 650 }));
  let [x, y] = [12, 48];
  for (const item of legend) {
    const wide = item.offsetWidth + 22;
    if (x > 12 && x + wide > width) [x, y] = [12, y + 20];
    const swatch = item.querySelector("svg").cloneNode(true);
    swatch.setAttribute("x", x);
    swatch.setAttribute("y", y - 9);
    svg.append(swatch, text(item.textContent, x + 34, y));
    x += wide;
  }
  y += legend.length ? 12 : -12;
  for (const plot of plots) {
    const copy = plot.cloneNode(true);
    const { width: w, height: h } = plot.viewBox.baseVal;
    copy.setAttribute("width", w);
    copy.setAttribute("height", h);
    copy.setAttribute("y", y);
    copy.querySelector(".cursor")?.remove();
    const canvas = plot.parentNode.querySelector(":scope > canvas");
    if (canvas) {
      const image = document.createElementNS(SPACE, "image");
      const attributes = { ...canvas.place, href: canvas.toDataURL(), preserveAspectRatio: "none", style: "image-rendering:pixelated" };
      for (const [key, value] of Object.entries(attributes)) image.setAttribute(key, value);
      copy.prepend(image);
    }
    svg.append(copy);
    y += h + 8;
  }
  svg.setAttribute("viewBox", `0 0 ${width} ${y}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", y);
  return { source: new XMLSerializer().serializeToString(svg), width, height: y };
}

function asPng(figure, name) {
  const { source, width, height } = picture(figure);
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas", { width: 2 * width, height: 2 * height });
    canvas.getContext("2d").drawImage(image, 0, 0, 2 * width, 2 * height);
    canvas.toBlob((blob) => save(`${name}.png`, blob), "image/png");
  };
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
}

// Buttons for a figure; `rows` gives its numbers as objects.
export function buttons(figure, name, rows) {
  const button = (label, onclick) => element("button", { type: "button", onclick, "aria-label": `Download as ${label}` }, label);
  return element("div", { class: "buttons small" },
    button("CSV", () => save(`${name}.csv`, new Blob([csv(rows())], { type: "text/csv" }))),
    button("JSON", () => save(`${name}.json`, new Blob([JSON.stringify(rows(), null, 1) + "\n"], { type: "application/json" }))),
    button("SVG", () => save(`${name}.svg`, new Blob([picture(figure()).source], { type: "image/svg+xml" }))),
    button("PNG", () => asPng(figure(), name)));
}

export { picture };
