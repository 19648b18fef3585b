// Drives a server by minio-go, unmodified, as mc and the init programs of stacks do. Usage: minio_go STEP; the variables
// ENDPOINT (HOST:PORT), ACCESS_KEY, SECRET_KEY and BUCKET name the server and a bucket that does not exist yet.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"
	"github.com/minio/minio-go/v7/pkg/policy"
	"github.com/minio/minio-go/v7/pkg/sse"
	"github.com/minio/minio-go/v7/pkg/tags"
)

var (
	ctx    = context.Background()
	bucket = os.Getenv("BUCKET")
)

// Above the size from which the library sends in parts of 16 MiB.
const largeLen = 17 << 20

// Two parts of the least size. It is copied and composed between all kinds of encryption.
const encryptedLen = 6 << 20

func main() {
	steps := map[string]func(*minio.Client){
		"probe":      probe,
		"objects":    objects,
		"parts":      parts,
		"presign":    presign,
		"versions":   versions,
		"policy":     anonymous,
		"encryption": encryption,
		"region":     region,
	}
	step, known := steps[os.Args[1]]
	if !known {
		fail("there is no step %s", os.Args[1])
	}
	step(client(credentials.NewStaticV4(os.Getenv("ACCESS_KEY"), os.Getenv("SECRET_KEY"), "")))
}

func client(keys *credentials.Credentials) *minio.Client {
	made, err := minio.New(os.Getenv("ENDPOINT"), &minio.Options{Creds: keys})
	check(err)
	return made
}

func fail(format string, values ...interface{}) {
	fmt.Fprintf(os.Stderr, format+"\n", values...)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fail("%s: %+v", err, minio.ToErrorResponse(err))
	}
}

func expect(holds bool, format string, values ...interface{}) {
	if !holds {
		fail(format, values...)
	}
}

func code(err error) string {
	return minio.ToErrorResponse(err).Code
}

func put(c *minio.Client, key, text string) minio.UploadInfo {
	info, err := c.PutObject(ctx, bucket, key, strings.NewReader(text), int64(len(text)),
		minio.PutObjectOptions{ContentType: "text/plain", UserMetadata: map[string]string{"Mood": "good"}})
	check(err)
	return info
}

func get(c *minio.Client, key string, options minio.GetObjectOptions) string {
	object, err := c.GetObject(ctx, bucket, key, options)
	check(err)
	text, err := io.ReadAll(object)
	check(err)
	return string(text)
}

func keys(c *minio.Client, options minio.ListObjectsOptions) string {
	var found []string
	for object := range c.ListObjects(ctx, bucket, options) {
		check(object.Err)
		found = append(found, object.Key)
	}
	return strings.Join(found, " ")
}

// mc alias set: asks for a bucket that does not exist, with right and with wrong keys. mc mb -p: makes a bucket twice.
func probe(c *minio.Client) {
	exists, err := c.BucketExists(ctx, "probe-bucket-sign-4dkeys0mwj6pv2hb1tq8xz3c5r7u9f4g2n6a8s0e")
	expect(err == nil && !exists, "the probe for an absent bucket: %v %v", exists, err)
	wrong := client(credentials.NewStaticV4(os.Getenv("ACCESS_KEY"), "another secret", ""))
	_, err = wrong.BucketExists(ctx, "probe-bucket-sign")
	expect(code(err) == "SignatureDoesNotMatch", "a wrong secret: %v", err)
	unknown := client(credentials.NewStaticV4("unknown", "another secret", ""))
	_, err = unknown.BucketExists(ctx, "probe-bucket-sign")
	expect(code(err) == "InvalidAccessKeyId", "an unknown key: %v", err)
	check(c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}))
	err = c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{})
	expect(code(err) == "BucketAlreadyOwnedByYou", "a bucket made twice: %v", err)
	exists, err = c.BucketExists(ctx, bucket)
	expect(err == nil && exists, "the bucket: %v %v", exists, err)
	all, err := c.ListBuckets(ctx)
	check(err)
	found := false
	for _, one := range all {
		found = found || one.Name == bucket
	}
	expect(found, "the bucket is not listed: %v", all)
	check(c.RemoveBucket(ctx, bucket))
}

