// The calculator of the first page. accountant.js, which tools/calculator.py builds, is the C++ library as WebAssembly;
// what is here asks it, rounds outward and draws. docs/theory/browser.md says why the bounds are certified.
"use strict";

const STEP = 3 * 8; // bytes of tightdp_sampled_gaussians: noise multiplier, sampling probability, steps

// Returns functions that ask the library. Each throws an Error with the library's own message for bad input.
function wrapLibrary(library) {
  const run = library._malloc(STEP);
  const result = library._malloc(2 * 8);
  const answer = (code, count) => {
    if (code !== 0) throw new Error(library.UTF8ToString(library._tightdp_last_error()));
    return Array.from(library.HEAPF64.subarray(result / 8, result / 8 + count));
  };
  const place = (noise, probability, steps) => library.HEAPF64.set([noise, probability, steps], run / 8);
  return {
    epsilon(noise, probability, steps, delta) {
      place(noise, probability, steps);
      return answer(library._tightdp_epsilon(run, 1, delta, result), 2);
    },
    delta(noise, probability, steps, epsilon) {
      place(noise, probability, steps);
      return answer(library._tightdp_delta(run, 1, epsilon, result), 2);
    },
    noise(epsilon, delta, probability, steps) {
      return answer(library._tightdp_noise_multiplier(epsilon, delta, probability, steps, result), 1)[0];
    },
  };
}

// Writes x with this many significant digits, rounded up or down: the text, read back, is on the safe side.
function formatOutward(x, digits, up) {
  if (!Number.isFinite(x) || x === 0) return x === Infinity ? "unbounded" : String(x);
  const text = x.toPrecision(digits);
  if (up ? Number(text) >= x : Number(text) <= x) return text;
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(x))) - digits + 1);
  for (let k = 1; ; ++k) {
    const moved = (Number(text) + (up ? k : -k) * unit).toPrecision(digits);
    if (up ? Number(moved) >= x : Number(moved) <= x) return moved;
  }
}

const SLIDERS = {
  noise: { from: 0.4, to: 20, name: "noise multiplier", digits: 3 },
  epsilon: { from: 0.05, to: 20, name: "epsilon", digits: 3 },
  probability: { from: 1e-4, to: 1, name: "sampling probability", digits: 2 },
  steps: { from: 1, to: 1e5, name: "steps", digits: 3, whole: true },
  delta: { from: 1e-12, to: 1e-2, name: "delta", digits: 1 },
};
const POINTS = 60;
const LEAST_DELTA = 1e-12;
const SLICE = 10; // milliseconds of work on the curve before the page may react

function startCalculator(root, ask) {
  const find = (name) => root.querySelector(`[data-${name}]`);
  const inputs = {};
  for (const name of Object.keys(SLIDERS)) inputs[name] = root.querySelector(`input[name=${name}]`);
  const curve = { key: "", epsilons: [], deltas: [] };
  let pending = 0;

  // A slider is logarithmic, and its value a number of few digits that the page shows.
  const read = (name) => {
    const { from, to, digits, whole } = SLIDERS[name];
    const value = from * (to / from) ** (inputs[name].value / 1000);
    return whole ? Math.round(Number(value.toPrecision(digits))) : Number(value.toPrecision(digits));
  };

  function update() {
    const known = root.querySelector("input[name=known]:checked").value;
    root.dataset.known = known;
    const [probability, steps, delta] = ["probability", "steps", "delta"].map(read);
    for (const name of Object.keys(SLIDERS)) root.querySelector(`output[name=${name}]`).value = read(name);
    try {
      let noise = read("noise");
      if (known === "epsilon") {
        noise = ask.noise(read("epsilon"), delta, probability, steps);
        find("answer").innerHTML = `noise multiplier <b>${formatOutward(noise, 6, true)}</b>`;
      }
      const [lower, upper] = ask.epsilon(noise, probability, steps, delta);
      const text = `${formatOutward(lower, 10, false)} ≤ epsilon ≤ <b>${formatOutward(upper, 10, true)}</b>`;
      if (known === "noise") find("answer").innerHTML = text;
      find("second").innerHTML = known === "noise" ? "" : text;
      find("code").textContent = `(dp.PoissonSampled(dp.Gaussian(${noise}), ${probability}) * ${steps}).epsilon(${delta})`;
      follow(noise, probability, steps, { epsilon: upper, delta });
    } catch (error) {
      find("answer").textContent = error.message;
      find("second").textContent = "";
    }
  }

  // Computes the curve in slices, so that the sliders never wait for it.
  function follow(noise, probability, steps, mark) {
    clearTimeout(pending);
    const key = [noise, probability, steps].join();
    if (curve.key !== key) {
      const end = Math.min(ask.epsilon(noise, probability, steps, LEAST_DELTA)[1], 1e6);
      curve.key = key;
      curve.epsilons = Array.from({ length: POINTS }, (_, k) => (end * k) / (POINTS - 1));
      curve.deltas = [];
    }
    const go = () => {
      const until = performance.now() + SLICE;
      while (curve.deltas.length < POINTS && performance.now() < until)
        curve.deltas.push(ask.delta(noise, probability, steps, curve.epsilons[curve.deltas.length])[1]);
      if (curve.deltas.length < POINTS) pending = setTimeout(go, 0);
      draw(mark);
    };
    go();
  }

  function draw(mark) {
    const width = 440, height = 230, left = 46, bottom = 36, top = 10, right = 10;
    const last = curve.epsilons[POINTS - 1] || 1;
    const x = (epsilon) => left + ((width - left - right) * Math.min(epsilon, last)) / last;
    const y = (delta) =>
      top + ((height - top - bottom) * Math.log10(Math.max(delta, LEAST_DELTA))) / Math.log10(LEAST_DELTA);
    const path = curve.deltas.map((d, k) => `${k ? "L" : "M"}${x(curve.epsilons[k]).toFixed(1)},${y(d).toFixed(1)}`);
    const lines = [0, -4, -8, -12].map((e) => {
      const at = y(10 ** e).toFixed(1);
      return `<line x1="${left}" x2="${width - right}" y1="${at}" y2="${at}" class="grid"/>` +
        `<text x="${left - 6}" y="${Number(at) + 4}" text-anchor="end">${e ? `1e${e}` : 1}</text>`;
    });
    const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) =>
      `<text x="${x(part * last).toFixed(1)}" y="${height - bottom + 16}" text-anchor="middle">` +
      `${Number((part * last).toPrecision(2))}</text>`);
    find("curve").innerHTML = `<svg viewBox="0 0 ${width} ${height}" role="img" ` +
      `aria-label="delta as a function of epsilon">${lines.join("")}${ticks.join("")}` +
      `<text x="${(left + width) / 2}" y="${height - 4}" text-anchor="middle">epsilon (nats)</text>` +
      `<text x="${left + 6}" y="${top + 10}">delta</text>` +
      `<path d="${path.join("")}"/>` +
      `<circle cx="${x(mark.epsilon).toFixed(1)}" cy="${y(mark.delta).toFixed(1)}" r="5"/></svg>`;
  }

  root.addEventListener("input", update);
  root.hidden = false;
  update();
}

if (typeof document !== "undefined")
  document.addEventListener("DOMContentLoaded", async () => {
    const root = document.getElementById("calculator");
    if (!root) return;
    if (typeof tightdp !== "function") { // a heading of this name is an element, which the browser also calls tightdp
      root.insertAdjacentHTML("afterend", "<p><em>The calculator is left out: emscripten was not installed where this " +
        "site was built.</em></p>");
      return;
    }
    startCalculator(root, wrapLibrary(await tightdp()));
  });
