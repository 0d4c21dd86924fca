// The lab's player: shows a run at a time, and all of its time with a line where that is.
"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const { css, group } = Draw;
  const { kStates, kStacked, share } = Played;
  const kLeft = 64; // of a strip, before its axis
  const kNames = 132; // of one with rows
  const kRight = 12;
  const kHeight = 190;
  const kLines = 14; // of more workers there are bands
  const kLinks = 24;
  const kRow = 16;
  const kMaxRows = 600; // pixels
  const kParts = 12; // of a cell with several colours
  const kColours = ["--blue", "--orange", "--pink", "--green", "--text"]; // by state
  let run = null;
  let time = 0; // seconds of virtual time
  let playing = false;
  let before = 0; // when the last frame was
  let strips = [];
  let quantiles = []; // of the clocks, by bin: 0, 10, 25, 50, 75, 90 and 100 %

  const text = (id, value) => {
    if ($(id).textContent !== value) $(id).textContent = value;
  };
  const percent = (part) => (100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0) + " %";
  const whole = (part) => Math.round(100 * part) + " %";
  const digits = () => (run.virtual_s < 10 ? 3 : run.virtual_s < 1000 ? 2 : 0);
  const inSeconds = (s) => s.toFixed(digits()) + " s";
  const short = (value) => {
    if (Math.abs(value) >= 1e6) return Number((value / 1e6).toPrecision(3)) + " M";
    if (Math.abs(value) >= 1e4) return Number((value / 1e3).toPrecision(3)) + " k";
    return String(Number(value.toPrecision(3)));
  };
  const binOf = (t) => Math.max(0, Math.min(run.bins - 1, Math.floor(t / run.bin_s)));
  const plural = (n, word) => `${group(n)} ${word}${n === 1 ? "" : "s"}`;

  /** From dark blue to yellow, with evenly ascending lightness: cividis of Nuñez, Anderton and
   *  Renslow (2018), as d3-scale-chromatic approximates it. */
  function cividis(t) {
    const limited = (v) => Math.max(0, Math.min(255, Math.round(v)));
    return [
      limited(-4.54 - t * (35.34 - t * (2381.73 - t * (6402.7 - t * (7024.72 - t * 2710.57))))),
      limited(32.49 + t * (170.73 + t * (52.82 - t * (131.46 - t * (176.58 - t * 67.37))))),
      limited(81.24 + t * (442.36 - t * (2482.43 - t * (6167.24 - t * (6614.94 - t * 2475.67))))),
    ];
  }

  /** Numbers people count in, between 0 and high. */
  function ticks(high, count, whole) {
    const rough = high / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const factors = whole ? [1, 2, 5] : [1, 2, 2.5, 5];
    const round = power * (factors.find((factor) => factor * power >= rough) || 10);
    const step = whole ? Math.max(1, round) : round;
    const all = [];
    for (let at = 0; at <= high * 1.0001; at += step) all.push(Number(at.toPrecision(9)));
    return all;
  }

  // ---- strips: all of the run's time, from left to right

  /** A picture that is drawn once for its size and colours, and the line of the present over it.
   *  of: { names, height(width), draw(strip, g), tip(strip, bin, y), note(bin) } */
  function strip(id, of) {
    const canvas = $(id);
    const one = { canvas, ...of, picture: document.createElement("canvas"), drawn: "" };
    one.x = (t) => one.left + (t / run.virtual_s) * (one.width - one.left - kRight);
    one.t = (x) => Math.max(0, Math.min(1, (x - one.left) / (one.width - one.left - kRight)))
      * run.virtual_s;
    one.head = canvas.closest(".card").querySelector(".note");
    return one;
  }
  function timeAxis(one, g, bottom) {
    g.fillStyle = css("--soft");
    g.textAlign = "center";
    const all = ticks(run.virtual_s, Math.max(2, (one.width - one.left) / 90));
    for (const at of all) {
      // The last one has its unit, and must not leave the picture.
      const name = short(at) + (at === all[all.length - 1] ? " s" : "");
      const half = g.measureText(name).width / 2;
      g.fillText(name, Math.min(one.x(at), one.width - half - 1), bottom + 12);
    }
  }
  function valueAxis(one, g, high, name, whole) {
    const y = (value) => one.bottom - (value / high) * (one.bottom - one.top);
    g.textAlign = "right";
    g.lineWidth = 1;
    for (const at of ticks(high, 4, whole)) {
      g.strokeStyle = css("--line");
      g.beginPath();
      g.moveTo(one.left, y(at));
      g.lineTo(one.width - kRight, y(at));
      g.stroke();
      g.fillStyle = css("--soft");
      g.fillText(name(at), one.left - 6, y(at));
    }
    return y;
  }
  function paint(one) {
    const ratio = window.devicePixelRatio || 1;
    const width = one.canvas.clientWidth;
    const height = Math.round(one.height(width));
    if (!width) return; // it is not shown
    const key = [width, height, ratio, css("--bg"), one.version ? one.version() : ""].join();
    if (one.drawn !== key) {
      one.drawn = key;
      one.width = width;
      one.left = one.names ? Math.min(kNames, width * 0.3) : Math.min(kLeft, width * 0.2);
      one.top = 8;
      one.bottom = height - 22;
      one.canvas.style.height = height + "px";
      for (const c of [one.canvas, one.picture]) {
        c.width = Math.round(width * ratio);
        c.height = Math.round(height * ratio);
      }
      const g = one.picture.getContext("2d");
      g.setTransform(ratio, 0, 0, ratio, 0, 0);
      g.font = "12px system-ui, 'DejaVu Sans', sans-serif";
      g.textBaseline = "middle";
      one.draw(one, g);
      timeAxis(one, g, one.bottom);
    }
    const g = one.canvas.getContext("2d");
    g.setTransform(1, 0, 0, 1, 0, 0);
    g.clearRect(0, 0, one.canvas.width, one.canvas.height);
    g.drawImage(one.picture, 0, 0);
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    const x = one.x(time);
    // Seen on any ground.
    for (const [colour, wide] of [[css("--card"), 4], [css("--text"), 2]]) {
      g.strokeStyle = colour;
      g.lineWidth = wide;
      g.beginPath();
      g.moveTo(x, one.top - 4);
      g.lineTo(x, one.bottom + 4);
      g.stroke();
    }
    const note = one.note(binOf(time));
    if (one.head.textContent !== note) one.head.textContent = note;
  }

  /** A line through the values of the bins; null is left out, or interrupts it. */
  function curve(one, g, y, values, colour, dash, interrupted) {
    g.strokeStyle = colour;
    g.lineWidth = 1.7;
    g.setLineDash(dash || []);
    g.beginPath();
    let first = true;
    for (let bin = 0; bin < run.bins; bin++) {
      const value = values(bin);
      if (value === null || value === undefined) {
        first = first || Boolean(interrupted);
        continue;
      }
      const at = one.x(Played.endOf(run, bin));
      if (first) g.moveTo(at, y(value));
      else g.lineTo(at, y(value));
      first = false;
    }
    g.stroke();
    g.setLineDash([]);
  }
  /** A dashed line that stays on each bin's value until the next one's. */
  function steps(one, g, y, values, colour) {
    g.strokeStyle = colour;
    g.lineWidth = 1.5;
    g.setLineDash([6, 4]);
    g.beginPath();
    let last = null;
    for (let bin = 0; bin < run.bins; bin++) {
      const value = values(bin);
      const from = one.x(bin * run.bin_s);
      if (value !== null) {
        if (last === null) g.moveTo(from, y(value));
        else if (value !== last) g.lineTo(from, y(value));
        g.lineTo(one.x(Played.endOf(run, bin)), y(value));
      }
      last = value;
    }
    g.stroke();
    g.setLineDash([]);
  }
  function band(one, g, y, low, high, colour) {
    g.fillStyle = colour;
    g.beginPath();
    for (let bin = 0; bin < run.bins; bin++) g.lineTo(one.x(Played.endOf(run, bin)), y(high(bin)));
    for (let bin = run.bins - 1; bin >= 0; bin--) {
      g.lineTo(one.x(Played.endOf(run, bin)), y(low(bin)));
    }
    g.fill();
  }

  /** Clocks over time; fromSlowest: how far ahead. */
  function clockStrip(id, fromSlowest) {
    const base = (bin) => (fromSlowest ? quantiles[bin][0] : 0);
    const bound = (bin) => (fromSlowest ? Played.boundAt(run, bin) : null);
    const bounds = Array.from({ length: run.bins }, (_, bin) => bound(bin))
      .filter((value) => value !== null);
    const highest = bounds.reduce((most, value) => Math.max(most, value), 0);
    const lowest = bounds.reduce((least, value) => Math.min(least, value), highest);
    // The bound's name is above its line.
    let high = Math.max(1, 1.15 * highest);
    for (let bin = 0; bin < run.bins; bin++) high = Math.max(high, quantiles[bin][6] - base(bin));
    return strip(id, {
      height: () => kHeight,
      draw: (one, g) => {
        const y = valueAxis(one, g, high * 1.04, short, true);
        if (run.workers.length > kLines) {
          for (const [low, opacity] of [[0, 0.25], [1, 0.35], [2, 0.5]]) {
            g.globalAlpha = opacity;
            band(one, g, y, (bin) => quantiles[bin][low] - base(bin),
                 (bin) => quantiles[bin][6 - low] - base(bin), css("--blue"));
          }
          g.globalAlpha = 1;
          curve(one, g, y, (bin) => quantiles[bin][3] - base(bin), css("--text"));
        } else {
          const colours = ["--blue", "--red", "--green", "--pink", "--orange", "--soft", "--text"];
          run.workers.forEach((worker, i) => {
            curve(one, g, y, (bin) => (worker.clock[bin] >= 0
              ? worker.clock[bin] - base(bin) : null),
                  css(colours[i % colours.length]), i < colours.length ? [] : [6, 3], true);
          });
        }
        if (!bounds.length) return;
        g.fillStyle = css("--red");
        steps(one, g, y, bound, css("--red"));
        g.textAlign = "left";
        g.fillText(lowest === highest ? `bound: slack ${highest}`
          : `bound: slack ${lowest} to ${highest}`, one.left + 4, y(highest) - 9);
      },
      note: (bin) => {
        const [low, , , middle, , , top] = quantiles[bin].map((clock) => clock - base(bin));
        const now = bound(bin) !== null && lowest !== highest ? `, bound ${group(bound(bin))}` : "";
        return fromSlowest ? `median ${group(middle)}, most ${group(top)}${now}`
          : `${group(low)} to ${group(top)}`;
      },
      tip: (one, bin) => {
        const values = quantiles[bin].map((clock) => group(clock - base(bin)));
        return `slowest ${values[0]}, median ${values[3]}, fastest ${values[6]}`;
      },
    });
  }

  function stateStrip() {
    const order = ["computing", "paused", "waiting", "away"];
    const sums = Array.from({ length: run.bins }, (_, bin) => Played.sharesAt(run, bin));
    const name = (bin) => order.filter((state) => sums[bin][state] >= 0.005)
      .map((state) => `${state} ${whole(sums[bin][state])}`).join(", ") || "nothing";
    return strip("states", {
      height: () => kHeight,
      draw: (one, g) => {
        const y = valueAxis(one, g, 1, percent);
        let low = new Array(run.bins).fill(0);
        for (const state of order) {
          const high = low.map((from, bin) => Math.min(1, from + sums[bin][state]));
          const from = low;
          band(one, g, y, (bin) => from[bin], (bin) => high[bin],
               css(kColours[kStates.indexOf(state)]));
          low = high;
        }
      },
      note: name, tip: (one, bin) => name(bin),
    });
  }

  /** The means of a figure over a sixtieth of the run: a bin may have a clock's end or none. Bins
   *  count by their lengths, as the last one may be much shorter. */
  function smooth(row) {
    const reach = Math.max(1, Math.floor(run.bins / 120));
    return Array.from({ length: run.bins }, (_, bin) => {
      let sum = 0;
      let weight = 0;
      for (let i = Math.max(0, bin - reach); i <= Math.min(run.bins - 1, bin + reach); i++) {
        const value = row[i] ?? null;
        if (value === null) continue;
        const length = Played.endOf(run, i) - i * run.bin_s;
        sum += value * length;
        weight += length;
      }
      return weight > 0 ? sum / weight : null;
    });
  }

  /** A curve of a figure of the run's. A bin without a value shows the one before. */
  function figureStrip(id, values, name) {
    let high = 0;
    const known = [];
    for (let bin = 0; bin < run.bins; bin++) {
      const value = values(bin);
      if (value !== null && value !== undefined) high = Math.max(high, value);
      known.push(value ?? (bin ? known[bin - 1] : null));
    }
    const shown = (bin) => (known[bin] === null ? "–" : name(known[bin]));
    return strip(id, {
      height: () => kHeight,
      draw: (one, g) => curve(one, g, valueAxis(one, g, high * 1.05 || 1, name), values,
                              css("--blue")),
      note: shown, tip: (one, bin) => shown(bin),
    });
  }

  function testStrip() {
    const tests = run.tests.filter((test) => test.accuracy !== null);
    const last = (t) => tests.filter((test) => test.at_s <= t).pop();
    const say = (test) => (test
      ? `${(100 * test.accuracy).toFixed(2)} % at iteration ${group(test.iteration)}` : "–");
    return strip("accuracy", {
      height: () => kHeight,
      draw: (one, g) => {
        const best = tests.reduce((most, test) => Math.max(most, test.accuracy), 0);
        const high = Math.min(1, 1.1 * best || 1);
        const y = valueAxis(one, g, high, percent);
        g.strokeStyle = g.fillStyle = css("--green");
        g.lineWidth = 1.7;
        g.beginPath();
        for (const test of tests) g.lineTo(one.x(test.at_s), y(test.accuracy));
        g.stroke();
        for (const test of tests) {
          g.beginPath();
          g.arc(one.x(test.at_s), y(test.accuracy), 3, 0, 7);
          g.fill();
        }
      },
      note: () => say(last(time)), tip: (one, bin) => say(last(Played.endOf(run, bin))),
    });
  }

  /** Rows of cells: each is an item's over time. Many are as thin as fits.
   *  colours(item, bin) gives red, green, blue of each of a cell's parts, from the top on */
  function rows(one, g, items, colours, parts) {
    const raster = document.createElement("canvas");
    raster.width = run.bins;
    raster.height = items.length * parts;
    const r = raster.getContext("2d");
    const image = r.createImageData(run.bins, raster.height);
    items.forEach((item, row) => {
      for (let bin = 0; bin < run.bins; bin++) {
        colours(item, bin).forEach((colour, part) => {
          const at = 4 * ((row * parts + part) * run.bins + bin);
          [image.data[at], image.data[at + 1], image.data[at + 2]] = colour;
          image.data[at + 3] = 255;
        });
      }
    });
    r.putImageData(image, 0, 0);
    g.imageSmoothingEnabled = false;
    // The last bin may be shorter than the others.
    const wide = one.x(run.bin_s * run.bins) - one.left;
    const high = one.bottom - one.top;
    g.save();
    g.beginPath();
    g.rect(one.left, one.top, one.width - kRight - one.left, high);
    g.clip();
    g.drawImage(raster, one.left, one.top, wide, high);
    g.restore();
    const step = high / items.length;
    g.textAlign = "right";
    g.fillStyle = css("--text");
    // As many names as have room.
    const every = Math.ceil(13 / step);
    items.forEach((item, row) => {
      if (row % every !== Math.floor(every / 2)) return;
      g.fillText(item.name, one.left - 6, one.top + (row + 0.5) * step, one.left - 10);
      if (step < 8) return;
      g.strokeStyle = css("--card");
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(one.left, one.top + row * step);
      g.lineTo(one.width - kRight, one.top + row * step);
      g.stroke();
    });
  }
  const rowHeight = (count) => 30 + Math.min(count * kRow, kMaxRows);
  const rowAt = (one, y, count) =>
    Math.max(0, Math.min(count - 1,
                         Math.floor(((y - one.top) / (one.bottom - one.top)) * count)));

  function linkStrip() {
    const sorted = [...run.links].sort((a, b) => b.busy_share - a.busy_share);
    const shown = () => ($("all-links").checked ? sorted : sorted.slice(0, kLinks));
    $("all-links").parentElement.hidden = sorted.length <= kLinks;
    // Yellow is the highest load that a link of this run has.
    const top = sorted.reduce((most, link) => Math.max(most, ...link.load), 0) || 1000;
    const shades = Array.from({ length: top + 1 }, (_, i) => cividis(i / top));
    text("ramp-top", percent(top / 1000));
    const speed = (link) => `${short(link.gbit_per_s)} Gbit/s`;
    return strip("links", {
      names: true, height: () => rowHeight(shown().length), version: () => shown().length,
      draw: (one, g) => rows(one, g, shown(), (link, bin) =>
        [shades[link.load.length ? link.load[bin] : 0]], 1),
      note: (bin) => {
        const busiest = sorted.reduce((a, b) => (share(b.load, bin) > share(a.load, bin) ? b : a));
        const few = shown().length < sorted.length
          ? `the ${kLinks} busiest of ${group(sorted.length)}; ` : "";
        return `${few}now most on ${busiest.name}: ${percent(share(busiest.load, bin))} of ` +
          speed(busiest);
      },
      tip: (one, bin, y) => {
        const link = shown()[rowAt(one, y, shown().length)];
        const mib = short(link.bytes / 2 ** 20);
        return `${link.name}: ${percent(share(link.load, bin))} of ${speed(link)}; ` +
          `${mib} MiB in ${plural(link.messages, "message")} in all`;
      },
    });
  }

  const rgb = (colour) => {
    const hex = colour.length === 4 ? colour.replace(/[0-9a-f]/gi, "$&$&") : colour;
    return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  };
  /** "node3: computing 61 %, waiting 39 %" */
  function sharesText(host, bin) {
    const parts = kStacked.filter((state) => share(host[state], bin) > 0)
      .map((state) => `${state} ${percent(share(host[state], bin))}`);
    return `${host.name}: ${parts.join(", ") || "idle"}`;
  }
  function hostStrip() {
    return strip("hosts", {
      names: true, height: () => rowHeight(run.hosts.length),
      draw: (one, g) => {
        const colours = kColours.map((name) => rgb(css(name)));
        const idle = rgb(css("--line"));
        const stacked = kStacked.map((state) => colours[kStates.indexOf(state)]);
        // Where rows are thin, the state that most of the bin is spent in.
        const parts = Math.min(kParts, Math.floor(kMaxRows / run.hosts.length));
        if (parts < 3) {
          rows(one, g, run.hosts, (host, bin) => [colours[Played.stateOf(host, bin)] || idle], 1);
          return;
        }
        rows(one, g, run.hosts, (host, bin) => {
          const tops = Played.stackAt(host, bin);
          return Array.from({ length: parts }, (_, part) => {
            const height = 1 - (part + 0.5) / parts;
            return stacked[tops.findIndex((top) => height < top)] || idle;
          });
        }, parts);
      },
      note: (bin) => {
        const means = Played.meanAt(run, bin);
        const away = run.hosts.filter((host) => share(host.away, bin) > 0.5).length;
        return [...kStacked, "idle"].filter((state) => state !== "away" && means[state] >= 0.005)
          .map((state) => `${state} ${whole(means[state])}`)
          .concat(away ? [`${group(away)} away`] : []).join(", ");
      },
      tip: (one, bin, y) => {
        return sharesText(run.hosts[rowAt(one, y, run.hosts.length)], bin);
      },
    });
  }

  const markColours = () => [...kColours, "--line"].map(css); // the last one is of idle hosts
  /** A host's mark: colour and shape say the same. */
  function mark(g, state, x, y, size, colours) {
    g.fillStyle = g.strokeStyle = colours[state] || colours[colours.length - 1];
    g.lineWidth = Math.max(1, size / 8);
    const half = g.lineWidth / 2;
    if (state === 0) g.fillRect(x, y, size, size);
    else if (state === 1) {
      g.lineWidth = Math.max(1.5, size / 4);
      g.strokeRect(x + g.lineWidth / 2, y + g.lineWidth / 2, size - g.lineWidth,
                   size - g.lineWidth);
    } else if (state === 2) {
      g.fillRect(x, y + size / 2, size, size / 2);
      g.strokeRect(x + half, y + half, size - 2 * half, size - 2 * half);
    } else if (state === 3) {
      g.beginPath();
      g.arc(x + size / 2, y + size / 2, size / 2, 0, 7);
      g.fill();
    } else if (state === 4) {
      g.lineWidth = Math.max(1.5, size / 5);
      g.beginPath();
      g.moveTo(x + half, y + half);
      g.lineTo(x + size - half, y + size - half);
      g.moveTo(x + size - half, y + half);
      g.lineTo(x + half, y + size - half);
      g.stroke();
    } else {
      g.strokeRect(x + half, y + half, size - 2 * half, size - 2 * half);
    }
  }
  /** Each host as a mark of what it does most, in the order of the cluster file. */
  function paintNow() {
    const count = run.hosts.length;
    const canvas = $("now");
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const cell = Math.max(7, Math.min(22, Math.floor(Math.sqrt((width * 130) / count))));
    const across = Math.max(1, Math.floor(width / cell));
    const height = Math.ceil(count / across) * cell + 2;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    const bin = binOf(time);
    const colours = markColours();
    run.hosts.forEach((host, i) => {
      mark(g, Played.stateOf(host, bin), (i % across) * cell,
           Math.floor(i / across) * cell + 1, cell - Math.max(2, cell / 6), colours);
    });
    canvas.hostAt = (x, y) => {
      const column = Math.floor(x / cell);
      return column < across ? run.hosts[Math.floor((y - 1) / cell) * across + column] : undefined;
    };
  }
  function showLegend() {
    const colours = markColours();
    $("legend").replaceChildren(...[...kStates, "idle"].map((state) => {
      const item = document.createElement("li");
      const canvas = document.createElement("canvas");
      canvas.width = canvas.height = 32;
      const g = canvas.getContext("2d");
      g.scale(2, 2);
      mark(g, kStates.indexOf(state), 1, 1, 14, colours);
      item.append(canvas, state);
      return item;
    }));
  }

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
    const bin = binOf(time);
    const reading = `${inSeconds(time)} of ${inSeconds(run.virtual_s)}`;
    $("at").value = String(time >= run.virtual_s ? run.bins : bin);
    $("at").setAttribute("aria-valuetext", reading);
    text("time", reading);
    text("play", playing ? "Pause" : "Play");
    showClocks(bin);
    for (const one of strips) paint(one);
    paintNow();
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
  /** Some bins on or back. */
  const stepBy = (bins) => go((binOf(time) + bins + 0.5) * run.bin_s);

  // ---- a run

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
  function showGlance() {
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
      tile("virtual time", inSeconds(run.virtual_s)),
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
  function showTables() {
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
  function start(content) {
    const one = Played.parse(content);
    if (!one.bins) throw new Error("nothing happened in this run");
    run = one;
    time = 0;
    playing = false;
    const parts = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1];
    quantiles = Array.from({ length: run.bins }, (_, bin) => {
      const clocks = Played.clocksAt(run, bin);
      return parts.map((part) => clocks[Math.round(part * (clocks.length - 1))]);
    });
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
    const rate = smooth(run.iterations_per_s);
    const staleness = smooth(run.staleness);
    strips = [
      clockStrip("course", false), clockStrip("lead", true), stateStrip(),
      figureStrip("rate", (bin) => rate[bin], short),
      ...(hasReads ? [figureStrip("stale", (bin) => staleness[bin], short)] : []),
      ...(hasLoss ? [figureStrip("loss", (bin) => run.loss[bin], short)] : []),
      ...(hasTests ? [testStrip()] : []),
      ...(run.links.length ? [linkStrip()] : []), hostStrip(),
    ];
    $("at").max = String(run.bins);
    showGlance();
    showLegend();
    showTables();
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

  // ---- what comes in

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
        const bin = binOf(one.t(event.offsetX));
        showTip(event, `${inSeconds(one.t(event.offsetX))}: ${one.tip(one, bin, event.offsetY)}`);
      } else if (canvas.hostAt) {
        const host = canvas.hostAt(event.offsetX, event.offsetY);
        showTip(event, host ? sharesText(host, binOf(time)) : "");
      }
    });
    canvas.addEventListener("pointerleave", () => showTip(null, ""));
  }

  function theme(dark) {
    document.documentElement.classList.toggle("dark", dark);
    text("theme", dark ? "Light" : "Dark");
    if (run) showLegend();
    render();
  }
  let dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  try {
    const kept = localStorage.getItem("theme");
    if (kept) dark = kept === "dark";
  } catch { /* a browser without storage keeps nothing */ }
  $("theme").addEventListener("click", () => {
    dark = !dark;
    try { localStorage.setItem("theme", dark ? "dark" : "light"); } catch { /* as above */ }
    theme(dark);
  });
  const ramp = Array.from({ length: 9 }, (_, i) => `rgb(${cividis(i / 8).join(" ")})`);
  document.querySelector(".ramp").style.background = `linear-gradient(90deg, ${ramp.join(", ")})`;
  theme(dark);
  if ($("playback")) open($("playback").textContent, "the run");
  new ResizeObserver(render).observe(document.querySelector("main"));
})();