// A client that was told a region of its own.
func region(*minio.Client) {
	keys := credentials.NewStaticV4(os.Getenv("ACCESS_KEY"), os.Getenv("SECRET_KEY"), "")
	c, err := minio.New(os.Getenv("ENDPOINT"), &minio.Options{Creds: keys, Region: "eu-central-1"})
	check(err)
	check(c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{Region: "eu-central-1"}))
	put(c, "key", "text")
	expect(get(c, "key", minio.GetObjectOptions{}) == "text", "get")
	location, err := client(keys).GetBucketLocation(ctx, bucket)
	expect(err == nil && location == "us-east-1", "location: %s %v", location, err)
}

func objects(c *minio.Client) {
	check(c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}))
	for _, key := range []string{"a", "dir/b", "dir/größer und+mehr"} {
		put(c, key, "text of "+key)
		expect(get(c, key, minio.GetObjectOptions{}) == "text of "+key, "get %s", key)
	}
	info, err := c.StatObject(ctx, bucket, "a", minio.StatObjectOptions{})
	check(err)
	expect(info.Size == 9 && info.ContentType == "text/plain" && info.UserMetadata["Mood"] == "good", "stat: %+v", info)
	_, err = c.StatObject(ctx, bucket, "absent", minio.StatObjectOptions{})
	expect(code(err) == "NoSuchKey", "stat of an absent key: %v", err)
	part := minio.GetObjectOptions{}
	check(part.SetRange(5, 6))
	expect(get(c, "a", part) == "of", "a range")
	expect(keys(c, minio.ListObjectsOptions{}) == "a dir/", "list")
	expect(keys(c, minio.ListObjectsOptions{Recursive: true, Prefix: "dir/"}) == "dir/b dir/größer und+mehr", "list a prefix")
	expect(keys(c, minio.ListObjectsOptions{UseV1: true, Recursive: true, MaxKeys: 1}) == "a dir/b dir/größer und+mehr", "list v1")
	_, err = c.CopyObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: "copy"}, minio.CopySrcOptions{Bucket: bucket, Object: "a"})
	check(err)
	expect(get(c, "copy", minio.GetObjectOptions{}) == "text of a", "copy")
	tagged, err := tags.NewTags(map[string]string{"colour": "blue"}, true)
	check(err)
	check(c.PutObjectTagging(ctx, bucket, "a", tagged, minio.PutObjectTaggingOptions{}))
	read, err := c.GetObjectTagging(ctx, bucket, "a", minio.GetObjectTaggingOptions{})
	check(err)
	expect(read.ToMap()["colour"] == "blue", "tags: %v", read)
	err = c.RemoveBucket(ctx, bucket)
	expect(code(err) == "BucketNotEmpty", "a bucket with objects: %v", err)
	check(c.RemoveObject(ctx, bucket, "a", minio.RemoveObjectOptions{}))
	for failed := range c.RemoveObjects(ctx, bucket, c.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true}), minio.RemoveObjectsOptions{}) {
		check(failed.Err)
	}
	check(c.RemoveBucket(ctx, bucket))
}

func parts(c *minio.Client) {
	check(c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}))
	body := bytes.Repeat([]byte("0123456789abcde\n"), largeLen/16)
	options := minio.PutObjectOptions{PartSize: 5 << 20}
	// Known length, and a stream of unknown length.
	for key, length := range map[string]int64{"sized": largeLen, "stream": -1} {
		info, err := c.PutObject(ctx, bucket, key, bytes.NewReader(body), length, options)
		check(err)
		expect(strings.HasSuffix(info.ETag, "-4") && info.Size == largeLen, "%s: %+v", key, info)
		expect(get(c, key, minio.GetObjectOptions{}) == string(body), "get %s", key)
	}
	_, err := c.ComposeObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: "both"},
		minio.CopySrcOptions{Bucket: bucket, Object: "sized"}, minio.CopySrcOptions{Bucket: bucket, Object: "stream"})
	check(err)
	info, err := c.StatObject(ctx, bucket, "both", minio.StatObjectOptions{})
	check(err)
	expect(info.Size == 2*largeLen, "composed: %+v", info)
	core := minio.Core{Client: c}
	_, err = core.NewMultipartUpload(ctx, bucket, "unfinished", minio.PutObjectOptions{})
	check(err)
	unfinished := 0
	for upload := range c.ListIncompleteUploads(ctx, bucket, "", true) {
		check(upload.Err)
		unfinished++
	}
	expect(unfinished == 1, "%d unfinished uploads", unfinished)
	check(c.RemoveIncompleteUpload(ctx, bucket, "unfinished"))
}

