// Uploads: a queue of files, each sent in one piece or in parts. Parts are sent again after failures, also after a restart of the server;
// the upload of a file that is chosen again goes on where it ended.

import { grouped, size } from "./list.js";

const MIB = 1024 * 1024;
const PART_BYTES = 8 * MIB;
const PARTS_MAX = 10_000;
const FILES_AT_ONCE = 3;
// Failures of one piece in a row: with the pauses between them, some ten minutes.
const TRIES = 25;
// Names that are tried for a file which is to stand beside another one: "notes (2).txt".
const NUMBER_MAX = 100;
// The pace is that of the last seconds.
const PACE_SAMPLES = 10;

const queue = [];
const active = new Set();
const failed = new Set();
// The lists of those that failed, by the reason.
const reasons = new Map();
const totals = { files: 0, bytes: 0, doneFiles: 0, doneBytes: 0 };
// While uploads rest, no further piece is sent. Those that are on their way get through.
let isResting = false;
const sleepers = [];
let samples = [];

export function isUploading() {
  return active.size > 0 || queue.length > 0;
}

// Uploads files into a folder; each has a path below it.
export function addFiles(folder, files) {
  for (const { file, path } of files) {
    const key = folder.prefix + path;
    queue.push({ ...folder, file, key, asked: key, number: 1, sent: 0, isCancelled: false, replaces: false, keepsBoth: false, request: null });
    totals.files += 1;
    totals.bytes += file.size;
  }
  startNext();
}

