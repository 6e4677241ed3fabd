// The timeline of a page: canvases that zoom and move, with hover and keyboard. Data: see timeline_json in
// tools/timeline_chart.cc. The window and the chosen span stand in the figure's data-from, data-to and data-chosen.
"use strict";
(() => {
  const kLane = {compute: 20, other: 12}, kHead = 18, kAxis = 20, kGap = 8;
  const kFields = 6;  // of a span: gap, duration, kind, micro-batch + 1, busy and exposed per cent

  function decode(lane) {
    const spans = [];
    let at = 0;
    for (let i = 0; i < lane.spans.length; i += kFields) {
      const [gap, length, kind, batch, busy, exposed] = lane.spans.slice(i, i + kFields);
      at += gap;
      spans.push({begin: at, end: at + length, kind, batch: batch - 1, busy, exposed});
      at += length;
    }
    return spans;
  }

  function seconds(value) {
    const units = [[1, "s"], [1e-3, "ms"], [1e-6, "us"], [1e-9, "ns"]];
    const [scale, unit] = units.find(([scale]) => value >= scale) || units[3];
    return Number((value / scale).toPrecision(4)) + " " + unit;
  }

  function roundStep(range) {
    const power = 10 ** Math.floor(Math.log10(range));
    return [1, 2, 5, 10].map(step => step * power).find(step => step >= range);
  }

  // Lanes with their place from the top; ranks' headings between them.
  function place(data) {
    const rows = [];
    let y = kAxis;
    for (const rank of data.ranks) {
      rows.push({y, heading: rank.name, slow: rank.slow});
      y += kHead;
      for (const lane of rank.lanes) {
        const height = lane.computes ? kLane.compute : kLane.other;
        rows.push({y, height, rank, name: lane.name, computes: lane.computes, spans: decode(lane)});
        y += height + 2;
      }
      y += kGap;
    }
    return {rows, height: y};
  }

  function start(figure) {
    const data = JSON.parse(figure.querySelector("script").textContent);
    const canvas = figure.querySelector("canvas"), tip = figure.querySelector(".tip"), said = figure.querySelector(".said");
    const pen = canvas.getContext("2d");
    const {rows, height} = place(data);
    const lanes = rows.filter(row => row.spans);
    const view = {from: 0, to: data.units};
    let chosen = null, drag = null, width = 0, left = 0;

    const toX = value => left + (value - view.from) / (view.to - view.from) * (width - left);
    const toValue = x => view.from + (x - left) / (width - left) * (view.to - view.from);
    const time = value => value / data.units * data.seconds;

    function setView(from, to) {
      const length = Math.min(Math.max(to - from, 20), data.units);
      view.from = Math.min(Math.max(from, 0), data.units - length);
      view.to = view.from + length;
      figure.dataset.from = view.from / data.units;
      figure.dataset.to = view.to / data.units;
      draw();
    }
    const zoom = (factor, centre = (view.from + view.to) / 2) =>
      setView(centre - (centre - view.from) / factor, centre + (view.to - centre) / factor);
    const move = share => setView(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));

    function resize() {
      width = canvas.parentElement.clientWidth;
      left = width < 600 ? 58 : 92;
      const scale = Math.min(window.devicePixelRatio || 1, 2);
      canvas.width = width * scale;
      canvas.height = height * scale;
      canvas.style.height = height + "px";
      pen.setTransform(scale, 0, 0, scale, 0, 0);
      draw();
    }

    function drawSpan(row, span, colours) {
      const x = toX(span.begin), w = Math.max(toX(span.end) - x, 0.6), full = row.height * span.busy / 100;
      const bottom = row.y + row.height;
      if (row.computes) {
        pen.fillStyle = data.kinds[span.kind][1];
        pen.fillRect(x, bottom - full, w, full);
        if (w > 15 && span.batch >= 0) {
          pen.fillStyle = "#fff";
          pen.fillText(span.batch, Math.max(x, left) + 3, row.y + row.height - 6, w - 4);
        }
        return;
      }
      const alone = full * span.exposed / 100;
      pen.fillStyle = colours.hidden;
      pen.fillRect(x, bottom - full, w, full - alone);
      pen.fillStyle = colours.exposed;
      pen.fillRect(x, bottom - alone, w, alone);
    }

    function firstAfter(spans, value) {
      let low = 0, high = spans.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (spans[middle].end < value) low = middle + 1; else high = middle;
      }
      return low;
    }

    function drawAxis(colours) {
      const step = roundStep(time(view.to - view.from) / Math.max(2, (width - left) / 120));
      pen.strokeStyle = colours.line;
      pen.fillStyle = colours.soft;
      for (let t = Math.ceil(time(view.from) / step) * step; t <= time(view.to); t += step) {
        const x = toX(t / data.seconds * data.units);
        pen.beginPath();
        pen.moveTo(x, kAxis - 4);
        pen.lineTo(x, height);
        pen.stroke();
        pen.fillText(t < step / 2 ? "0" : seconds(t), x + 3, 12);
      }
    }

    function draw() {
      const style = getComputedStyle(figure);
      const colours = Object.fromEntries(["ink", "soft", "line", "band", "mark", "hidden", "exposed"]
        .map(name => [name, style.getPropertyValue("--" + name).trim()]));
      pen.clearRect(0, 0, width, height);
      pen.font = "11px system-ui, sans-serif";
      drawAxis(colours);
      for (const row of lanes) {
        pen.fillStyle = colours.band;
        pen.fillRect(left, row.y, width - left, row.height);
        for (let i = firstAfter(row.spans, view.from); i < row.spans.length && row.spans[i].begin <= view.to; ++i)
          drawSpan(row, row.spans[i], colours);
      }
      pen.clearRect(0, kAxis, left, height);
      for (const row of rows) {
        pen.fillStyle = row.slow ? colours.mark : row.heading ? colours.ink : colours.soft;
        pen.fillText(row.heading || row.name, row.heading ? 0 : 4, row.y + (row.heading ? 13 : row.height - 3), row.heading ? width : left - 8);
      }
      if (chosen) {
        pen.strokeStyle = colours.ink;
        pen.lineWidth = 2;
        const x = Math.max(toX(chosen.span.begin), left);
        pen.strokeRect(x, chosen.row.y, Math.max(toX(chosen.span.end) - x, 2), chosen.row.height);
        pen.lineWidth = 1;
      }
    }

    function words({row, span}) {
      const what = data.kinds[span.kind][0] + (span.batch >= 0 ? ", micro-batch " + span.batch : "");
      const busy = span.busy < 100 ? `, busy ${span.busy} % of it` : "";
      const apart = row.computes ? "" : `, ${span.exposed} % exposed`;
      return `${row.rank.name}, ${row.name}: ${what}; ${seconds(time(span.end - span.begin))} from ${seconds(time(span.begin))}${busy}${apart}`;
    }

    function choose(next, tell) {
      chosen = next;
      figure.dataset.chosen = next ? words(next) : "";
      if (tell) said.textContent = next ? words(next) : "";
      if (next && (next.span.end < view.from || next.span.begin > view.to)) {
        const half = (view.to - view.from) / 2, centre = (next.span.begin + next.span.end) / 2;
        setView(centre - half, centre + half);
      } else {
        draw();
      }
    }

    function under(event) {
      const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
      const row = lanes.find(row => y >= row.y && y < row.y + row.height + 2);
      if (!row || x < left) return null;
      const value = toValue(x), slack = 3 / (width - left) * (view.to - view.from);
      const span = row.spans[firstAfter(row.spans, value - slack)];
      return span && span.begin <= value + slack ? {row, span} : null;
    }

    function step(lanesDown, spansOn) {
      const row = chosen ? lanes[(lanes.indexOf(chosen.row) + lanesDown + lanes.length) % lanes.length] : lanes[0];
      const here = chosen ? (lanesDown ? firstAfter(row.spans, chosen.span.begin) : row.spans.indexOf(chosen.span) + spansOn) : firstAfter(row.spans, view.from);
      const span = row.spans[Math.min(Math.max(here, 0), row.spans.length - 1)];
      if (span) choose({row, span}, true);
    }

    const keys = {
      "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), "0": () => setView(0, data.units),
      ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), ArrowUp: () => step(-1, 0), ArrowDown: () => step(1, 0),
      ",": () => step(0, -1), ".": () => step(0, chosen ? 1 : 0), Escape: () => choose(null, true),
    };
    canvas.addEventListener("keydown", event => {
      if (keys[event.key] && !event.ctrlKey && !event.metaKey) {
        event.preventDefault();
        keys[event.key]();
      }
    });
    for (const button of figure.querySelectorAll("button")) button.addEventListener("click", () => keys[button.value]());
    canvas.addEventListener("wheel", event => {
      if (event.ctrlKey || document.activeElement === canvas) {
        event.preventDefault();
        zoom(Math.exp(-event.deltaY / 300), toValue(event.clientX - canvas.getBoundingClientRect().left));
      }
    }, {passive: false});
    canvas.addEventListener("pointerdown", event => { drag = {x: event.clientX, from: view.from, to: view.to}; });
    window.addEventListener("pointerup", () => { drag = null; });
    canvas.addEventListener("pointermove", event => {
      if (drag) {
        const by = (drag.x - event.clientX) / (width - left) * (drag.to - drag.from);
        setView(drag.from + by, drag.to + by);
      }
      const found = under(event);
      tip.hidden = !found;
      if (found) {
        tip.textContent = words(found);
        const box = figure.getBoundingClientRect();
        tip.style.left = Math.max(0, Math.min(event.clientX - box.left + 12, box.width - tip.offsetWidth - 4)) + "px";
        tip.style.top = event.clientY - box.top + 16 + "px";
      }
    });
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.addEventListener("dblclick", event => zoom(2, toValue(event.clientX - canvas.getBoundingClientRect().left)));
    new ResizeObserver(resize).observe(canvas.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    setView(0, data.units);
  }
  for (const figure of document.querySelectorAll("figure.timeline")) start(figure);
})();
