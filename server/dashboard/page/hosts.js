// What hosts are doing: their strip, a mark for each at one time, and the legend of the marks.
"use strict";

const Hosts = (() => {
  const { $ } = Page;
  const { css, group } = Draw;
  const { kStates, kStacked, share, percent, whole } = Played;
  const kParts = 12; // of a cell with several colours
  const kColours = ["--blue", "--orange", "--pink", "--green", "--text"]; // by state

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

  function strip(run) {
    return Strip.make("hosts", run, {
      names: true, height: () => Strip.rowHeight(run.hosts.length),
      draw: (one, g) => {
        const colours = kColours.map((name) => rgb(css(name)));
        const idle = rgb(css("--line"));
        const stacked = kStacked.map((state) => colours[kStates.indexOf(state)]);
        // If rows are thin, the state in which most of the bin is spent.
        const parts = Math.min(kParts, Math.floor(Strip.kMaxRows / run.hosts.length));
        if (parts < 3) {
          Strip.rows(one, g, run.hosts,
                     (host, bin) => [colours[Played.stateOf(host, bin)] || idle], 1);
          return;
        }
        Strip.rows(one, g, run.hosts, (host, bin) => {
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
        return sharesText(run.hosts[Strip.rowAt(one, y, run.hosts.length)], bin);
      },
    });
  }

  const markColours = () => [...kColours, "--line"].map(css); // the last one is of idle hosts
  /** A host's mark: color and shape mean the same. */
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

  /** Each host as a mark of what it mostly does, in the order of the cluster file. */
  function paintNow(run, bin) {
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

  return { kColours, sharesText, strip, paintNow, showLegend };
})();