func presign(c *minio.Client) {
	check(c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}))
	target, err := c.PresignedPutObject(ctx, bucket, "by url", time.Hour)
	check(err)
	request, err := http.NewRequest(http.MethodPut, target.String(), strings.NewReader("sent"))
	check(err)
	answer, err := http.DefaultClient.Do(request)
	check(err)
	expect(answer.StatusCode == 200, "presigned put: %s", answer.Status)
	source, err := c.PresignedGetObject(ctx, bucket, "by url", time.Hour, map[string][]string{"response-content-type": {"text/x"}})
	check(err)
	answer, err = http.Get(source.String())
	check(err)
	text, err := io.ReadAll(answer.Body)
	check(err)
	expect(string(text) == "sent" && answer.Header.Get("Content-Type") == "text/x", "presigned get: %s %s", answer.Status, text)
}

func versions(c *minio.Client) {
	check(c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}))
	check(c.EnableVersioning(ctx, bucket))
	state, err := c.GetBucketVersioning(ctx, bucket)
	check(err)
	expect(state.Enabled(), "versioning: %+v", state)
	first := put(c, "key", "first")
	second := put(c, "key", "second")
	expect(first.VersionID != "" && first.VersionID != second.VersionID, "versions: %+v %+v", first, second)
	check(c.RemoveObject(ctx, bucket, "key", minio.RemoveObjectOptions{}))
	listed, markers := 0, 0
	for object := range c.ListObjects(ctx, bucket, minio.ListObjectsOptions{WithVersions: true, Recursive: true}) {
		check(object.Err)
		listed++
		if object.IsDeleteMarker {
			markers++
		}
	}
	expect(listed == 3 && markers == 1, "%d versions, %d markers", listed, markers)
	expect(get(c, "key", minio.GetObjectOptions{VersionID: first.VersionID}) == "first", "an older version")
	check(c.RemoveObject(ctx, bucket, "key", minio.RemoveObjectOptions{VersionID: first.VersionID}))
	_, err = c.StatObject(ctx, bucket, "key", minio.StatObjectOptions{VersionID: first.VersionID})
	expect(err != nil, "a removed version is still there")
}

