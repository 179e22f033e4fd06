// Light or dark, as the system has it unless the reader chose. It runs before the page is shown,
// so that nothing flashes in the wrong colours.
(() => {
  const KEY = "tally-theme";
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // A browser that keeps nothing follows the system.
    }
  }

  function apply() {
    const choice = chosen();
    const theme = choice === "dark" || choice === "light" ? choice : system.matches ? "dark" : "light";
    root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) button.setAttribute("aria-pressed", String(theme === "dark"));
  }

  function toggle() {
    try {
      localStorage.setItem(KEY, root.dataset.theme === "dark" ? "light" : "dark");
    } catch {
      // Then the choice holds for this page alone.
      root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
      return;
    }
    apply();
  }

  apply();
  system.addEventListener("change", apply);
  addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", toggle);
  });
})();
