// Runs before the first paint, so that the dark theme does not flash white.
(function () {
  try {
    const theme = localStorage.getItem("baton.theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch (_) {
    // A browser that keeps nothing follows the system.
  }
})();
