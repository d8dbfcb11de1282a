// A first session: stores a value, reads it, and handles each result.
//
//     node session.mjs 127.0.0.1:7000

import { CacheClient, Configurations } from "@gannet/client";

const client = await CacheClient.create({
  address: process.argv[2] ?? "127.0.0.1:7000",
  configuration: Configurations.Laptop.latest(),
  defaultTtlSeconds: 60,
});
const stored = await client.set("greeting", "hello");
if (stored.type === "error") throw stored.toException();
const found = await client.get("greeting");
if (found.type === "hit") console.log(found.valueString());
const length = await client.listConcatenateBack("queue", ["a", "b", "c"], { lengthMax: 100 });
if (length.type === "success") console.log(`${length.length} elements`);
const tail = await client.listFetch("queue", { first: -2 });
if (tail.type === "hit") console.log(tail.elementsString());
client.close();
