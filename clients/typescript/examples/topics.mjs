// Publishes messages to a topic and reads them, with everything that may happen to a subscription.
//
//     node topics.mjs 127.0.0.1:7000

import { CacheClient, Configurations } from "@gannet/client";

const client = await CacheClient.create({
  address: process.argv[2] ?? "127.0.0.1:7000",
  configuration: Configurations.Laptop.latest(),
});
const subscription = await client.topics.subscribe("orders", { signal: AbortSignal.timeout(60_000) });
if (subscription.type === "error") throw subscription.toException();
for (const order of ["one", "two", "three"]) {
  const published = await client.topics.publish("orders", order);
  // It may have reached the subscribers all the same: the library does not publish it a second time.
  if (published.type === "error") console.error(published.message);
}
for await (const event of subscription) {
  switch (event.type) {
    case "item":
      console.log(`${event.sequence}: ${event.valueString()}`);
      break;
    case "discontinuity":
      console.log(`messages before ${event.newSequence} are missing: read the orders from their source`);
      break;
    case "heartbeat":
      console.log("no messages for 5 s");
      break;
    case "error":
      throw event.toException();
  }
  if (event.type === "item" && event.valueString() === "three") break;
}
client.close();
