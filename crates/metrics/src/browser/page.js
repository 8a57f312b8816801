// Asks the gateway once a second for the rows that are on the screen, and draws its answer.

const POLL_MS = 1000;
// Without an answer for so long, the page says so: a gateway that hangs is on the screen within 2 s.
// One whose answers take long is given more time, and is asked less often.
const LATE_MS = 1700;
const late = () => Math.max(LATE_MS, 3 * took);
const pause = () => Math.max(POLL_MS - took, took, 100);
const GIVE_UP_MS = 3000;
// Tunnels on a page.
const ROWS = 50;
const ROWS_ON_A_PHONE = 20;
// Tunnels whose rates are kept.
const HISTORIES = 500;
const NOT_LOST = ["keepalive", "dummy", "icmp_error"];

const controls = { filter: byId("filter"), state: byId("state"), sort: byId("sort"), reverse: byId("reverse") };
let page = 1;
let version = null;
let started = null;
let answered = null;
let heard = performance.now();
let took = 0;
let isAsking = false;
let isOutdated = false;
let failure = "";
let timer = 0;

const totals = { in: new History(1), out: new History(1) };
const totalLines = { in: new Line(byId("in-line"), ["in"]), out: new Line(byId("out-line"), ["out"]) };
const histories = new Map();

function historyOf(row) {
  const key = JSON.stringify([row.tunnel, row.tunnel_id]);
  const history = histories.get(key) || new History(2);
  histories.delete(key);
  histories.set(key, history);
  if (histories.size > HISTORIES) histories.delete(histories.keys().next().value);
  return history;
}

function prediction(engine) {
  if (engine.predicted_ns === null || engine.measured_ns === null) return "–";
  const percent = Math.round(100 * (engine.measured_ns / Math.max(engine.predicted_ns, 1) - 1));
  return (percent > 0 ? "+" : "") + percent + " %";
}

function since(row) {
  const time = row.since_s === null ? "" : `since ${clock(new Date(row.since_s * 1000))}`;
  return [time, row.why].filter(Boolean).join(": ");
}

const lineColumn = {
  label: "Last minute",
  make: (cell) => new Line(cell, ["in", "out"]),
  fill: (line, row) => line.draw(historyOf(row).ways),
};

const bits = (flow) => or(flow.bits_per_s, (value) => rate(value, "bit/s"));
const packets = (flow) => or(flow.packets_per_s, (value) => rate(value, "pkt/s"));

const tunnels = new Table("tunnels", [
  twoLines("Tunnel", (row) => row.tunnel, (row) => row.peer, { sort: "name" }),
  stateColumn("State", (row) => row.state, since, { sort: "state" }),
  twoLines("In", (row) => bits(row.in), (row) => packets(row.in), { className: "number", sort: "in" }),
  twoLines("Out", (row) => bits(row.out), (row) => packets(row.out), { className: "number", sort: "out" }),
  { ...lineColumn, sort: "rate" },
  number("Round trip", (row) => or(row.round_trip_s, (value) => `${(value * 1000).toFixed(1)} ms`), { sort: "round-trip" }),
  twoLines("Dropped", (row) => or(row.dropped_per_s, (value) => rate(value, "pkt/s")), (row) => `${short(row.dropped)} in all`, {
    className: "number",
    sort: "dropped",
  }),
  number("Heard", (row) => or(row.heard_s, (value) => `${span(value)} ago`), { sort: "heard" }),
]);

const engines = new Table("engines", [
  twoLines("Engine", (row) => row.name, (row) => `worker ${row.worker}${row.is_model ? ", modelled timing" : ""}`),
  stateColumn("State", (row) => (row.down ? "down" : "up"), (row) => row.down),
  number("Queue", (row) => counted(row.queued, "train")),
  number("Packets", (row) => or(row.packets_per_s, (value) => rate(value, "pkt/s"))),
  number("Packets per train", (row) => or(row.packets_per_train, (value) => value.toFixed(1))),
  number("Predicted", (row) => or(row.predicted_ns, micros)),
  number("Measured", (row) => or(row.measured_ns, micros)),
  number("Difference", prediction),
]);

