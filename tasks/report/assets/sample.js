// One sample: its tokens with every method's numbers, gamma, a token that moves, sets, text and images.

const parsed = new Map();

/** Return a sample with its numbers decoded; it is read when it is first looked at. */
function sampleAt(index) {
  if (!parsed.has(index)) {
    const raw = JSON.parse(document.getElementById(`sample-${index}`).textContent);
    for (const view of raw.views.filter(Boolean)) {
      view.value = decoded(view.value, Float32Array);
      view.position = view.position && decoded(view.position, Float32Array);
    }
    for (const moved of raw.moved) moved.outputs = decoded(moved.outputs, Float32Array);
    parsed.set(index, raw);
  }
  return parsed.get(index);
}

function drawSamples(place) {
  const body = element("div", { class: "sample" });
  const select = choice("Sample", study.samples.map(({ text }, index) => [index, `${index + 1}. ${text}`]), 0, (index) => show(+index));
  const box = select.querySelector("select");
  const step = (by) => element("button", { type: "button", class: "plain", onclick: () => show(+box.value + by) }, by < 0 ? "← Previous" : "Next →");
  const steps = [step(-1), step(1)];
  const show = (index) => {
    box.value = index;
    steps[0].disabled = index === 0;
    steps[1].disabled = index === study.samples.length - 1;
    drawSample(body, sampleAt(index), null);
  };
  if (study.samples.length > 1) place.append(element("div", { class: "controls" }, select, ...steps));
  place.append(legend(), body);
  show(0);
}

/** Draw a sample with one method's numbers as bars; the sample's main method where none is named. */
function drawSample(body, sample, method) {
  const main = method ?? sample.main;
  body.replaceChildren(element("p", { class: "facts" }, element("b", {}, `Sample ${sample.sample.slice(0, 8)}: ${sample.headline}`),
    element("span", {}, `${sample.names.length} ${sample.player}s`)));
  if (main === null || !sample.names.length) {
    body.append(element("p", {}, "Nothing to explain: the sample is empty."));
    return;
  }
  const view = sample.views[main];
  const chosen = { token: null, follow: [] };
  const choose = (token) => {
    chosen.token = token;
    for (const follow of chosen.follow) follow(token);
  };
  const own = study.methods.map((name, place) => [place, name]).filter(([place]) => sample.views[place]);
  body.append(element("div", { class: "controls" },
    choice(sample.image ? "Strongest by" : "Bars, gamma and sets by", own, main, (value) => {
      drawSample(body, sample, +value);
      body.querySelector("select").focus();
    })));
  if (sample.image) body.append(...overlays(sample));
  else {
    if (sample.text) body.append(...colouredText(sample));
    if (sample.moved.length) body.append(movingToken(sample, view, chosen, choose));
    body.append(...tokenTable(sample, main, chosen, choose));
    if (view.matrix) body.append(...heatMap(sample, main, chosen, choose));
  }
  if (view.sets?.length) body.append(...topSets(sample, main));
  showMethods(body);
}

