"use strict";

// What the page is built of: texts of numbers and times, lines of rates, and tables. All texts are
// set as text: a tunnel's name may have any characters.

// Rates that a line shows, a second each.
const KEPT = 60;
// Without an answer for so long, a line begins again: it would show a time that is not there.
const GAP_MS = 5000;

const SIGNS = { up: ["●", "good"], silent: ["◐", "warn"], negotiating: ["◌", "warn"], removed: ["○", ""] };

const byId = (id) => document.getElementById(id);

// Texts.

const or = (value, text) => (value === null || value === undefined ? "–" : text(value));

// As `convoy show`: four digits, or three with a prefix.
function scaled(count) {
  const prefixes = ["", "k", "M", "G", "T", "P", "E"];
  let rest = count;
  let at = 0;
  while (at + 1 < prefixes.length && rest >= (at === 0 ? 9999.5 : 999.5)) {
    rest /= 1000;
    at += 1;
  }
  const digits = at === 0 || rest >= 99.95 ? 0 : rest >= 9.995 ? 1 : 2;
  return [rest.toFixed(digits), prefixes[at]];
}

const short = (count) => scaled(count).join("");

// A count with its noun: 1 worker, 2 workers.
function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

function rate(count, unit) {
  const [digits, prefix] = scaled(count);
  return `${digits} ${prefix}${unit}`;
}

function span(seconds) {
  const units = [[1, "s"], [60, "min"], [3600, "h"]];
  const [size, name] = units.find(([unit]) => seconds < 100 * unit) || [86400, "days"];
  return Math.max(0, Math.floor(seconds / size)) + " " + name;
}

// The time of day here, with the date if that is another one.
function clock(date) {
  const two = (number) => String(number).padStart(2, "0");
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
  if (date.toDateString() === new Date().toDateString()) return time;
  return [date.getFullYear(), two(date.getMonth() + 1), two(date.getDate())].join("-") + " " + time;
}

const micros = (ns) => (ns / 1000).toFixed(ns < 100000 ? 1 : 0) + " µs";

// Elements.

function element(name, className, parent) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (parent) parent.append(made);
  return made;
}

// Leaves an element alone that has the text already: a selection in it stays.
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function show(id, text) {
  const node = byId(id);
  say(node, text);
  node.hidden = text === "";
}

// A line with the rates of one or two directions.
class Line {
  constructor(parent, ways) {
    const svg = "http://www.w3.org/2000/svg";
    this.box = document.createElementNS(svg, "svg");
    this.box.setAttribute("class", "line");
    this.box.setAttribute("viewBox", `0 0 ${KEPT - 1} 20`);
    this.box.setAttribute("preserveAspectRatio", "none");
    this.box.setAttribute("role", "img");
    this.paths = ways.map((way) => {
      const path = document.createElementNS(svg, "path");
      path.setAttribute("class", way);
      this.box.append(path);
      return path;
    });
    parent.append(this.box);
  }

  // `history` has a list of rates for each direction, the newest last.
  draw(history) {
    const peak = Math.max(0, ...history.flat());
    const x = (at, length) => KEPT - length + at;
    const y = (value) => (19 - 18 * (value / (peak || 1))).toFixed(1);
    const steps = (rates) => rates.map((value, at) => `${at ? "L" : "M"}${x(at, rates.length)} ${y(value)}`);
    this.paths.forEach((path, at) => path.setAttribute("d", steps(history[at]).join("")));
    this.box.setAttribute("aria-label", `peak ${rate(peak, "bit/s")} in the last ${history[0].length} s`);
  }
}

// Rates in the past.
class History {
  constructor(ways) {
    this.ways = Array.from({ length: ways }, () => []);
    this.at = 0;
  }

  add(...rates) {
    const now = performance.now();
    if (now - this.at > GAP_MS) this.ways.forEach((way) => way.splice(0));
    this.at = now;
    this.ways.forEach((way, at) => {
      way.push(rates[at]);
      if (way.length > KEPT) way.shift();
    });
  }
}

// Tables. A column has a label, and either a text or how its cell is made and filled.

class Table {
  constructor(id, columns) {
    this.table = byId(id);
    this.columns = columns;
    const row = element("tr", "", this.table.tHead);
    this.heads = columns.map((column) => {
      const head = element("th", column.className, row);
      head.scope = "col";
      const label = column.sort ? element("button", "", head) : head;
      say(label, column.label);
      if (column.sort) {
        label.type = "button";
        label.addEventListener("click", () => sortBy(column.sort));
      }
      return head;
    });
    // Blocks on a phone would else be no table for a screen reader.
    this.table.setAttribute("role", "table");
  }

  draw(rows) {
    const body = this.table.tBodies[0];
    while (body.rows.length > rows.length) body.lastChild.remove();
    while (body.rows.length < rows.length) this.addRow(body);
    rows.forEach((row, at) => {
      const { parts } = body.rows[at];
      this.columns.forEach((column, place) => column.fill(parts[place], row));
    });
  }

  addRow(body) {
    const row = element("tr", "", body);
    row.setAttribute("role", "row");
    row.parts = this.columns.map((column, at) => {
      const cell = element(at === 0 ? "th" : "td", column.className, row);
      cell.setAttribute("role", at === 0 ? "rowheader" : "cell");
      if (at === 0) cell.scope = "row";
      else cell.dataset.label = column.label;
      return column.make(element("div", "", cell));
    });
  }
}

const plain = (label, text, more) => ({
  label,
  make: (cell) => cell,
  fill: (cell, row) => say(cell, text(row)),
  ...more,
});
const number = (label, text, more) => plain(label, text, { className: "number", ...more });

// A cell with a second line under it.
const twoLines = (label, first, second, more) => ({
  label,
  make: (cell) => [element("span", "", cell), element("span", "second", cell)],
  fill: ([one, two], row) => {
    say(one, first(row));
    say(two, second(row));
    two.hidden = two.textContent === "";
  },
  ...more,
});

// A word with its sign and, below, since when and why.
const stateColumn = (label, state, why, more) => ({
  label,
  className: "wide",
  make: (cell) => [element("span", "word", cell), element("span", "second", cell)],
  fill: ([word, reason], row) => {
    const name = state(row);
    const [sign, tone] = SIGNS[name] || ["▲", "bad"];
    word.className = `word ${tone}`;
    say(word, `${sign} ${name.replace("-", " ")}`);
    say(reason, why(row));
  },
  ...more,
});
