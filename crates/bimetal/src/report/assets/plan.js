// The charts of a plan: what each option costs against how fast it is and how long it lasts. Points and notes come from the
// page; nothing is loaded.
"use strict";

(() => {
  const { html, trim } = charts;
  const { figures } = JSON.parse(document.getElementById("data").textContent);
  const plots = document.getElementById("plots");

  const dollars = value => `$${trim(value, 3)}`;
  const range = values => [Math.min(...values), Math.max(...values)];

  // Beside the outermost points some room, so that they are not cut.
  function roomy([low, high]) {
    return high > low ? [low / 1.15, high * 1.15] : [low / 2, high * 2];
  }

  // Points that no other beats in price and in the figure, from the cheapest on.
  function frontier(series, lowerIsBetter) {
    const sorted = [...series].sort((a, b) => a.point[0] - b.point[0] || (lowerIsBetter ? a.point[1] - b.point[1] : b.point[1] - a.point[1]));
    const front = [];
    for (const { point } of sorted) {
      const last = front.at(-1);
      if (!last || (lowerIsBetter ? point[1] < last[1] : point[1] > last[1])) front.push(point);
    }
    return front;
  }

  const drawings = figures.map(({ title, about, unit, lowerIsBetter, series }) => {
    const box = html("figure", "", plots);
    const caption = html("figcaption", "", box);
    html("h3", "", caption, title);
    html("p", "", caption, about);
    const place = html("div", "plot", box);
    place.setAttribute("aria-label", title);
    return () => {
      if (!series.length) { place.replaceChildren(); html("p", "none", place, "No option that was simulated to its end has this figure."); return; }
      const x = { ...charts.log(...roomy(range(series.map(one => Math.max(one.point[0], 0.01)))), dollars), title: "price" };
      const y = charts.log(...roomy(range(series.map(one => one.point[1]))), value => `${trim(value, 3)} ${unit}`);
      charts.points(place, { title, series, x, y, frontier: frontier(series, lowerIsBetter) });
    };
  });

  let width = 0;
  function draw() {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    drawings.forEach(drawing => drawing());
  }
  addEventListener("resize", draw);
  draw();
})();
