// Elements in one call: `element("p", { class: "note" }, "text", child)`.

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && key !== "list" && key !== "form") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  if (attributes.class) made.className = attributes.class;
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

let count = 0;
export const fresh = (stem) => `${stem}-${++count}`;

// At most one call a frame, the latest one.
export function eachFrame(call) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      call();
    });
  };
}

// A number for a reader: four digits, a real minus sign.
export function shown(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return "none";
  if (!Number.isFinite(x)) return x > 0 ? "infinite" : "minus infinite";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 1e-4 || size >= 1e6) ? x.toExponential(digits - 2) : String(Number(x.toPrecision(digits)));
  return text.replace("-", "−");
}
