"""W3: objects, dictionaries, strings and JSON, some two million allocations under PYTHONMALLOC=malloc.

`objects.py [NAMES]`: so many names are looked for in the text of it, three times, which takes time and hardly any
memory; none by default.

Prints processor time and wall time of one allocation and of what the program does with it, in ns. What is made is also
used: found, compared, sorted, counted, as in a program that has a purpose. A loop that did nothing but make and drop
would be W1 again.
"""

import json
import sys
import time

ALLOCATIONS = 2_000_000
NAMES = int(sys.argv[1]) if len(sys.argv) > 1 else 0


class Order:
    def __init__(self, number, customer, items):
        self.number, self.customer, self.items = number, customer, items

    def price(self):
        total = 0
        for item in self.items:
            total += item["count"] * item["price"]
        return total


def build(n):
    return {
        f"order{i}": Order(
            i, f"customer{i % 97}", [{"name": f"thing{k}", "count": k, "price": i % 50} for k in range(i % 7)]
        )
        for i in range(n)
    }


def totals(orders):
    result = {}
    for order in orders.values():
        result[order.customer] = result.get(order.customer, 0) + order.price()
    return sorted(result.items(), key=lambda pair: (-pair[1], pair[0]))


def search(orders, n):
    found = 0
    for i in range(n):
        order = orders.get(f"order{i * 7919 % (2 * n)}")
        if order is not None and order.price() > 100 and order.customer.endswith("7"):
            found += 1
    return found


def words(text):
    counts = {}
    for word in text.replace(",", " ").replace(":", " ").split():
        counts[word] = counts.get(word, 0) + 1
    return max(counts.values())


def through_json(orders):
    text = json.dumps({key: [order.customer, order.items] for key, order in orders.items()})
    return json.loads(text), text


def main():
    for _ in range(3):
        orders = build(4500)
        copy, text = through_json(orders)
        if len(copy) != 4500 or words(text) < 100 or totals(orders)[0][1] < search(orders, 4500):
            raise SystemExit("objects.py: wrong results")
        if sum(text.count(f'"order{i}"') for i in range(NAMES)) != NAMES:
            raise SystemExit("objects.py: wrong counts")


began, began_wall = time.process_time_ns(), time.perf_counter_ns()
main()
print((time.process_time_ns() - began) / ALLOCATIONS, (time.perf_counter_ns() - began_wall) / ALLOCATIONS)
