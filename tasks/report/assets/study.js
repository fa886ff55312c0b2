// The charts of a study: differences, curves, cost, the model.

function figure(drawing, caption) {
  return element("figure", {}, drawing, caption ? element("figcaption", {}, caption) : null);
}

function drawDifferences(place) {
  const cards = study.metrics.filter(({ name }) => study.differences[name])
    .map((metric) => figure(differenceChart(metric, study.differences[metric.name]), ""));
  place.append(legend(), element("div", { class: "cards" }, ...cards));
}

function drawCurves(place) {
  const cards = study.metrics.filter(({ name }) => study.curves[name]).map((metric) => figure(lineChart({
    title: `${metric.title} ${metric.up ? "↑" : "↓"}`,
    words: study.words[`curve_${metric.name}`],
    grid: study.curves[metric.name].percent,
    lines: study.curves[metric.name].lines.map((line) => line ?? {}),
    xLabel: metric.share,
    yLabel: "Mean over samples",
  }), metric.meaning));
  place.append(legend(), element("div", { class: "cards" }, ...cards),
    element("p", { class: "lead" }, "Bands: one standard error over samples."));
}

function drawCost(place) {
  const cards = element("div", { class: "cards" });
  const draw = (chosen) => {
    const row = +chosen;
    const metric = { ...study.metrics[row], row };
    cards.replaceChildren(...study.costs.map((cost) => figure(scatter({
      title: `${metric.title} ${metric.up ? "↑" : "↓"} against ${cost.title.toLowerCase()}`,
      words: `Scatter of ${metric.title} against ${cost.title.toLowerCase()} per sample, one point a method.`,
      cost, metric,
    }), "")));
    showMethods(cards);
  };
  place.append(element("div", { class: "controls" },
    choice("Quality", study.metrics.map(({ title }, row) => [row, title]), 0, draw)), legend(), cards,
  element("p", { class: "lead" }, "Bars: one standard error. Left is cheaper; the arrow says which way the score is better."));
  draw(0);
}

function drawModel(place) {
  const { calibration, history } = study.model;
  const cards = element("div", { class: "cards" });
  if (calibration.predicted?.length) cards.append(figure(reliability(calibration),
    "Samples of the test part in bins of predicted probability (of class 1; of more than two classes, of the likeliest one); bars: 95 % intervals of the observed share. On the dashed line predictions mean what they say."));
  if (history.epoch?.length > 1) cards.append(figure(training(history), "Solid: training loss; dashed: validation loss, which stops the training."));
  place.append(cards);
}

/** Return the observed share of class 1 against the predicted one. */
function reliability({ predicted, observed, observed_low: low, observed_high: high, samples }) {
  const chart = plot({ title: "Calibration", x: [0, 1], y: [0, 1], xLabel: "Predicted probability", yLabel: "Observed share",
    words: "Calibration: " + predicted.map((p, bin) => `${samples[bin]} samples predicted ${told(p)}, observed ${told(observed[bin])}`).join("; ") });
  chart.root.append(svg("line", { class: "zero", x1: chart.x(0), y1: chart.y(0), x2: chart.x(1), y2: chart.y(1) }));
  predicted.forEach((p, bin) => {
    if (p === null || observed[bin] === null) return;
    const text = `${samples[bin]} samples\npredicted ${told(p)}\nobserved ${told(observed[bin])} (${told(low[bin])} to ${told(high[bin])})`;
    chart.root.append(svg("g", { onpointermove: (event) => tip(event.clientX, event.clientY, text), onpointerleave: untip },
      low[bin] === null ? null : svg("line", { x1: chart.x(p), x2: chart.x(p), y1: chart.y(low[bin]), y2: chart.y(high[bin]), stroke: "#0072B2", "stroke-width": 1.5 }),
      svg("circle", { cx: chart.x(p), cy: chart.y(observed[bin]), r: 5, fill: "#0072B2" })));
  });
  return chart.root;
}

/** Return the losses over the epochs. */
function training({ epoch, train_loss: train, validation_loss: validation }) {
  const chart = plot({ title: "Training", x: extent(epoch, 0.02), y: extent([...train, ...validation].filter((n) => n !== null)),
    xLabel: "Epoch", yLabel: "Weighted loss", words: "Line chart of the training and validation loss over the epochs." });
  const through = (numbers) => path(epoch.map((x, place) => [chart.x(x), numbers[place] === null ? NaN : chart.y(numbers[place])]));
  chart.root.append(svg("path", { class: "line", d: through(train), stroke: "#0072B2" }),
    svg("path", { class: "line", d: through(validation), stroke: "#D55E00", "stroke-dasharray": "6 3" }));
  readAlong(chart, epoch, (place) => [`Epoch ${epoch[place]}\ntraining ${told(train[place])}\nvalidation ${told(validation[place])}`]);
  return chart.root;
}
