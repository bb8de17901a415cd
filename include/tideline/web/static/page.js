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

  // Time of day in UTC as everywhere on the page; below it the day, where it is another one than before.
  const times = (chart, moments, column, space, step) => moments.map((moment, at) => {
    const [day, time] = new Date(moment * 1000).toISOString().split("T");
    const before = at && new Date(moments[at - 1] * 1000).toISOString().split("T")[0];
    if (step >= 86400) return day;
    return `${time.slice(0, step >= 60 ? 5 : 8)}${day === before ? "" : `\n${day}`}`;
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
            tzDate: (moment) => uPlot.tzDate(new Date(moment * 1000), "Etc/UTC"),
            axes: [{ ...axis, values: times, space: 80 }, { ...axis, size: 70 }],
            scales: { y: { range: (_, low, high) => [0, high || 1] } },
            series: [{}, { stroke: color("--accent"), width: 2, spanGaps: true, points: { show: points.at.length < 50 } }],
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

  // What stays on the page and is asked for again keeps what it shows when the answer is an error. The page is stale from then until the overview
  // has its next good answer, or on another page any part.
  const away = document.getElementById("away");
  const stale = (reason) => {
    const text = `${reason} This page shows what was true at the time above.`;
    if (away.textContent !== text) away.textContent = text; // else a screen reader says it again each time
    away.hidden = false;
  };
  const reason = ({ status, responseText }) => {
    if (status === 401 || status < 400) return "Your login to Airflow has ended. Log in again: then this page goes on by itself.";
    const said = new DOMParser().parseFromString(responseText, "text/html").querySelector(".banner");
    if (!said) return `The server answers with an error (${status}).`;
    const [title, ...lines] = [...said.children].map((line) => line.textContent.trim());
    return `${title}: ${lines.map((line) => line.replace(/[^.!?]$/, "$&.")).join(" ")}`;
  };
  const isLag = (target) => target.matches("td.lag");
  // A login page that follows instead of an answer is no answer either.
  const isGood = (target, { status, responseText }) => {
    const wanted = target.id === "overview" ? 'id="overview"' : isLag(target) ? 'class="lag' : "";
    return status < 400 && responseText.includes(wanted);
  };
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, xhr } = event.detail;
    if (isGood(target, xhr)) {
      // An answer brings three cells. An old one has three, of which the first has asked.
      while (isLag(target) && target.nextElementSibling?.matches(".lag")) target.nextElementSibling.remove();
    } else if (isLag(target) || target.id === "overview") {
      event.detail.shouldSwap = false;
      stale(reason(xhr));
      if (isLag(target)) noAnswer(target);
    }
  });
  document.addEventListener("htmx:sendError", (event) => {
    stale("Airflow does not answer.");
    if (isLag(event.target)) noAnswer(event.target);
    const waiting = event.target.querySelector(".loading");
    if (waiting) waiting.textContent = "Airflow did not answer. Load the page again.";
  });
  document.addEventListener("htmx:afterOnLoad", (event) => {
    const { target, xhr } = event.detail;
    if (!isGood(target, xhr) || (document.getElementById("overview") && target.id !== "overview")) return;
    away.hidden = true;
    const time = document.querySelector(".as-of time");
    const now = new Date().toISOString();
    time.dateTime = now;
    time.textContent = `${now.slice(0, 19).replace("T", " ")} UTC`;
  });
  document.addEventListener("htmx:load", (event) => draw(event.target));

  // Once every broker has answered, the overview is sorted by what they said: once for each time that it was asked for otherwise, because a question
  // that fails each time would be asked without end.
  let sorted = false;
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.target.id === "overview") sorted = event.detail.requestConfig.triggeringEvent?.type === "answered";
  });
  const sortOnce = () => {
    const overview = document.getElementById("overview");
    if (!overview?.dataset.asking || overview.querySelector(".lag[hx-get]:is(.loading, .old)")) return;
    if (sorted) delete overview.dataset.asking;
    else htmx.trigger(overview, "answered");
    sorted = true;
  };
  document.addEventListener("htmx:afterSettle", sortOnce);
  const noAnswer = (cell) => {
    cell.classList.remove("loading", "old");
    cell.classList.add("unreachable");
    cell.textContent = "no answer";
    sortOnce();
  };

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
