#!/usr/bin/python3
"""The sweep of docs/TUTORIAL.md as data frames and a chart: which bound suits workers that are slow
for a while? An argument is the number of clocks, 200 otherwise."""
import importlib.util
import pathlib
import sys

import tautline

clocks = int(sys.argv[1]) if len(sys.argv) > 1 else 200
job = pathlib.Path(__file__).resolve().parents[2] / "configs/jobs/fashion_lenet.textproto"
sweep = tautline.sweep(job, slack=[0, 2, 8, None], workers=4, seeds=2, progress=True,
                       folder=f"runs/sweep{clocks}", over=f"""
    clock_time_ms: 40 straggler {{ slowdown: 3 rotate: 10 burst {{ period: 10 length: 5 }} }}
    solver_param {{ max_iter: {clocks} test_iter: 8 test_interval: 10 test_initialization: false }}
    """)
print(sweep.points)
if importlib.util.find_spec("matplotlib"):
    sweep.plot().savefig("sweep.png")
