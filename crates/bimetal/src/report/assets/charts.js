// Charts in SVG: lines, points and bars over linear, logarithmic and tail axes. Knows nothing of what it draws. Colours come from
// the style sheet (classes c0 to c13), so that they follow the reader's light or dark mode without being drawn again.
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

  // Letters from which on a name may be broken into lines, as in sections.rs.
  const LONG = 21;

  // An element with the name of a scheme and its mark.
  function scheme(tag, series, parent) {
    const node = html(tag, `scheme c${series.colour}${series.dashed ? " hollow" : ""}`, parent);
    if (series.label.length < LONG) node.append(series.label);
    else html("span", "long", node, series.label);
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
    const units = [[1, "s", [1, 2, 5, 10, 15, 20, 30]], [60, "min", [1, 2, 5, 10, 15, 20, 30]], [3600, "h", [1, 2, 3, 6, 12, 24]], [86400, "d", [1, 2, 7, 14, 28]]];
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
      // As many steps a decade as find room; even steps where the axis is too short for three marks of these.
      ticks(count) {
        for (const steps of [[1, 2, 5], [1, 3], [1]]) {
          const ticks = [];
          for (let power = Math.floor(a); power <= b + 1e-9; power++) ticks.push(...steps.map(step => step * 10 ** power));
          const inside = ticks.filter(tick => tick >= low * 0.999 && tick <= high * 1.001);
          if (steps.length === 3 && inside.length < 3) return linear(low, high).ticks(count);
          if (inside.length <= count + 2) return inside;
        }
        const stride = Math.max(1, Math.ceil((b - a) / count));
        const powers = [];
        for (let power = Math.ceil(a - 1e-9); power <= b + 1e-9; power += stride) powers.push(10 ** power);
        return powers;
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

  // ---- Labels of lines and of points. ----

  let pen = null;

  // The width of a label (class `label` of the style sheet) in pixels.
  function widthOf(text) {
    pen ??= document.createElement("canvas").getContext("2d");
    pen.font = `700 13px ${getComputedStyle(document.body).fontFamily}`;
    return pen.measureText(text).width;
  }

  // The beginning of a label that fits into `room` pixels.
  function cut(text, room) {
    if (widthOf(text) <= room) return text;
    let length = text.length - 1;
    while (length > 1 && widthOf(`${text.slice(0, length)}…`) > room) length--;
    return `${text.slice(0, length)}…`;
  }

  // Heights for labels at the wished `heights`: in their order, at least `apart` from each other, between `top` and `bottom`.
  function spread(heights, top, bottom, apart) {
    const gap = Math.min(apart, (bottom - top) / Math.max(1, heights.length - 1));
    const order = [...heights.keys()].sort((a, b) => heights[a] - heights[b] || a - b);
    const placed = [];
    let least = top;
    for (const index of order) {
      placed[index] = Math.max(heights[index], least);
      least = placed[index] + gap;
    }
    let most = bottom;
    for (const index of order.reverse()) {
      placed[index] = Math.min(placed[index], most);
      most = placed[index] - gap;
    }
    return placed;
  }

  function overlaps(a, b) {
    return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  }

  // Places for the label of a point, as [x, y] of the label's upper left corner from the point:
  // `clear` pixels beside it, and further off, where a thin line leads to the label.
  function placesBeside(width, clear) {
    const near = [[clear, -8], [-clear - width, -8], [8, -23], [8, 8], [-8 - width, -23], [-8 - width, 8], [-width / 2, -26], [-width / 2, 11]];
    const far = [];
    for (let dy = -150; dy <= 150; dy += 15) for (const dx of [24, 48, 80, 120]) far.push([dx, dy - 8], [-dx - width, dy - 8]);
    const away = ([dx, dy]) => Math.hypot(Math.max(dx, 0, -dx - width), dy + 8);
    return { near, far: far.sort((a, b) => away(a) - away(b)) };
  }

  // Gives each of `points` ({x, y, text, clear}) a place for its label that covers no other point,
  // no other label and, where there is room, none of `obstacles`. Near places are given first. A
  // label that fits nowhere is left out.
  function placeNames(points, area, obstacles) {
    const height = 15;
    const names = [];
    const dots = points.map(({ x, y }) => ({ x: x - 8, y: y - 8, width: 16, height: 16 }));
    const isInside = box => box.x >= area.x && box.y >= area.y && box.x + box.width <= area.x + area.width && box.y + box.height <= area.y + area.height;
    const isClear = (box, others) => !others.some(other => overlaps(box, other));

    function place({ x, y, text, clear }, isNear) {
      if (!text) return null;
      const width = widthOf(text) + 6;
      const { near, far } = placesBeside(width, clear);
      const boxes = (isNear ? near : [...far, ...near]).map(([dx, dy]) => ({ x: x + dx, y: y + dy, width, height }));
      const free = boxes.filter(box => isInside(box) && isClear(box, [...dots, ...names]));
      const box = free.find(box => isClear(box, obstacles)) ?? (isNear ? undefined : free[0]);
      if (!box) return null;
      names.push(box);
      const [endX, endY] = [Math.min(Math.max(x, box.x), box.x + width), Math.min(Math.max(y, box.y + 4), box.y + height - 4)];
      return { ...box, leader: Math.hypot(endX - x, endY - y) > 16 ? [endX, endY] : null };
    }

    const places = points.map(point => place(point, true));
    return places.map((found, index) => found ?? place(points[index], false));
  }

  // ---- The frame that all charts share. ----

  // A drawing surface as wide as `root`, with the axes of `spec`. Left free: room for the labels of the vertical axis, and
  // `gutter` pixels at the right.
  function frame(root, spec, height, gutter = 0) {
    const width = Math.max(root.clientWidth, 240);
    const narrow = width < 520;
    const yTicks = spec.y.ticks(narrow ? 5 : 6);
    const left = Math.max(...yTicks.map(tick => spec.y.format(tick).length)) * 6.4 + 12;
    const area = { x: left, y: 10, width: width - left - 12 - gutter, height: height - 10 - 42 };
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

  // ---- The box that says values. ----

  // The box of the page that is open: { root, hide }.
  let opened = null;

  // A mouse closes the box when it leaves the chart. A finger leaves nothing; a tap elsewhere
  // closes the box.
  addEventListener("pointerdown", event => {
    if (opened && !opened.root.contains(event.target)) opened.hide();
  });

  // A box in `root`, closed; `onHide` is called when it closes.
  function box(root, onHide = () => {}) {
    const node = html("div", "readout", root);
    node.setAttribute("aria-live", "polite");
    node.hidden = true;
    const own = {
      root,
      // Shows `title` and `rows` (HTML elements). `place` finds left and top for width and height.
      show(title, rows, place) {
        if (opened !== own) opened?.hide();
        opened = own;
        node.replaceChildren(...rows);
        node.prepend(html("p", "", null, title));
        node.hidden = false;
        const [left, top] = place(node.offsetWidth, node.offsetHeight);
        node.style.left = `${Math.max(0, Math.min(left, root.clientWidth - node.offsetWidth))}px`;
        node.style.top = `${top}px`;
      },
      hide() {
        if (opened === own) opened = null;
        node.hidden = true;
        onHide();
      },
      leave(event) {
        if (event.pointerType !== "touch") own.hide();
      },
    };
    return own;
  }

  // ---- Lines. ----

  // Draws `spec.series` ({label, colour, dashed, points: [[x, y | null]…]}); with `spec.step` a value holds until the next.
  function lines(root, spec) {
    root.replaceChildren();
    const isNarrow = root.clientWidth < 520;
    const way = spec.step ? 14 : 34;
    const gutter = Math.max(...spec.series.map(series => widthOf(series.label))) + way + KEY_LEFT + 4;
    const isBelow = isNarrow || gutter > root.clientWidth / 3;
    const { surface, area, x, y } = frame(root, spec, isNarrow ? 300 : 380, isBelow ? 0 : gutter);
    const id = `clip-${charts.next++}`;
    svg("rect", { x: area.x, y: area.y - 2, width: area.width + 2, height: area.height + 4 }, svg("clipPath", { id }, svg("defs", {}, surface)));
    const inside = svg("g", { "clip-path": `url(#${id})` }, surface);
    const drawn = spec.series.map(series => line(inside, series, spec.step, x, y));
    if (isBelow) keyBelow(root, spec.series);
    else keyBeside(surface, area, spec.series, drawn, way, !spec.step);
    const groups = together(spec, y).map(labels => list(labels));
    if (groups.length) html("p", "together", root, `Lines that lie on each other: ${groups.join("; ")}.`);
    readout(root, spec, surface, area, y);
  }

  // Draws a line and returns its points in pixels.
  function line(parent, series, step, x, y) {
    let path = "";
    let pen = false;
    const lone = [];
    const points = [];
    series.points.forEach(([px, py], index) => {
      if (py === null) { pen = false; return; }
      const at = [x(px), y(py)];
      if (pen && step) path += `H${at[0].toFixed(1)}`;
      path += `${pen ? "L" : "M"}${at[0].toFixed(1)} ${at[1].toFixed(1)}`;
      const next = series.points[index + 1];
      if (!pen && (!next || next[1] === null)) lone.push(at);
      pen = true;
      points.push(at);
    });
    svg("path", { class: `mark line ${inkClass(series)}`, d: path, "data-label": series.label }, parent);
    for (const [cx, cy] of lone) svg("circle", { class: `mark dot ${inkClass(series)}`, cx, cy, r: 2.5 }, parent);
    return points;
  }

  // Width of a sample of a line before its name, with the gaps on both sides.
  const KEY_LEFT = 32;

  // Writes the names of the lines to the right of the chart, `way` pixels off, each at the height
  // at which its line ends. With `isLed` a thin line leads from each end to its name. Lines that end
  // at one height stand in the order in which they get there.
  function keyBeside(surface, area, series, drawn, way, isLed) {
    const edge = area.x + area.width;
    const ends = drawn.map(points => points.at(-1) ?? [edge, area.y + area.height]);
    const middle = area.y + area.height / 2;
    const arrival = drawn.map(points => points.find(point => point[1] <= middle)?.[0] ?? edge);
    const within = ends.map(end => Math.min(Math.max(end[1], area.y), area.y + area.height));
    // A thousandth of a pixel a rank decides between ends at one height, and moves no label.
    const rank = [...arrival.keys()].sort((a, b) => arrival[a] - arrival[b]);
    const wished = within.map((height, index) => Math.round(height) + rank.indexOf(index) / 1000);
    const heights = spread(wished, area.y + 4, area.y + area.height - 4, 17);
    series.forEach((one, index) => {
      const y = heights[index];
      const row = svg("g", { class: `key ${inkClass(one)}`, "data-label": one.label, "data-end": within[index].toFixed(1) }, surface);
      if (isLed && ends[index][0] > edge - 3) svg("path", { class: "leader", d: `M${edge + 2} ${within[index]}L${edge + way} ${y}` }, row);
      svg("path", { class: `sample ${inkClass(one)}`, d: `M${edge + way + 2} ${y}h24` }, row);
      svg("text", { class: "label", x: edge + way + KEY_LEFT, y: y + 4.5 }, row, one.label);
    });
  }

  // Writes the names of the lines below a narrow chart.
  function keyBelow(root, series) {
    const key = html("div", "key-below", root);
    for (const one of series) {
      const row = html("span", `key ${inkClass(one)}`, key);
      row.dataset.label = one.label;
      const sample = svg("svg", { width: 24, height: 10, "aria-hidden": "true" }, row);
      svg("path", { class: `sample ${inkClass(one)}`, d: "M0 5h24" }, sample);
      row.append(one.label);
    }
  }

  // The point of a line at `at`: the last one not behind it where values hold, else the nearest.
  function pointAt(points, at, step) {
    let low = 0, high = points.length - 1;
    if (high < 0) return null;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (points[middle][0] <= at) low = middle; else high = middle - 1;
    }
    if (step) return points[low][0] <= at ? points[low] : [at, 0];
    const next = points[low + 1];
    return next && next[0] - at < at - points[low][0] ? next : points[low];
  }

  // Number of places at which lines are compared.
  const SAMPLES = 400;

  // Heights of a line from left to right in pixels; null where it is not drawn.
  function heightsOf({ points }, spec, y) {
    const [first, last] = [points[0]?.[0], points.at(-1)?.[0]];
    return Array.from({ length: SAMPLES }, (_, index) => {
      const at = spec.x.value((index + 0.5) / SAMPLES);
      return at >= first && at <= last ? y(pointAt(points, at, spec.step)[1]) : null;
    });
  }

  // True if line `b` passes through the surroundings of line `a` at a place: a line's width above and below, a place to each side.
  function isNear(a, b, index) {
    const around = b.slice(Math.max(index - 1, 0), index + 2).filter(height => height !== null);
    return a[index] !== null && Math.min(...around) - 2 <= a[index] && a[index] <= Math.max(...around) + 2;
  }

  // True if one line hides the other.
  function coincide(a, b) {
    const drawn = [...a.keys()].filter(index => a[index] !== null || b[index] !== null);
    return drawn.length > 0 && drawn.every(index => isNear(a, b, index) || isNear(b, a, index));
  }

  // The labels of lines that lie on each other, as lists of two or more.
  function together(spec, y) {
    const groups = [];
    for (const series of spec.series) {
      const heights = heightsOf(series, spec, y);
      const group = groups.find(group => coincide(group.heights, heights));
      if (group) group.labels.push(series.label);
      else groups.push({ heights, labels: [series.label] });
    }
    return groups.map(group => group.labels).filter(labels => labels.length > 1);
  }

  function list(words) {
    return `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
  }

  // Where the points of all lines lie, from left to right, as [place, value].
  function stopsOf({ series, x }) {
    const all = new Set(series.flatMap(one => one.points.map(point => point[0])));
    return [...all].sort((a, b) => a - b).map(value => [Math.min(1, Math.max(0, x.place(value))), value]);
  }

  // A cursor that follows pointer and arrow keys and says the values under it. With `spec.discrete` there are no values between
  // points, and the cursor stops at points alone.
  function readout(root, spec, surface, area, y) {
    const stops = spec.discrete ? stopsOf(spec) : [];
    const nearest = at => stops.reduce((best, stop, index) => Math.abs(stop[0] - at) < Math.abs(stops[best][0] - at) ? index : best, 0);
    const cursor = svg("g", { class: "cursor", visibility: "hidden" }, surface);
    const rule = svg("line", { y1: area.y, y2: area.y + area.height }, cursor);
    const dots = spec.series.map(series => svg("circle", { class: `dot ${inkClass(series)}`, r: 4 }, cursor));
    let place = null;
    const said = box(root, () => {
      place = null;
      cursor.setAttribute("visibility", "hidden");
    });

    function show(at) {
      place = Math.min(1, Math.max(0, at));
      let value = spec.x.value(place);
      if (stops.length) [place, value] = stops[nearest(place)];
      const px = area.x + place * area.width;
      rule.setAttribute("x1", px);
      rule.setAttribute("x2", px);
      const rows = spec.series.map((series, index) => {
        const point = pointAt(series.points, value, spec.step);
        const found = point && (!spec.discrete || point[0] === value) ? point[1] : null;
        dots[index].setAttribute("visibility", found === null ? "hidden" : "inherit");
        if (found !== null) {
          dots[index].setAttribute("cx", px);
          dots[index].setAttribute("cy", Math.min(Math.max(y(found), area.y), area.y + area.height));
        }
        return { series, found, said: point?.[2] ?? found };
      });
      rows.sort((a, b) => (b.found ?? -Infinity) - (a.found ?? -Infinity));
      said.show(spec.at(value), rows.map(({ series, found, said }) => {
        const row = html("div");
        scheme("span", series, row);
        html("span", "value", row, found === null ? "–" : spec.say(said));
        return row;
      }), width => [px + 14 + width > root.clientWidth ? px - 14 - width : px + 14, area.y + 4]);
      cursor.setAttribute("visibility", "visible");
    }

    root.onpointermove = root.onpointerdown = event => show((event.clientX - surface.getBoundingClientRect().left - area.x) / area.width);
    root.onpointerleave = said.leave;
    root.onblur = said.hide;
    // Moves the cursor by hundredths of the width, or by stops.
    function move(by) {
      const from = place ?? 0.5;
      if (stops.length) show(stops[Math.min(stops.length - 1, Math.max(0, nearest(from) + by))][0]);
      else show(from + by / 100);
    }
    root.onkeydown = event => {
      const step = event.shiftKey ? 10 : 1;
      if (event.key === "ArrowRight") move(step);
      else if (event.key === "ArrowLeft") move(-step);
      else if (event.key === "Escape") { said.hide(); return; }
      else return;
      event.preventDefault();
    };
    root.tabIndex = 0;
  }

  // ---- Points. ----

  // Draws `spec.series` ({label, colour, dashed, point: [x, y], note, named, chosen}), and through the points `spec.frontier` a
  // line of steps. Beside a point stands `named`, or its label where there is none; what is empty or has no room is left out.
  // Around a point that is `chosen` there is a ring.
  function points(root, spec) {
    root.replaceChildren();
    const height = root.clientWidth < 520 ? 280 : 320;
    const { surface, area, x, y } = frame(root, spec, height);
    const obstacles = [];
    if (spec.frontier && spec.frontier.length > 1) {
      const steps = spec.frontier.map(([px, py]) => [x(px), y(py)]);
      svg("path", { class: "frontier", d: steps.map(([px, py], index) => (index ? `H${px}V${py}` : `M${px} ${py}`)).join("") }, surface);
      steps.slice(1).forEach(([px, py], index) => {
        const [lastX, lastY] = steps[index];
        obstacles.push({ x: lastX, y: lastY, width: px - lastX, height: 1 }, { x: px, y: Math.min(py, lastY), width: 1, height: Math.abs(py - lastY) });
      });
    }
    const room = series => Math.min(area.width * (series.chosen ? 0.9 : 0.6), 260);
    const drawn = spec.series.map(series => ({ text: cut(series.named ?? series.label, room(series)), x: x(series.point[0]), y: y(series.point[1]), clear: series.chosen ? 14 : 10 }));
    const places = placeNames(drawn, { ...area, x: area.x - 4, y: 0, width: area.width + 14, height: area.height + 10 }, obstacles);
    places.forEach((place, index) => {
      if (place?.leader) svg("line", { class: `leader ${inkClass(spec.series[index])}`, x1: drawn[index].x, y1: drawn[index].y, x2: place.leader[0], y2: place.leader[1] }, surface);
    });
    const said = box(root);
    // The last one drawn lies on top.
    const order = [...spec.series.keys()].sort((a, b) => Boolean(spec.series[a].chosen) - Boolean(spec.series[b].chosen));
    for (const index of order) {
      const series = spec.series[index];
      const { x: cx, y: cy } = drawn[index];
      if (series.chosen) svg("circle", { class: `ring ${inkClass(series)}`, cx, cy, r: 11 }, surface);
      const dot = svg("circle", { class: `mark point ${inkClass(series)}`, cx, cy, r: 6.5, tabindex: 0, role: "img", "aria-label": `${series.label}: ${series.note}`, "data-label": series.label }, surface);
      const beside = (_, high) => [cx + 14, cy + 14 + high > height ? cy - 14 - high : cy + 14];
      const show = () => said.show(series.label, series.note.split("; ").map(line => html("div", "", null, line)), beside);
      dot.onpointerenter = dot.onfocus = show;
      dot.onpointerleave = said.leave;
      dot.onblur = said.hide;
      dot.onkeydown = event => { if (event.key === "Escape") said.hide(); };
      const place = places[index];
      if (place) svg("text", { class: `label ${inkClass(series)}`, x: place.x + 2, y: place.y + 12 }, surface, drawn[index].text);
    }
  }

  // ---- Bars. ----

  // Draws a bar for each of `spec.series` ({label, colour, dashed, value, part, whole, text}):
  // `part` of it solid, the rest pale. A value of null has no bar, only its text. With `whole`
  // ("pale" or "hatched") a bar goes from end to end.
  function bars(root, spec) {
    root.replaceChildren();
    const width = Math.max(root.clientWidth, 240);
    // Where a label leaves no room for its text, all texts stand on lines of their own.
    const isStacked = spec.series.some(series => widthOf(series.label) + widthOf(series.text) + 12 > width);
    const head = isStacked ? 36 : 19;
    const row = head + 21;
    const height = spec.series.length * row + 4;
    const surface = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": spec.title }, root);
    const largest = Math.max(...spec.series.map(series => series.value ?? 0), 0);
    spec.series.forEach((series, index) => {
      const top = index * row;
      const y = top + head;
      svg("text", { class: `label ${inkClass(series)}`, x: 0, y: top + 13 }, surface, cut(series.label, width));
      svg("text", { class: "bar-text", x: isStacked ? 0 : width, y: y - 6, "text-anchor": isStacked ? "start" : "end" }, surface, series.text);
      svg("rect", { class: "track", x: 0, y, width, height: 12 }, surface);
      if (series.whole === "pale") svg("rect", { class: `mark bar pale ${inkClass(series)}`, x: 0, y, width, height: 12, "data-label": series.label }, surface);
      if (series.whole === "hatched") {
        const id = `hatch-${charts.next++}`;
        const pattern = svg("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, svg("defs", {}, surface));
        svg("rect", { class: `bar pale ${inkClass(series)}`, width: 3, height: 6 }, pattern);
        svg("rect", { class: "mark", x: 0, y, width, height: 12, fill: `url(#${id})`, "data-label": series.label }, surface);
      }
      if (series.value === null || largest === 0) return;
      const length = value => Math.max(value > 0 ? 1.5 : 0, value / largest * width);
      if (series.part !== undefined) svg("rect", { class: `mark bar pale ${inkClass(series)}`, x: 0, y, width: length(series.value), height: 12 }, surface);
      svg("rect", { class: `mark bar ${inkClass(series)}`, x: 0, y, width: length(series.part ?? series.value), height: 12, "data-label": series.label }, surface);
    });
  }

  return { lines, points, bars, linear, log, time, tail, html, scheme, trim, next: 0 };
})();
