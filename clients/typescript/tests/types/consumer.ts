// Compiled by a test, as a program that uses the package: the results are unions that the compiler distinguishes.

import {
  CacheClient,
  Configuration,
  Configurations,
  CredentialProvider,
  ErrorCode,
  ExponentialBackoff,
  GraphQuery,
  Permission,
  type BinValueFound,
  type CacheError,
  type GetResult,
  type Middleware,
} from "@gannet/client";

const counting: Middleware = { after: (end) => void end.durationMs };

const mine: Configuration = Configurations.InRegion.LowLatency.v1()
  .withDeadlineMs(250)
  .withRequestsInFlightMax(50)
  .withRetryStrategy(new ExponentialBackoff({ maxDelayMs: 100 }))
  .withHedging(5)
  .withMiddleware(counting)
  .withMetrics();

export function textOf(result: GetResult): string | undefined {
  switch (result.type) {
    case "hit":
      return result.valueString();
    case "miss":
      return undefined;
    case "error":
      throw result.toException();
  }
}

export async function main(): Promise<CacheError | undefined> {
  const client = await CacheClient.create({
    address: "cache.example:7000",
    credentials: CredentialProvider.fromString("user:password"),
    configuration: mine.with({ requestsQueuedMax: 100 }),
    defaultTtlSeconds: 60,
  });
  const stored = await client.setIfAbsent("lock", new Uint8Array([1]), { ttlSeconds: 10, signal: AbortSignal.timeout(5) });
  if (stored.type === "stored") return undefined;
  if (stored.type === "error") return stored.code === ErrorCode.TIMEOUT ? stored : undefined;
  const batch = await client.getBatch(["a", "b"]);
  const texts: (string | undefined)[] = batch.type === "success" ? batch.valuesString() : [];
  const subscription = await client.topics.subscribe("t", { from: { sequence: 1, page: 0 } });
  if (subscription.type === "error") return subscription;
  for await (const event of subscription) {
    if (event.type === "error") return event;
    if (event.type === "item") texts.push(event.valueString());
  }
  const record = await client.records.get("r");
  const bin: BinValueFound | undefined = record.type === "hit" ? record.bins.get("b") : undefined;
  await client.records.put("r", { a: 1n, b: [true, new Map([["k", { deep: 0.5 }]])], c: bin ?? "none" });
  const lease = await client.leases.get("k");
  if (lease.type === "won") await client.leases.set("k", lease.token, lease.oldBytes() ?? "new");
  const board = await client.leaderboard("game").getByRank({ first: 0, end: 3 });
  if (board.type === "success") texts.push(...board.elements.map((each) => `${each.id}`));
  const graph = client.graph("g");
  await graph.addEdges("knows", [[1, 2n], { source: 1, destination: 3, timeMs: 5, attributes: { since: "2024" } }]);
  const answers = await graph.query([GraphQuery.count(1, "knows"), GraphQuery.paths(1, 2, "knows", { k: 3 })]);
  if (answers.type === "success") {
    const [count, through] = answers.results;
    if (count.type === "success") texts.push(`${count.count}`);
    if (through.type === "success") texts.push(...through.paths.map((path: readonly bigint[]) => path.join()));
  }
  for await (const page of graph.neighbourPages(1, "knows", { limit: 10, state: "live" })) {
    if (page.type === "error") return page;
    texts.push(...page.nodes.map((node) => `${node}`));
  }
  await client.tokens.generateApiToken([Permission.items("read_only", { keyPrefix: "a:" })], "never");
  const near = await client.nearCache({ prefixes: ["a:"], entriesMax: 10 });
  if (near.type === "near_cache") texts.push(textOf(await near.get("a:1")));
  const next = await subscription.next();
  if (next.done !== true && next.value.type === "discontinuity") texts.push(`${next.value.newSequence}`);
  // @ts-expect-error a permission is for one key or for a prefix
  Permission.items("read_only", { key: "a", keyPrefix: "b" });
  // @ts-expect-error a token that can be disposed of ends
  await client.tokens.generateDisposableToken("all", "never");
  // @ts-expect-error a date is no value of a bin
  await client.records.put("r", { a: new Date() });
  // @ts-expect-error only numbers are added
  await client.records.add("r", { a: "1" });
  // @ts-expect-error an operation on lists is one of three
  await graph.combine("sum", [[1, "knows"]]);
  // @ts-expect-error the first query counts, and has no paths
  if (answers.type === "success" && answers.results[0].type === "success") texts.push(answers.results[0].paths);
  // @ts-expect-error a result has no value before its type is known
  (await client.get("k")).valueString();
  // @ts-expect-error settings are immutable
  mine.settings.deadlineMs = 1;
  // @ts-expect-error a key is a string or a Uint8Array
  await client.get(7);
  return texts.length > 0 ? undefined : undefined;
}
