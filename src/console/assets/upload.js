// Uploads: a queue of files, each sent in one piece or in parts. Parts are sent again after failures, also after a restart of the server;
// the upload of a file that is chosen again goes on where it ended.

const MIB = 1024 * 1024;
const PART_BYTES = 8 * MIB;
const PARTS_MAX = 10_000;
const FILES_AT_ONCE = 3;
// Failures of one piece in a row: with the pauses between them, some ten minutes.
const TRIES = 25;

const queue = [];
const active = new Set();
const totals = { files: 0, bytes: 0, doneFiles: 0, doneBytes: 0, failed: 0 };

export function isUploading() {
  return active.size > 0 || queue.length > 0;
}

// Uploads files into a folder; each has a path below it.
export function addFiles(folder, files) {
  for (const { file, path } of files) {
    queue.push({ ...folder, file, key: folder.prefix + path, sent: 0, isCancelled: false, replaces: false, request: null });
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
  while (active.size < FILES_AT_ONCE && queue.length > 0) run(queue.shift());
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
    totals.failed += 1;
    fail(upload, upload.isCancelled ? "cancelled" : messageOf(error), error.status === 412);
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
  if (upload.id === undefined) return;
  forget(upload);
  send({ ...upload }, "DELETE", { uploadId: upload.id }, {}, null).catch(() => {});
}

// Cancels what is sent and drops what waits.
export function cancelAll() {
  for (const upload of queue.splice(0)) {
    totals.files -= 1;
    totals.bytes -= upload.file.size;
  }
  for (const upload of active) cancel(upload);
  render();
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

function note(upload, message) {
  upload.line.querySelector("em").textContent = message;
}

function messageOf(error) {
  return error.status === 412 ? "There is an object of this name." : error.message;
}

function fail(upload, message, isThere) {
  upload.line.querySelector("progress").remove();
  note(upload, message);
  const button = upload.line.querySelector("button");
  const again = button.cloneNode();
  again.textContent = isThere ? "Replace it" : "Try again";
  again.setAttribute("aria-label", isThere ? `Replace ${upload.key}` : `Try the upload of ${upload.key} again`);
  again.addEventListener("click", () => {
    upload.line.remove();
    totals.failed -= 1;
    Object.assign(upload, { isCancelled: false, replaces: isThere || upload.replaces, sent: 0, id: undefined });
    queue.push(upload);
    startNext();
  });
  button.replaceWith(again);
}

function render() {
  let sent = totals.doneBytes;
  for (const upload of active) {
    sent += upload.sent;
    const bar = upload.line?.querySelector("progress");
    if (bar) bar.value = upload.sent;
  }
  const failed = totals.failed === 0 ? "" : `, ${totals.failed} not uploaded`;
  const percent = totals.bytes === 0 ? 100 : Math.min(100, Math.floor((100 * sent) / totals.bytes));
  panel().hidden = totals.files === 0;
  panel().querySelector("#cancel-all").hidden = !isUploading();
  panel().querySelector("p").textContent = `Uploaded ${totals.doneFiles} of ${totals.files} files (${percent} %)${failed}`;
}
