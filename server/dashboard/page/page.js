// What both pages share: their elements, and the choice between light and dark.
"use strict";

const Page = (() => {
  const $ = (id) => document.getElementById(id);
  const text = (id, value) => {
    if ($(id).textContent !== value) $(id).textContent = value;
  };

  /** Follows the theme's button, starting from the previous choice, or else what the system
   *  prefers. changed() is called after each theme, the first one included. */
  function followTheme(changed) {
    let dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
    try {
      const kept = localStorage.getItem("theme");
      if (kept) dark = kept === "dark";
    } catch { /* a browser without storage keeps nothing */ }
    const show = () => {
      document.documentElement.classList.toggle("dark", dark);
      text("theme", dark ? "Light" : "Dark");
      changed();
    };
    $("theme").addEventListener("click", () => {
      dark = !dark;
      try { localStorage.setItem("theme", dark ? "dark" : "light"); } catch { /* as above */ }
      show();
    });
    show();
  }

  return { $, text, followTheme };
})();
