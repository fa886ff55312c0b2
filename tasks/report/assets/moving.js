// A token that moves through the sequence, and gamma as a heat map.

const CELL = 12; // pixels of a row of the heat map

/** Return the panel of the slider: the model's output with the chosen token in each slot, the others in their order. */
function movingToken(sample, view, chosen, choose) {
  const n = sample.names.length;
  const label = (event) => `${sample.names[event]} (slot ${event + 1}${sample.hours ? `, ${sample.hours[event].toFixed(1)} h` : ""})`;
  const charts = element("div", { class: "cards" });
  const strip = element("div", { class: "strip", "aria-hidden": "true" });
  const said = element("output", { "aria-live": "polite" });
  const slider = element("input", { type: "range", min: 1, max: n, step: 1, "aria-label": "Slot of the moving token", oninput: () => at(+slider.value - 1) });
  let moved = null;
  let cursors = [];
  const at = (slot) => {
    slider.value = slot + 1;
    const order = sample.names.map((_, event) => event).filter((event) => event !== moved.event);
    order.splice(slot, 0, moved.event);
    const from = Math.max(0, Math.min(slot - 4, n - 9));
    strip.replaceChildren(from > 0 ? "…" : "", ...order.slice(from, from + 9).map((event) =>
      element(event === moved.event ? "b" : "span", {}, short(sample.names[event], 26))), from + 9 < n ? "…" : "");
    said.textContent = `Slot ${slot + 1} of ${n}: ${study.output} ${told(moved.outputs[slot])}; where it was (slot ${moved.event + 1}): ` +
      `${told(moved.outputs[moved.event])}; change ${told(moved.outputs[slot] - moved.outputs[moved.event], true)}`;
    slider.setAttribute("aria-valuetext", said.textContent);
    for (const cursor of cursors) cursor(slot);
  };
  const take = (event) => {
    moved = sample.moved.find((own) => own.event === +event);
    picker.querySelector("select").value = moved.event;
    const drawn = [slotChart(moved, n, { title: `Output with ${short(sample.names[moved.event], 24)} in each slot`, numbers: [...moved.outputs], yLabel: study.output, at })];
    if (view.matrix) drawn.push(slotChart(moved, n, { title: `Gamma of ${short(sample.names[moved.event], 30)}`, numbers: row(view.matrix, moved.event, n), yLabel: "gamma", at }));
    cursors = drawn.map(({ cursor }) => cursor);
    charts.replaceChildren(...drawn.map(({ root }) => figure(root, "")));
    at(moved.event);
  };
  const picker = choice("Move", sample.moved.map(({ event }) => [event, label(event)]), sample.moved[0].event, (event) => choose(+event));
  chosen.follow.push((event) => sample.moved.some((own) => own.event === event) && take(event));
  const panel = element("div", { class: "moving" }, element("h3", {}, "Move a token"),
    element("p", {}, `What the model says (${study.output} of ${sample.about}) when one token moves to another slot and the others keep their order. ` +
      `The tokens of the largest value or position importance can be moved.`),
    element("div", { class: "controls" }, picker), slider, element("div", {}, said), strip, charts);
  const strongest = sample.moved.reduce((best, own) => (spread(own.outputs) > spread(best.outputs) ? own : best));
  take(strongest.event);
  return panel;
}

function spread(numbers) {
  return Math.max(...numbers) - Math.min(...numbers);
}

/** Return one row of a matrix, NaN where there was no draw. */
function row(matrix, event, n) {
  matrix.cells ??= decoded(matrix.bytes, Int16Array);
  return Array.from(matrix.cells.subarray(event * n, (event + 1) * n), (cell) => (cell === -32768 ? NaN : (cell / 32767) * matrix.reach));
}

/** Return a chart of one number a slot, and a function that moves its cursor. */
function slotChart({ event }, n, { title, numbers, yLabel, at }) {
  const grid = numbers.map((_, slot) => slot + 1);
  const chart = plot({ title, height: 210, x: [1, Math.max(2, n)], y: extent(numbers, 0.12), xLabel: "Slot", yLabel,
    words: `Line chart of ${yLabel} by slot: ${told(Math.min(...numbers.filter(Number.isFinite)))} to ${told(Math.max(...numbers.filter(Number.isFinite)))}.` });
  const points = grid.map((slot) => [chart.x(slot), chart.y(numbers[slot - 1])]);
  const dot = svg("circle", { r: 5, fill: "#B35806", stroke: "#fff" });
  chart.root.append(svg("line", { class: "zero", x1: chart.x(event + 1), x2: chart.x(event + 1), y1: TOP + 6, y2: chart.bottom }),
    svg("text", { x: chart.x(event + 1), y: TOP + 3, "text-anchor": "middle" }, "was here"),
    svg("path", { class: "line", d: path(points), stroke: "#333" }), dot);
  chart.root.addEventListener("pointermove", (pointer) => {
    const box = chart.root.getBoundingClientRect();
    const x = ((pointer.clientX - box.left) / box.width) * WIDTH;
    const far = grid.map((slot) => Math.abs(chart.x(slot) - x));
    const slot = far.indexOf(Math.min(...far));
    tip(pointer.clientX, pointer.clientY, `Slot ${slot + 1}: ${told(numbers[slot])}`);
  });
  chart.root.addEventListener("pointerleave", untip);
  chart.root.addEventListener("click", (pointer) => {
    const box = chart.root.getBoundingClientRect();
    const x = ((pointer.clientX - box.left) / box.width) * WIDTH;
    const far = grid.map((slot) => Math.abs(chart.x(slot) - x));
    at(far.indexOf(Math.min(...far)));
  });
  const cursor = (slot) => {
    dot.classList.toggle("off", !Number.isFinite(numbers[slot]));
    if (Number.isFinite(numbers[slot])) dot.setAttribute("transform", `translate(${points[slot].join(",")})`);
  };
  return { root: chart.root, cursor };
}

