"""Sweeps and progress in Python: what `tautline sweep` measured, as data frames and charts."""

import os
import pty
import subprocess

from cluster import SLOWER, SOURCE, wait_until
from training.python_members import PythonMembers, interpreter_with

# A program in which some modules cannot be imported.
WITHOUT = """
            import sys
            for name in {names}: sys.modules[name] = None
"""


class ExperimentsTest(PythonMembers):
    def sweep(self, without=(), more=""):
        job = self.job(iterations=20)
        return self.run_python(WITHOUT.format(names=list(without)) + """
            import pathlib, tautline
            job, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
            sweep = tautline.sweep(job, slack=[0, None], workers=1, seeds=2, folder=folder,
                                   vary={"solver.base_lr": [0.05, 0.1]}, target=0.1,
                                   over="solver_param { max_iter: 30 }")
            """ + more, job, self.folder / "out", timeout=100)

    def test_a_sweep_is_read_as_light_tables_where_pandas_is_missing(self):
        out = self.sweep(without=["pandas", "matplotlib"], more="""
            print(len(sweep.runs), len(sweep.points), sweep.points["slack"],
                  sorted(set(sweep.points["solver.base_lr"])), sweep.runs["clocks"][0])
            print([(slack, len(rows)) for slack, rows in sweep.runs.groupby("slack")],
                  {row["state"] for row in sweep.runs.records()}, sweep.runs["failure"][0] == "")
            assert "seconds_to_target_mean" in str(sweep.points), sweep.points
            assert sweep.points._repr_html_().count("<tr>") == 5
            assert sweep.report.exists() and "4 points, 8 runs" in repr(sweep)
            try: sweep.plot()
            except tautline.NotFoundError as error: print(error)
            try: sweep.points["wrong"]
            except KeyError as error: print(error)
            # Nothing is run again.
            before = (folder / "points.csv").stat().st_mtime_ns
            summary = next(folder.glob("*/summary.json"))
            at = summary.stat().st_mtime_ns
            again = tautline.sweep(job, slack=[0, None], workers=1, seeds=2, folder=folder,
                                   vary={"solver.base_lr": [0.05, 0.1]}, target=0.1,
                                   over="solver_param { max_iter: 30 }", progress=True)
            assert summary.stat().st_mtime_ns == at
            def fails(kind, words, **options):
                try: tautline.sweep(**{"job": job, "folder": folder / "x"} | options)
                except kind as error: assert words in str(error), error
                else: raise AssertionError(words)
            fails(tautline.NotFoundError, "nowhere does not exist", job="nowhere")
            fails(tautline.InvalidError, "axis of the sweep has no value", slack=[])
            fails(tautline.InvalidError, "-1", slack=-1)
            fails(tautline.TautlineError, "max_itr", over="solver_param { max_itr: 1 }")
            """)
        first, second, third, fourth = out.splitlines()
        self.assertEqual(first, "8 4 ['0', 'async', '0', 'async'] [0.05, 0.1] 30")
        self.assertEqual(second, "[('0', 4), ('async', 4)] {'done'} True")
        self.assertIn("matplotlib is not installed", third)
        self.assertIn("no column is named 'wrong'; there are slack, workers", fourth)

    def test_a_sweep_of_a_thousand_runs_is_read_and_truths_are_words(self):
        out = self.folder / "out"
        programs = self.folder / "programs"
        for folder in (out, programs):
            folder.mkdir()
        for name in ("runs", "points", "curves"):
            (out / f"{name}.csv").write_text("slack,runs\n0,3\n")
        # What the command prints, without its runs.
        command = programs / "tautline"
        command.write_text(f"""#!/bin/sh
            echo "$@" > '{self.folder}/words'
            echo 'many: 400 points with 3 seeds each, 1,200 runs, folder {out}'
            """)
        command.chmod(0o755)
        self.environment["TAUTLINE_BIN"] = str(programs)
        read = self.run_python("""
            import sys, tautline
            print(tautline.sweep(sys.argv[1], vary={"global_batch": [True, False]}).folder)
            """, self.job())
        self.assertEqual(read.strip(), str(out))
        self.assertIn("--vary global_batch=true,false", (self.folder / "words").read_text())

    def test_a_sweep_of_a_job_with_weights_is_read_behind_the_line_on_them(self):
        job = self.job(iterations=20)
        trained = self.tautline("train", job, "--output", self.folder / "first", timeout=60)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        weights = self.folder / "first.safetensors"
        exported = self.tautline("export", next(self.folder.glob("first/checkpoints/tiny_iter_*")),
                                 "--output", weights)
        self.assertEqual(exported.returncode, 0, exported.stderr)
        tuned = self.file("tuned.textproto", job.read_text() + f'\nweights: "{weights}"\n')
        out = self.run_python("""
            import sys, tautline
            sweep = tautline.sweep(sys.argv[1], slack=[0], workers=1, seeds=1,
                                   folder=sys.argv[2])
            print(len(sweep.runs))
            """, tuned, self.folder / "out", timeout=100)
        self.assertEqual(out.strip(), "1")

    def test_a_sweep_is_data_frames_and_a_chart_where_pandas_and_matplotlib_are(self):
        self.interpreter = interpreter_with("pandas, matplotlib, numpy")
        out = self.sweep(more="""
            import pandas
            assert isinstance(sweep.points, pandas.DataFrame)
            fast = sweep.points.sort_values("seconds_to_target_mean").iloc[0]
            assert fast["slack"] in ("0", "async"), fast
            print(sorted(set(sweep.runs["slack"])), set(sweep.runs["failure"]),
                  len(sweep.curves.query("quantity == 'test_accuracy' and over == 'clocks'")) > 8)
            sweep.plot().savefig(folder / "chart.png")
            assert (folder / "chart.png").read_bytes()[:4] == b"\\x89PNG"
            """)
        self.assertEqual(out, "['0', 'async'] {''} True\n")

    def test_a_sweeps_file_takes_other_fields_another_name_and_says_its_folder(self):
        job = self.job(iterations=20)
        self.file("file.textproto", f"""
            job: "{job.name}" slack: "0" workers: 1 seeds: 1 target: 0.1
            over {{ solver_param {{ max_iter: 10 test_interval: 5 }} }}""")
        out = self.run_python("""
            import sys, tautline
            own = tautline.sweep(sys.argv[1])
            print(own.folder, own.runs["clocks"][0])
            other = tautline.sweep(sys.argv[1], over="solver_param { max_iter: 30 }", name="other")
            print(other.folder, other.runs["clocks"][0], other.runs["slack"][0])
            # What else the file's own over says is kept.
            said = (other.folder / "sweep.textproto").read_text()
            print("max_iter: 30" in said, "max_iter: 10" in said, "test_interval: 5" in said)
            """, self.folder / "file.textproto", timeout=100)
        self.assertEqual(out.splitlines()[0], "runs/file 10")
        self.assertEqual(out.splitlines()[1], "runs/other 30 0")
        self.assertEqual(out.splitlines()[2], "True False True")

    def test_a_point_that_missed_the_target_has_no_bar(self):
        self.interpreter = interpreter_with("matplotlib, numpy")
        folder = self.folder / "out"
        folder.mkdir()
        (folder / "points.csv").write_text(
            "slack,workers,runs,seconds_to_target_mean,seconds_to_target_sd\n"
            "0,1,2,4.5,0.5\n1,1,2,3.5,\nasync,1,2,,\n")
        (folder / "runs.csv").write_text("slack,workers,seed\n0,1,1\n")
        (folder / "curves.csv").write_text("slack,workers,seed,over,quantity,at,value\n"
                                           "0,1,1,seconds,test_accuracy,1,0.5\n")
        for without in ([], ["pandas"]):
            out = self.run_python(WITHOUT.format(names=without) + """
            import math, tautline
            figure = tautline.Sweep(sys.argv[1]).plot()
            figure.savefig("chart.png")
            print([bar.get_height() for bar in figure.axes[1].patches])
            """, folder)
            self.assertEqual(out, "[4.5, 3.5, nan]\n")

    def test_the_tutorials_sweep_is_a_script_of_twenty_lines(self):
        script = SOURCE / "python" / "examples" / "sweep.py"
        self.assertLessEqual(len(script.read_text().splitlines()), 20)
        if not os.path.exists("/usr/share/datasets/fashion-mnist"):
            self.skipTest("no Fashion-MNIST here; scripts/install_packages installs it")
        done = subprocess.run([self.interpreter, script, "20"], env=self.environment,
                              cwd=self.folder, capture_output=True, text=True, check=False,
                              timeout=110 * SLOWER)
        self.assertEqual(done.returncode, 0, done.stderr)
        for words in ("slack", "workers", "async"):
            self.assertIn(words, done.stdout)
        self.assertIn("8/8 runs", done.stderr)
        self.assertTrue((self.folder / "runs/sweep20/report.html").exists())
        has_chart = (self.folder / "sweep.png").exists()
        self.assertEqual(has_chart, subprocess.run(
            [self.interpreter, "-c", "import matplotlib"], capture_output=True,
            check=False).returncode == 0)

    def test_ctrl_c_ends_a_sweep_which_continues_later(self):
        job = self.job(iterations=60)
        code = """
            import sys, tautline
            tautline.sweep(sys.argv[1], slack=[0, 1], workers=1, seeds=1, folder=sys.argv[2],
                           over="clock_time_ms: 20", progress=True)
            print("done")
            """
        process = self.program(code, job, self.folder / "out")
        wait_until(lambda: list((self.folder / "out").glob("*/worker0.ready")), what="a run")
        process.send_signal(2)
        self.assertIn("KeyboardInterrupt", self.result(process, status=-2))
        self.assertEqual(self.run_python(code, job, self.folder / "out"), "done\n")


