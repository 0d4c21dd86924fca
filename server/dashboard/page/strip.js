// A strip: a run's whole time from left to right, drawn once, and the line of the present over it.
"use strict";

const Strip = (() => {
  const { $ } = Page;
  const { css } = Draw;
  const { short } = Played;
  const kLeft = 64; // of a strip, before its axis
  const kNames = 132; // of one with rows
  const kRight = 12;
  const kHeight = 190; // of one without
  const kRow = 16;
  const kMaxRows = 600; // pixels

  /** Round numbers between 0 and high. */
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

  /** A picture that is drawn once for its size and colours, and the line of the present over it.
   *  of: { names, height(width), draw(strip, g), tip(strip, bin, y), note(bin, time) } */
  function make(id, run, of) {
    const canvas = $(id);
    const one = { canvas, run, ...of, picture: document.createElement("canvas"), drawn: "" };
    one.x = (t) => one.left + (t / run.virtual_s) * (one.width - one.left - kRight);
    one.t = (x) => Math.max(0, Math.min(1, (x - one.left) / (one.width - one.left - kRight)))
      * run.virtual_s;
    one.head = canvas.closest(".card").querySelector(".note");
    return one;
  }

  function timeAxis(one, g, bottom) {
    const { run } = one;
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
  function paint(one, time) {
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
    // Visible on any background.
    for (const [colour, wide] of [[css("--card"), 4], [css("--text"), 2]]) {
      g.strokeStyle = colour;
      g.lineWidth = wide;
      g.beginPath();
      g.moveTo(x, one.top - 4);
      g.lineTo(x, one.bottom + 4);
      g.stroke();
    }
    const note = one.note(Played.binOf(one.run, time), time);
    if (one.head.textContent !== note) one.head.textContent = note;
  }

  /** A line through the values of the bins; null is left out, or interrupts it. */
  function curve(one, g, y, values, colour, dash, interrupted) {
    const { run } = one;
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
    const { run } = one;
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
    const { run } = one;
    g.fillStyle = colour;
    g.beginPath();
    for (let bin = 0; bin < run.bins; bin++) g.lineTo(one.x(Played.endOf(run, bin)), y(high(bin)));
    for (let bin = run.bins - 1; bin >= 0; bin--) {
      g.lineTo(one.x(Played.endOf(run, bin)), y(low(bin)));
    }
    g.fill();
  }

  /** Rows of cells: each is an item's over time. Many are as thin as fits.
   *  colours(item, bin) gives red, green, blue of each of a cell's parts, from the top on */
  function rows(one, g, items, colours, parts) {
    const { run } = one;
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

  return { kHeight, kMaxRows, make, paint, valueAxis, curve, steps, band, rows, rowHeight, rowAt };
})();
