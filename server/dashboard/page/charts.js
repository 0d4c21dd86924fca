// The charts of a job: loss, accuracy and rate, against time or clocks, with changes of the slack.
"use strict";

const Charts = (() => {
  const { $ } = Page;
  const { css, group } = Draw;
  const { duration, boundName } = Words;
  let series = Series.empty(0); // as it was shown last
  let byClock = false;
  let charts = [];

  // Steps between ticks: whole clocks, or round numbers of seconds.
  const kSeconds = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
                    14400, 28800, 86400, 172800, 604800];
  const kClocks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5,
                   1e6, 2e6, 5e6, 1e7];
  const atX = (v) => (byClock
    ? group(v) : duration(v) + (v > 0 && v < 1 ? v.toFixed(1).slice(1) : ""));
  /** The axis that all charts share: from the start to the newest point of any of them. */
  function reach() {
    const x = byClock ? series.clock : series.t;
    return Math.max(x.length ? x[x.length - 1] : 0, byClock ? 10 : 1);
  }

  /** A line where the slack changed, with what it became. */
  function drawMarks(u) {
    const ratio = window.devicePixelRatio || 1;
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = css("--red");
    ctx.font = `${11 * ratio}px system-ui, 'DejaVu Sans', sans-serif`;
    ctx.textAlign = "left"; // the axes leave another one
    ctx.textBaseline = "alphabetic";
    ctx.lineWidth = ratio;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    let free = -Infinity;
    for (const change of series.changes) {
      const x = u.valToPos(byClock ? change.clock : change.t, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const name = boundName(change.to);
      const wide = ctx.measureText(name).width + 6 * ratio;
      const fits = x + wide <= bbox.left + bbox.width;
      const left = fits ? x + 3 * ratio : x - wide + 3 * ratio;
      if (left < free) continue; // labels do not cover each other; every line is drawn
      ctx.fillText(name, left, bbox.top + 10 * ratio);
      free = left + wide;
    }
    ctx.restore();
  }

  /** The figures under the pointer. */
  function showTip(u, tip, label, values) {
    const at = u.cursor.idx;
    const value = at === null || at === undefined ? null : u.data[1][at];
    tip.hidden = value === null || value === undefined;
    if (tip.hidden) return;
    const x = byClock ? `clock ${group(u.data[0][at])}` : atX(u.data[0][at]);
    tip.textContent = `${x}: ${label} ${values(value)}`;
    // Below the names of the marks.
    tip.style.top = u.over.offsetTop + 18 + "px";
    const right = u.cursor.left > u.over.clientWidth / 2;
    tip.style.left = right ? "" : u.over.offsetLeft + u.cursor.left + 10 + "px";
    tip.style.right = right
      ? u.over.parentElement.clientWidth - u.over.offsetLeft - u.cursor.left + 10 + "px" : "";
  }

  function chart(id, label, color, values, points, fromZero) {
    const host = $(id);
    const axis = {
      stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 },
      ticks: { stroke: css("--line") }, font: "11px system-ui, 'DejaVu Sans', sans-serif",
    };
    // A single value would otherwise be on an axis up to 100.
    const range = (u, low, high) =>
      fromZero || low === high
        ? [Math.min(low, 0), 1.1 * (Math.max(0, ...u.data[1]) || 1)]
        : uPlot.rangeNum(low, high, 0.1, true);
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    host.append(tip);
    const one = new uPlot({
      width: host.clientWidth, height: host.clientHeight, legend: { show: false },
      cursor: { y: false, sync: { key: "charts", setSeries: false } },
      scales: { x: { time: false, range: () => [0, reach()] }, y: { range } },
      axes: [{ ...axis, values: (u, at) => at.map(atX), space: 70, size: 48,
               incrs: byClock ? kClocks : kSeconds, labelSize: 16, labelFont: axis.font,
               label: byClock ? "clocks of the slowest worker" : "running time, min:s" },
             { ...axis, size: 58, values: (u, at) => at.map(values) }],
      series: [{}, {
        label, stroke: css(color), width: 2, spanGaps: true,
        points: { show: points, size: 7, fill: css(color) },
      }],
      hooks: { draw: [drawMarks], setCursor: [(u) => showTip(u, tip, label, values)] },
    }, [[], []], host);
    one.tip = tip;
    return one;
  }

  function remake() {
    for (const one of charts) {
      one.tip.remove();
      one.destroy();
    }
    const digits = (v) => {
      if (v === null) return "";
      if (Math.abs(v) >= 1e6) return Number((v / 1e6).toPrecision(4)) + " M";
      if (Math.abs(v) >= 1e4) return Number((v / 1e3).toPrecision(4)) + " k";
      return String(Number(v.toPrecision(4)));
    };
    const percents = (v) => (v === null ? "" : Number((100 * v).toPrecision(4)) + " %");
    charts = [
      chart("loss-plot", "loss", "--blue", digits, false),
      chart("accuracy-plot", "accuracy", "--green", percents, true),
      chart("rate-plot", "rate", "--orange", digits, false, true),
    ];
  }
  function show(job, newest) {
    series = newest;
    const size = $("loss-plot").clientWidth;
    if (!charts.length || size !== charts[0].width) remake();
    const x = byClock ? series.clock : series.t;
    charts[0].setData([x, series.loss]);
    charts[2].setData([x, series.rate]);
    const { clock, accuracy } = job.tests;
    charts[1].setData([byClock ? clock : clock.map(timeOf), accuracy]);
  }

  /** When the slowest worker was at a clock, interpolated. */
  function timeOf(clock) {
    const { t, clock: c } = series;
    if (!t.length) return 0;
    let high = c.findIndex((at) => at >= clock);
    if (high < 0) return t[t.length - 1];
    if (high === 0) return c[0] > 0 ? (t[0] * clock) / c[0] : t[0];
    const share = (clock - c[high - 1]) / (c[high] - c[high - 1]);
    return t[high - 1] + share * (t[high] - t[high - 1]);
  }

  /** Redraws in the page's new colors. */
  function recolour() {
    if (charts.length) remake();
  }
  /** Switches between time and clocks. Returns whether it shows clocks now. */
  function turn() {
    byClock = !byClock;
    remake();
    return byClock;
  }

  return { show, recolour, turn };
})();
