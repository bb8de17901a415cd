"""The object store of the tests keeps the promise that Delta's commits rest on: of two conditional PUTs one is refused."""

from concurrent.futures import ThreadPoolExecutor

from botocore.exceptions import ClientError


def test_of_eight_conditional_puts_of_one_object_exactly_one_succeeds(store):
    client = store.client()

    def put(key: str, body: bytes) -> str:
        try:
            client.put_object(Bucket=store.bucket, Key=key, Body=body, IfNoneMatch="*")
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return body.decode()

    with ThreadPoolExecutor(8) as threads:
        for number in range(25):
            key = f"commit-{number}"
            outcomes = list(threads.map(lambda writer: put(key, b"%d" % writer), range(8)))  # noqa: B023 - the map ends before the next key
            (winner,) = [
                outcome for outcome in outcomes if outcome not in {"PreconditionFailed", "ConditionalRequestConflict"}
            ]
            assert client.get_object(Bucket=store.bucket, Key=key)["Body"].read().decode() == winner