class ProgressTest(PythonMembers):
    def test_a_bar_is_drawn_in_a_terminal_and_lines_elsewhere(self):
        code = """
            import sys, time, tautline
            with tautline.Progress("clocks", 4, True) as bar:
                for clock in range(1, 5):
                    bar.show(clock, loss=0.5 / clock, name=None)
                    time.sleep(0.15)
            with tautline.Progress("clocks", 4) as bar:
                bar.show(1)
                assert not bar.is_shown, "unasked, it is for notebooks"
            """
        process = self.program(code)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, errors)
        first, last = errors.splitlines()
        self.assertRegex(first, r"^\[#{7} {23}\] 1/4 clocks, .*/s, .* s left, loss 0\.5$")
        self.assertRegex(last, r"^\[#{30}\] 4/4 clocks, [\d.]+/s, loss 0\.125$")
        ours, theirs = pty.openpty()
        process = subprocess.Popen([self.interpreter, "-c", "if True:" + code],
                                   env=self.environment, stderr=theirs)
        self.processes.append(process)
        self.assertEqual(process.wait(60 * SLOWER), 0)
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:  # the terminal's end
            pass
        os.close(ours)
        self.assertGreaterEqual(shown.count(b"\r["), 4, shown)
        self.assertEqual(shown.count(b"\n"), 1, shown)

    def test_a_notebook_shows_a_bar_for_clocks_and_jobs(self):
        out = self.run_python("""
            import sys, types
            class Handle:
                def update(self, text): shown.append(text)
            shown = []
            def display(text, display_id):
                assert display_id is True
                shown.append(text)
                return Handle()
            ipython = types.ModuleType("IPython")  # as in a notebook: its shell has a kernel
            ipython.get_ipython = lambda: types.SimpleNamespace(kernel=object())
            ipython.display = types.ModuleType("IPython.display")
            ipython.display.HTML, ipython.display.display = str, display
            sys.modules |= {"IPython": ipython, "IPython.display": ipython.display}
            import numpy, tautline
            with tautline.local() as cluster:
                job = cluster.submit(rule=tautline.SGD(lr=0.1), workers=1)
                with job.member() as me:
                    w = me.table("w", numpy.zeros(4))
                    for clock in me.clocks(7):
                        me.push(w, w.value); me.pull(w); me.report(loss=0.25)
                print(shown[-1])
                job.wait(20)
                print(shown[-1])
            """)
        first, last = out.splitlines()
        self.assertRegex(first, r'^<progress value="7" max="7"></progress> 7/7 clocks, .*, '
                         r"loss 0\.25$")
        self.assertRegex(last, r"^7 clocks, .*, state DONE, members 1")

