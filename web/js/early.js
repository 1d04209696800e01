// Runs before anything is painted, so that whoever chose the dark page never sees a white one first.
(function () {
  try {
    const theme = localStorage.getItem("baton.theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch (_) {
    // A browser that keeps nothing follows the system.
  }
})();
