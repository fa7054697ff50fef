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
      // One that cannot be broken is made smaller.
      const part = node.parentNode.clientWidth / node.getBoundingClientRect().width;
      if ("display" in node.dataset && part < 1) node.style.fontSize = `${Math.max(part, 0.5)}em`;
    } catch {
      node.textContent = source;
    }
  }
});
