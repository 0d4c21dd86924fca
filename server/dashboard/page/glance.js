// A run's figures at a glance, and its tables and pictures as files.
"use strict";

const Glance = (() => {
  const { $, text } = Page;
  const { group } = Draw;
  const { percent, short, plural, inSeconds } = Played;

  function tile(name, value, more) {
    const box = document.createElement("div");
    const term = document.createElement("dt");
    const figure = document.createElement("dd");
    term.textContent = name;
    figure.textContent = value;
    if (more) {
      const small = document.createElement("small");
      small.textContent = " " + more;
      figure.append(small);
    }
    box.append(term, figure);
    return box;
  }

  function show(run) {
    document.title = `${run.job} – Tautline lab`;
    const mode = run.mode === "SSP" ? `SSP, slack ${run.slack}` : run.mode;
    text("what", "");
    text("job-title", run.job);
    text("job-state", `${run.state}, ${mode}`);
    $("job-state").classList.toggle("failed", run.state !== "done");
    text("job-message", run.message);
    $("job-message").hidden = !run.message;
    const tested = run.tests.filter((test) => test.accuracy !== null).pop();
    const busiest = [...run.links].sort((a, b) => b.busy_share - a.busy_share)[0];
    const tiles = [
      tile("workers", group(run.workers.length), `on ${plural(run.hosts.length, "host")}`),
      tile("virtual time", inSeconds(run, run.virtual_s)),
      tile(run.rate_unit, run.rate > 0 ? short(run.rate) : "–"),
      tile("waiting", percent(run.waiting_share)),
      tile("mean staleness", run.mean_staleness.toFixed(2)),
    ];
    if (tested) tiles.push(tile("accuracy", (100 * tested.accuracy).toFixed(2) + " %"));
    if (busiest) {
      tiles.push(tile("busiest link", percent(busiest.busy_share), busiest.name));
    }
    if (run.hosts_lost.length) {
      tiles.push(tile("hosts lost", group(run.hosts_lost.length)));
    }
    $("tiles").replaceChildren(...tiles);
  }

  function save(name, type, content) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
  function button(label, name, then) {
    const one = document.createElement("button");
    one.type = "button";
    one.textContent = label;
    one.setAttribute("aria-label", name);
    one.addEventListener("click", then);
    return one;
  }

  function showTables(run) {
    const names = Object.keys(Played.tables)
      .filter((name) => name !== "tests" || run.tests.length);
    $("csv").replaceChildren(...names.map((name) =>
      button(`${name}.csv`, `Save ${name}.csv`,
             () => save(`${name}.csv`, "text/csv", Played.tables[name](run)))));
    for (const figure of document.querySelectorAll("figure[data-name]")) {
      const file = figure.dataset.name + ".svg";
      figure.querySelector("figcaption button")?.remove();
      figure.querySelector("figcaption").append(button("SVG", `Save ${file}`, () =>
        save(file, "image/svg+xml", figure.querySelector("svg").outerHTML + "\n")));
    }
  }

  return { show, showTables };
})();