const drops = new Table("drops", [
  plain("Reason", (row) => row.reason),
  number("Now", (row) => or(row.packets_per_s, (value) => rate(value, "pkt/s"))),
  number("In all", (row) => short(row.packets)),
  plain("What it means, and what to do", (row) => row.meaning, { className: "wide prose" }),
]);

const members = new Table("members", [
  plain("Member", (row) => row.name),
  plain("State", (row) => (row.is_draining ? "draining" : "serving")),
  number("Priority", (row) => String(row.priority)),
  plain("Leads", (row) => row.leads.join(", ") || "nothing"),
]);

const groups = new Table("groups", [
  plain("Group", (row) => row.name),
  plain("Leader", (row) => row.leader || "none"),
  plain("Here", (row) => (row.is_led ? "leads it" : "stands by")),
  number("SAs", (row) => (row.is_led ? short(row.sas) : "–")),
  number("Not yet in the store", (row) => (row.is_led ? short(row.waiting) : "–")),
  plain("Addresses", (row) => row.addresses.join(", ") || "–"),
]);

// Drawing an answer.

function drawHead(state) {
  say(byId("version"), state.version);
  const about = [`running for ${span(state.uptime_s)}`, counted(state.workers, "worker"), state.configuration];
  say(byId("about"), about.filter(Boolean).join(", "));
  const list = byId("warnings");
  list.hidden = state.warnings.length === 0;
  list.replaceChildren(...state.warnings.map((warning) => {
    const item = element("li");
    say(item, `▲ ${warning}`);
    return item;
  }));
}

function drawTiles(state) {
  const up = state.states.up || 0;
  say(byId("up"), `${up} of ${state.tunnels}`);
  const others = Object.entries(state.states).filter(([name]) => name !== "up");
  say(byId("states"), others.map(([name, count]) => `${count} ${name.replace("-", " ")}`).join(", "));
  for (const way of ["in", "out"]) {
    const flow = state[way];
    say(byId(`${way}-bits`), flow ? bits(flow) : "–");
    say(byId(`${way}-packets`), flow ? packets(flow) : "");
    if (flow) totals[way].add(flow.bits_per_s);
    totalLines[way].draw(totals[way].ways);
  }
  const lost = state.drops.filter((drop) => !NOT_LOST.includes(drop.reason));
  const sum = (of) => lost.reduce((all, drop) => all + of(drop), 0);
  say(byId("dropped"), state.in ? rate(sum((drop) => drop.packets_per_s), "pkt/s") : "–");
  say(byId("dropped-all"), `${short(sum((drop) => drop.packets))} since the start`);
  document.title = `convoy: ${up} of ${state.tunnels} up`;
}

function drawTunnels(state) {
  for (const row of state.rows) {
    if (row.in.bits_per_s !== null) historyOf(row).add(row.in.bits_per_s, row.out.bits_per_s);
  }
  tunnels.draw(state.rows);
  tunnels.heads.forEach((head, at) => {
    const isSorted = tunnels.columns[at].sort === controls.sort.value;
    if (!isSorted) head.removeAttribute("aria-sort");
    else head.setAttribute("aria-sort", (controls.sort.value === "name") === controls.reverse.checked ? "descending" : "ascending");
  });
  // Unless another one was chosen since this one was asked for.
  if (!isOutdated) page = state.page;
  const all = state.selected === state.tunnels ? "" : `, selected of ${state.tunnels}`;
  const last = state.first + state.rows.length;
  say(byId("place"), state.selected === 0 ? `none of ${state.tunnels}` : `${state.first + 1} to ${last} of ${state.selected}${all}`);
  byId("previous").disabled = page <= 1;
  byId("next").disabled = page >= state.pages;
}

