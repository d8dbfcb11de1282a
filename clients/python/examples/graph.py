"""How far apart two people are, through whom, and whom one of them may know.

python graph.py 127.0.0.1:7000
"""

import sys
from typing import Dict, List

from gannet import CacheClient, CacheError, Configurations, Distances, GraphAnswers, GraphQuery, Paths, Suggestions

PEOPLE = {1: "Ada", 2: "Ben", 3: "Cleo", 4: "Dan", 5: "Eve", 6: "Finn"}
FRIENDS = [(1, 2), (2, 3), (3, 4), (1, 5), (5, 3), (4, 6)]


def main(address: str, first: int, second: int) -> int:
    with CacheClient(address, Configurations.Laptop.latest()) as client:
        graph = client.graph("people")
        steps: List[object] = [graph.declare_type("knows", undirected=True), graph.add_edges("knows", FRIENDS)]
        steps += [graph.set_node(node, "person", {"name": name}) for node, name in PEOPLE.items()]
        for step in steps:
            if isinstance(step, CacheError):
                print(step.message, file=sys.stderr)
                return 1
        # One request for all three questions.
        answers = graph.query(
            [
                GraphQuery.distances(first, "knows", [second]),
                GraphQuery.paths(first, second, "knows", k=3),
                GraphQuery.suggest(first, "knows", k=2),
            ]
        )
        if not isinstance(answers, GraphAnswers):
            print(answers.message, file=sys.stderr)
            return 1
        for answer in answers.results:
            show(answer, first, second, PEOPLE)
    return 0


def show(answer: object, first: int, second: int, names: Dict[int, str]) -> None:
    if isinstance(answer, Distances):
        (distance,) = answer.distances
        far = "more than 3" if distance is None else distance
        print(f"{names[first]} and {names[second]} are {far} steps apart")
    elif isinstance(answer, Paths):
        for path in answer.paths:
            print("  through", " and ".join(names[node] for node in path[1:-1]) or "nobody")
    elif isinstance(answer, Suggestions):
        for each in answer.suggestions:
            print(f"{names[first]} may know {names[each.node]}: {each.common} common friends")
    else:
        print(answer, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(int(number) for number in sys.argv[2:4] or ("1", "4"))))