/** Return gamma as a heat map, token by slot, with values by pointer and arrow keys. */
function heatMap(sample, main, chosen, choose) {
  const n = sample.names.length;
  const { matrix } = sample.views[main];
  const rows = sample.names.map((_, event) => row(matrix, event, n));
  const canvas = element("canvas", { width: n, height: n });
  paint(canvas, n, n, (place) => diverging(rows[Math.floor(place / n)][place % n] / (matrix.cut || 1)));
  const cursor = svg("rect", { width: CELL, height: CELL, fill: "none", stroke: "#000", "stroke-width": 2, class: "off" });
  const line = svg("rect", { width: n * CELL, height: CELL, fill: "none", stroke: "#000", x: 0, class: "off" });
  const over = svg("svg", { viewBox: `0 0 ${n * CELL} ${n * CELL}`, "aria-hidden": "true" },
    ...rows.map((_, event) => svg("circle", { cx: (event + 0.5) * CELL, cy: (event + 0.5) * CELL, r: 2.2, fill: "#000", stroke: "#fff", "stroke-width": 0.8 })), line, cursor,
    ...ticks(1, n, 8).filter((slot) => slot >= 1 && Number.isInteger(slot)).map((slot) => svg("text", { x: (slot - 0.5) * CELL, y: n * CELL + 12, "text-anchor": "middle" }, String(slot))));
  let cell = [0, 0];
  const read = (event, slot, x, y) => {
    cell = [event, slot];
    cursor.classList.remove("off");
    cursor.setAttribute("x", slot * CELL);
    cursor.setAttribute("y", event * CELL);
    tip(x, y, `${sample.names[event]} (slot ${event + 1})\nin slot ${slot + 1}: ${told(rows[event][slot], true)}`);
  };
  const clamp = (number) => Math.max(0, Math.min(n - 1, number));
  const under = (pointer) => {
    const box = field.getBoundingClientRect();
    return [clamp(Math.floor(((pointer.clientY - box.top) / box.height) * n)), clamp(Math.floor(((pointer.clientX - box.left) / box.width) * n))];
  };
  const leave = () => {
    cursor.classList.add("off");
    untip();
  };
  const field = element("div", { class: "field", tabindex: 0, role: "img", style: { width: `${n * CELL}px`, height: `${n * CELL}px`, marginBottom: "18px" },
    "aria-label": `Heat map of gamma by ${study.methods[main]}: ${n} ${sample.player}s by ${n} slots, from ${told(-matrix.reach)} to ${told(matrix.reach)}. Arrow keys read the values.`,
    onpointermove: (pointer) => read(...under(pointer), pointer.clientX, pointer.clientY), onpointerleave: leave, onblur: leave,
    onclick: (pointer) => choose(under(pointer)[0]),
    onkeydown: (key) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key.key];
      if (key.key === "Escape") leave();
      if (key.key === "Enter") choose(cell[0]);
      if (!step) return;
      key.preventDefault();
      const [event, slot] = [clamp(cell[0] + step[0]), clamp(cell[1] + step[1])];
      const box = field.getBoundingClientRect();
      read(event, slot, box.left + (slot + 1) * CELL, box.top + (event + 1) * CELL);
    } }, canvas, over);
  chosen.follow.push((event) => {
    line.classList.remove("off");
    line.setAttribute("y", event * CELL);
  });
  const shades = [-1, -0.5, 0, 0.5, 1].map((share) => rgb(diverging(share))).join(",");
  const scale = element("span", { class: "scale" }, told(-matrix.cut), element("span", { style: { background: `linear-gradient(to right,${shades})` } }), `${told(matrix.cut, true)} (99th percentile)`);
  const grey = rows.some((numbers) => numbers.some(Number.isNaN)) ? " Grey: no draw." : "";
  return [element("h3", {}, `Gamma: each ${sample.player} in each slot`),
    element("p", {}, `${study.methods[main]}: what one ${sample.player} (row) adds to the explained output when it sits in a slot (column), averaged over coalitions and arrangements of the others. Dots: where it was.${grey}`),
    scale, element("div", { class: "heat" }, element("div", { class: "sheet" },
      element("div", { class: "rows" }, ...sample.names.map((name) => element("div", { title: name }, name))), field))];
}
