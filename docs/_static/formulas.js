// Typesets the formulas of a page where KaTeX is there. Otherwise their source text stays.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  if (typeof katex === "undefined") return;
  for (const node of document.querySelectorAll(".formula")) {
    const source = node.textContent;
    // Inline mode even for display, since KaTeX breaks such a formula where the line is too short.
    const tex = ("display" in node.dataset ? "\\displaystyle " : "") + node.dataset.tex;
    try {
      katex.render(tex, node, { throwOnError: true });
      node.title = source;
    } catch {
      node.textContent = source;
    }
  }
});