function drawCluster(cluster) {
  byId("cluster").hidden = !cluster;
  if (!cluster) return;
  say(byId("cluster-name"), cluster.name);
  const lease = cluster.lease_left_s > 0 ? `${cluster.lease_left_s.toFixed(1)} s left` : "ended; this gateway sends and delivers nothing";
  const reached = cluster.is_store_reached ? "can be reached" : `cannot be reached: ${cluster.store_error || "not yet"}`;
  const facts = [
    `This gateway is ${cluster.member}${cluster.is_draining ? ", which is drained and leads nothing" : ""}.`,
    `Lease: ${lease}.`,
    `Store: ${cluster.store_fault ? `not trusted: ${cluster.store_fault}` : reached}.`,
    cluster.store_warning || "",
    cluster.is_alive ? "" : "▲ A part of this gateway does not answer; it leads nothing until all do.",
  ];
  byId("cluster-facts").replaceChildren(...facts.filter(Boolean).map((fact) => {
    const item = element("li");
    say(item, fact);
    return item;
  }));
  members.draw(cluster.members);
  groups.draw(cluster.groups);
  show("groups-more", cluster.groups_left_out ? `and ${counted(cluster.groups_left_out, "more group")}` : "");
}

function draw(state) {
  // Another version has a page of its own.
  version = version || state.version;
  if (state.version !== version) return location.reload();
  if (state.started_s !== started) {
    // Another run of the gateway: its counters began at 0.
    started = state.started_s;
    histories.clear();
    for (const way of ["in", "out"]) totals[way] = new History(1);
  }
  drawHead(state);
  drawTiles(state);
  drawTunnels(state);
  engines.draw(state.engines);
  show("engines-more", state.engines_left_out ? `and ${counted(state.engines_left_out, "more engine")}` : "");
  drops.draw(state.drops);
  byId("drops").hidden = state.drops.length === 0;
  byId("no-drops").hidden = state.drops.length > 0;
  drawCluster(state.cluster);
}

// Says plainly that the gateway does not answer, over its last state.
function drawSilence() {
  // A browser runs the timers of a page in the background seldom.
  const isLate = !document.hidden && performance.now() - heard > late();
  const isSilent = failure !== "" || isLate;
  document.body.classList.toggle("stale", isSilent);
  if (!isSilent) return show("silence", "");
  const since = answered ? `No answer since ${clock(answered)}: what is below was true then.` : "No answer yet.";
  show("silence", `▲ ${since} Trying again. ${failure}`.trim());
  document.title = "convoy: no answer";
}

// Asking.

function query() {
  const rows = matchMedia("(max-width: 46rem)").matches ? ROWS_ON_A_PHONE : ROWS;
  const asked = new URLSearchParams({ state: controls.state.value, sort: controls.sort.value, page, rows });
  if (controls.filter.value) asked.set("filter", controls.filter.value);
  if (controls.reverse.checked) asked.set("reverse", "true");
  return asked.toString();
}

async function ask() {
  const answer = await fetch(`status.json?${query()}`, { cache: "no-store", signal: AbortSignal.timeout(GIVE_UP_MS) });
  if (answer.status === 400) {
    show("refused", await answer.text());
    return null;
  }
  if (!answer.ok) throw new Error(`The gateway's server says: ${(await answer.text()).trim()}.`);
  show("refused", "");
  return answer.json();
}

async function poll() {
  const began = performance.now();
  isAsking = true;
  try {
    let state = null;
    try {
      state = await ask();
      [failure, answered, heard] = ["", new Date(), performance.now()];
      took = heard - began;
    } catch (error) {
      took = 0;
      failure = error.message.startsWith("The gateway") ? error.message : "It cannot be reached.";
    }
    isAsking = false;
    if (state) draw(state);
    drawSilence();
  } finally {
    // Also after an answer that cannot be drawn.
    timer = setTimeout(poll, isOutdated ? 0 : pause());
    isOutdated = false;
  }
}

// Asks for other rows at once, or right after the question that is under way.
function askNow() {
  isOutdated = isAsking;
  if (isAsking) return;
  clearTimeout(timer);
  poll();
}

function select() {
  page = 1;
  askNow();
}

function sortBy(sort) {
  controls.reverse.checked = controls.sort.value === sort && !controls.reverse.checked;
  controls.sort.value = sort;
  select();
}

function turn(pages) {
  page = Math.max(1, page + pages);
  askNow();
}

byId("controls").addEventListener("submit", (event) => event.preventDefault());
controls.filter.addEventListener("input", select);
for (const control of [controls.state, controls.sort, controls.reverse]) control.addEventListener("change", select);
byId("previous").addEventListener("click", () => turn(-1));
byId("next").addEventListener("click", () => turn(1));
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  heard = performance.now();
  askNow();
});
setInterval(drawSilence, 100);
poll();
