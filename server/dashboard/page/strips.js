// The strips of a run: clocks, states, figures, tests and links over its time.
"use strict";

const Strips = (() => {
  const { $, text } = Page;
  const { css, group } = Draw;
  const { kStates, share, percent, whole, short, plural } = Played;
  const kLines = 14; // with more workers, bands are drawn
  const kLinks = 24;

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

  /** Clocks over time; fromSlowest: how far ahead. */
  function clocks(id, run, quantiles, fromSlowest) {
    const base = (bin) => (fromSlowest ? quantiles[bin][0] : 0);
    const bound = (bin) => (fromSlowest ? Played.boundAt(run, bin) : null);
    const bounds = Array.from({ length: run.bins }, (_, bin) => bound(bin))
      .filter((value) => value !== null);
    const highest = bounds.reduce((most, value) => Math.max(most, value), 0);
    const lowest = bounds.reduce((least, value) => Math.min(least, value), highest);
    // The bound's name is above its line.
    let high = Math.max(1, 1.15 * highest);
    for (let bin = 0; bin < run.bins; bin++) high = Math.max(high, quantiles[bin][6] - base(bin));
    return Strip.make(id, run, {
      height: () => Strip.kHeight,
      draw: (one, g) => {
        const y = Strip.valueAxis(one, g, high * 1.04, short, true);
        if (run.workers.length > kLines) {
          for (const [low, opacity] of [[0, 0.25], [1, 0.35], [2, 0.5]]) {
            g.globalAlpha = opacity;
            Strip.band(one, g, y, (bin) => quantiles[bin][low] - base(bin),
                       (bin) => quantiles[bin][6 - low] - base(bin), css("--blue"));
          }
          g.globalAlpha = 1;
          Strip.curve(one, g, y, (bin) => quantiles[bin][3] - base(bin), css("--text"));
        } else {
          const colours = ["--blue", "--red", "--green", "--pink", "--orange", "--soft", "--text"];
          run.workers.forEach((worker, i) => {
            Strip.curve(one, g, y, (bin) => (worker.clock[bin] >= 0
              ? worker.clock[bin] - base(bin) : null),
                        css(colours[i % colours.length]), i < colours.length ? [] : [6, 3], true);
          });
        }
        if (!bounds.length) return;
        g.fillStyle = css("--red");
        Strip.steps(one, g, y, bound, css("--red"));
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

  function states(run) {
    const order = ["computing", "paused", "waiting", "away"];
    const sums = Array.from({ length: run.bins }, (_, bin) => Played.sharesAt(run, bin));
    const name = (bin) => order.filter((state) => sums[bin][state] >= 0.005)
      .map((state) => `${state} ${whole(sums[bin][state])}`).join(", ") || "nothing";
    return Strip.make("states", run, {
      height: () => Strip.kHeight,
      draw: (one, g) => {
        const y = Strip.valueAxis(one, g, 1, percent);
        let low = new Array(run.bins).fill(0);
        for (const state of order) {
          const high = low.map((from, bin) => Math.min(1, from + sums[bin][state]));
          const from = low;
          Strip.band(one, g, y, (bin) => from[bin], (bin) => high[bin],
                     css(Hosts.kColours[kStates.indexOf(state)]));
          low = high;
        }
      },
      note: name, tip: (one, bin) => name(bin),
    });
  }

  /** The means of a figure over a sixtieth of the run: a bin may have a clock's end or none. Bins
   *  count by their lengths, as the last one may be much shorter. */
  function smooth(run, row) {
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
  function figure(id, run, values, name) {
    let high = 0;
    const known = [];
    for (let bin = 0; bin < run.bins; bin++) {
      const value = values(bin);
      if (value !== null && value !== undefined) high = Math.max(high, value);
      known.push(value ?? (bin ? known[bin - 1] : null));
    }
    const shown = (bin) => (known[bin] === null ? "–" : name(known[bin]));
    return Strip.make(id, run, {
      height: () => Strip.kHeight,
      draw: (one, g) => Strip.curve(one, g, Strip.valueAxis(one, g, high * 1.05 || 1, name),
                                    values, css("--blue")),
      note: shown, tip: (one, bin) => shown(bin),
    });
  }

  function tests(run) {
    const all = run.tests.filter((test) => test.accuracy !== null);
    const last = (t) => all.filter((test) => test.at_s <= t).pop();
    const say = (test) => (test
      ? `${(100 * test.accuracy).toFixed(2)} % at iteration ${group(test.iteration)}` : "–");
    return Strip.make("accuracy", run, {
      height: () => Strip.kHeight,
      draw: (one, g) => {
        const best = all.reduce((most, test) => Math.max(most, test.accuracy), 0);
        const high = Math.min(1, 1.1 * best || 1);
        const y = Strip.valueAxis(one, g, high, percent);
        g.strokeStyle = g.fillStyle = css("--green");
        g.lineWidth = 1.7;
        g.beginPath();
        for (const test of all) g.lineTo(one.x(test.at_s), y(test.accuracy));
        g.stroke();
        for (const test of all) {
          g.beginPath();
          g.arc(one.x(test.at_s), y(test.accuracy), 3, 0, 7);
          g.fill();
        }
      },
      note: (bin, time) => say(last(time)), tip: (one, bin) => say(last(Played.endOf(run, bin))),
    });
  }

  function links(run) {
    const sorted = [...run.links].sort((a, b) => b.busy_share - a.busy_share);
    const shown = () => ($("all-links").checked ? sorted : sorted.slice(0, kLinks));
    $("all-links").parentElement.hidden = sorted.length <= kLinks;
    // Yellow is the highest load that a link of this run has.
    const top = sorted.reduce((most, link) => Math.max(most, ...link.load), 0) || 1000;
    const shades = Array.from({ length: top + 1 }, (_, i) => cividis(i / top));
    text("ramp-top", percent(top / 1000));
    const speed = (link) => `${short(link.gbit_per_s)} Gbit/s`;
    return Strip.make("links", run, {
      names: true, height: () => Strip.rowHeight(shown().length), version: () => shown().length,
      draw: (one, g) => Strip.rows(one, g, shown(), (link, bin) =>
        [shades[link.load.length ? link.load[bin] : 0]], 1),
      note: (bin) => {
        const busiest = sorted.reduce((a, b) => (share(b.load, bin) > share(a.load, bin) ? b : a));
        const few = shown().length < sorted.length
          ? `the ${kLinks} busiest of ${group(sorted.length)}; ` : "";
        return `${few}now most on ${busiest.name}: ${percent(share(busiest.load, bin))} of ` +
          speed(busiest);
      },
      tip: (one, bin, y) => {
        const link = shown()[Strip.rowAt(one, y, shown().length)];
        const mib = short(link.bytes / 2 ** 20);
        return `${link.name}: ${percent(share(link.load, bin))} of ${speed(link)}; ` +
          `${mib} MiB in ${plural(link.messages, "message")} in all`;
      },
    });
  }

  return { cividis, clocks, states, smooth, figure, tests, links };
})();
