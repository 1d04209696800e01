"""Makes every second question of a set in HotpotQA's form unanswerable: its gold passages are taken out of the whole set and its answer is empty.

    python unanswerable.py hotpot100.json > hotpot100.unanswerable.json
    baton eval answers --data hotpot100.unanswerable.json --model embedded
"""

import json, sys

rows = json.load(open(sys.argv[1], encoding="utf-8"))
kept = {title for at, row in enumerate(rows) if at % 2 == 0 for title in row["supporting_facts"]["title"]}
removed = {title for at, row in enumerate(rows) if at % 2 for title in row["supporting_facts"]["title"]}
out = []
for at, row in enumerate(rows):
    gold = set(row["supporting_facts"]["title"])
    # A passage that another question needs stays; the question is then left out, because it can still be answered.
    if at % 2 and gold & kept:
        continue
    passages = [(t, s) for t, s in zip(row["context"]["title"], row["context"]["sentences"]) if t not in removed or t in kept]
    context = {"title": [t for t, _ in passages], "sentences": [s for _, s in passages]}
    out.append({**row, "context": context, "answer": "" if at % 2 else row["answer"]})
json.dump(out, sys.stdout, ensure_ascii=False)
