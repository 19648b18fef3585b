// The list of files: what is selected, and times as people near the browser's clock tell them.

const AGES = [
  [60, "second"],
  [60, "minute"],
  [24, "hour"],
];

// Times of which more than their age counts.
const LOOKS = {
  clock: (time) => time.toLocaleTimeString(),
  day: hourAndDay,
  moment: (time) => time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }),
};

// A list, or a count, that is gathered in steps.
const WALK_MILLIS = 2_000;
const ROWS_MAX = 1_000;

// Adds to a page what its list can do with scripts.
export function beginList() {
  tellTimes(document);
  // Pictures beyond those that a page may load at once.
  for (const image of document.querySelectorAll("img[data-src]")) image.src = image.dataset.src;
  const list = document.querySelector("form.list");
  if (list === null) return;
  const all = document.createElement("input");
  all.type = "checkbox";
  all.setAttribute("aria-label", "Select everything on this page");
  all.addEventListener("change", () => {
    for (const box of boxes(list)) box.checked = all.checked;
    tellSelection(list, all);
  });
  list.querySelector("th.box")?.append(all);
  list.addEventListener("change", () => tellSelection(list, all));
  // After the boxes are as they were.
  list.addEventListener("reset", () => setTimeout(() => tellSelection(list, all)));
  tellSelection(list, all);
  goOn(list, all).catch(() => {});
}

// Tells the times of a part of the page as the browser's clock has them.
export function tellTimes(part) {
  for (const time of part.querySelectorAll("time[datetime]")) tellTime(time);
  for (const field of part.querySelectorAll("input[data-utc]")) takeLocalTime(field);
}

// The keys of a list: "j" and "k" lead to the next row and to the previous one, "x" selects it or leaves it out.
export function pressInList(key) {
  const rows = Array.from(document.querySelectorAll(".files tbody tr"));
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  if (key === "x") rows[at]?.querySelector("input[type=checkbox]")?.click();
  const step = { j: 1, k: -1 }[key];
  if (step === undefined) return;
  const next = Math.min(Math.max(at + step, 0), rows.length - 1);
  rows[next]?.querySelector("td.name a")?.focus();
}

// A walk that takes long comes in steps: they follow one another for two seconds, or until there are a thousand rows.
async function goOn(list, all) {
  const begun = performance.now();
  for (;;) {
    const more = document.querySelector("#further > a[data-more]");
    const count = list.querySelectorAll("tbody tr").length;
    if (more === null || performance.now() - begun > WALK_MILLIS || count >= ROWS_MAX) return;
    const response = await fetch(more.href);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    // Another page is shown meanwhile, or the session has ended.
    if (!more.isConnected || !response.ok) return;
    list.querySelector("tbody").append(...page.querySelectorAll("form.list tbody tr"));
    const further = page.querySelector("#further > a[rel=next]");
    const found = document.querySelector(".found");
    if (further === null) more.remove();
    else {
      keepWayBack(further, more);
      more.replaceWith(further);
    }
    if (found !== null) found.textContent = `${list.querySelectorAll("tbody tr").length} found${further === null ? "" : " so far"}`;
    tellTimes(list);
    tellSelection(list, all);
  }
}

// A count that takes long comes in steps, too. One that is not finished by then says so.
export async function goOnCounting() {
  const shown = document.querySelector("[data-further]");
  if (shown === null) return;
  let { counted, further } = shown.dataset;
  const begun = performance.now();
  while (further !== null && performance.now() - begun < WALK_MILLIS) {
    const response = await fetch(further);
    // Another page is shown meanwhile, or the session has ended.
    if (!shown.isConnected || !response.ok) return;
    const step = await response.json();
    counted = Number(counted) + step.count;
    further = step.further;
    if (counted > 0) shown.textContent = further === null ? ` (${grouped(counted)})` : ` (more than ${grouped(counted)})`;
    else if (further === null) shown.textContent = "";
  }
}

// All steps are one page, so the way back from the next page leads to the first of them, as the link to the second step says.
function keepWayBack(link, second) {
  const address = new URL(link.href);
  address.searchParams.delete("back");
  for (const back of new URL(second.href).searchParams.getAll("back")) address.searchParams.append("back", back);
  link.href = address;
}

function boxes(list) {
  return Array.from(list.querySelectorAll("tbody input[type=checkbox]"));
}

function tellSelection(list, all) {
  const every = boxes(list);
  const selected = every.filter((box) => box.checked);
  all.checked = selected.length === every.length;
  all.indeterminate = selected.length > 0 && !all.checked;
  const hasFolders = selected.some((box) => box.dataset.bytes === undefined);
  const bytes = selected.reduce((sum, box) => sum + Number(box.dataset.bytes ?? 0), 0);
  const count = list.querySelector(".count");
  if (count !== null) count.textContent = `${selected.length} selected${hasFolders ? "" : `, ${size(bytes)}`}`;
}

// A number for people: its digits in groups of three, from five digits on.
export function grouped(number) {
  return number < 10_000 ? String(number) : number.toLocaleString("en").replaceAll(",", "\u202f");
}

// A number of bytes for people.
export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? bytes : bytes.toFixed(1)} ${units[unit]}`;
}

// A field for a time in UTC takes one of the browser's clock, which is sent in UTC.
function takeLocalTime(field) {
  const minutes = (time) => time.getTimezoneOffset() * 60_000;
  if (field.value !== "") {
    const time = new Date(`${field.value}Z`);
    field.value = new Date(time.getTime() - minutes(time)).toISOString().slice(0, 19);
  }
  delete field.dataset.utc;
  field.labels[0].firstElementChild.textContent = "Time";
  field.form.addEventListener("formdata", (event) => {
    const time = new Date(field.value);
    if (!Number.isNaN(time.getTime())) event.formData.set(field.name, time.toISOString().slice(0, 19));
  });
}

// "21:02 today", "21:02 yesterday", "21:02 tomorrow", or the date.
function hourAndDay(time) {
  const midnight = (day) => Date.UTC(day.getFullYear(), day.getMonth(), day.getDate());
  const days = (midnight(time) - midnight(new Date())) / 86_400_000;
  if (Math.abs(days) > 1) return time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  const day = new Intl.RelativeTimeFormat(document.documentElement.lang, { numeric: "auto" }).format(days, "day");
  return `${time.toLocaleTimeString(undefined, { timeStyle: "short" })} ${day}`;
}

function tellTime(shown) {
  const time = new Date(shown.dateTime);
  if (Number.isNaN(time.getTime())) return;
  const look = LOOKS[shown.dataset.look];
  if (look !== undefined) {
    shown.textContent = look(time);
    return;
  }
  let age = (Date.now() - time.getTime()) / 1000;
  const language = document.documentElement.lang;
  // Clocks differ a little. What is further ahead, such as the end of a key, is told by its date.
  for (const [length, unit] of age < -60 ? [] : AGES) {
    if (age < length) {
      shown.textContent = unit === "second" ? "just now" : new Intl.RelativeTimeFormat(language).format(-Math.floor(age), unit);
      return;
    }
    age /= length;
  }
  shown.textContent = time.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}
