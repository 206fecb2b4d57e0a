"use strict";
// The slider under each curve moves a cross over its drawings and says what holds there; so does the pointer.
for (const figure of document.querySelectorAll(".chart")) {
  const reader = figure.querySelector(".reader");
  const { points, binds, scales, atMost } = JSON.parse(reader.querySelector("script").textContent);
  const slider = reader.querySelector("input");
  const said = reader.querySelector("output");
  const drawings = [...figure.querySelectorAll("svg")];
  const first = points[0][0];
  const span = Math.log(points[points.length - 1][0] / first);
  const most = Math.max(...points.map((point) => point[3]));
  const told = (n) => n.toLocaleString("en-US");

  // The point that holds at a prompt. Between two that say the same, every prompt does; else the nearer one is meant.
  function at(prompt) {
    const next = points.findIndex((point) => point[0] > prompt);
    if (next <= 0) return points[next < 0 ? points.length - 1 : 0];
    const [a, b] = [points[next - 1], points[next]];
    if (a.slice(1).join() === b.slice(1).join()) return [prompt, ...a.slice(1)];
    return prompt - a[0] < b[0] - prompt ? a : b;
  }

  function show() {
    const asked = Math.round(first * Math.exp(span * slider.value / slider.max));
    const [prompt, admits, low, high, safe, pool] = at(asked);
    const range = low === high ? told(admits) : `${told(admits)} (${told(low)} to ${told(high)})`;
    const words = `${told(prompt)} tokens: admits ${atMost ? "at most " : ""}${range}, safe ${told(safe)}; bound by ${binds[pool]}`;
    said.textContent = words;
    slider.setAttribute("aria-valuetext", words);
    drawings.forEach((svg, i) => {
      const [left, right, floor, one, top] = scales[i];
      const x = left + (right - left) * Math.log(prompt / first) / span;
      const y = admits < 1 ? floor : one + (top - one) * Math.log(admits) / Math.log(most);
      const cross = svg.querySelector(".cross");
      cross.setAttribute("visibility", "visible");
      cross.querySelector("line").setAttribute("transform", `translate(${x})`);
      cross.querySelector("circle").setAttribute("transform", `translate(${x},${most > 1 ? y : one})`);
    });
  }

  drawings.forEach((svg, i) => svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const [left, right] = scales[i];
    slider.value = Math.round(slider.max * (x - left) / (right - left));
    show();
  }));
  slider.addEventListener("input", show);
  reader.hidden = false;
  show();
}
