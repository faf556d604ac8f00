// Reads a report as a person would, in every frame of the page, and writes down what it finds (see report_browser.rs).
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

    // The keyboard moves a cursor that says the values under it.
    const plot = page.querySelector("#cdf .plot");
    plot.focus();
    plot.dispatchEvent(new view.KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
    result.readout = plot.querySelector(".readout")?.textContent ?? "";

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
