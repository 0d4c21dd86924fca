// The lab's player: shows a run at one time, and its whole time with a line at that time.
"use strict";

(() => {
  const { $, text } = Page;
  const { binOf, plural, inSeconds, short } = Played;
  let run = null;
  let time = 0; // seconds of virtual time
  let playing = false;
  let before = 0; // when the last frame was
  let strips = [];
  let quantiles = []; // of the clocks, by bin

  // ---- the present

  function showClocks(bin) {
    const job = Played.jobAt(run, bin);
    Draw.clocks($("clock-plot"), job);
    const apart = quantiles[bin][6] - quantiles[bin][0];
    const slack = Played.boundAt(run, bin);
    const bound = slack === null ? "no bound" : `slack ${slack}`;
    const sentence = `${plural(apart, "clock")} between the slowest and the fastest; ${bound}`;
    text("gap", sentence);
    $("clock-plot").setAttribute("aria-label",
                                 `${plural(run.workers.length, "worker")}: ${sentence}`);
  }
  function render() {
    if (!run) return;
    const began = performance.now();
    const bin = binOf(run, time);
    const reading = `${inSeconds(run, time)} of ${inSeconds(run, run.virtual_s)}`;
    $("at").value = String(time >= run.virtual_s ? run.bins : bin);
    $("at").setAttribute("aria-valuetext", reading);
    text("time", reading);
    text("play", playing ? "Pause" : "Play");
    showClocks(bin);
    for (const one of strips) Strip.paint(one, time);
    Hosts.paintNow(run, bin);
    document.body.dataset.renderMs = (performance.now() - began).toFixed(1);
    document.body.dataset.bin = String(bin);
  }
  function frame(now) {
    if (!playing) return;
    const whole_s = Number($("speed").value) || run.virtual_s;
    time += (Math.min(0.25, (now - before) / 1000) / whole_s) * run.virtual_s;
    before = now;
    if (time >= run.virtual_s) {
      time = run.virtual_s;
      playing = false;
    }
    render();
    if (playing) requestAnimationFrame(frame);
  }
  function play(on) {
    if (on && time >= run.virtual_s) time = 0;
    playing = on;
    before = performance.now();
    if (on) requestAnimationFrame(frame);
    render();
  }
  function go(t) {
    time = Math.max(0, Math.min(run.virtual_s, t));
    render();
  }
  /** Moves some bins forward or back. */
  const stepBy = (bins) => go((binOf(run, time) + bins + 0.5) * run.bin_s);

  // ---- a run

  function start(content) {
    const one = Played.parse(content);
    if (!one.bins) throw new Error("nothing happened in this run");
    run = one;
    time = 0;
    playing = false;
    quantiles = Played.quantiles(run);
    const hasLoss = run.loss.some((value) => value !== null);
    const hasReads = run.staleness.some((value) => value !== null);
    const hasTests = run.tests.some((test) => test.accuracy !== null);
    for (const card of document.querySelectorAll("main .card")) card.hidden = false;
    $("open").hidden = Boolean($("playback"));
    $("problem").hidden = true;
    $("loss").closest(".card").hidden = !hasLoss;
    $("stale").closest(".card").hidden = !hasReads;
    $("accuracy").closest(".card").hidden = !hasTests;
    $("links-card").hidden = !run.links.length;
    const rate = Strips.smooth(run, run.iterations_per_s);
    const staleness = Strips.smooth(run, run.staleness);
    strips = [
      Strips.clocks("course", run, quantiles, false), Strips.clocks("lead", run, quantiles, true),
      Strips.states(run), Strips.figure("rate", run, (bin) => rate[bin], short),
      ...(hasReads ? [Strips.figure("stale", run, (bin) => staleness[bin], short)] : []),
      ...(hasLoss ? [Strips.figure("loss", run, (bin) => run.loss[bin], short)] : []),
      ...(hasTests ? [Strips.tests(run)] : []),
      ...(run.links.length ? [Strips.links(run)] : []), Hosts.strip(run),
    ];
    $("at").max = String(run.bins);
    Glance.show(run);
    Hosts.showLegend();
    Glance.showTables(run);
    render();
  }
  function open(content, name) {
    try {
      start(content);
    } catch (error) {
      $("problem").hidden = false;
      text("problem", `${name}: ${error.message}`);
    }
  }
  async function take(file) {
    if (file) open(await file.text(), file.name);
  }

  // ---- incoming data

  $("file").addEventListener("change", () => take($("file").files[0]));
  for (const [name, on] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
    document.addEventListener(name, (event) => {
      if ($("playback")) return;
      event.preventDefault();
      document.body.classList.toggle("dropping", on);
      if (name === "drop") take(event.dataTransfer.files[0]);
    });
  }
  $("play").addEventListener("click", () => play(!playing));
  $("at").addEventListener("input", () => {
    const bin = Number($("at").value);
    go(bin >= run.bins ? run.virtual_s : (bin + 0.5) * run.bin_s);
  });
  $("all-links").addEventListener("change", render);
  document.addEventListener("keydown", (event) => {
    if (!run || event.ctrlKey || event.altKey || event.metaKey) return;
    const at = document.activeElement;
    if (at && at.matches("select, input[type=file]")) return;
    const isButton = at && at.matches("button, input[type=checkbox]");
    const far = event.shiftKey ? 10 : 1;
    const acts = {
      ArrowLeft: () => stepBy(-far), ArrowRight: () => stepBy(far),
      Home: () => go(0), End: () => go(run.virtual_s),
      " ": isButton ? null : () => play(!playing),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  function showTip(event, content) {
    tip.hidden = !content;
    if (!content) return;
    tip.textContent = content;
    const left = Math.min(event.pageX + 12, window.scrollX + document.documentElement.clientWidth
      - tip.offsetWidth - 6);
    tip.style.left = Math.max(4, left) + "px";
    tip.style.top = event.pageY + 16 + "px";
  }
  for (const canvas of document.querySelectorAll(".strip canvas")) {
    const mine = () => strips.find((one) => one.canvas === canvas);
    const pulled = (event) => { if (mine()) go(mine().t(event.offsetX)); };
    canvas.addEventListener("pointerdown", (event) => {
      if (!mine()) return;
      canvas.setPointerCapture(event.pointerId);
      pulled(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) pulled(event);
      const one = mine();
      if (one) {
        const bin = binOf(run, one.t(event.offsetX));
        const at = inSeconds(run, one.t(event.offsetX));
        showTip(event, `${at}: ${one.tip(one, bin, event.offsetY)}`);
      } else if (canvas.hostAt) {
        const host = canvas.hostAt(event.offsetX, event.offsetY);
        showTip(event, host ? Hosts.sharesText(host, binOf(run, time)) : "");
      }
    });
    canvas.addEventListener("pointerleave", () => showTip(null, ""));
  }

  const ramp = Array.from({ length: 9 }, (_, i) => `rgb(${Strips.cividis(i / 8).join(" ")})`);
  document.querySelector(".ramp").style.background = `linear-gradient(90deg, ${ramp.join(", ")})`;
  Page.followTheme(() => {
    if (run) Hosts.showLegend();
    render();
  });
  if ($("playback")) open($("playback").textContent, "the run");
  new ResizeObserver(render).observe(document.querySelector("main"));
})();