// mc put --enc-s3, --enc-kms and --enc-c: each kind whole, in parts, as the source and the target of copies, and of parts.
func encryption(c *minio.Client) {
	check(c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}))
	kms, err := encrypt.NewSSEKMS("", map[string]string{"team": "blue"})
	check(err)
	customer, err := encrypt.NewSSEC([]byte("the key of a customer, 32 bytes."))
	check(err)
	kinds := []encrypt.ServerSide{encrypt.NewSSE(), kms, customer}
	body := string(bytes.Repeat([]byte("0123456789abcde\n"), encryptedLen/16))
	for _, kind := range kinds {
		name := string(kind.Type())
		options := minio.PutObjectOptions{ServerSideEncryption: kind, PartSize: 5 << 20}
		for key, text := range map[string]string{name + "/small": "text", name + "/large": body} {
			_, err := c.PutObject(ctx, bucket, key, strings.NewReader(text), int64(len(text)), options)
			check(err)
			expect(get(c, key, minio.GetObjectOptions{ServerSideEncryption: kind}) == text, "get %s", key)
			info, err := c.StatObject(ctx, bucket, key, minio.StatObjectOptions{ServerSideEncryption: kind})
			check(err)
			expect(info.Size == int64(len(text)), "stat %s: %+v", key, info)
		}
		part := minio.GetObjectOptions{ServerSideEncryption: kind}
		check(part.SetRange(65519, 65521))
		expect(get(c, name+"/large", part) == body[65519:65522], "a range of %s", name)
		_, err = c.StatObject(ctx, bucket, name+"/small", minio.StatObjectOptions{})
		expect((err == nil) == (kind.Type() != encrypt.SSEC), "stat without a key of %s: %v", name, err)
	}
	for _, from := range kinds {
		for _, to := range kinds {
			source := minio.CopySrcOptions{Bucket: bucket, Object: string(from.Type()) + "/large"}
			if from.Type() == encrypt.SSEC {
				source.Encryption = from
			}
			key := string(from.Type()) + " to " + string(to.Type())
			_, err := c.CopyObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: key, Encryption: to}, source)
			check(err)
			expect(get(c, key, minio.GetObjectOptions{ServerSideEncryption: to}) == body, "copy %s", key)
			_, err = c.ComposeObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: key, Encryption: to}, source, source)
			check(err)
			expect(get(c, key, minio.GetObjectOptions{ServerSideEncryption: to}) == body+body, "compose %s", key)
		}
	}
	check(c.SetBucketEncryption(ctx, bucket, sse.NewConfigurationSSES3()))
	set, err := c.GetBucketEncryption(ctx, bucket)
	check(err)
	expect(len(set.Rules) == 1 && set.Rules[0].Apply.SSEAlgorithm == "AES256", "the default: %+v", set)
	put(c, "default", "text")
	expect(get(c, "default", minio.GetObjectOptions{}) == "text", "get of the default")
	check(c.RemoveBucketEncryption(ctx, bucket))
	_, err = c.GetBucketEncryption(ctx, bucket)
	expect(code(err) == "ServerSideEncryptionConfigurationNotFoundError", "no default: %v", err)
}

// mc anonymous set download, upload, public, private.
func anonymous(c *minio.Client) {
	check(c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}))
	put(c, "key", "text")
	stranger := client(credentials.NewStatic("", "", "", credentials.SignatureAnonymous))
	for _, one := range []struct {
		access             policy.BucketPolicy
		reads, lists, puts bool
	}{
		{policy.BucketPolicyReadOnly, true, true, false},
		{policy.BucketPolicyWriteOnly, false, false, true},
		{policy.BucketPolicyReadWrite, true, true, true},
		{policy.BucketPolicyNone, false, false, false},
	} {
		setPolicy(c, one.access)
		_, err := stranger.StatObject(ctx, bucket, "key", minio.StatObjectOptions{})
		expect((err == nil) == one.reads, "%s: reading: %v", one.access, err)
		listing := <-stranger.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true})
		expect((listing.Err == nil) == one.lists, "%s: listing: %v", one.access, listing.Err)
		_, err = stranger.PutObject(ctx, bucket, "other", strings.NewReader("x"), 1, minio.PutObjectOptions{})
		expect((err == nil) == one.puts, "%s: putting: %v", one.access, err)
	}
}

// Reads the policy, changes it and puts it, as mc does.
func setPolicy(c *minio.Client, access policy.BucketPolicy) {
	document := policy.BucketAccessPolicy{Version: "2012-10-17"}
	before, err := c.GetBucketPolicy(ctx, bucket)
	check(err)
	if before != "" {
		check(json.Unmarshal([]byte(before), &document))
	}
	document.Statements = policy.SetPolicy(document.Statements, access, bucket, "")
	if len(document.Statements) == 0 {
		check(c.SetBucketPolicy(ctx, bucket, ""))
		return
	}
	text, err := json.Marshal(document)
	check(err)
	check(c.SetBucketPolicy(ctx, bucket, string(text)))
	after, err := c.GetBucketPolicy(ctx, bucket)
	check(err)
	expect(policy.GetPolicy(statements(after), bucket, "") == access, "%s reads back as %s", access, after)
}

func statements(text string) []policy.Statement {
	var document policy.BucketAccessPolicy
	check(json.Unmarshal([]byte(text), &document))
	return document.Statements
}
