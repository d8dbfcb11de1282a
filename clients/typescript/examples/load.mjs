// Offers many requests at once: the client keeps few of them in flight, and the others wait in it.
//
//     node load.mjs 127.0.0.1:7000

import { CacheClient, Configurations } from "@gannet/client";

const REQUESTS = 1_000;

const client = await CacheClient.create({
  address: process.argv[2] ?? "127.0.0.1:7000",
  configuration: Configurations.InRegion.LowLatency.latest().withDeadlineMs(5000).withMetrics(),
});
const numbers = Array.from({ length: REQUESTS }, (_, number) => `${number}`);
const stored = await Promise.all(numbers.map((number) => client.set(`key ${number}`, number)));
console.log("stored:", stored.filter((result) => result.type === "success").length);
const found = await Promise.all(numbers.map((number) => client.get(`key ${number}`)));
console.log("found:", found.filter((result) => result.type === "hit").length);
const { Get } = client.metrics().methods;
if (Get !== undefined) {
  console.log(`${Get.calls} gets: p50 ${Get.p50Us} us, p99 ${Get.p99Us} us, with the wait in the client`);
}
client.close();
