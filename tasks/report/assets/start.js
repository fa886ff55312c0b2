// Fill the page's charts.

const drawings = { differences: drawDifferences, curves: drawCurves, cost: drawCost, model: drawModel, samples: drawSamples };

for (const place of document.querySelectorAll("[data-chart]")) drawings[place.dataset.chart](place);

// MLflow shows the page as a blob in a sandboxed frame, where a browser refuses to follow links to a place of the page.
if (location.protocol === "blob:") {
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const place = document.getElementById(link.hash.slice(1));
      place.tabIndex = -1;
      place.focus({ preventScroll: true });
      place.scrollIntoView();
    });
  }
}
