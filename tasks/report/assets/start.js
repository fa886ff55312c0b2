// Fill the page's charts.

const drawings = { differences: drawDifferences, curves: drawCurves, cost: drawCost, model: drawModel, samples: drawSamples };

for (const place of document.querySelectorAll("[data-chart]")) drawings[place.dataset.chart](place);
