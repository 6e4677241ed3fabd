"""The Python module beside the answers it wraps: python3 module_test.py, with the package on PYTHONPATH."""

import json
import os
import tempfile
import threading
import time
import unittest

import numpy
import trireme

JOB = {"model": "gpt2", "cluster": "dgx-h100x1", "seq": 1024, "global_batch": 64}


class Estimates(unittest.TestCase):

    def test_keys_are_attributes(self):
        answer = trireme.estimate(**JOB, tp=2, micro_batch=4)
        self.assertIsInstance(answer, trireme.Estimate)
        self.assertIsInstance(answer.memory, trireme.Memory)
        self.assertEqual(answer.layout.short, "tp2.dp4.mb4")
        plain = answer.to_dict()
        self.assertEqual(plain["schema"], "trireme.estimate/1")
        self.assertAlmostEqual(sum(answer.time.breakdown_seconds.values()), answer.time.step_seconds)
        plain["fits"] = None
        self.assertTrue(answer.fits)
        with self.assertRaises(AttributeError):
            answer.fits = False
        with self.assertRaises(AttributeError):
            answer.no_such_key

    def test_every_declared_key_is_there(self):
        answer = trireme.simulate(**JOB, layout="tp2.dp4.mb1")
        for kind, value in ((trireme.Simulation, answer), (trireme.Memory, answer.memory), (trireme.Time, answer.time),
                            (trireme.Layout, answer.layout), (trireme.Throughput, answer.throughput)):
            for name in kind.__annotations__:
                self.assertIsNotNone(getattr(value, name), f"{kind.__name__}.{name}")
        self.assertGreater(answer.ranks[0].busy_fraction, 0)

    def test_a_dict_a_file_and_a_configuration_are_one_model(self):
        config = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024,
                  "vocab_size": 50257}

        class Configuration:

            def to_dict(self):
                return config

        job = dict(JOB, model=config)
        expected = trireme.estimate(**job).time.step_seconds
        self.assertEqual(trireme.estimate(**dict(job, model=Configuration())).time.step_seconds, expected)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "config.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file)
            self.assertEqual(trireme.estimate(**dict(job, model=path)).time.step_seconds, expected)

    def test_what_does_not_fit_is_an_answer(self):
        self.assertFalse(trireme.estimate("llama-3.1-70b", "dgx-h100x1", dp=8).fits)

    def test_wrong_input_is_one_line(self):
        with self.assertRaises(trireme.Error) as caught:
            trireme.estimate(**JOB, tp=3)
        self.assertNotIn("\n", str(caught.exception))
        self.assertIn("8", str(caught.exception))
        with self.assertRaises(trireme.Error):
            trireme.estimate(**JOB, no_such_option=1)
        with self.assertRaises(trireme.Error):
            trireme.sweep("gpt2", "no-such-cluster")


class Others(unittest.TestCase):

    def test_plan_whatif_models_clusters(self):
        best = trireme.plan(**JOB, constraint=["tp<=2"], top=3)
        self.assertLessEqual(best.best.layout.tp, 2)
        self.assertEqual(len(best.alternatives), 2)
        answer = trireme.whatif(**JOB, layout="dp8.mb1", vary={"nvlink_bandwidth": ["0.5x", "1x"]}, keep_layout=True)
        self.assertEqual(answer.cases[0].change["nvlink_bandwidth"], "0.5x")
        self.assertGreater(answer.cases[0].step_ratio, answer.cases[1].step_ratio)
        self.assertEqual(trireme.model("gpt2").layers, 12)
        self.assertIn("dgx-h100", [one.name for one in trireme.clusters()])
        self.assertEqual(trireme.ask("topo", "show", cluster="dgx-h100x2").schema[:8], "trireme.")

    def test_names_are_explained(self):
        for name in trireme.__all__:
            if callable(getattr(trireme, name)) and name not in ("Error",):
                self.assertTrue(getattr(trireme, name).__doc__, name)

    def test_threads(self):
        expected = trireme.estimate(**JOB).to_dict()
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(trireme.estimate(**JOB).to_dict()))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(answers, [expected] * 8)


class Sweeps(unittest.TestCase):

    def test_columns(self):
        table = trireme.sweep(**JOB, constraint="tp<=2")
        self.assertEqual(len(table), trireme.plan(**JOB, constraint="tp<=2", keep_switches=True).space)
        ranks = table.tp * table.pp * table.cp * table.fsdp * table.dp
        self.assertTrue((ranks == 8).all())
        self.assertLessEqual(table.tp.max(), 2)
        self.assertEqual(table.step_seconds.dtype, numpy.float64)
        self.assertTrue((table.low_seconds <= table.step_seconds).all())
        self.assertEqual(set(table.to_dict()), {name for name in trireme.Sweep.__annotations__ if name != "seconds"})
        fastest = numpy.where(table.fits, table.step_seconds, numpy.inf).argmin()
        self.assertEqual(trireme.Sweep.FIT[table.fit[fastest]], "fits")

    def test_a_million_layouts(self):
        begin = time.process_time()
        table = trireme.sweep("llama-3.1-70b", "dgx-h100x8", global_batch=512, seq=8192)
        spent = time.process_time() - begin
        print(f"{len(table)} layouts in {table.seconds:.2f} s, {spent:.2f} s of processor time: "
              f"{1e6 * spent / len(table):.2f} s a million")
        self.assertGreater(len(table), 500_000)


if __name__ == "__main__":
    unittest.main()
