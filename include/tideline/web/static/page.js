// What the server cannot do: links out of Airflow's frame, charts, and a word when Airflow does not answer.
(() => {
  const airflow = document.body.dataset.airflow;

  // The frame may neither open windows nor navigate the page around it. But Airflow's own router, which is of the same
  // origin, follows its history.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-in-airflow]");
    if (!link || parent === self || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    parent.history.pushState({}, "", link.href);
    parent.dispatchEvent(new PopStateEvent("popstate", { state: {} }));
  });

  const draw = (root) => {
    for (const charts of root.querySelectorAll("[data-points]")) {
      const points = JSON.parse(charts.dataset.points);
      const style = getComputedStyle(document.documentElement);
      const color = (name) => style.getPropertyValue(name).trim();
      const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
      for (const chart of charts.querySelectorAll(".chart")) {
        chart.replaceChildren();
        new uPlot(
          {
            width: chart.clientWidth,
            height: 180,
            cursor: { show: false },
            legend: { show: false },
            axes: [axis, { ...axis, size: 70 }],
            scales: { y: { range: (_, low, high) => [0, high || 1] } },
            series: [{}, { stroke: color("--accent"), width: 2, points: { show: points.at.length < 50 } }],
          },
          [points.at, points[chart.dataset.series]],
          chart,
        );
      }
    }
  };
  const drawAll = () => draw(document);
  document.documentElement.addEventListener("themed", drawAll);
  addEventListener("resize", drawAll);

  // A part that was loaded; and the page as a whole, which is stale as long as Airflow does not answer.
  const away = document.getElementById("away");
  document.addEventListener("htmx:sendError", () => { away.hidden = false; });
  document.addEventListener("htmx:afterOnLoad", (event) => {
    away.hidden = true;
    const time = document.querySelector(".as-of time");
    const now = new Date().toISOString();
    time.dateTime = now;
    time.textContent = `${now.slice(0, 19).replace("T", " ")} UTC`;
  });
  document.addEventListener("htmx:load", (event) => draw(event.target));
  document.addEventListener("htmx:sendError", (event) => {
    const waiting = event.target.querySelector?.(".loading");
    if (waiting) waiting.textContent = "Airflow did not answer. Load the page again.";
  });

  // Once every broker has answered, the overview is sorted by what they said. Only once: a question that fails each time would be asked without end.
  let sorted = false;
  document.addEventListener("htmx:afterSettle", () => {
    const overview = document.getElementById("overview");
    if (sorted || !overview?.dataset.asking || overview.querySelector(".lag.loading")) return;
    sorted = true;
    htmx.trigger(overview, "answered");
  });

  // An anchor of a part that was not loaded yet.
  document.addEventListener("htmx:afterSettle", () => {
    const wanted = document.getElementById(location.hash.slice(1));
    if (wanted && scrollY === 0) wanted.scrollIntoView();
  }, { once: true });

  // The runs that write reserved batches are started with the rights of the person, through Airflow's own interface.
  const start = async (line) => {
    const { pipeline, batch, reason } = line.dataset;
    const answer = await fetch(`${airflow}/api/v2/dags/${encodeURIComponent(pipeline)}/dagRuns`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ logical_date: null, conf: { load: "a batch", batch_id: Number(batch), reason } }),
    });
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    const run = (await answer.json()).dag_run_id;
    const link = document.createElement("a");
    link.href = `${airflow}/dags/${encodeURIComponent(pipeline)}/runs/${encodeURIComponent(run)}`;
    link.dataset.inAirflow = "";
    link.textContent = `run ${run}`;
    const dag = await (await fetch(`${airflow}/api/v2/dags/${encodeURIComponent(pipeline)}`)).json();
    line.replaceChildren(`Batch ${batch} is written by `, link, dag.is_paused ? "; it waits, because the DAG is paused" : "");
  };
  document.addEventListener("htmx:load", (event) => {
    for (const line of event.target.querySelectorAll("[data-start-run]")) {
      start(line).catch((error) => { line.textContent = `Batch ${line.dataset.batch} is reserved, but no run was started: ${error.message}. Retry it on its page.`; });
    }
  });
})();
