// The AWS SDK for JavaScript v3 at its defaults: it addresses buckets by path because the endpoint is an IP address.

import assert from "node:assert/strict";
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";

const { ENDPOINT, ACCESS_KEY, SECRET_KEY, REGION, BUCKET: Bucket } = process.env;
const settings = {
  endpoint: ENDPOINT,
  region: REGION,
  credentials: { accessKeyId: ACCESS_KEY, secretAccessKey: SECRET_KEY },
};
const s3 = new S3Client(settings);
// Two parts of the default size of 5 MiB, and a third.
const large = Buffer.alloc(12_000_000, "large");

async function read(Key, more) {
  const { Body } = await s3.send(new GetObjectCommand({ Bucket, Key, ...more }));
  return Buffer.from(await Body.transformToByteArray());
}

async function keys() {
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket }));
  return Contents.map((item) => item.Key);
}

await s3.send(new CreateBucketCommand({ Bucket }));
await s3.send(new PutObjectCommand({ Bucket, Key: "a small/+", Body: "small", Metadata: { colour: "green" } }));
assert.equal((await s3.send(new HeadObjectCommand({ Bucket, Key: "a small/+" }))).Metadata.colour, "green");
assert.equal((await read("a small/+")).toString(), "small");

const done = await new Upload({ client: s3, params: { Bucket, Key: "large", Body: large } }).done();
assert.match(done.ETag, /-3"$/);
assert.ok((await read("large")).equals(large));
assert.ok((await read("large", { Range: "bytes=1-3" })).equals(large.subarray(1, 4)));

// By default the SDK signs the CRC-32 of an empty body into the address of a put, which S3 is reported to ignore.
const signing = new S3Client({ ...settings, requestChecksumCalculation: "WHEN_REQUIRED" });
for (const client of [s3, signing]) {
  const put = await getSignedUrl(client, new PutObjectCommand({ Bucket, Key: "signed" }));
  assert.equal((await fetch(put, { method: "PUT", body: "signed" })).status, 200);
}
const get = await getSignedUrl(s3, new GetObjectCommand({ Bucket, Key: "signed" }));
assert.equal(await (await fetch(get)).text(), "signed");
assert.equal((await fetch(get.replace("/signed?", "/large?"))).status, 403);

assert.deepEqual(await keys(), ["a small/+", "large", "signed"]);
const Objects = (await keys()).map((Key) => ({ Key }));
await s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
assert.deepEqual(await keys(), []);
await assert.rejects(read("large"), { name: "NoSuchKey" });
await s3.send(new DeleteBucketCommand({ Bucket }));
