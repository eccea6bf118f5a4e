// What a view shows, in the address: `#credit?method=grpo_lambda&settings=lambda=0.9`. A view that is sent opens as it was.

export function read() {
  const [view, query = ""] = location.hash.replace(/^#/, "").split(/\?(.*)/s);
  return { view: view || "start", values: Object.fromEntries(new URLSearchParams(query)) };
}

// The longest address that browsers and mail programs carry without loss.
const LONGEST = 8000;

// Values that are defaults are left out. Returns whether everything fitted.
export function write(view, values, defaults) {
  const kept = Object.entries(values).filter(([key, value]) => String(value) !== String(defaults[key] ?? ""));
  const query = () => new URLSearchParams(kept).toString();
  let whole = true;
  if (query().length > LONGEST) {
    whole = false;
    kept.sort((a, b) => String(a[1]).length - String(b[1]).length).pop();
  }
  const hash = `#${view}${kept.length ? `?${query()}` : ""}`;
  if (hash !== location.hash) history.replaceState(null, "", hash);
  return whole;
}
