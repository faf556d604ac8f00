// Reads a report as a person would, in every frame of the page, and writes down what it finds (see report_browser.rs).

// Tables that do not fit, charts without marks, the colour of each scheme in each chart, and labels that are out of place.
function lookAtWhole(view, page) {
  const boxOf = node => node.getBoundingClientRect();
  const visible = [...page.querySelectorAll("figure")].filter(figure => !figure.hidden);
  const whole = { tables: [], empty: [], absent: [], colours: {}, faults: [], keys: 0 };
  for (const box of page.querySelectorAll(".scroll:has(.comparison)")) {
    whole.tables.push({ over: box.scrollWidth - box.clientWidth, scrolls: view.getComputedStyle(box).overflowX === "auto" });
  }
  for (const figure of visible) {
    if (!figure.querySelector(".mark")) whole.empty.push(figure.id);
    for (const mark of figure.querySelectorAll(".mark[data-label]:not(.pale)")) {
      const style = view.getComputedStyle(mark);
      const colour = mark.matches(".line, .point") ? style.stroke : style.fill;
      if (colour.startsWith("rgb")) (whole.colours[mark.dataset.label] ??= []).push(colour);
    }
    whole.faults.push(...overlapping(figure), ...farFromTheirPoints(figure), ...keysAmiss(figure));
    whole.keys += figure.querySelectorAll(".key").length;
  }
  whole.absent = [...page.querySelectorAll("#absent li")].map(item => item.textContent);
  return whole;

  function overlapping(figure) {
    const labels = [...figure.querySelectorAll(".label")];
    const boxes = labels.map(boxOf);
    const faults = [];
    boxes.forEach((a, i) => boxes.slice(0, i).forEach((b, j) => {
      const [wide, high] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
      // Boxes have room above and below their letters.
      if (wide > 1 && high > 5) faults.push(`${figure.id}: ${labels[i].textContent} covers ${labels[j].textContent}`);
    }));
    return faults;
  }

  function gap(box, x, y) {
    return Math.hypot(Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
  }

  function farFromTheirPoints(figure) {
    const svg = figure.querySelector("svg");
    const end = (line, number) => [Number(line.getAttribute(`x${number}`)) + boxOf(svg).left, Number(line.getAttribute(`y${number}`)) + boxOf(svg).top];
    const leaders = [...figure.querySelectorAll("line.leader")].map(line => [end(line, 1), end(line, 2)]);
    return [...figure.querySelectorAll(".point")].map(point => {
      const { left, top, width, height } = boxOf(point);
      const label = [...figure.querySelectorAll(".label")].find(label => label.textContent === point.dataset.label);
      if (!label) return `${figure.id}: ${point.dataset.label} has no label`;
      const isBeside = gap(boxOf(label), left + width / 2, top + height / 2) < 24;
      const isLed = leaders.some(([from, to]) => gap(boxOf(point), ...from) < 1 && gap(boxOf(label), ...to) < 4);
      return isBeside || isLed ? "" : `${figure.id}: the label of ${point.dataset.label} is far off`;
    }).filter(Boolean);
  }

  function keysAmiss(figure) {
    const key = label => [...figure.querySelectorAll(".key")].find(key => key.dataset.label === label);
    return [...figure.querySelectorAll(".line")].map(line => {
      const { label } = line.dataset;
      const sample = key(label)?.querySelector(".sample");
      if (!sample) return `${figure.id}: ${label} has no key`;
      const [a, b] = [line, sample].map(node => view.getComputedStyle(node));
      return a.stroke === b.stroke && a.strokeDasharray === b.strokeDasharray ? "" : `${figure.id}: the key of ${label} differs`;
    }).filter(Boolean);
  }
}

addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(frame => {
    const view = frame.contentWindow;
    const page = frame.contentDocument;
    const result = { width: view.innerWidth, charts: [] };

    // Every choice of every chart in turn.
    const look = (figure, choice) => {
      const marks = [...figure.querySelectorAll(".mark")];
      const places = ["d", "cx", "cy", "x", "width"];
      const bad = marks.filter(mark => places.some(name => /NaN|Infinity|undefined/.test(mark.getAttribute(name) ?? ""))).length;
      result.charts.push({ chart: choice, marks: marks.length, bad, says: figure.querySelector(".none")?.textContent ?? "" });
    };
    for (const figure of page.querySelectorAll("figure")) {
      const choices = [...figure.querySelectorAll("input")];
      if (!choices.length) look(figure, figure.id);
      for (const input of choices) {
        input.click();
        look(figure, `${figure.id} ${input.value}`);
      }
    }
    result.page_width = page.documentElement.scrollWidth;

    // Everything is shown for a look at the whole.
    const press = text => [...page.querySelectorAll("#legend button")].find(button => button.textContent === text)?.click();
    press("show all");
    result.whole = lookAtWhole(view, page);
    press("show the first few");

    // The keyboard moves a cursor that says the values under it.
    const plot = page.querySelector("#cdf .plot");
    plot.focus();
    plot.dispatchEvent(new view.KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    result.readout = plot.querySelector(".readout")?.textContent ?? "";

    // On the scale of the slowest requests, the cursor goes to the right end.
    for (let step = 0; step < 20; step++) plot.dispatchEvent(new view.KeyboardEvent("keydown", { key: "ArrowRight", shiftKey: true, bubbles: true }));
    result.slowest = plot.querySelector(".readout")?.textContent ?? "";

    // A pointer passes over the sizes of the SSD, and the keyboard goes through them.
    page.querySelector("#size input[value=mean]")?.click();
    const sizes = page.querySelector("#size .plot");
    const said = () => sizes.querySelector(".readout p").textContent;
    if (sizes) {
      const axis = sizes.querySelector(".axis").getBoundingClientRect();
      const steps = [...Array(60).keys()].map(step => {
        sizes.dispatchEvent(new view.PointerEvent("pointermove", { clientX: axis.left + axis.width * step / 59, pointerType: "mouse" }));
        return said();
      });
      result.sizes = [...new Set(steps)];
      result.sizes_by_key = ["ArrowLeft", "ArrowLeft", "ArrowRight"].map(key => {
        sizes.dispatchEvent(new view.KeyboardEvent("keydown", { key, bubbles: true }));
        return said();
      });
      result.missing_size = [...sizes.querySelectorAll(".readout .value")].filter(value => value.textContent === "–").length;
    }

    // A scheme can be taken out of the charts, and put back.
    const button = [...page.querySelectorAll("#legend button")].find(button => button.textContent === "griffin");
    button?.click();
    result.lines_without_griffin = page.querySelectorAll("#cdf .line").length;
    button?.click();

    // The table sorts by its headings.
    const first = () => page.querySelector(".comparison tbody th").textContent;
    const heading = text => [...page.querySelectorAll("button.sort")].find(button => button.textContent === text);
    heading("total")?.click();
    result.cheapest_first = first();
    heading("total")?.click();
    result.dearest_first = first();
    heading("saved")?.click();
    result.most_saved_first = first();

    result.intruders = page.querySelectorAll("img, #evil").length;
    result.errors = page.documentElement.dataset.errors ?? null;
    return result;
  });
  document.getElementById("found").textContent = JSON.stringify(found);
});
