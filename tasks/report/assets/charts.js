// The kinds of charts: lines with bands, a scatter, differences with intervals.

const WIDTH = 420;
const LEFT = 60;
const RIGHT = 10;
const TOP = 26;

/** Return an empty plot with axes: {root, x, y, bottom}; `xTicks` are [number, text] pairs where x is not plain. */
function plot({ title, words, height = 250, x, y, xLabel, yLabel, xTicks = null, focus = false }) {
  const bottom = height - 38;
  const root = svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": words,
    tabindex: focus ? 0 : null });
  const toX = linear(x, [LEFT, WIDTH - RIGHT]);
  const toY = linear(y, [bottom, TOP + 6]);
  for (const at of ticks(...y, 5)) {
    root.append(svg("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: toY(at), y2: toY(at) }),
      svg("text", { x: LEFT - 6, y: toY(at) + 4, "text-anchor": "end" }, told(at)));
  }
  for (const [at, text] of xTicks ?? ticks(...x, 6).map((number) => [number, told(number)])) {
    root.append(svg("line", { class: "grid", x1: toX(at), x2: toX(at), y1: TOP + 6, y2: bottom }),
      svg("text", { x: toX(at), y: bottom + 14, "text-anchor": "middle" }, text));
  }
  root.append(svg("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: bottom, y2: bottom }),
    svg("text", { class: "title", x: 0, y: 13 }, title),
    svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: bottom + 31, "text-anchor": "middle" }, xLabel),
    svg("text", { transform: `translate(11,${(TOP + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, yLabel));
  return { root, x: toX, y: toY, bottom };
}

/** Return a path through points, broken where one is missing. */
function path(points) {
  let pen = "M";
  let drawn = "";
  for (const [x, y] of points) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) pen = "M";
    else {
      drawn += `${pen}${x.toFixed(1)},${y.toFixed(1)}`;
      pen = "L";
    }
  }
  return drawn;
}

/** Return a chart of one line a method over a shared grid, with a band of one standard error and values on hover. */
function lineChart({ title, words, grid, lines, xLabel, yLabel }) {
  const present = lines.map((line, method) => ({ ...line, method })).filter((line) => line.mean);
  const ends = present.flatMap(({ mean, stderr }) => mean.flatMap((at, place) =>
    at === null ? [] : [at - (stderr[place] ?? 0), at + (stderr[place] ?? 0)]));
  const chart = plot({ title, words: `${words} Arrow keys read the values.`, x: [grid[0], grid.at(-1)], y: extent(ends), xLabel,
    yLabel, focus: true });
  const at = (numbers) => grid.map((x, place) => [chart.x(x), numbers[place] === null ? NaN : chart.y(numbers[place])]);
  for (const { mean, stderr, method } of present) {
    const look = study.styles[method];
    const low = at(mean.map((number, place) => (number === null ? null : number - (stderr[place] ?? 0))));
    const high = at(mean.map((number, place) => (number === null ? null : number + (stderr[place] ?? 0))));
    const around = [...low, ...high.reverse()].filter(([, y]) => Number.isFinite(y));
    const every = Math.max(1, Math.floor(grid.length / 6));
    const marks = at(mean).filter(([, y], place) => place % every === 0 && Number.isFinite(y));
    chart.root.append(svg("g", { "data-method": method },
      svg("path", { class: "band", d: around.length ? `${path(around)}Z` : "", fill: look.color }),
      svg("path", { class: "line", d: path(at(mean)), stroke: look.color, "stroke-dasharray": look.dash }),
      ...marks.map(([x, y]) => mark(method, x, y, 6))));
  }
  readAlong(chart, grid, (place) => valueTable(present, place, `${told(grid[place])} % · ${yLabel.toLowerCase()}`));
  return chart.root;
}

/** Return a small table of the shown methods' values at one place of the grid, the largest first. */
function valueTable(lines, place, heading) {
  const rows = lines.filter(({ method, mean }) => !hidden.has(method) && mean[place] !== null)
    .sort((one, other) => other.mean[place] - one.mean[place])
    .map(({ method, mean, stderr }) => element("tr", {}, element("td", {}, swatch(method)),
      element("td", {}, study.methods[method]),
      element("td", {}, `${told(mean[place])} (${told(stderr[place])})`)));
  return [element("b", {}, heading), element("table", {}, element("tbody", {}, ...rows))];
}

/** Let the pointer and the arrow keys move a cursor over a chart's grid; `say` gives what the tip holds. */
function readAlong(chart, grid, say) {
  const { root } = chart;
  const cursor = svg("line", { class: "cursor off", y1: TOP + 6, y2: chart.bottom });
  root.append(cursor);
  let place = 0;
  const show = (index, pointer = null) => {
    place = Math.max(0, Math.min(grid.length - 1, index));
    const x = chart.x(grid[place]);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.classList.remove("off");
    const box = root.getBoundingClientRect();
    tip(...(pointer ?? [box.left + (x / WIDTH) * box.width, box.top + box.height / 3]), ...say(place));
  };
  const hide = () => {
    cursor.classList.add("off");
    untip();
  };
  root.addEventListener("pointermove", (event) => {
    const box = root.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * WIDTH;
    const far = grid.map((number) => Math.abs(chart.x(number) - x));
    show(far.indexOf(Math.min(...far)), [event.clientX, event.clientY]);
  });
  root.addEventListener("pointerleave", hide);
  root.addEventListener("blur", hide);
  root.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -grid.length, End: grid.length }[event.key];
    if (event.key === "Escape") hide();
    if (step === undefined) return;
    event.preventDefault();
    show(cursor.classList.contains("off") ? (step < 0 ? 0 : Math.max(0, place)) : place + step);
  });
}

/** Return a scatter of one point a method, standard errors as bars; x on a logarithm, from 0 where a method spent nothing. */
function scatter({ title, words, cost, metric }) {
  const spent = study.mean[cost.row];
  const quality = study.mean[metric.row];
  const present = study.methods.map((_, method) => method).filter((method) => spent[method] !== null && quality[method] !== null);
  const some = present.map((method) => spent[method]);
  const zero = some.some((number) => number <= 0);
  const toScale = (number) => (!zero ? Math.log10(number) : number < 1 ? number : 1 + Math.log10(number));
  const decades = zero ? [0, ...decadesOf(some.filter((n) => n >= 1), 1)] : decadesOf(some);
  const chart = plot({ title, words, height: 330, x: [toScale(decades[0]) - 0.1, toScale(decades.at(-1)) + 0.1],
    y: extent(present.flatMap((method) => [-1, 1].map((sign) => quality[method] + sign * (study.stderr[metric.row][method] ?? 0)))),
    xLabel: `${cost.title} per sample`, yLabel: metric.title, xTicks: decades.map((number) => [toScale(number), tens(number)]) });
  for (const method of present) {
    const [x, y] = [chart.x(toScale(spent[method])), chart.y(quality[method])];
    const error = study.stderr[metric.row][method] ?? 0;
    const text = `${study.methods[method]}\n${cost.title}: ${told(spent[method])} (${told(study.stderr[cost.row][method])})\n` +
      `${metric.title}: ${told(quality[method])} (${told(study.stderr[metric.row][method])})`;
    const point = svg("g", { "data-method": method, tabindex: 0, role: "img", "aria-label": text.replaceAll("\n", ", "),
      onpointermove: (event) => tip(event.clientX, event.clientY, text), onpointerleave: untip, onblur: untip,
      onfocus: () => {
        const box = point.getBoundingClientRect();
        tip(box.right, box.bottom, text);
      } },
    svg("line", { x1: x, x2: x, y1: chart.y(quality[method] - error), y2: chart.y(quality[method] + error),
      stroke: study.styles[method].color, "stroke-width": 1.2 }),
    svg("circle", { cx: x, cy: y, r: 9, fill: "transparent" }), mark(method, x, y, 9));
    chart.root.append(point);
  }
  return chart.root;
}

/** Return the powers of ten around positive numbers. */
function decadesOf(numbers, least = null) {
  const low = least === null ? Math.floor(Math.log10(Math.min(...numbers))) : Math.log10(least);
  const high = numbers.length ? Math.ceil(Math.log10(Math.max(...numbers))) : low;
  return Array.from({ length: Math.max(high, low + 1) - low + 1 }, (_, place) => 10 ** (low + place));
}

/** Return a power of ten as people write it. */
function tens(number) {
  return number === 0 || (number >= 0.001 && number <= 1e5) ? number.toLocaleString("en", { maximumFractionDigits: 3 })
    : number.toExponential(0);
}

/** Return each method's difference to the best one, with its interval and Holm's p. */
function differenceChart(metric, { best, rows }) {
  const height = 74 + 19 * rows.length;
  const bottom = height - 38;
  const left = 138;
  const right = WIDTH - 62;
  const words = `${metric.title}: difference of ${rows.length} methods to ${study.methods[best]}, with 95 % intervals. ` +
    rows.map((row) => `${study.methods[row.method]} ${told(row.difference, true)}, p ${told(row.p_holm)}`).join("; ");
  const root = svg("svg", { class: "plot", viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": words });
  const range = extent([0, ...rows.flatMap((row) => [row.low, row.high, row.difference]).filter((number) => number !== null)]);
  const x = linear(range, [left, right]);
  for (const at of ticks(...range, 4)) {
    root.append(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: TOP, y2: bottom }),
      svg("text", { x: x(at), y: bottom + 14, "text-anchor": "middle" }, told(at)));
  }
  root.append(svg("line", { class: "zero", x1: x(0), x2: x(0), y1: TOP, y2: bottom }),
    svg("text", { class: "title", x: 0, y: 13 }, `${metric.title} ${metric.up ? "↑" : "↓"}`),
    svg("text", { x: WIDTH, y: 13, "text-anchor": "end" }, "p (Holm)"),
    svg("text", { x: (left + right) / 2, y: bottom + 31, "text-anchor": "middle" }, `minus ${short(study.methods[best], 34)} (best)`));
  rows.forEach((row, place) => {
    const y = TOP + 14 + 19 * place;
    const look = study.styles[row.method];
    const text = `${study.methods[row.method]} minus ${study.methods[best]}\n${told(row.difference, true)}, 95 % interval ` +
      `${told(row.low, true)} to ${told(row.high, true)}\np ${told(row.p)}, after Holm ${told(row.p_holm)}; ${row.samples} samples`;
    root.append(svg("g", { "data-method": row.method,
      onpointermove: (event) => tip(event.clientX, event.clientY, text), onpointerleave: untip },
    svg("rect", { x: 0, y: y - 9, width: WIDTH, height: 19, fill: "transparent" }),
    svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, short(study.methods[row.method], 21)),
    row.low === null ? null : svg("line", { x1: x(row.low), x2: x(row.high), y1: y, y2: y, stroke: look.color, "stroke-width": 2 }),
    row.difference === null ? null : mark(row.method, x(row.difference), y, 8),
    svg("text", { x: WIDTH, y: y + 4, "text-anchor": "end", "font-weight": row.p_holm !== null && row.p_holm < 0.05 ? 700 : 400 },
      row.p_holm !== null && row.p_holm < 0.001 ? "<0.001" : told(row.p_holm))));
  });
  return root;
}

/** Return a name cut to so many characters. */
function short(name, length) {
  return name.length > length ? `${name.slice(0, length - 1)}…` : name;
}
