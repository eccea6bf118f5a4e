// What a view shows, in the address: `#credit?method=grpo_lambda&settings=lambda=0.9`. A view that is sent opens as it was.

export function read() {
  const [view, query = ""] = location.hash.replace(/^#/, "").split(/\?(.*)/s);
  return { view: view || "start", values: Object.fromEntries(new URLSearchParams(query)) };
}

// The longest address that browsers and mail programs carry without loss.
const LONGEST = 8000;

// A browser takes long to change the address, and refuses to do it often: it is changed when the reader pauses.
const PAUSE = 250;
let waiting = 0;

// Values that are defaults are left out. Returns whether everything fitted.
export function write(view, values, defaults) {
  const kept = Object.entries(values).filter(([key, value]) => String(value) !== String(defaults[key] ?? ""));
  const query = () => new URLSearchParams(kept).toString();
  const whole = query().length <= LONGEST;
  if (!whole) kept.sort((a, b) => String(a[1]).length - String(b[1]).length).pop();
  const hash = `#${view}${kept.length ? `?${query()}` : ""}`;
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    // The reader may have gone to another view in between.
    if (read().view === view && hash !== location.hash) history.replaceState(null, "", hash);
  }, PAUSE);
  return whole;
}
