// What each chart of the report shows. All figures come from the document that the page carries; nothing is loaded.
"use strict";

(() => {
  const { html, trim } = charts;
  const read = id => JSON.parse(document.getElementById(id).textContent);
  const inks = read("inks");
  // Charts show the first block of runs; the runs with a share of the working set have a table.
  const { runs: blocks, over_share: overShare } = read("data");
  const runs = blocks.slice(0, inks.length);
  const shown = new Set([...runs.keys()].filter(index => inks[index].shown));
  const plots = document.getElementById("plots");
  const drawings = [];

  // ---- Words for quantities. ----

  function milliseconds(value) {
    if (value === 0) return "0";
    if (value < 0.001) return `${trim(value * 1e6, 3)} ns`;
    if (value < 1) return `${trim(value * 1e3, 3)} µs`;
    if (value < 1000) return `${trim(value, 3)} ms`;
    return value < 1e7 ? `${trim(value / 1e3, 3)} s` : `${trim(value / 3.6e6, 3)} h`;
  }

  function bytes(value) {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (value >= 1023.5 && unit < units.length - 1) { value /= 1024; unit++; }
    return `${trim(value, 3)} ${units[unit]}`;
  }

  function since(seconds) {
    const days = Math.floor(seconds / 86400);
    const clock = new Date(Math.round(seconds % 86400 * 1000)).toISOString().slice(11, seconds < 120 ? 23 : 19);
    return days ? `day ${days + 1}, ${clock}` : clock;
  }

  const capital = text => text.charAt(0).toUpperCase() + text.slice(1);

  // Never rounds up to 100 %: one request in two thousand that took longer is no rounding error.
  function percent(share, digits = 3) {
    const text = trim(100 * share, digits);
    return share < 1 && Number(text) >= 100 ? `> 99.${"9".repeat(digits - 2)} %` : `${text} %`;
  }

  const dollars = value => `$${value >= 100 ? value.toFixed(0) : value.toFixed(2)}`;

  // ---- Charts. ----

  // Reasons for which figures without switches are hidden, by the title of the figure.
  const absent = new Map();

  // A figure with a title, a sentence, and switches; `draw(place, choices)` draws it, or returns why there is nothing to draw.
  // A figure without a drawing and without switches is hidden, and its reason stands below all figures.
  function figure(name, title, about, switches, draw, wide) {
    const box = html("figure", wide ? "wide" : "", plots);
    box.id = name;
    const caption = html("figcaption", "", box);
    html("h3", "", caption, title);
    const sentence = html("p", "", caption);
    const controls = html("div", "switches", box);
    const place = html("div", "plot", box);
    place.setAttribute("role", "group");
    place.setAttribute("aria-label", title);
    const choices = {};
    const redraw = () => {
      sentence.textContent = typeof about === "function" ? about(choices) : about;
      // A hidden figure has no width to draw in.
      box.hidden = false;
      const nothing = draw(place, choices);
      absent.delete(title);
      if (nothing && !switches.length) {
        box.hidden = true;
        absent.set(title, nothing);
      }
      box.classList.toggle("empty", Boolean(nothing));
      if (nothing) {
        place.replaceChildren();
        place.removeAttribute("tabindex");
        html("p", "none", place, nothing);
      }
    };
    for (const [key, label, options] of switches) {
      choices[key] = options[0][0];
      const group = html("fieldset", "", controls);
      html("legend", "visually-hidden", group, label);
      for (const [value, text] of options) {
        const choice = html("label", "", group);
        const input = html("input", "", choice);
        input.type = "radio";
        input.name = `${name}-${key}`;
        input.value = value;
        input.checked = value === choices[key];
        input.onchange = () => { choices[key] = value; redraw(); };
        html("span", "", choice, text);
      }
    }
    drawings.push(redraw);
  }

  // The runs that are shown, each with what `points` makes of it; those of which it makes nothing are left out.
  function series(make) {
    return [...shown].sort((a, b) => a - b).map(index => ({ ...inks[index], ...make(runs[index]) })).filter(one => one.points?.length || one.point || one.text);
  }

  function range(values) {
    let low = Infinity, high = -Infinity;
    for (const value of values) {
      if (value === null || !Number.isFinite(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
    return [low, high];
  }

  // Reason for which a page about one run does not draw its point among points.
  const ALONE = "A point says something beside the points of other schemes; this page is about one.";

  const values = all => all.flatMap(one => one.points.map(point => point[1]));

  // Buckets without a read or write have no response time.
  const hasValues = all => values(all).some(Number.isFinite);

  // A linear axis from 0 whose marks are round in a unit of size `unit`.
  function linearIn(unit, high, format) {
    const inUnits = charts.linear(0, high / unit);
    return { ...charts.linear(0, high, format), ticks: count => inUnits.ticks(count).map(tick => tick * unit) };
  }

  figure("cdf", "How long requests take", choices => choices.scale === "tail"
    ? "The slowest requests, each step up ten times as rare: at 99.9 % one request in a thousand takes longer."
    : "Share of requests that took no longer than the time below. Further left is faster.",
  [["kind", "Requests", [["all", "all"], ["read", "reads"], ["write", "writes"]]], ["scale", "Scale", [["share", "share"], ["tail", "tail"]]]],
  (place, { kind, scale }) => {
    const isTail = scale === "tail";
    let most = 1;
    const all = series(run => {
      const { ms, requests } = run.series.response_time_cdf[kind];
      const total = requests.at(-1);
      most = Math.max(most, total ?? 1);
      // On the tail's scale there is no place for all requests: the last point is drawn below, and said as it is.
      const points = ms.map((at, index) => [at, isTail && index === ms.length - 1 ? 1 - 0.5 / total : requests[index] / total, requests[index] / total]);
      if (points.length) points.unshift([points[0][0], 0]);
      return { points };
    });
    if (!all.length) return `No ${kind === "all" ? "reads or writes" : `${kind}s`} in this trace.`;
    // Less than 100 ns is no drive's work: a logarithmic axis begins there at the earliest, what is less lies on its edge.
    const [low, high] = range(all.flatMap(one => one.points.map(point => Math.max(point[0], 1e-4))));
    for (const one of all) one.points = one.points.map(([at, ...shares]) => [Math.max(at, low), ...shares]);
    const x = { ...charts.log(low, high, milliseconds), title: "response time" };
    const nines = Math.min(6, Math.max(2, Math.log10(most)));
    const y = isTail ? charts.tail(nines) : charts.linear(0, 1, percent);
    const digits = isTail ? 6 : 3;
    charts.lines(place, { title: "Distribution of response times", series: all, x, y, step: true, at: value => `within ${milliseconds(value)}`, say: share => percent(share, digits) });
  }, true);

  const OVER_SHARE = {
    mean: { title: "Mean response time", log: true, say: milliseconds, value: point => point.mean_ms },
    p99: { title: "99th percentile of the response times", log: true, say: milliseconds, value: point => point.p99_ms },
    hits: { title: "Share of the blocks read that the SSD served", say: percent, value: point => point.read_hit_ratio },
    // More than a hundred years are all the same.
    life: { title: "Shortest possible lifetime of the SSD", log: true, say: lifetime, value: point => point.lifetime_least_years === null ? null : Math.min(point.lifetime_least_years, 100) },
  };

  function axisOfSize(kind, low, high) {
    const isLog = kind.log && low > 0 && high / low > 20;
    if (kind === OVER_SHARE.life) return isLog ? logOfLife(low / 1.2, high * 1.2) : linearOfLife(high);
    return isLog ? charts.log(low / 1.2, high * 1.2, kind.say) : charts.linear(0, kind.say === percent ? 1 : high * 1.05 || 1, kind.say);
  }

  if (overShare.length) figure("size", "How large an SSD", choices => `${OVER_SHARE[choices.what].title}, by the size of the SSD as a share of all that the trace touches. A scheme that keeps blocks on the SSD alone has the whole drive; an SSD too small for its scheme has the size that the scheme needs.`,
    [["what", "Figure", [["mean", "mean latency"], ["p99", "p99 latency"], ["hits", "hits"], ["life", "life"]]]],
    (place, { what }) => {
      const kind = OVER_SHARE[what];
      const all = series(run => ({
        points: overShare.filter(point => point.label === run.label && kind.value(point) !== null).map(point => [point.percent, kind.value(point)]),
      }));
      if (!hasValues(all)) return "No scheme that is shown has this figure.";
      const shares = [...new Set(overShare.map(point => point.percent))].sort((a, b) => a - b);
      const x = { ...charts.log(shares[0], shares.at(-1), share => `${share} %`), ticks: () => shares, title: "size of the SSD" };
      const y = axisOfSize(kind, ...range(values(all)));
      charts.lines(place, { title: kind.title, series: all, x, y, discrete: true, at: share => `an SSD of ${trim(share, 2)} %`, say: kind.say });
    }, true);

  const OVER_TIME = {
    mean: { title: "mean response time", log: true, say: milliseconds, points: run => course(run.series.latency, run.series.latency.mean_ms) },
    p99: { title: "99th percentile of response times", log: true, say: milliseconds, points: run => course(run.series.latency, run.series.latency.p99_ms) },
    queue: { title: "requests waiting or in service", log: true, say: value => trim(value, 3), points: run => course(run.series.queue_depth) },
    written: { title: "bytes written to the SSD so far", say: bytes, points: run => course(run.series.ssd_written, total(run.series.ssd_written?.values)) },
    dirty: { title: "number of dirty bytes: written to the SSD, and not yet written back to the HDD", say: bytes, points: run => course(run.series.dirty) },
  };

  function course(buckets, column) {
    if (!buckets) return [];
    return (column ?? buckets.values).map((value, index) => [buckets.start_s + (index + 0.5) * buckets.bucket_s, value]);
  }

  function total(values) {
    let sum = 0;
    return values?.map(value => (sum += value));
  }

  figure("time", "Over the time of the trace", choices => `Each line is the ${OVER_TIME[choices.what].title}, by time since the first request.`,
    [["what", "Figure", [["mean", "mean latency"], ["p99", "p99 latency"], ["queue", "queue"], ["written", "SSD writes"], ["dirty", "dirty bytes"]]]],
    (place, { what }) => {
      const kind = OVER_TIME[what];
      const all = series(run => ({ points: kind.points(run) }));
      if (!hasValues(all)) return "No scheme that is shown has this figure.";
      const [start, end] = range(all.flatMap(one => one.points.map(point => point[0])));
      let [low, high] = range(values(all));
      const x = { ...charts.time(start, end), title: "time" };
      // A logarithmic axis has no zero: it ends at a hundred-millionth of the highest.
      const floor = Math.max(range(values(all).filter(value => value > 0))[0], high / 1e8);
      const isLog = kind.log && high > 0 && high / floor > 20;
      const binary = 2 ** (10 * Math.floor(Math.log2(Math.max(high, 1)) / 10));
      const y = isLog ? charts.log(floor, high * 1.1, kind.say) : linearIn(kind.say === bytes ? binary : 1, high * 1.05 || 1, kind.say);
      charts.lines(place, { title: kind.title, series: all, x, y, at: since, say: kind.say });
    }, true);

  figure("savings", "Write savings against read penalty", "Share of the written blocks that never reached the SSD, against the share of the read blocks that came from the slower drive (Griffin, section 3.2). Up and to the left is better.", [], place => {
    const all = series(run => run.write_savings === null || run.read_penalty === null ? {} : {
      point: [run.read_penalty, run.write_savings],
      chosen: false,
      note: `${percent(run.write_savings)} of block writes saved; ${percent(run.read_penalty)} of block reads from the log`,
    });
    // Without a log on another drive, all points lie in the corner.
    if (!all.some(one => one.point[0] !== 0 || one.point[1] !== 0)) {
      const saved = [...shown].filter(index => runs[index].write_savings);
      const others = inks.filter((ink, index) => !shown.has(index) && runs[index].write_savings);
      const more = others.length ? ` Add ${others.map(ink => ink.label).join(" or ")}, which does.` : "";
      if (!saved.length) return `No scheme shown here logs the writes for its SSD on another drive.${more}`;
      return `No block was read, so that there is no penalty. Write savings: ${saved.map(index => `${inks[index].label} ${percent(runs[index].write_savings)}`).join(", ")}.`;
    }
    if (runs.length === 1) return `${ALONE} ${capital(all[0].note)}.`;
    const top = Math.min(1, Math.max(0.1, ...all.map(one => one.point[1])) * 1.15);
    const right = Math.min(1, Math.max(0.1, ...all.map(one => one.point[0])) * 1.25);
    const bottom = Math.min(0, ...all.map(one => one.point[1]));
    charts.points(place, { title: "Write savings against read penalty", series: all, x: { ...charts.linear(0, right, percent), title: "read penalty" }, y: charts.linear(bottom, top, percent) });
  });

  const ring = inks.some(ink => ink.chosen) ? " A ring marks what the page advises to choose." : "";

  figure("cost", "Cost against latency", `Price of a scheme's drives, against its mean response time. Down and to the left is better. The dotted line joins the choices for which no other choice shown is both cheaper and faster.${ring}`, [], place => {
    const all = series(run => run.cost.total_usd === null || run.response_time_ms.all.mean === null ? {} : {
      point: [run.cost.total_usd, run.response_time_ms.all.mean],
      isChoice: !run.no_choice,
      note: `${dollars(run.cost.total_usd)}; ${milliseconds(run.response_time_ms.all.mean)} on average${run.no_choice ? "; no choice" : ""}`,
    });
    if (!all.length) return "The price of a drive is not known.";
    if (runs.length === 1) return `${ALONE} ${capital(all[0].note)}.`;
    const byCost = all.filter(one => one.isChoice).map(one => one.point).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const frontier = byCost.filter((point, index) => byCost.slice(0, index).every(other => other[1] > point[1]));
    const right = Math.max(...all.map(one => one.point[0])) * 1.25;
    const [low, high] = range(all.map(one => one.point[1]));
    const isLog = low > 0 && high / low > 8;
    const y = isLog ? charts.log(low / 1.8, high * 1.8, milliseconds) : charts.linear(0, high * 1.2 || 1, milliseconds);
    charts.points(place, { title: "Cost against mean response time", series: all, frontier, x: { ...charts.linear(0, right, value => `$${trim(value)}`), title: "price" }, y });
  });

  figure("writes", "Written to the SSD", "Solid: bytes that the scheme wrote to the SSD. Pale: further bytes that the SSD programmed into its flash, for garbage collection.", [], place => {
    const all = series(run => {
      const { write_bytes: written, flash } = run.devices.ssd;
      if (written === null) return { value: null, text: "no SSD" };
      const programmed = flash.write_amplification === null ? written : written * flash.write_amplification;
      const amplification = flash.write_amplification === null ? "" : ` × ${trim(flash.write_amplification, 3)}`;
      return { value: Math.max(programmed, written), part: written, text: `${bytes(written)}${amplification}` };
    });
    if (!all.some(one => one.value !== null)) return "None of the schemes that are shown has an SSD.";
    charts.bars(place, { title: "Bytes written to the SSD", series: all });
  });

  // Units of lifetimes, each used from `least` of it on.
  const UNITS_OF_LIFE = [
    { name: "years", short: "y", years: 1, least: 1 },
    { name: "months", short: "mo", years: 1 / 12, least: 2 },
    { name: "days", short: "d", years: 1 / 365.25, least: 2 },
    { name: "hours", short: "h", years: 1 / 8766, least: 0 },
  ];

  function unitOfLife(years) {
    return UNITS_OF_LIFE.find(unit => years >= unit.least * unit.years);
  }

  function lifetime(years) {
    if (years >= 100) return "more than 100 years";
    const unit = unitOfLife(years);
    return `${trim(years / unit.years, 3)} ${unit.name}`;
  }

  // A lifetime as short as an axis needs it.
  function lifeMark(years) {
    if (years === 0) return "0";
    if (years >= 100) return "> 100 y";
    const unit = unitOfLife(years);
    return `${trim(years / unit.years, 3)} ${unit.short}`;
  }

  // Marks of a logarithmic axis: 1, 6 and 24 hours, a week, two months, and years.
  const LIVES = [1 / 8766, 6 / 8766, 24 / 8766, 7 / 365.25, 2 / 12, 1, 3, 10, 30, 100];

  // A linear axis of lives, all marks in the unit of the longest.
  function linearOfLife(high) {
    const unit = unitOfLife(high);
    return linearIn(unit.years, high * 1.05 || 1, years => (years >= 100 ? "> 100 y" : `${trim(years / unit.years, 3)} ${unit.short}`));
  }

  function logOfLife(low, high) {
    const axis = charts.log(low, high, lifeMark);
    const marks = LIVES.filter(years => years >= low && years <= high);
    return marks.length > 1 ? { ...axis, ticks: () => marks } : axis;
  }

  figure("life", "How long the flash lasts", "Shortest time that the trace leaves possible until the writes that the maker warrants or the rated cycles are used up, whichever is first, if this load went on for ever. Hatched: the lifetime cannot be told. Pale: nothing is written, so the flash is not worn.", [], place => {
    const all = series(run => {
      const { flash, write_bytes: written } = run.devices.ssd;
      if (flash.lifetime_unknown === "nothing is written") return { value: null, whole: "pale", text: "unlimited: nothing is written" };
      const shortest = flash.lifetime_range_years?.[0] ?? Infinity;
      if (flash.lifetime_years === null && shortest < Infinity) return { value: Math.min(shortest, 100), text: `${lifetime(shortest)} or more` };
      if (flash.lifetime_unknown) return { value: null, whole: "hatched", text: `? (${flash.lifetime_unknown})` };
      if (flash.lifetime_years === null) return { value: null, text: written === null ? "no SSD" : "not known" };
      const least = Math.min(flash.lifetime_years, shortest);
      const ofShortest = least < flash.lifetime_years ? flash.lifetime_shortest_limited_by : null;
      const limitedBy = ofShortest ?? flash.lifetime_limited_by;
      const limit = limitedBy === "warranty" ? "warranty" : "rated cycles";
      // Beside a bar of more than a hundred years, no other would be seen.
      return { value: Math.min(least, 100), text: `${lifetime(least)} (${limit})` };
    });
    if (!all.some(one => one.value !== null || one.whole)) return "None of the schemes that are shown has an SSD whose lifetime is known.";
    charts.bars(place, { title: "Lifetime of the flash", series: all });
  });

  figure("erases", "How erases are spread over the blocks", "Share of the flash's blocks that were erased at most this often. A steep line shows even wear. A line with a long tail shows a few blocks that wear out first.", [], place => {
    let isWorn = false;
    const all = series(run => {
      const counts = Object.entries(run.devices.ssd.flash.blocks_by_erases ?? {}).map(([erases, blocks]) => [Number(erases), blocks]);
      const total = counts.reduce((sum, [, blocks]) => sum + blocks, 0);
      let below = 0;
      const points = counts.sort((a, b) => a[0] - b[0]).map(([erases, blocks]) => [erases, (below += blocks) / total]);
      if (points.length && (points[0][0] !== 0 || points[0][1] < 0.99)) isWorn = true;
      if (points.length) points.unshift([points[0][0], 0]);
      return { points };
    });
    if (!all.length) return "None of the schemes that are shown has an SSD whose blocks were counted from the start.";
    const [, high] = range(all.flatMap(one => one.points.map(point => point[0])));
    if (!isWorn) return "Fewer than 1 % of the flash's blocks were erased: the trace writes less than the SSD has free space.";
    const x = { ...charts.linear(0, Math.max(high, 1), value => trim(value, 3)), title: "erases of a block" };
    charts.lines(place, { title: "Erases of the blocks", series: all, x, y: charts.linear(0, 1, percent), step: true, at: value => `erased at most ${trim(value, 3)} times`, say: share => `${percent(share)} of blocks` });
  });

  function drawAll() {
    for (const draw of drawings) draw();
    document.documentElement.dataset.charts = plots.querySelectorAll(".plot").length;
    const list = document.getElementById("absent");
    list.hidden = absent.size === 0;
    list.replaceChildren();
    for (const [title, reason] of absent) {
      const item = html("li", "", list);
      html("b", "", item, `${title}: `);
      item.append(reason);
    }
  }

  // ---- Which schemes are shown: one choice for all charts. ----

  const legend = document.getElementById("legend");
  const buttons = runs.length > 1 ? runs.map((run, index) => {
    const button = charts.scheme("button", inks[index], legend);
    button.type = "button";
    button.onclick = () => {
      // The last one stays: an empty chart answers nothing.
      if (shown.has(index) && shown.size > 1) shown.delete(index); else shown.add(index);
      redraw();
    };
    return button;
  }) : [];

  function redraw() {
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(shown.has(index))));
    drawAll();
  }

  // A button that shows the runs at `indices`.
  function shortcut(text, indices) {
    const button = html("button", "shortcut", legend, text);
    button.type = "button";
    button.onclick = () => {
      shown.clear();
      indices.forEach(index => shown.add(index));
      redraw();
    };
  }
  if (shown.size < runs.length) {
    shortcut("show all", [...runs.keys()]);
    shortcut("show the first few", [...shown]);
  }

  // ---- The table. ----

  for (const table of document.querySelectorAll("table.comparison")) {
    table.querySelectorAll("button.sort").forEach((button, column) => {
      const heading = button.closest("th");
      button.onclick = () => {
        const rises = heading.ariaSort ? heading.ariaSort === "descending" : button.dataset.better === "lower";
        table.querySelectorAll("th[aria-sort]").forEach(other => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", rises ? "ascending" : "descending");
        const number = row => {
          const value = row.cells[column].dataset.value;
          return value === undefined ? null : value === "inf" ? Infinity : Number(value);
        };
        const rows = [...table.tBodies[0].rows].sort((a, b) => {
          if (column === 0) return (rises ? 1 : -1) * a.cells[0].textContent.localeCompare(b.cells[0].textContent);
          const [x, y] = [number(a), number(b)];
          // What does not apply comes last either way.
          if (x === null || y === null) return (x === null) - (y === null);
          return x === y ? 0 : (rises ? 1 : -1) * (x < y ? -1 : 1);
        });
        table.tBodies[0].append(...rows);
      };
    });
  }

  // ---- The command. ----

  const copy = document.getElementById("copy");
  if (copy && navigator.clipboard) {
    copy.hidden = false;
    copy.onclick = () => navigator.clipboard.writeText(document.getElementById("command-text").textContent).then(
      () => { copy.textContent = "Copied"; },
      () => { copy.textContent = "Could not copy"; },
    );
  }

  // Drawn again when the width of the page changes, not when its height does (a phone's address bar).
  let width = 0;
  new ResizeObserver(() => {
    if (plots.clientWidth === width) return;
    width = plots.clientWidth;
    requestAnimationFrame(drawAll);
  }).observe(plots);
  width = plots.clientWidth;
  redraw();
})();
