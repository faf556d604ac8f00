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

  // An axis of prices, and the `series` on it. A logarithmic axis has no zero: what costs nothing
  // stands well to the left of the lowest price, at a mark of its own.
  function byPrice(series) {
    const prices = series.map(one => one.point[0]).filter(price => price > 0);
    const lowest = prices.length ? Math.min(...prices) : 1;
    const free = lowest / 2;
    const placed = series.map(one => ({ ...one, point: [one.point[0] > 0 ? one.point[0] : free, one.point[1]] }));
    const x = { ...charts.log(...roomy(range(placed.map(one => one.point[0]))), dollars), title: "price" };
    if (prices.length === series.length) return { placed, x };
    const ticks = count => [free, ...x.ticks(count).filter(tick => prices.length && tick >= lowest * 0.9)];
    return { placed, x: { ...x, ticks, format: price => price === free ? "$0" : dollars(price) } };
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

  // Which points have a label beside them: the option to choose, those on the front, and of each scheme that has none there its
  // best one. Those come first, since they get the room.
  function withNames(series, front, lowerIsBetter) {
    const onFront = one => front.some(point => point[0] === one.point[0] && point[1] === one.point[1]);
    const better = (a, b) => (lowerIsBetter ? a.point[1] - b.point[1] : b.point[1] - a.point[1]) || a.point[0] - b.point[0];
    const sorted = [...series].sort((a, b) => b.chosen - a.chosen || onFront(b) - onFront(a) || (onFront(a) ? a.point[0] - b.point[0] : better(a, b)));
    const seen = new Set();
    return sorted.map(one => {
      const text = onFront(one) ? one.name : one.label;
      // A label stands once: the note tells options at one point, or of one size, apart.
      const named = seen.has(text) ? "" : text;
      seen.add(text).add(one.label);
      return { ...one, named: one.chosen ? `${one.name}: the choice` : named };
    });
  }

  const drawings = figures.map(({ title, about, unit, lowerIsBetter, series }) => {
    const box = html("figure", "", plots);
    const caption = html("figcaption", "", box);
    html("h3", "", caption, title);
    html("p", "", caption, series.some(one => one.chosen) ? `${about} The ring marks the choice.` : about);
    const place = html("div", "plot", box);
    place.setAttribute("role", "group");
    place.setAttribute("aria-label", title);
    return () => {
      if (!series.length) { place.replaceChildren(); html("p", "none", place, "No option that was simulated to its end has this figure."); return; }
      const { placed, x } = byPrice(series);
      const y = charts.log(...roomy(range(series.map(one => one.point[1]))), value => `${trim(value, 3)} ${unit}`);
      const front = frontier(placed, lowerIsBetter);
      charts.points(place, { title, series: withNames(placed, front, lowerIsBetter), x, y, frontier: front });
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
