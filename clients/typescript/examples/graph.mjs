// How far apart two people are, through whom, and whom one of them may know.
//
//     node graph.mjs 127.0.0.1:7000 [1 4]

import { CacheClient, Configurations, GraphQuery } from "@gannet/client";

const PEOPLE = new Map([[1n, "Ada"], [2n, "Ben"], [3n, "Cleo"], [4n, "Dan"], [5n, "Eve"], [6n, "Finn"]]);
const FRIENDS = [[1, 2], [2, 3], [3, 4], [1, 5], [5, 3], [4, 6]];

const [address = "127.0.0.1:7000", first = "1", second = "4"] = process.argv.slice(2);
const [from, to] = [BigInt(first), BigInt(second)];
const client = await CacheClient.create({ address, configuration: Configurations.Laptop.latest() });
const graph = client.graph("people");
const steps = [await graph.declareType("knows", { undirected: true }), await graph.addEdges("knows", FRIENDS)];
for (const [node, name] of PEOPLE) steps.push(await graph.setNode(node, "person", { name }));
for (const step of steps) if (step.type === "error") throw step.toException();

// One request for all three questions.
const answers = await graph.query([
  GraphQuery.distances(from, "knows", [to]),
  GraphQuery.paths(from, to, "knows", { k: 3 }),
  GraphQuery.suggest(from, "knows", { k: 2 }),
]);
if (answers.type === "error") throw answers.toException();
for (const each of answers.results) if (each.type === "error") throw each.toException();
const [apart, through, suggested] = answers.results;
console.log(`${PEOPLE.get(from)} and ${PEOPLE.get(to)} are ${apart.distances[0] ?? "more than 3"} steps apart`);
for (const path of through.paths) {
  const between = path.slice(1, -1).map((node) => PEOPLE.get(node));
  console.log(`  through ${between.join(" and ") || "nobody"}`);
}
for (const { node, common } of suggested.suggestions) {
  console.log(`${PEOPLE.get(from)} may know ${PEOPLE.get(node)}: ${common} common friends`);
}
client.close();