/** Return a number as a bar to the left or right of the middle, with its digits. */
function bar(number, most) {
  const share = most > 0 && Number.isFinite(number) ? number / most : 0;
  return element("td", { class: "bar" },
    svg("svg", { viewBox: "-50 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("line", { x1: 0, x2: 0, y1: 0, y2: 12, stroke: "#767676" }),
      svg("rect", { x: Math.min(0, 48 * share), width: Math.abs(48 * share), y: 2, height: 8, fill: share < 0 ? rgb(stops[3]) : rgb(stops.at(-4)) })),
    element("span", {}, told(number, true)));
}

/** Return the sequence as a table: hour, event, bars of one method, a coloured cell for every method. */
function tokenTable(sample, main, chosen, choose) {
  const { value, position } = sample.views[main];
  const parts = position ? [["Value importance", value], ["Position importance, per slot", position]] : [["Attribution", value]];
  const shades = sample.views.flatMap((view, method) => !view ? [] : [
    { method, name: `${view.position ? "VI " : ""}${study.methods[method]}`, numbers: view.value },
    ...(view.position ? [{ method, name: `PI ${study.methods[method]}`, numbers: view.position }] : [])]);
  for (const shade of shades) shade.most = reach(shade.numbers);
  const head = element("tr", {}, element("th", { scope: "col" }, "Slot"), sample.hours ? element("th", { scope: "col" }, "Hour") : null,
    element("th", { scope: "col", class: "name" }, sample.player[0].toUpperCase() + sample.player.slice(1)), ...parts.map(([name]) => element("th", { scope: "col" }, name)),
    ...shades.map(({ method, name }) => element("th", { scope: "col", class: "turned", "data-method": method, title: name }, element("span", {}, short(name, 26)))));
  const most = parts.map(([, numbers]) => reach(numbers));
  const rows = sample.names.map((name, token) => element("tr", { "data-token": token },
    element("td", {}, String(token + 1)), sample.hours ? element("td", {}, sample.hours[token].toFixed(1)) : null,
    element("td", { class: "name", title: name }, element("button", { type: "button", onclick: () => choose(token) }, name)),
    ...parts.map(([, numbers], part) => bar(numbers[token], most[part])),
    ...shades.map(({ method, name: column, numbers, most: top }) => {
      const text = `${column}: ${told(numbers[token], true)}`;
      const colour = rgb(diverging(Number.isFinite(numbers[token]) ? (top > 0 ? numbers[token] / top : 0) : NaN));
      return element("td", { class: "shade", "data-method": method, title: text }, element("span", { style: { background: colour }, role: "img", "aria-label": text }));
    })));
  chosen.follow.push((token) => rows.forEach((row, place) => row.classList.toggle("chosen", place === token)));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  return [element("h3", {}, `${sample.hours ? "The sequence, " : ""}${sample.player} by ${sample.player}`),
    element("p", {}, `Bars: ${study.methods[main]}; orange speaks for ${sample.about}, purple against it` +
      (position ? `; positive position importance: the later the ${sample.player}, the more it speaks for it` : "") +
      ". Coloured cells: every method, each column by its own largest magnitude."),
    element("div", { class: "tokens", tabindex: 0, role: "group", "aria-label": `Table of ${sample.player}s` }, table)];
}

/** Return a text with each word on its colour, once a method. */
function colouredText(sample) {
  const shown = sample.views.flatMap((view, method) => !view ? [] : [element("div", { class: "text", "data-method": method },
    element("h3", {}, study.methods[method]), element("p", {}, ...words(sample.names, view.value)))]);
  return [element("p", {}, "Orange speaks for the explained class, purple (underlined) against it; each method by its largest magnitude."), ...shown];
}

function words(names, numbers) {
  const most = reach(numbers);
  return names.flatMap((name, place) => {
    const back = diverging(Number.isFinite(numbers[place]) ? (most > 0 ? numbers[place] / most : 0) : NaN);
    return [element("mark", { class: numbers[place] < 0 ? "against" : "for", title: told(numbers[place], true),
      style: { background: rgb(back), color: ink(back) } }, name), " "];
  });
}

/** Return an image, and each method's attribution laid over it: the stronger, the less of the image is seen. */
function overlays(sample) {
  const [rows, columns, channels = 1] = sample.image.shape;
  const bytes = decoded(sample.image.bytes, Uint8Array);
  const pixel = (place) => (channels === 3 ? [...bytes.slice(3 * place, 3 * place + 3)] : Array(3).fill(bytes[place]));
  const grey = (place) => pixel(place).reduce((sum, channel, at) => sum + channel * [0.2126, 0.7152, 0.0722][at], 0);
  const drawing = (colour, words, method = null) => {
    const canvas = element("canvas", { width: columns, height: rows, role: "img", "aria-label": words });
    paint(canvas, rows, columns, colour);
    return element("figure", { "data-method": method }, canvas, element("figcaption", {}, words));
  };
  const laid = sample.views.flatMap((view, method) => {
    if (!view) return [];
    const most = reach(view.value);
    return [drawing((place) => {
      const share = most > 0 && Number.isFinite(view.value[place]) ? view.value[place] / most : 0;
      const over = diverging(share);
      const under = 89 + 0.65 * grey(place);
      return over.map((channel) => Math.round(Math.abs(share) * channel + (1 - Math.abs(share)) * under));
    }, study.methods[method], method)];
  });
  return [element("p", {}, "Orange speaks for the explained class, purple against it; each method by its largest magnitude."),
    element("div", { class: "overlays" }, drawing(pixel, "The image"), ...laid)];
}

/** Fill a canvas pixel by pixel. */
function paint(canvas, rows, columns, colour) {
  const context = canvas.getContext("2d");
  const picture = context.createImageData(columns, rows);
  for (let place = 0; place < rows * columns; place += 1) picture.data.set([...colour(place), 255], 4 * place);
  context.putImageData(picture, 0, 0);
}

/** Return the sets with the largest values, by size, as bars. */
function topSets(sample, main) {
  const { sets } = sample.views[main];
  const most = reach(sets.map(({ value }) => value));
  const rows = sets.map(({ set, value, stderr }) => element("tr", {},
    element("td", { class: "name" }, set.map((player) => `${sample.names[player]} (${player + 1})`).join(" + ")), bar(value, most),
    element("td", {}, stderr === null ? "–" : told(stderr))));
  return [element("h3", {}, `Sets of ${sample.player}s that matter together`),
    element("p", {}, `${study.methods[main]}: the sets with the largest magnitudes of each size; in parentheses each ${sample.player}'s slot.`),
    element("div", { class: "tokens", tabindex: 0, role: "group", "aria-label": "Table of sets" }, element("table", {}, element("thead", {}, element("tr", {},
      ...["Set", "Value", "Standard error"].map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, ...rows)))];
}
