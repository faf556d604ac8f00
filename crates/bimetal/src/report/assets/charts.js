// Charts in SVG: lines, points and bars over linear, logarithmic and tail axes. Knows nothing of what it draws. Colours come from
// the style sheet (classes c0 to c7), so that they follow the reader's light or dark mode without being drawn again.
"use strict";

const charts = (() => {
  const NAMESPACE = "http://www.w3.org/2000/svg";

  function svg(name, attributes, parent, text) {
    const node = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }

  function html(name, className, parent, text) {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  }

  // ---- Axes: where a value lies between 0 and 1, and which values are marked. ----

  function niceStep(rough, steps) {
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = steps.find(step => step * power >= rough * 0.999);
    return step === undefined ? 10 * power : step * power;
  }

  function linear(low, high, format) {
    if (!(high > low)) high = low + 1;
    return {
      place: value => (value - low) / (high - low),
      value: place => low + place * (high - low),
      format,
      ticks(count) {
        const step = niceStep((high - low) / count, [1, 2, 2.5, 5]);
        const ticks = [];
        for (let index = Math.ceil(low / step - 1e-9); index * step <= high * (1 + 1e-9); index++) ticks.push(index * step);
        return ticks;
      },
    };
  }

  // Seconds, marked in the unit that suits the span.
  function time(low, high) {
    if (!(high > low)) high = low + 1;
    const units = [[1, "s", [1, 2, 5]], [60, "min", [1, 2, 5, 10, 15, 20, 30]], [3600, "h", [1, 2, 3, 6, 12, 24]], [86400, "d", [1, 2, 7, 14, 28]]];
    const span = high - low;
    const [unit, name, steps] = span < 150 ? units[0] : span < 9000 ? units[1] : span < 260000 ? units[2] : units[3];
    const base = linear(low, high, value => `${trim(value / unit)} ${name}`);
    base.ticks = count => {
      const rough = span / unit / count;
      const step = (steps.find(step => step >= rough * 0.8) ?? niceStep(rough, [1, 2, 5])) * unit;
      const fine = rough < steps[0] ? niceStep(rough, [1, 2, 5]) * unit : step;
      const ticks = [];
      for (let index = Math.ceil(low / fine - 1e-9); index * fine <= high * (1 + 1e-9); index++) ticks.push(index * fine);
      return ticks;
    };
    return base;
  }

  function log(low, high, format) {
    if (!(high > low)) { low /= 2; high *= 2; }
    const a = Math.log10(low), b = Math.log10(high);
    return {
      place: value => (Math.log10(Math.max(value, low / 1e6)) - a) / (b - a),
      value: place => 10 ** (a + place * (b - a)),
      format,
      ticks(count) {
        const decades = b - a;
        const ticks = [];
        if (decades < 1.5) {
          for (let power = Math.floor(a); power <= b; power++) {
            for (const step of [1, 2, 5]) {
              const tick = step * 10 ** power;
              if (tick >= low * 0.999 && tick <= high * 1.001) ticks.push(tick);
            }
          }
          return ticks;
        }
        const stride = Math.max(1, Math.ceil(decades / count));
        for (let power = Math.ceil(a - 1e-9); power <= b + 1e-9; power += stride) ticks.push(10 ** power);
        return ticks;
      },
    };
  }

  // A share that comes close to 1: 0, 90 %, 99 %, 99.9 % … at equal distances.
  function tail(nines) {
    const place = share => Math.min(-Math.log10(Math.max(1 - share, 1e-15)) / nines, 1.5);
    return {
      place,
      value: at => 1 - 10 ** (-at * nines),
      format: share => `${trim(100 * share, 8)} %`,
      ticks: () => Array.from({ length: Math.floor(nines) + 1 }, (_, index) => 1 - 10 ** -index),
    };
  }

  function trim(value, digits = 4) {
    return String(Number(value.toPrecision(digits)));
  }

  // ---- Labels on lines: where there is most room. ----

  let pen = null;

  // The width of a label (class `label` of the style sheet) in pixels.
  function widthOf(text) {
    pen ??= document.createElement("canvas").getContext("2d");
    pen.font = `700 13px ${getComputedStyle(document.body).fontFamily}`;
    return pen.measureText(text).width;
  }

  function overlaps(a, b) {
    return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  }

  function distance(box, [x, y]) {
    const dx = Math.max(box.x - x, 0, x - box.x - box.width);
    const dy = Math.max(box.y - y, 0, y - box.y - box.height);
    return Math.hypot(dx, dy);
  }

  // Gives each line of `lines` ({points in pixels, text}) a place for its label, beside one of its points, away from other
  // lines and labels; a label that fits nowhere is left out, and a line without a text is only kept clear of. Beside a label
  // there are `clear` pixels to other lines.
  function placeLabels(lines, area, anchorsOf, clear = 1) {
    const height = 15;
    const sparse = lines.map(line => thin(line.points, 90));
    const placed = [];
    return lines.map((line, own) => {
      if (!line.text) return null;
      const width = widthOf(line.text) + 6;
      let best = null;
      for (const [x, y] of anchorsOf(sparse[own])) {
        for (const [dx, dy] of [[7, -18], [7, 4], [-7 - width, -18], [-7 - width, 4], [10, -8], [-10 - width, -8], [7, -27], [-width / 2, -27]]) {
          const box = { x: x + dx, y: y + dy, width, height };
          if (box.x < area.x || box.y < area.y || box.x + width > area.x + area.width || box.y + height > area.y + area.height) continue;
          if (placed.some(other => overlaps(box, other))) continue;
          let room = 30;
          for (let other = 0; other < sparse.length && room > 0; other++) {
            for (const point of sparse[other]) {
              const gap = distance(box, point) * (other === own ? 3 : 1);
              if (gap < room) room = gap;
            }
          }
          for (const other of placed) room = Math.min(room, distance(other, [x, y]));
          if (!best || room > best.room) best = { ...box, room };
        }
      }
      if (!best || best.room < clear) return null;
      placed.push(best);
      return best;
    });
  }

  // At most `count` points of `points`, and points between far neighbours, so that distance to a line can be told from points.
  function thin(points, count) {
    const stride = Math.max(1, Math.floor(points.length / count));
    const kept = points.filter((_, index) => index % stride === 0 || index === points.length - 1);
    const filled = [];
    kept.forEach((point, index) => {
      if (index) {
        const [x, y] = kept[index - 1];
        const steps = Math.min(12, Math.floor(Math.hypot(point[0] - x, point[1] - y) / 14));
        for (let step = 1; step < steps; step++) filled.push([x + (point[0] - x) * step / steps, y + (point[1] - y) * step / steps]);
      }
      filled.push(point);
    });
    return filled;
  }

  // ---- The frame that all charts share. ----

  // A drawing surface as wide as `root`, with the axes of `spec`. Left free: room for the labels of the vertical axis.
  function frame(root, spec, height) {
    const width = Math.max(root.clientWidth, 240);
    const narrow = width < 520;
    const yTicks = spec.y.ticks(narrow ? 5 : 6);
    const left = Math.max(...yTicks.map(tick => spec.y.format(tick).length)) * 6.4 + 12;
    const area = { x: left, y: 10, width: width - left - 12, height: height - 10 - 42 };
    const surface = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.title }, root);
    const x = value => area.x + spec.x.place(value) * area.width;
    const y = value => area.y + (1 - spec.y.place(value)) * area.height;
    const grid = svg("g", { class: "grid", "aria-hidden": "true" }, surface);
    for (const tick of yTicks) {
      svg("line", { x1: area.x, x2: area.x + area.width, y1: y(tick), y2: y(tick) }, grid);
      svg("text", { x: area.x - 8, y: y(tick) + 4, "text-anchor": "end" }, grid, spec.y.format(tick));
    }
    let end = -Infinity;
    for (const tick of spec.x.ticks(Math.max(2, Math.round(area.width / 85)))) {
      const text = spec.x.format(tick);
      const half = text.length * 3.3;
      svg("line", { x1: x(tick), x2: x(tick), y1: area.y, y2: area.y + area.height }, grid);
      if (x(tick) - half < end + 6) continue;
      const shift = Math.min(0, width - 1 - x(tick) - half);
      svg("text", { x: x(tick) + shift, y: area.y + area.height + 18, "text-anchor": "middle" }, grid, text);
      end = x(tick) + half;
    }
    svg("line", { class: "axis", x1: area.x, x2: area.x + area.width, y1: area.y + area.height, y2: area.y + area.height }, grid);
    svg("text", { class: "axis-title", x: area.x + area.width, y: height - 4, "text-anchor": "end" }, grid, `${spec.x.title} →`);
    return { surface, area, x, y, width, height, narrow };
  }

  function inkClass(series) {
    return `c${series.colour}${series.dashed ? " dashed" : ""}`;
  }

  // ---- Lines. ----

  // Draws `spec.series` ({label, colour, dashed, points: [[x, y | null]…]}); with `spec.step` a value holds until the next.
  function lines(root, spec) {
    root.replaceChildren();
    const height = root.clientWidth < 520 ? 300 : 380;
    const { surface, area, x, y } = frame(root, spec, height);
    const id = `clip-${charts.next++}`;
    svg("rect", { x: area.x, y: area.y - 2, width: area.width + 2, height: area.height + 4 }, svg("clipPath", { id }, svg("defs", {}, surface)));
    const inside = svg("g", { "clip-path": `url(#${id})` }, surface);
    const drawn = spec.series.map(series => {
      let path = "";
      let pen = false;
      let lone = [];
      const points = [];
      series.points.forEach(([px, py], index) => {
        if (py === null) { pen = false; return; }
        const at = [x(px), y(py)];
        if (pen && spec.step) path += `H${at[0].toFixed(1)}`;
        path += `${pen ? "L" : "M"}${at[0].toFixed(1)} ${at[1].toFixed(1)}`;
        const next = series.points[index + 1];
        if (!pen && (!next || next[1] === null)) lone.push(at);
        pen = true;
        points.push(at);
      });
      svg("path", { class: `mark line ${inkClass(series)}`, d: path, "data-label": series.label }, inside);
      for (const [cx, cy] of lone) svg("circle", { class: `mark dot ${inkClass(series)}`, cx, cy, r: 2.5 }, inside);
      return { text: series.label, points: points.filter(([px, py]) => py >= area.y - 1 && px <= area.x + area.width + 1) };
    });
    const places = placeLabels(drawn, area, points => points.filter((_, index) => index % 3 === 0));
    places.forEach((place, index) => {
      if (place) svg("text", { class: `label ${inkClass(spec.series[index])}`, x: place.x + 2, y: place.y + 12 }, surface, drawn[index].text);
    });
    readout(root, spec, surface, area, x, y);
  }

  // The value of a line at `at`: of the last point not behind it where values hold, else of the nearest.
  function valueAt(points, at, step) {
    let low = 0, high = points.length - 1;
    if (high < 0) return null;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (points[middle][0] <= at) low = middle; else high = middle - 1;
    }
    if (step) return points[low][0] <= at ? points[low][1] : 0;
    const next = points[low + 1];
    return next && next[0] - at < at - points[low][0] ? next[1] : points[low][1];
  }

  // A cursor that follows pointer and arrow keys and says the values under it.
  function readout(root, spec, surface, area, x, y) {
    const cursor = svg("g", { class: "cursor", visibility: "hidden" }, surface);
    const rule = svg("line", { y1: area.y, y2: area.y + area.height }, cursor);
    const dots = spec.series.map(series => svg("circle", { class: `dot ${inkClass(series)}`, r: 4 }, cursor));
    const box = html("div", "readout", root);
    box.setAttribute("aria-live", "polite");
    box.hidden = true;
    let place = null;

    function show(at) {
      place = Math.min(1, Math.max(0, at));
      const value = spec.x.value(place);
      const px = area.x + place * area.width;
      rule.setAttribute("x1", px);
      rule.setAttribute("x2", px);
      const rows = spec.series.map((series, index) => {
        const found = valueAt(series.points, value, spec.step);
        dots[index].setAttribute("visibility", found === null ? "hidden" : "inherit");
        if (found !== null) {
          dots[index].setAttribute("cx", px);
          dots[index].setAttribute("cy", Math.min(Math.max(y(found), area.y), area.y + area.height));
        }
        return { series, found };
      });
      rows.sort((a, b) => (b.found ?? -Infinity) - (a.found ?? -Infinity));
      box.replaceChildren();
      html("p", "", box, spec.at(value));
      for (const { series, found } of rows) {
        const row = html("div", "", box);
        html("span", `scheme ${inkClass(series)}${series.dashed ? " hollow" : ""}`, row, series.label);
        html("span", "value", row, found === null ? "–" : spec.say(found));
      }
      box.hidden = false;
      const left = px + 14 + box.offsetWidth > root.clientWidth ? px - 14 - box.offsetWidth : px + 14;
      box.style.left = `${Math.max(0, Math.min(left, root.clientWidth - box.offsetWidth))}px`;
      box.style.top = `${area.y + 4}px`;
      cursor.setAttribute("visibility", "visible");
    }

    function hide() {
      place = null;
      box.hidden = true;
      cursor.setAttribute("visibility", "hidden");
    }

    root.onpointermove = root.onpointerdown = event => show((event.clientX - surface.getBoundingClientRect().left - area.x) / area.width);
    root.onpointerleave = hide;
    root.onblur = hide;
    root.onkeydown = event => {
      const step = event.shiftKey ? 0.1 : 0.01;
      if (event.key === "ArrowRight") show((place ?? 0.49) + step);
      else if (event.key === "ArrowLeft") show((place ?? 0.51) - step);
      else if (event.key === "Escape") { hide(); return; }
      else return;
      event.preventDefault();
    };
    root.tabIndex = 0;
  }

  // ---- Points. ----

  // Draws `spec.series` ({label, colour, dashed, point: [x, y], note, named}), and through the points `spec.frontier` a line of
  // steps. Beside a point stands `named`, or its label where there is none; what is empty or has no room is left out.
  function points(root, spec) {
    root.replaceChildren();
    const height = root.clientWidth < 520 ? 280 : 320;
    const { surface, area, x, y } = frame(root, spec, height);
    if (spec.frontier && spec.frontier.length > 1) {
      const path = spec.frontier.map(([px, py], index) => (index ? `H${x(px)}V${y(py)}` : `M${x(px)} ${y(py)}`)).join("");
      svg("path", { class: "frontier", d: path }, surface);
    }
    const drawn = spec.series.map(series => ({ text: series.named ?? series.label, points: [[x(series.point[0]), y(series.point[1])]] }));
    const places = placeLabels(drawn, { ...area, x: area.x - 4, y: 0, width: area.width + 14, height: area.height + 10 }, points => points, 8);
    const box = html("div", "readout", root);
    box.setAttribute("aria-live", "polite");
    box.hidden = true;
    spec.series.forEach((series, index) => {
      const [[cx, cy]] = drawn[index].points;
      const dot = svg("circle", { class: `mark point ${inkClass(series)}`, cx, cy, r: 6.5, tabindex: 0, role: "img", "aria-label": `${series.label}: ${series.note}`, "data-label": series.label }, surface);
      const show = () => {
        box.replaceChildren();
        html("p", "", box, series.label);
        for (const line of series.note.split("; ")) html("div", "", box, line);
        box.hidden = false;
        box.style.left = `${Math.max(0, Math.min(cx + 14, root.clientWidth - box.offsetWidth))}px`;
        box.style.top = `${cy + 14 + box.offsetHeight > height ? cy - 14 - box.offsetHeight : cy + 14}px`;
      };
      dot.onpointerenter = dot.onfocus = show;
      dot.onpointerleave = dot.onblur = () => { box.hidden = true; };
      const place = places[index];
      if (place) svg("text", { class: `label ${inkClass(series)}`, x: place.x + 2, y: place.y + 12 }, surface, drawn[index].text);
    });
  }

  // ---- Bars. ----

  // Draws a bar for each of `spec.series` ({label, colour, dashed, value, part, endless, text}): `part` of it solid, the rest
  // pale. A value of null has no bar, only its text; one that is `endless` is hatched from end to end.
  function bars(root, spec) {
    root.replaceChildren();
    const width = Math.max(root.clientWidth, 240);
    const row = 40;
    const height = spec.series.length * row + 4;
    const surface = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.title }, root);
    const largest = Math.max(...spec.series.map(series => series.value ?? 0), 0);
    spec.series.forEach((series, index) => {
      const top = index * row;
      svg("text", { class: `label ${inkClass(series)}`, x: 0, y: top + 13 }, surface, series.label);
      svg("text", { class: "bar-text", x: width, y: top + 13, "text-anchor": "end" }, surface, series.text);
      svg("rect", { class: "track", x: 0, y: top + 19, width, height: 12 }, surface);
      if (series.endless) {
        const id = `hatch-${charts.next++}`;
        const pattern = svg("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("defs", {}, surface));
        svg("rect", { class: `bar pale ${inkClass(series)}`, width: 3, height: 6 }, pattern);
        svg("rect", { class: "mark", x: 0, y: top + 19, width, height: 12, fill: `url(#${id})`, "data-label": series.label }, surface);
      }
      if (series.value === null || largest === 0) return;
      const length = value => Math.max(value > 0 ? 1.5 : 0, value / largest * width);
      if (series.part !== undefined) svg("rect", { class: `mark bar pale ${inkClass(series)}`, x: 0, y: top + 19, width: length(series.value), height: 12 }, surface);
      svg("rect", { class: `mark bar ${inkClass(series)}`, x: 0, y: top + 19, width: length(series.part ?? series.value), height: 12, "data-label": series.label }, surface);
    });
  }

  return { lines, points, bars, linear, log, time, tail, html, trim, next: 0 };
})();
