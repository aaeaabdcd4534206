package org.apache.hudi.aws.transaction.lock;

import java.io.ByteArrayInputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.Properties;
import org.apache.hudi.client.transaction.lock.StorageLockClient;
import org.apache.hudi.client.transaction.lock.models.LockGetResult;
import org.apache.hudi.client.transaction.lock.models.LockUpsertResult;
import org.apache.hudi.client.transaction.lock.models.StorageLockData;
import org.apache.hudi.client.transaction.lock.models.StorageLockFile;
import org.apache.hudi.common.util.Option;
import org.apache.hudi.common.util.collection.Pair;

/** Stands in for the class of hudi-aws: the same requests, without Amazon's SDK and signatures, for a server of tests. */
public class S3StorageLockClient implements StorageLockClient {
  private static final String CREDENTIAL =
      "Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=none";

  private final HttpClient client = HttpClient.newHttpClient();
  private final URI place;

  public S3StorageLockClient(String owner, String uri, Properties properties) {
    Pair<String, String> found = StorageLockClient.parseBucketAndPath(uri);
    String endpoint = System.getProperty("s3.endpoint");
    place = URI.create(endpoint + "/" + found.getLeft() + "/" + found.getRight());
  }

  @Override
  public Pair<LockUpsertResult, Option<StorageLockFile>> tryUpsertLockFile(
      StorageLockData data, Option<StorageLockFile> previous) {
    HttpRequest.Builder put =
        HttpRequest.newBuilder(place)
            .PUT(HttpRequest.BodyPublishers.ofByteArray(StorageLockFile.toByteArray(data)));
    if (previous.isPresent()) {
      put.header("If-Match", previous.get().getVersionId());
    } else {
      put.header("If-None-Match", "*");
    }
    HttpResponse<byte[]> answer = send(put.build());
    if (answer.statusCode() == 200) {
      String tag = answer.headers().firstValue("ETag").get();
      return Pair.of(LockUpsertResult.SUCCESS, Option.of(new StorageLockFile(data, tag)));
    }
    LockUpsertResult result =
        answer.statusCode() == 412
            ? LockUpsertResult.ACQUIRED_BY_OTHERS
            : LockUpsertResult.UNKNOWN_ERROR;
    return Pair.of(result, Option.empty());
  }

  @Override
  public Pair<LockGetResult, Option<StorageLockFile>> readCurrentLockFile() {
    HttpResponse<byte[]> answer = send(HttpRequest.newBuilder(place).GET().build());
    if (answer.statusCode() == 404) {
      return Pair.of(LockGetResult.NOT_EXISTS, Option.empty());
    }
    String tag = answer.headers().firstValue("ETag").get();
    ByteArrayInputStream content = new ByteArrayInputStream(answer.body());
    return Pair.of(LockGetResult.SUCCESS, Option.of(StorageLockFile.createFromStream(content, tag)));
  }

  @Override
  public Option<String> readObject(String path, boolean checkExistsFirst) {
    return Option.empty();
  }

  @Override
  public boolean writeObject(String path, String content) {
    return false;
  }

  @Override
  public void close() {}

  private HttpResponse<byte[]> send(HttpRequest request) {
    HttpRequest named =
        HttpRequest.newBuilder(request, (name, value) -> true)
            .header("Authorization", "AWS4-HMAC-SHA256 " + CREDENTIAL)
            .build();
    try {
      return client.send(named, HttpResponse.BodyHandlers.ofByteArray());
    } catch (Exception error) {
      throw new RuntimeException(error);
    }
  }
}
