"""W3: objects, dictionaries, strings and JSON, for PYTHONMALLOC=malloc."""

import json


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


def build(n):
    return {f"key{i}": [Point(i, str(i)), {"a": i, "b": [i] * (i % 7)}] for i in range(n)}


def texts(table):
    return json.loads(json.dumps({k: v[1] for k, v in table.items()}))


for _ in range(12):
    texts(build(6000))
