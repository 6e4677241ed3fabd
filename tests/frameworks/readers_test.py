"""Logs, stand-ins and traces are read as the programs write them. Needs neither a GPU nor a framework."""

import dataclasses
import enum
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "standins"), str(HERE)]

import logs  # noqa: E402
import pydantic  # noqa: E402
import table  # noqa: E402
import trace_counts  # noqa: E402
import tyro  # noqa: E402

CASE = {"format": "torchtitan", "words": ["--global-batch", "4", "--seq", "4096"], "predicted": {"cluster": {"gpus": 2}}}


class Logs(unittest.TestCase):
    def test_megatron_prints_milliseconds_and_memory_of_each_rank(self):
        seconds, allocated, reserved = logs.megatron(
            " iteration        2/       7 | elapsed time per iteration (ms): 2085.5 | lm loss: 11.0 |\n"
            "[Rank 0] (after 2 iterations) memory (MB) | allocated: 15272.14 | max allocated: 22037.37 | reserved: 22200.00 "
            "| max reserved: 22200.00\n iteration        3/       7 | elapsed time per iteration (ms): 487.9 |\n", CASE)
        self.assertEqual(seconds, [2.0855, 0.4879])
        self.assertEqual((allocated, reserved), ([22037.37 / 1024], [22200 / 1024]))

    def test_traced_steps_are_not_timed(self):
        text = "  use_pytorch_profiler ............................ True\n"
        text += "".join(f"elapsed time per iteration (ms): {ms}.0 |\n" for ms in (900, 500, 300, 280, 290, 340, 1250))
        self.assertEqual(logs.steady(logs.megatron(text, CASE)[0]), 0.29)

    def test_torchtitan_prints_tokens_of_one_gpu_on_each_rank(self):
        line = "[titan] 2026-01-02 03:04:05,6 - root - INFO - step: {}  loss: 12.2  memory: 26.38GiB(18.87%)  tps: {}  mfu: 28%\n"
        text = line.format(" 1", "2,728") + line.format(" 1", "2,731") + line.format("10", "32,768") * 2
        text += '{"schema": "trireme.start/1", "peak_allocated_gib": [22.5, 22.75], "peak_reserved_gib": [26.0, 26.0]}\n'
        seconds, allocated, _ = logs.torchtitan(text, CASE)
        self.assertEqual(seconds[1], 4 * 4096 / (32768 * 2))
        self.assertEqual(allocated, [22.5, 22.75])

    def test_warm_up_is_no_step(self):
        self.assertEqual(logs.steady([9.0, 2.0, 0.5, 0.4, 0.6]), 0.5)
        self.assertEqual(logs.steady([0.5, 0.4]), 0.45)
        self.assertIsNone(logs.steady([]))

    def test_the_program_s_error_is_named_and_not_its_launcher_s(self):
        text = ("[rank1]: Traceback (most recent call last):\n[rank1]: NotImplementedError: unsupported mix\n"
                "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n")
        self.assertEqual(logs.trouble_of(text), "NotImplementedError: unsupported mix")

    def test_a_case_ends_with_its_last_step_or_without_memory(self):
        self.assertEqual(logs.end_in_log("[after training is done] datetime"), 0)
        self.assertEqual(logs.end_in_log("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB"), 1)
        self.assertIsNone(logs.end_in_log(" iteration 3/7"))


class Table(unittest.TestCase):
    def test_settings_of_a_row_have_their_types(self):
        self.assertEqual(table.setting("compile=true"), ("compile", True))
        self.assertEqual(table.setting("dropout=0"), ("dropout", 0))
        self.assertEqual(table.setting("implementation=local"), ("implementation", "local"))

    def test_a_verdict_is_wrong_both_ways(self):
        found = {"outcome": "oom", "case": {"predicted": {"fit": "fits"}}}
        self.assertTrue(table.verdict_wrong(found))
        self.assertTrue(table.verdict_wrong({**found, "outcome": "ok", "case": {"predicted": {"fit": "no"}}}))
        self.assertFalse(table.verdict_wrong({**found, "case": {"predicted": {"fit": "at_risk"}}}))


class StandIns(unittest.TestCase):
    def test_tyro_lays_options_over_a_dataclass(self):
        @dataclasses.dataclass
        class Section:
            steps: int = 50
            enable: bool = False
            parts: list[str] = dataclasses.field(default_factory=list)

        @dataclasses.dataclass
        class Config:
            training: Section = dataclasses.field(default_factory=Section)

        config = tyro.cli(Config, ["--training.steps", "7", "--training.enable", "--training.parts=a,b"], Config())
        self.assertEqual(config.training, Section(7, True, ["a", "b"]))
        with self.assertRaises(SystemExit):
            tyro.cli(Config, ["--training.stops", "7"], Config())

    def test_pydantic_converts_fills_and_refuses(self):
        class Stage(int, enum.Enum):
            none = 0
            weights = 3

        class Inner(pydantic.BaseModel):
            size: int = pydantic.Field(1, ge=0)

        class Outer(pydantic.BaseModel):
            model_config = pydantic.ConfigDict(extra="forbid")
            stage: Stage = 0
            bucket: int = pydantic.Field(5, alias="stage3_bucket")
            inner: Inner = {}

            @pydantic.model_validator(mode="after")
            def weights_take_whole_buckets(self):
                if self.stage == Stage.weights and self.bucket < 2:
                    raise ValueError("too small")
                return self

        outer = Outer(stage=3, stage3_bucket=5e8, inner={"size": 4})
        self.assertEqual((outer.stage, outer.bucket, outer.inner.size), (3, 500_000_000, 4))
        for wrong in ({"stages": 3}, {"stage": 2}, {"stage": 3, "stage3_bucket": 1}, {"inner": {"size": -1}}):
            with self.assertRaises(ValueError):
                Outer(**wrong)


class Traces(unittest.TestCase):
    def test_launches_are_counted_by_thread_and_kind(self):
        def launch(index, thread, kernel):
            common = {"ph": "X", "ts": 10.0 * index, "dur": 5.0}
            return [{**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": thread, "args": {"correlation": index}},
                    {**common, "cat": "kernel", "name": kernel, "tid": 7, "args": {"correlation": index}}]

        events = []
        for index in range(100):
            forward = index < 50
            events += launch(index, 1 if forward else 2, "nvjet_tst_gemm" if index % 5 == 0 else "vectorized_elementwise_kernel")
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaMemsetAsync", "tid": 2, "ts": 995.0, "dur": 1.0,
                       "args": {"correlation": 1000}})
        passes = trace_counts.passes_of(trace_counts.launches_of(events))
        self.assertEqual([len(each) for each in passes], [50, 51])
        self.assertEqual([sum(launch[3] == "matmul" for launch in each) for each in passes], [10, 10])
        self.assertEqual(passes[1][-1][3], "memory")


if __name__ == "__main__":
    unittest.main()
