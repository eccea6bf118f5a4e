// Light and dark, and the colours of pictures: Okabe and Ito's, which colour-blind eyes tell apart.

const KEY = "grpo-lambda-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = [];
let chosen = null;
try {
  chosen = localStorage.getItem(KEY);
} catch {
  // A page opened from disk may have no storage; the system's choice holds then.
}

export const isDark = () => (chosen ? chosen === "dark" : system.matches);

function apply() {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
  listeners.forEach((listener) => listener());
}

export function start() {
  document.getElementById("theme").addEventListener("click", () => {
    chosen = isDark() ? "light" : "dark";
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // As above.
    }
    apply();
  });
  system.addEventListener("change", apply);
  apply();
}

export const onChange = (listener) => listeners.push(listener);

// blue and orange carry the two signs; grey is what others are compared with.
export const colours = () =>
  isDark()
    ? { ink: "#e8ebee", paper: "#14181d", quiet: "#a3adb8", grid: "#363e47", blue: "#56b4e9", orange: "#f08a3c", green: "#35c49b", purple: "#dd9cc4", grey: "#a3adb8", middle: "#272e36" }
    : { ink: "#1b1f24", paper: "#ffffff", quiet: "#5b6570", grid: "#e4e8ec", blue: "#0072b2", orange: "#d55e00", green: "#009e73", purple: "#b0568f", grey: "#7b858f", middle: "#f3f4f5" };