// The files in what was dropped, folders included.
export async function filesOf(transfer) {
  const entries = Array.from(transfer.items, (item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const files = [];
  for (const entry of entries) await collect(entry, files);
  return files;
}

async function collect(entry, files) {
  if (entry.isFile) {
    const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
    files.push({ file, path: entry.fullPath.replace(/^\//, "") });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    // A reader hands out some entries at a time.
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const child of some) await collect(child, files);
  }
}

function startNext() {
  while (!isResting && active.size < FILES_AT_ONCE && queue.length > 0) run(queue.shift());
  render();
}

async function run(upload) {
  active.add(upload);
  upload.line = lineOf(upload);
  try {
    if (upload.file.size <= PART_BYTES) await sendWhole(upload);
    else await sendParts(upload);
    totals.doneFiles += 1;
    totals.doneBytes += upload.file.size;
    upload.line.remove();
  } catch (error) {
    const isThere = error.status === 412;
    if (isThere && upload.keepsBoth && upload.number < NUMBER_MAX) renumber(upload);
    else fail(upload, upload.isCancelled ? "cancelled" : messageOf(error), isThere);
  }
  active.delete(upload);
  if (!isUploading()) document.dispatchEvent(new CustomEvent("uploaded", { detail: upload }));
  startNext();
}

// Keeps the object that is there, unless its replacement was confirmed.
function condition(upload) {
  return upload.replaces ? {} : { "if-none-match": "*" };
}

async function sendWhole(upload) {
  const headers = { ...condition(upload), ...(await checksumOf(upload.file)) };
  if (upload.file.type !== "") headers["content-type"] = upload.file.type;
  await persist(upload, () => send(upload, "PUT", {}, headers, upload.file));
}

async function sendParts(upload) {
  const { file } = upload;
  // The condition counts at the end: nobody should wait for that where the object is there already.
  if (!upload.replaces) await refuseIfThere(upload);
  const partBytes = Math.max(PART_BYTES, Math.ceil(file.size / PARTS_MAX / MIB) * MIB);
  const known = await resume(upload);
  const parts = known ?? new Map();
  if (known === null) await create(upload);
  const count = Math.ceil(file.size / partBytes);
  for (let number = 1; number <= count; number += 1) {
    const piece = file.slice((number - 1) * partBytes, number * partBytes);
    upload.sent = (number - 1) * partBytes;
    if (parts.get(number)?.size === piece.size) continue;
    const query = { partNumber: number, uploadId: upload.id };
    const headers = await checksumOf(piece);
    const response = await persist(upload, () => send(upload, "PUT", query, headers, piece));
    parts.set(number, { etag: response.getResponseHeader("etag"), size: piece.size });
  }
  const listed = Array.from({ length: count }, (_, at) => {
    return `<Part><PartNumber>${at + 1}</PartNumber><ETag>${parts.get(at + 1).etag}</ETag></Part>`;
  });
  const body = `<CompleteMultipartUpload>${listed.join("")}</CompleteMultipartUpload>`;
  const done = await persist(upload, () => send(upload, "POST", { uploadId: upload.id }, condition(upload), body));
  // The response may have begun before the outcome was known.
  const refusal = parse(done)?.querySelector("Error > Message") ?? null;
  forget(upload);
  if (refusal !== null) throw new Error(refusal.textContent);
}

async function refuseIfThere(upload) {
  try {
    await persist(upload, () => send(upload, "HEAD", {}, {}, null));
  } catch (error) {
    // Without the permission to look, the end of the upload decides.
    if (error.status === 404 || error.status === 403 || error.status === 405) return;
    throw error;
  }
  throw Object.assign(new Error("There is an object of this name."), { status: 412 });
}

async function create(upload) {
  const headers = upload.file.type === "" ? {} : { "content-type": upload.file.type };
  const response = await persist(upload, () => send(upload, "POST", { uploads: "" }, headers, ""));
  upload.id = parse(response).querySelector("UploadId").textContent;
  const { size, lastModified } = upload.file;
  localStorage.setItem(memory(upload), JSON.stringify({ id: upload.id, size, lastModified }));
}

// The parts that an earlier upload of the same file has already; null if there was none.
async function resume(upload) {
  const known = JSON.parse(localStorage.getItem(memory(upload)) ?? "null");
  const { size, lastModified } = upload.file;
  if (known?.size !== size || known.lastModified !== lastModified) return null;
  upload.id = known.id;
  const parts = new Map();
  let marker = 0;
  for (;;) {
    const query = { uploadId: upload.id, "part-number-marker": marker };
    let page;
    try {
      page = parse(await persist(upload, () => send(upload, "GET", query, {}, null)));
    } catch (error) {
      if (error.status !== 404) throw error;
      forget(upload);
      return null;
    }
    for (const part of page.querySelectorAll("Part")) {
      const text = (name) => part.querySelector(name).textContent;
      marker = Number(text("PartNumber"));
      parts.set(marker, { etag: text("ETag"), size: Number(text("Size")) });
    }
    if (page.querySelector("IsTruncated")?.textContent !== "true") return parts;
  }
}

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

// The header with the CRC-32 of a piece: a bucket with a default retention takes nothing without a checksum.
async function checksumOf(piece) {
  let crc = -1;
  for (const byte of new Uint8Array(await piece.arrayBuffer())) crc = CRC_TABLE[(crc ^ byte) & 255] ^ (crc >>> 8);
  const bytes = [24, 16, 8, 0].map((shift) => (~crc >>> shift) & 255);
  return { "x-amz-checksum-crc32": btoa(String.fromCharCode(...bytes)) };
}

function memory(upload) {
  return `upload ${upload.bucket}/${upload.key}`;
}

function forget(upload) {
  localStorage.removeItem(memory(upload));
}

// Repeats a step until it succeeds, is refused for good, or has failed too often.
async function persist(upload, step) {
  for (let tried = 1; ; tried += 1) {
    while (isResting && !upload.isCancelled) await new Promise((resolve) => sleepers.push(resolve));
    if (upload.isCancelled) throw new Error("cancelled");
    try {
      const result = await step();
      note(upload, "");
      return result;
    } catch (error) {
      const isPassing = error.status === 0 || error.status === 401 || error.status >= 500;
      if (upload.isCancelled || !isPassing || tried === TRIES) throw error;
      note(upload, error.status === 401 ? "Sign in again in another tab to go on." : `${error.message} Trying again.`);
      await new Promise((resolve) => setTimeout(resolve, Math.min(1000 * tried, 30_000)));
    }
  }
}

// Sends one S3 request. Resolves with the request after a success, rejects with an error that has its status.
function send(upload, method, query, headers, body) {
  return new Promise((resolve, reject) => {
    const params = new URLSearchParams({ bucket: upload.bucket, key: upload.key, ...query });
    const request = new XMLHttpRequest();
    const refuse = (message) => reject(Object.assign(new Error(message), { status: request.status }));
    const before = upload.sent;
    request.open(method, `${document.documentElement.dataset.root}s3?${params}`);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => {
      upload.sent = before + event.loaded;
      render();
    });
    request.addEventListener("load", () => {
      if (request.status >= 200 && request.status < 300) return resolve(request);
      refuse(parse(request)?.querySelector("Message")?.textContent ?? `The server answered ${request.status}.`);
    });
    request.addEventListener("error", () => refuse("The server cannot be reached."));
    request.addEventListener("abort", () => refuse("cancelled"));
    upload.request = request;
    request.send(body);
  });
}

// The document in a response; null for other text, of which parsers would make a page of their own.
function parse(request) {
  const isXml = request.getResponseHeader("content-type")?.startsWith("application/xml");
  if (!isXml || request.responseText === "") return null;
  return new DOMParser().parseFromString(request.responseText, "text/xml");
}

function cancel(upload) {
  upload.isCancelled = true;
  upload.request?.abort();
  wake();
  if (upload.id === undefined) return;
  forget(upload);
  send({ ...upload }, "DELETE", { uploadId: upload.id }, {}, null).catch(() => {});
}

// What the buttons of the panel do.
const ACTIONS = {
  pause: () => {
    isResting = !isResting;
    if (!isResting) wake();
  },
  // What is sent is cancelled, and what waits dropped.
  cancel: () => {
    isResting = false;
    for (const upload of queue.splice(0)) leaveOut(upload);
    for (const upload of active) cancel(upload);
  },
  replace: () => of(true).forEach((upload) => again(upload, { replaces: true })),
  both: () => of(true).forEach((upload) => renumber(again(upload, { keepsBoth: true }))),
  skip: () => of(true).forEach(leaveOut),
  retry: () => of(false).forEach((upload) => again(upload)),
  close: () => {
    for (const upload of failed) leaveOut(upload);
    Object.assign(totals, { files: 0, bytes: 0, doneFiles: 0, doneBytes: 0 });
  },
};

export function pressUploads(action) {
  ACTIONS[action]();
  startNext();
}

function wake() {
  for (const resolve of sleepers.splice(0)) resolve();
}

// The uploads that did not succeed: those whose name is taken, or the others.
function of(isThere) {
  return Array.from(failed).filter((upload) => upload.isThere === isThere);
}

function leaveOut(upload) {
  forgive(upload);
  upload.line?.remove();
  totals.files -= 1;
  totals.bytes -= upload.file.size;
}

// Queues an upload again that did not succeed.
function again(upload, change = {}) {
  forgive(upload);
  upload.line.remove();
  queue.push(Object.assign(upload, { isCancelled: false, sent: 0, id: undefined }, change));
  return upload;
}

// Queues an upload, whose name is taken, under the next name.
function renumber(upload) {
  upload.number += 1;
  const { asked, number } = upload;
  const dot = asked.lastIndexOf(".");
  const end = dot > asked.lastIndexOf("/") + 1 ? dot : asked.length;
  upload.key = `${asked.slice(0, end)} (${number})${asked.slice(end)}`;
  upload.line.remove();
  if (!queue.includes(upload)) queue.push(Object.assign(upload, { sent: 0, id: undefined }));
}

// The panel of uploads, which outlives pages.

function panel() {
  return document.getElementById("uploads");
}

function lineOf(upload) {
  const line = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Cancel";
  button.setAttribute("aria-label", `Cancel the upload of ${upload.key}`);
  button.addEventListener("click", () => cancel(upload));
  const name = document.createElement("span");
  name.textContent = upload.key;
  const bar = document.createElement("progress");
  bar.max = Math.max(upload.file.size, 1);
  bar.setAttribute("aria-label", upload.key);
  const message = document.createElement("em");
  line.append(name, bar, message, button);
  panel().querySelector("ul").append(line);
  return line;
}

// Those that failed for one reason stand together, so that a hundred of them need no reading.
function group(upload, reason) {
  let shown = reasons.get(reason);
  if (shown === undefined) {
    shown = { uploads: new Set(), place: document.createElement("li") };
    reasons.set(reason, shown);
    const words = document.createElement("p");
    const button = document.createElement("button");
    button.type = "button";
    button.addEventListener("click", () => {
      for (const failure of Array.from(shown.uploads)) again(failure);
      startNext();
    });
    words.append(document.createElement("em"), " ", button);
    shown.place.append(words, document.createElement("ul"));
    panel().querySelector("ul").append(shown.place);
  }
  upload.reason = reason;
  shown.uploads.add(upload);
  shown.place.querySelector("ul").append(upload.line);
  tellReason(shown);
}

function tellReason({ uploads, place }) {
  const [first] = uploads;
  place.querySelector("em").textContent = uploads.size === 1 ? first.reason : `${first.reason} (${grouped(uploads.size)} files)`;
  const button = place.querySelector("button");
  button.textContent = `Try these ${grouped(uploads.size)} again`;
  // Names that are taken have buttons of their own.
  button.hidden = uploads.size === 1 || first.isThere;
}

// An upload is none any more that failed.
function forgive(upload) {
  failed.delete(upload);
  const { reason } = upload;
  const shown = reasons.get(reason);
  upload.reason = undefined;
  if (!shown?.uploads.delete(upload)) return;
  if (shown.uploads.size > 0) return tellReason(shown);
  shown.place.remove();
  reasons.delete(reason);
}

function note(upload, message) {
  upload.line.querySelector("em").textContent = message;
}

function messageOf(error) {
  return error.status === 412 ? "There is an object of this name." : error.message;
}

function fail(upload, message, isThere) {
  upload.isThere = isThere;
  failed.add(upload);
  upload.line.querySelector("progress").remove();
  note(upload, "");
  const button = upload.line.querySelector("button");
  const repeated = button.cloneNode();
  repeated.textContent = isThere ? "Replace it" : "Try again";
  repeated.setAttribute("aria-label", isThere ? `Replace ${upload.key}` : `Try the upload of ${upload.key} again`);
  repeated.addEventListener("click", () => {
    again(upload, { replaces: isThere || upload.replaces });
    startNext();
  });
  button.replaceWith(repeated);
  group(upload, message);
}

function bytesSent() {
  let sent = totals.doneBytes;
  for (const upload of active) sent += upload.sent;
  return sent;
}

function render() {
  for (const upload of active) {
    const bar = upload.line?.querySelector("progress");
    if (bar) bar.value = upload.sent;
  }
  const percent = totals.bytes === 0 ? 100 : Math.min(100, Math.floor((100 * bytesSent()) / totals.bytes));
  const missing = failed.size === 0 ? "" : `, ${grouped(failed.size)} not uploaded`;
  const resting = isResting && isUploading() ? ", paused" : "";
  panel().hidden = totals.files === 0;
  panel().querySelector("p").textContent = `Uploaded ${grouped(totals.doneFiles)} of ${grouped(totals.files)} files (${percent} %)${missing}${resting}`;
  const there = of(true).length;
  const others = failed.size - there;
  offer("pause", isUploading(), isResting ? "Go on" : "Pause");
  offer("cancel", isUploading());
  offer("replace", there > 0, there === 1 ? "Replace the one that exists" : `Replace the ${there} that exist`);
  offer("both", there > 0);
  offer("skip", there > 0);
  offer("retry", others > 1, `Try all ${others} again`);
  offer("close", !isUploading());
}

function offer(action, isOffered, words) {
  const button = panel().querySelector(`[data-uploads=${action}]`);
  button.hidden = !isOffered;
  // A text that stays the same must not be read out again.
  if (words !== undefined && button.textContent !== words) button.textContent = words;
}

// How much is sent, how fast, and how long the rest takes: for the eye alone, since it changes each second.
function tellPace() {
  const isMoving = active.size > 0 && !isResting;
  samples = isMoving ? [...samples, { at: performance.now(), bytes: bytesSent() }].slice(-PACE_SAMPLES) : [];
  const words = isUploading() ? [`${size(bytesSent())} of ${size(totals.bytes)}`] : [];
  if (samples.length > 2) {
    const seconds = (samples.at(-1).at - samples[0].at) / 1000;
    const pace = (samples.at(-1).bytes - samples[0].bytes) / seconds;
    if (pace > 0) words.push(`${size(Math.round(pace))}/s`, timeLeft((totals.bytes - bytesSent()) / pace));
  }
  panel().querySelector("[data-pace]").textContent = words.join(" · ");
}

function timeLeft(seconds) {
  if (seconds < 60) return "less than a minute left";
  const minutes = Math.ceil(seconds / 60);
  return minutes < 100 ? `about ${minutes} min left` : `about ${Math.ceil(minutes / 60)} h left`;
}

setInterval(tellPace, 1_000);
